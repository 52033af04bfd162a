use super::*;
use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use std::collections::BTreeMap;

fn generator(pairs: &[(&str, &str)]) -> Generator {
    let options: BTreeMap<String, String> = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    Generator::new(NexmarkOptions::parse(&options).unwrap())
}

fn events(kind: Kind, count: u64) -> Vec<u64> {
    (0..count).filter(|event| offsets_of(kind).contains(&(event % CYCLE))).collect()
}

fn integers_of(generator: &Generator, kind: Kind, field: Field, events: &[u64]) -> Vec<i64> {
    generator.column(kind, field, events).unwrap().as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn ids_count_up_from_a_thousand() {
    let generator = generator(&[]);
    assert_eq!(integers_of(&generator, Kind::Person, Field::Id, &events(Kind::Person, 200)), [1000, 1001, 1002, 1003]);
    assert_eq!(
        integers_of(&generator, Kind::Auction, Field::Id, &events(Kind::Auction, 100)),
        [1000, 1001, 1002, 1003, 1004, 1005]
    );
    assert_eq!(last_auction(0), -1);
    assert_eq!(last_auction(49), 2);
    assert_eq!(last_auction(50), 2);
}

#[test]
fn half_of_the_bids_are_for_hot_auctions_and_three_quarters_from_hot_bidders() {
    let generator = generator(&[]);
    let events = events(Kind::Bid, 500_000);
    let hot = |values: Vec<i64>, rest: i64| {
        values.iter().filter(|value| (**value - 1000) % 100 == rest).count() as f64 / values.len() as f64
    };
    let auctions = hot(integers_of(&generator, Kind::Bid, Field::Auction, &events), 0);
    let bidders = hot(integers_of(&generator, Kind::Bid, Field::Bidder, &events), 1);
    assert!((0.49..0.52).contains(&auctions), "{auctions}");
    assert!((0.74..0.77).contains(&bidders), "{bidders}");
}

#[test]
fn prices_spread_evenly_over_six_orders_of_magnitude() {
    let prices = integers_of(&generator(&[]), Kind::Bid, Field::Price, &events(Kind::Bid, 500_000));
    for exponent in 2..8 {
        let range = 10i64.pow(exponent)..10i64.pow(exponent + 1);
        let share = prices.iter().filter(|price| range.contains(price)).count() as f64 / prices.len() as f64;
        assert!((0.155..0.178).contains(&share), "10^{exponent}: {share}");
    }
    assert!(prices.iter().all(|price| (100..=100_000_000).contains(price)));
}

#[test]
fn event_time_advances_at_its_rate_and_disorder_only_shuffles() {
    let times = |pairs: &[(&str, &str)]| {
        let column = generator(pairs).column(Kind::Bid, Field::DateTime, &(0..10_000).collect::<Vec<_>>()).unwrap();
        column.as_primitive::<TimestampMicrosecondType>().values().to_vec()
    };
    let ordered = times(&[("event_rate", "1000"), ("start_time", "2020-01-01 00:00:00")]);
    assert_eq!(ordered[0], 1_577_836_800_000_000);
    assert_eq!(ordered[9_999] - ordered[0], 9_999_000);
    let mut shuffled = times(&[("event_rate", "1000"), ("start_time", "2020-01-01 00:00:00"), ("disorder", "100")]);
    assert_ne!(shuffled, ordered);
    shuffled.sort_unstable();
    assert_eq!(shuffled, ordered);
}

#[test]
fn texts_have_their_shapes_and_lengths() {
    let generator = generator(&[]);
    let texts = |kind: Kind, field: Field| -> Vec<String> {
        let column = generator.column(kind, field, &events(kind, 100_000)).unwrap();
        column.as_string::<i32>().iter().map(|text| text.unwrap_or("").to_string()).collect()
    };
    let channels = texts(Kind::Bid, Field::Channel);
    let urls = texts(Kind::Bid, Field::Url);
    let hot = channels.iter().filter(|channel| HOT_CHANNELS.contains(&channel.as_str())).count() as f64 / channels.len() as f64;
    assert!((0.48..0.52).contains(&hot), "{hot}");
    let mut url_of: BTreeMap<&str, &str> = BTreeMap::new();
    for (channel, url) in channels.iter().zip(&urls) {
        assert!(url.starts_with("https://www.nexmark.com/") && url.contains("/item.htm?query=1"), "{url}");
        assert_eq!(*url_of.entry(channel).or_insert(url), url, "a channel has one URL");
    }
    let numbered = urls.iter().filter(|url| url.contains("&channel_id=")).count() as f64 / urls.len() as f64;
    assert!((0.4..0.5).contains(&numbered), "{numbered}");
    assert!(texts(Kind::Bid, Field::Extra).iter().all(|extra| (54..=82).contains(&extra.len())));
    assert!(
        texts(Kind::Person, Field::CreditCard)
            .iter()
            .all(|card| card.len() == 19 && card.bytes().filter(|b| *b == b' ').count() == 3)
    );
    assert!(texts(Kind::Person, Field::Email).iter().all(|email| email.contains('@') && email.ends_with(".com")));
    assert!(texts(Kind::Auction, Field::ItemName).iter().all(|item| item.trim() == item && item.len() < 20));
    let average = |texts: Vec<String>| texts.iter().map(String::len).sum::<usize>() / texts.len();
    assert!((300..500).contains(&average(texts(Kind::Auction, Field::Extra))));
}

#[test]
fn auctions_expire_after_they_open_and_reserve_more_than_the_first_bid() {
    let generator = generator(&[]);
    let events = events(Kind::Auction, 10_000);
    let times = |field| {
        generator.column(Kind::Auction, field, &events).unwrap().as_primitive::<TimestampMicrosecondType>().values().to_vec()
    };
    assert!(times(Field::DateTime).iter().zip(times(Field::Expires)).all(|(opened, expires)| *opened < expires));
    let first = integers_of(&generator, Kind::Auction, Field::InitialBid, &events);
    let reserve = integers_of(&generator, Kind::Auction, Field::Reserve, &events);
    assert!(first.iter().zip(reserve).all(|(first, reserve)| *first < reserve));
}
