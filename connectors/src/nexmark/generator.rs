//! The values of events, column by column.
//!
//! Each value has a random stream of its own, so that a column is the same whichever others are made with it. Where one value
//! limits another (the padding in `extra` makes up for the length of the other texts), both are computed from their streams.

use super::columns::{Field, Kind};
use super::options::NexmarkOptions;
use crate::random::{Stream, below, unit};
use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Of each 50 events, which are of which kind.
pub(super) const CYCLE: u64 = 50;
const PERSONS: Range<u64> = 0..1;
const AUCTIONS: Range<u64> = 1..4;
const BIDS: Range<u64> = 4..50;
const AUCTIONS_PER_CYCLE: u64 = AUCTIONS.end - AUCTIONS.start;

const FIRST_PERSON: u64 = 1000;
const FIRST_AUCTION: u64 = 1000;
const FIRST_CATEGORY: u64 = 10;
const CATEGORIES: u64 = 5;
/// People who are about at any time.
const ACTIVE_PEOPLE: u64 = 1000;
/// Auctions that run at any time.
const IN_FLIGHT: u64 = 100;
/// How far ids may run ahead of those that exist.
const ID_LEAD: u64 = 10;
/// Hot is who comes first among so many.
const HOT_BATCH: u64 = 100;
const CHANNELS: u64 = 10_000;
const PERSON_BYTES: usize = 200;
const AUCTION_BYTES: usize = 500;
const BID_BYTES: usize = 100;

const HOT_CHANNELS: [&str; 4] = ["Google", "Facebook", "Baidu", "Apple"];
const STATES: [&str; 6] = ["AZ", "CA", "ID", "OR", "WA", "WY"];
const CITIES: [&str; 10] =
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"];
const FIRST_NAMES: [&str; 11] = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"];
const LAST_NAMES: [&str; 9] = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"];

/// The pools that random texts are cut from have so many bytes; a text is at most [`TEXT_MAX`] long.
const POOL: usize = 1 << 18;
const TEXT_MAX: usize = 4096;
const BLANK_POOL_STREAM: u64 = 101;
const LETTER_POOL_STREAM: u64 = 100;
const URL_STREAM: u64 = 102;

/// The random streams, one for each value.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Draw {
    FirstName = 1,
    LastName,
    MailName,
    MailHost,
    Card,
    City,
    State,
    PersonExtra,
    Item,
    Description,
    InitialBid,
    Reserve,
    Lifetime,
    Seller,
    Category,
    AuctionExtra,
    Auction,
    Bidder,
    Price,
    Channel,
    BidExtra,
}

/// Makes values of events.
pub(super) struct Generator {
    options: NexmarkOptions,
    letters: Vec<u8>,
    blanks: Vec<u8>,
    /// 10^(6·k/1024) and 10^(6·k/2^20): a price is a product of one of each.
    coarse: Vec<f64>,
    fine: Vec<f64>,
    channels: OnceLock<Channels>,
}

/// The channels, first the hot ones, and the URL of each.
struct Channels {
    names: Vec<String>,
    urls: Vec<String>,
}

/// The offsets in a cycle of the events of a kind.
pub(super) fn offsets_of(kind: Kind) -> Range<u64> {
    match kind {
        Kind::Person => PERSONS,
        Kind::Auction => AUCTIONS,
        Kind::Bid => BIDS,
    }
}

fn pool(seed: u64, stream: u64, blank_one_in: u64) -> Vec<u8> {
    let stream = Stream::new(seed, stream);
    let letter = |place: usize| {
        let random = stream.at(place as u64);
        let is_blank = blank_one_in > 0 && random.is_multiple_of(blank_one_in);
        if is_blank { b' ' } else { b'a' + below(random, 26) as u8 }
    };
    (0..POOL).map(letter).collect()
}

fn last_person(event: u64) -> u64 {
    event / CYCLE
}

