use crate::nexmark::{NexmarkTable, default_columns};
use crate::registry;
use crate::source::{Boundedness, SourceEvent};
use crate::testing::{Harness, columns, rows, spec};
use std::time::{Duration, Instant};

fn harness(table: NexmarkTable, word: &str, options: &[(&str, &str)]) -> Harness {
    let options: Vec<_> = [("table", word)].into_iter().chain(options.iter().copied()).collect();
    Harness::new(&spec("nexmark", &options, None), &default_columns(table))
}

#[test]
fn out_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids() {
    for (table, word, expected) in [
        (NexmarkTable::Person, "person", 200),
        (NexmarkTable::Auction, "auction", 600),
        (NexmarkTable::Bid, "bid", 9200),
        (NexmarkTable::All, "all", 10_000),
    ] {
        let harness = harness(table, word, &[("events", "10000")]);
        assert_eq!(harness.source.boundedness(), Boundedness::Bounded);
        assert_eq!(harness.read("0", None).rows.len(), expected, "{word}");
    }
}

#[test]
fn reading_again_from_any_position_gives_the_same_events() {
    let harness = harness(NexmarkTable::Bid, "bid", &[("events", "25000")]);
    let whole = harness.check_resume("0");
    for position in [0, 1, 3, 4, 5, 49, 50, 51, 53, 54, 9_999, 24_950, 24_999, 25_000] {
        let before = (0..position).filter(|event| event % 50 >= 4).count();
        assert_eq!(harness.read("0", Some(&position.to_string())).rows, whole.rows[before..], "from {position}");
    }
}

#[test]
fn splits_share_the_events_among_them() {
    let whole = harness(NexmarkTable::All, "all", &[("events", "1234")]).read("0", None).rows;
    let split = harness(NexmarkTable::All, "all", &[("events", "1234"), ("splits", "3")]);
    assert_eq!(split.splits(), ["0", "1", "2"]);
    let mut shared: Vec<String> = split.splits().iter().flat_map(|id| split.check_resume(id).rows).collect();
    shared.sort_unstable();
    let mut sorted = whole.clone();
    sorted.sort_unstable();
    assert_eq!(shared, sorted);
}

#[test]
fn a_column_is_the_same_whichever_others_are_read() {
    for (table, word) in [
        (NexmarkTable::Person, "person"),
        (NexmarkTable::Auction, "auction"),
        (NexmarkTable::Bid, "bid"),
        (NexmarkTable::All, "all"),
    ] {
        let harness = harness(table, word, &[("events", "500")]);
        let read = |projection: &[usize]| {
            let mut reader = harness.reader_of(projection);
            reader.assign(vec![("0".into(), None)]).unwrap();
            match reader.next(Duration::ZERO).unwrap() {
                SourceEvent::Rows(batch) => batch.batch,
                other => panic!("{other:?}"),
            }
        };
        let count = default_columns(table).len();
        let whole = read(&(0..count).collect::<Vec<_>>());
        for column in 0..count {
            assert_eq!(read(&[column]).column(0), whole.column(column), "{word} {column}");
        }
        assert_eq!(read(&[]).num_rows(), whole.num_rows());
    }
}

#[test]
fn the_seed_and_nothing_else_decides() {
    let bids = |seed: &str| harness(NexmarkTable::Bid, "bid", &[("events", "100"), ("seed", seed)]).read("0", None).rows;
    assert_eq!(bids("1"), bids("1"));
    assert_ne!(bids("1"), bids("2"));
}

#[test]
fn columns_are_found_by_name_in_any_case_and_brought_to_their_types() {
    let declared = columns(&[("date_time", "timestamptz"), ("PRICE", "numeric(20,2)"), ("channel", "varchar")]);
    let read = Harness::new(&spec("nexmark", &[("type", "bid"), ("events", "5")], None), &declared).read("0", None);
    assert_eq!(read.rows.len(), 1);
    assert!(read.rows[0].starts_with("2024-01-31T23:59:00Z|") && read.rows[0].contains(".00|"), "{:?}", read.rows);
}

#[test]
fn d21_what_events_do_not_have_is_refused_with_the_nearest() {
    let refuse = |options: &[(&str, &str)], declared: &[(&str, &str)]| {
        registry::source(&spec("nexmark", options, None), &columns(declared)).err().unwrap()
    };
    assert_eq!(refuse(&[("table", "bid")], &[("pryce", "bigint")]).hint.as_deref(), Some("Did you mean \"price\"?"));
    assert_eq!(refuse(&[("table", "bid")], &[("price", "text")]).state.code(), "42804");
    assert_eq!(refuse(&[("table", "bit")], &[]).hint.as_deref(), Some("Did you mean \"bid\"?"));
    assert_eq!(refuse(&[("tabel", "bid")], &[]).hint.as_deref(), Some("Did you mean \"table\"?"));
    assert_eq!(refuse(&[("event_rate", "0")], &[]).state.code(), "22023");
    assert_eq!(refuse(&[("start_time", "soon")], &[]).state.code(), "22023");
}

#[test]
fn a_rate_is_kept_and_waiting_ends_in_time() {
    let harness = harness(NexmarkTable::Bid, "bid", &[("rate", "1000")]);
    assert_eq!(harness.source.boundedness(), Boundedness::Unbounded);
    let mut reader = harness.reader();
    reader.assign(vec![("0".into(), None)]).unwrap();
    let start = Instant::now();
    let mut count = 0;
    while count < 92 {
        if let SourceEvent::Rows(batch) = reader.next(Duration::from_millis(50)).unwrap() {
            count += rows(&batch.batch).len();
        }
    }
    // A hundred events take a tenth of a second, at least.
    assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
    assert!(matches!(harness.reader().next(Duration::from_millis(1)).unwrap(), SourceEvent::Idle));
}
