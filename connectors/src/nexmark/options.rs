//! The `WITH` options.

use super::columns::NexmarkTable;
use crate::datetime::parse_timestamp_tz;
use std::collections::BTreeMap;
use thalweg_catalog::options::Options;
use thalweg_catalog::{SqlError, SqlResult};

/// When the first event happens unless said otherwise: 2024-01-31 23:59:00 UTC, in microseconds since 1970.
const START_US: i64 = 1_706_745_540_000_000;

/// The options of a nexmark source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NexmarkOptions {
    /// `table` or `type`: `person`, `auction`, `bid` or `all`, which is the default.
    pub table: NexmarkTable,
    /// `events`: how many events there are, of all kinds together; without it the source never ends.
    pub events: Option<u64>,
    /// `rate`: how many events come a second, by the clock, all kinds and splits together; 0, the default, for as fast as possible.
    pub rate: Option<u64>,
    /// `event_rate`: how many events happen in a second of event time; 10000 by default.
    pub event_rate: u64,
    /// `seed`: another seed makes other events; 42 by default.
    pub seed: u64,
    /// `start_time`: when the first event happens, a timestamp; 2024-01-31 23:59:00 by default. In microseconds since 1970.
    pub start_time_us: i64,
    /// `disorder`: event times are shuffled within groups of so many events; 1, the default, for in order.
    pub disorder: u64,
    /// `splits`: into how many splits the events are dealt, so that so many workers can share the work; 1 by default.
    pub splits: u64,
}

impl NexmarkOptions {
    /// Reads the options, refusing those that are not known.
    ///
    /// # Errors
    /// `22023` for an unknown option or a value that can't be one.
    pub fn parse(options: &BTreeMap<String, String>) -> SqlResult<NexmarkOptions> {
        let mut options = Options::new("connector \"nexmark\"", options);
        let words = NexmarkTable::WORDS;
        let table = match (options.one_of("table", &words)?, options.one_of("type", &words)?) {
            (Some(_), Some(_)) => {
                return Err(SqlError::invalid_parameter("options \"table\" and \"type\" mean the same: give one"));
            }
            (table, also) => table.or(also).unwrap_or(NexmarkTable::All),
        };
        let start_time_us = match options.text("start_time") {
            None => START_US,
            Some(text) => parse_timestamp_tz(text.trim().as_bytes()).map_err(|_| {
                SqlError::invalid_parameter(format!(
                    "invalid value for option \"start_time\" of connector \"nexmark\": \"{text}\""
                ))
                .with_hint("Write a timestamp such as '2024-01-31 23:59:00'.")
            })?,
        };
        let parsed = NexmarkOptions {
            table,
            events: options.parsed("events")?,
            rate: options.parsed("rate")?.filter(|rate| *rate > 0),
            event_rate: at_least_one("event_rate", options.parsed("event_rate")?, 10_000)?,
            seed: options.parsed("seed")?.unwrap_or(42),
            start_time_us,
            disorder: at_least_one("disorder", options.parsed("disorder")?, 1)?,
            splits: at_least_one("splits", options.parsed("splits")?, 1)?,
        };
        options.finish()?;
        if parsed.splits > 1024 {
            return Err(SqlError::invalid_parameter("option \"splits\" of connector \"nexmark\" can be at most 1024"));
        }
        Ok(parsed)
    }
}

fn at_least_one(name: &str, given: Option<u64>, default: u64) -> SqlResult<u64> {
    match given {
        Some(0) => Err(SqlError::invalid_parameter(format!("option \"{name}\" of connector \"nexmark\" must be at least 1"))),
        given => Ok(given.unwrap_or(default)),
    }
}