/// The last auction that was opened up to this event; −1 if none was.
fn last_auction(event: u64) -> i64 {
    let (cycle, offset) = ((event / CYCLE) as i64, event % CYCLE);
    let opened = offset.clamp(AUCTIONS.start - 1, AUCTIONS.end - 1) as i64;
    cycle * AUCTIONS_PER_CYCLE as i64 + opened - 1
}

impl Generator {
    pub(super) fn new(options: NexmarkOptions) -> Generator {
        let power = |exponent: f64| 10f64.powf(6.0 * exponent);
        Generator {
            letters: pool(options.seed, LETTER_POOL_STREAM, 0),
            blanks: pool(options.seed, BLANK_POOL_STREAM, 13),
            coarse: (0..1024).map(|k| power(f64::from(k) / 1024.0)).collect(),
            fine: (0..1024).map(|k| power(f64::from(k) / f64::from(1 << 20))).collect(),
            channels: OnceLock::new(),
            options,
        }
    }

    /// The values of one column for these events, which are all of this kind.
    pub(super) fn column(&self, kind: Kind, field: Field, events: &[u64]) -> Result<ArrayRef, ArrowError> {
        Ok(match (kind, field) {
            (_, Field::DateTime) => times(events, |event| self.time_us(event)),
            (_, Field::Expires) => times(events, |event| self.expires_us(event)),
            (Kind::Person, Field::Id) => integers(events, |event| FIRST_PERSON + last_person(event)),
            (_, Field::Id) => integers(events, |event| FIRST_AUCTION.wrapping_add_signed(last_auction(event))),
            (_, Field::Name) => texts(events, 14, |event, out| self.name(event, out))?,
            (_, Field::Email) => texts(events, 16, |event, out| self.email(event, out))?,
            (_, Field::CreditCard) => texts(events, 19, |event, out| self.card(event, out))?,
            (_, Field::City) => texts(events, 10, |event, out| out.extend_from_slice(self.word(Draw::City, &CITIES, event)))?,
            (_, Field::State) => texts(events, 2, |event, out| out.extend_from_slice(self.word(Draw::State, &STATES, event)))?,
            (_, Field::ItemName) => texts(events, 12, |event, out| out.extend_from_slice(self.item(event)))?,
            (_, Field::Description) => texts(events, 52, |event, out| out.extend_from_slice(self.description(event)))?,
            (_, Field::InitialBid) => integers(events, |event| self.price(Draw::InitialBid, event)),
            (_, Field::Reserve) => {
                integers(events, |event| self.price(Draw::InitialBid, event) + self.price(Draw::Reserve, event))
            }
            (_, Field::Seller) => integers(events, |event| FIRST_PERSON + self.person(Draw::Seller, event, 0)),
            (_, Field::Category) => {
                let stream = self.stream(Draw::Category);
                integers(events, |event| FIRST_CATEGORY + below(stream.at(event), CATEGORIES))
            }
            (_, Field::Auction) => integers(events, |event| FIRST_AUCTION + self.auction(event)),
            (_, Field::Bidder) => integers(events, |event| FIRST_PERSON + self.person(Draw::Bidder, event, 1)),
            (_, Field::Price) => integers(events, |event| self.price(Draw::Price, event)),
            (_, Field::Channel) => {
                let channels = &self.channels().names;
                texts(events, 9, |event, out| out.extend_from_slice(channels[self.channel(event)].as_bytes()))?
            }
            (_, Field::Url) => {
                let urls = &self.channels().urls;
                texts(events, 76, |event, out| out.extend_from_slice(urls[self.channel(event)].as_bytes()))?
            }
            (Kind::Person, Field::Extra) => texts(events, 120, |event, out| self.person_extra(event, out))?,
            (Kind::Auction, Field::Extra) => texts(events, 400, |event, out| self.auction_extra(event, out))?,
            (Kind::Bid, Field::Extra) => texts(events, 68, |event, out| self.extra(Draw::BidExtra, event, 32, BID_BYTES, out))?,
        })
    }

    #[inline(always)]
    fn stream(&self, draw: Draw) -> Stream {
        Stream::new(self.options.seed, draw as u64)
    }

    #[inline(always)]
    fn random(&self, draw: Draw, event: u64) -> u64 {
        self.stream(draw).at(event)
    }

    /// When an event happens. With disorder, the times within each group of events are dealt out in another order.
    #[inline(always)]
    fn time_us(&self, event: u64) -> i64 {
        let group = self.options.disorder;
        let event = if group > 1 {
            let (start, offset) = (event / group * group, event % group);
            start + offset.wrapping_mul(7919).wrapping_add(start / group * 31) % group
        } else {
            event
        };
        let ms = u128::from(event) * 1000 / u128::from(self.options.event_rate);
        self.options.start_time_us.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX / 1000).saturating_mul(1000))
    }

    fn expires_us(&self, event: u64) -> i64 {
        let opened = self.time_us(event);
        let horizon_ms = (self.time_us(event + IN_FLIGHT * CYCLE / AUCTIONS_PER_CYCLE) - opened) / 1000;
        let most = (horizon_ms * 2).max(1) as u64;
        opened + (1 + below(self.random(Draw::Lifetime, event), most) as i64) * 1000
    }

    /// Cents, from a hundred to a hundred million, every order of magnitude as likely as the others.
    #[inline(always)]
    fn price(&self, draw: Draw, event: u64) -> u64 {
        let random = self.random(draw, event) >> 44;
        (self.coarse[(random >> 10) as usize] * self.fine[(random & 1023) as usize] * 100.0).round() as u64
    }

    /// Someone: three times in four the first of the hot batch (or the one after them by `hot`), else anybody who is about.
    #[inline(always)]
    fn person(&self, draw: Draw, event: u64, hot: u64) -> u64 {
        let random = self.random(draw, event);
        let last = last_person(event);
        if random & 3 != 0 {
            return last / HOT_BATCH * HOT_BATCH + hot;
        }
        let active = (last + 1).min(ACTIVE_PEOPLE);
        last + 1 - active + below(random, active + ID_LEAD)
    }

    /// An auction: every second time the first of the hot batch, else any that runs.
    #[inline(always)]
    fn auction(&self, event: u64) -> u64 {
        let random = self.random(Draw::Auction, event);
        let last = last_auction(event).max(0) as u64;
        if random & 1 != 0 {
            return last / HOT_BATCH * HOT_BATCH;
        }
        let first = last.saturating_sub(IN_FLIGHT);
        first + below(random, last - first + 1 + ID_LEAD)
    }

    #[inline(always)]
    fn channel(&self, event: u64) -> usize {
        let random = self.random(Draw::Channel, event);
        let hot = HOT_CHANNELS.len() as u64;
        (if random & 1 != 0 { below(random, hot) } else { hot + below(random, CHANNELS) }) as usize
    }

    fn channels(&self) -> &Channels {
        self.channels.get_or_init(|| {
            let stream = Stream::new(self.options.seed, URL_STREAM);
            let mut channels = Channels { names: vec![], urls: vec![] };
            for number in 0..HOT_CHANNELS.len() as u64 + CHANNELS {
                let part = |place: u64| {
                    let random = stream.at(number * 4 + place);
                    String::from_utf8_lossy(self.cut(&self.letters, random, 3 + random as usize % 5)).into_owned()
                };
                let mut url = format!("https://www.nexmark.com/{}/{}/{}/item.htm?query=1", part(0), part(1), part(2));
                let name = match HOT_CHANNELS.get(number as usize) {
                    Some(hot) => (*hot).to_string(),
                    None => {
                        let number = number - HOT_CHANNELS.len() as u64;
                        // One channel in ten has no number in its URL.
                        if below(stream.at((number + HOT_CHANNELS.len() as u64) * 4 + 3), 10) > 0 {
                            url.push_str(&format!("&channel_id={}", number * 2_654_435_761 % (1 << 31)));
                        }
                        format!("channel-{number}")
                    }
                };
                channels.names.push(name);
                channels.urls.push(url);
            }
            channels
        })
    }

    fn word<'a>(&self, draw: Draw, words: &[&'a str], event: u64) -> &'a [u8] {
        words[below(self.random(draw, event), words.len() as u64) as usize].as_bytes()
    }

    /// A piece of a pool, from a place that the high bits of `random` choose.
    #[inline(always)]
    fn cut<'a>(&self, pool: &'a [u8], random: u64, length: usize) -> &'a [u8] {
        let start = below(random, (POOL - TEXT_MAX) as u64) as usize;
        &pool[start..start + length]
    }

    fn name(&self, event: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(self.word(Draw::FirstName, &FIRST_NAMES, event));
        out.push(b' ');
        out.extend_from_slice(self.word(Draw::LastName, &LAST_NAMES, event));
    }

    fn email(&self, event: u64, out: &mut Vec<u8>) {
        let (name, host) = (self.random(Draw::MailName, event), self.random(Draw::MailHost, event));
        out.extend_from_slice(self.cut(&self.letters, name, 3 + name as usize % 4));
        out.push(b'@');
        out.extend_from_slice(self.cut(&self.letters, host, 3 + host as usize % 2));
        out.extend_from_slice(b".com");
    }

    fn card(&self, event: u64, out: &mut Vec<u8>) {
        let mut random = self.random(Draw::Card, event);
        for group in 0..4 {
            if group > 0 {
                out.push(b' ');
            }
            for _ in 0..4 {
                out.push(b'0' + (random % 10) as u8);
                random /= 10;
            }
        }
    }

    fn item(&self, event: u64) -> &[u8] {
        let random = self.random(Draw::Item, event);
        self.cut(&self.blanks, random, 3 + random as usize % 17).trim_ascii()
    }

    fn description(&self, event: u64) -> &[u8] {
        let random = self.random(Draw::Description, event);
        self.cut(&self.blanks, random, 3 + random as usize % 97).trim_ascii()
    }

    fn person_extra(&self, event: u64, out: &mut Vec<u8>) {
        let start = out.len();
        self.name(event, out);
        self.email(event, out);
        self.card(event, out);
        out.extend_from_slice(self.word(Draw::City, &CITIES, event));
        out.extend_from_slice(self.word(Draw::State, &STATES, event));
        let used = 8 + out.len() - start;
        out.truncate(start);
        self.extra(Draw::PersonExtra, event, used, PERSON_BYTES, out);
    }

    fn auction_extra(&self, event: u64, out: &mut Vec<u8>) {
        let used = 48 + self.item(event).len() + self.description(event).len();
        self.extra(Draw::AuctionExtra, event, used, AUCTION_BYTES, out);
    }

    /// Letters that make an event about `average` bytes long, give or take a fifth, when its other values have `used`.
    #[inline(always)]
    fn extra(&self, draw: Draw, event: u64, used: usize, average: usize, out: &mut Vec<u8>) {
        let random = self.random(draw, event);
        let wanted = average.saturating_sub(used);
        let spread = (wanted as f64 * 0.2).round() as usize;
        // The low bits choose the length, the high ones the place.
        let length = wanted - spread + (unit(random << 32) * (2 * spread) as f64) as usize;
        out.extend_from_slice(self.cut(&self.letters, random, length));
    }
}

fn integers(events: &[u64], value: impl Fn(u64) -> u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(events.iter().map(|event| value(*event) as i64)))
}

fn times(events: &[u64], value: impl Fn(u64) -> i64) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values(events.iter().map(|event| value(*event))))
}

/// Texts, each of about `length` bytes.
fn texts(events: &[u64], length: usize, mut write: impl FnMut(u64, &mut Vec<u8>)) -> Result<ArrayRef, ArrowError> {
    let mut bytes = Vec::with_capacity(events.len() * (length + 4));
    let mut offsets = Vec::with_capacity(events.len() + 1);
    offsets.push(0i32);
    for event in events {
        write(*event, &mut bytes);
        // A batch has at most some thousand events of less than a thousand bytes.
        offsets.push(bytes.len() as i32);
    }
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), None)?))
}

#[cfg(test)]
mod tests;
