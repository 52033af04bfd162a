//! What ranges are bounded by: numbers and times.

use super::scalar::clock;
use super::{invalid, ordered};
use crate::SqlType;
use crate::datetime::calendar::{DAY_US, civil_of_days};
use crate::datetime::{SessionTimeZone, read};
use crate::error::{SqlError, SqlResult, SqlState};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// The type of a range's bounds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum BoundType {
    Int4,
    Int8,
    Numeric,
    Timestamp,
    TimestampTz,
    Date,
}

/// A bound's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundValue {
    /// An integer, days or microseconds since 1970.
    Whole(i64),
    /// A number and how many of its digits are decimal places: as few as it takes, so that equal numbers are written alike.
    Number(i128, u32),
}

/// The most digits of a number.
const DIGITS_MAX: usize = 38;

impl BoundType {
    /// The type of the bounds.
    pub fn sql_type(self) -> SqlType {
        match self {
            BoundType::Int4 => SqlType::Int4,
            BoundType::Int8 => SqlType::Int8,
            BoundType::Numeric => SqlType::Numeric(None),
            BoundType::Timestamp => SqlType::Timestamp,
            BoundType::TimestampTz => SqlType::TimestampTz,
            BoundType::Date => SqlType::Date,
        }
    }

    pub(super) fn parse(self, text: &str, zone: &SessionTimeZone) -> SqlResult<BoundValue> {
        match self {
            BoundType::Int4 => integer("integer", text, i64::from(i32::MIN)..=i64::from(i32::MAX)),
            BoundType::Int8 => integer("bigint", text, i64::MIN..=i64::MAX),
            BoundType::Numeric => number(text),
            BoundType::Timestamp => read::timestamp(text).map(BoundValue::Whole),
            BoundType::TimestampTz => read::timestamptz(text, zone).map(BoundValue::Whole),
            BoundType::Date => read::date(text).map(|days| BoundValue::Whole(i64::from(days))),
        }
    }

    /// The value in the form that Postgres shows it in; of moments that in UTC.
    pub(super) fn text(self, value: BoundValue) -> String {
        match (self, value) {
            (_, BoundValue::Number(value, places)) => number_text(value, places as usize),
            (BoundType::Timestamp, BoundValue::Whole(us)) => moment(us, ""),
            (BoundType::TimestampTz, BoundValue::Whole(us)) => moment(us, "+00"),
            (BoundType::Date, BoundValue::Whole(days)) => {
                let (date, era) = civil(days);
                date + era
            }
            (_, BoundValue::Whole(value)) => value.to_string(),
        }
    }

    /// The value that follows, where values can be counted; none where they can't.
    ///
    /// # Errors
    /// `22003` for the one after the last.
    pub(super) fn next(self, value: BoundValue) -> SqlResult<Option<BoundValue>> {
        let BoundValue::Whole(value) = value else { return Ok(None) };
        let (last, name) = match self {
            BoundType::Int4 => (i64::from(i32::MAX), "integer"),
            BoundType::Int8 => (i64::MAX, "bigint"),
            BoundType::Date => (i64::from(i32::MAX), "date"),
            BoundType::Numeric | BoundType::Timestamp | BoundType::TimestampTz => return Ok(None),
        };
        if value == last {
            return Err(SqlError::new(SqlState::NumericValueOutOfRange, format!("{name} out of range")));
        }
        Ok(Some(BoundValue::Whole(value + 1)))
    }
}

impl BoundValue {
    /// A number with this many decimal places.
    pub fn number(mut value: i128, mut places: u32) -> BoundValue {
        while places > 0 && value % 10 == 0 {
            value /= 10;
            places -= 1;
        }
        BoundValue::Number(value, places)
    }

    /// Compares values of one type.
    pub(super) fn compare(self, other: BoundValue) -> Ordering {
        self.parts().cmp(&other.parts())
    }

    /// The whole part, rounded down, and the digits behind it as many as there can be: they compare as the values do.
    fn parts(self) -> (i128, i128) {
        match self {
            BoundValue::Whole(value) => (i128::from(value), 0),
            BoundValue::Number(value, places) => {
                let one = 10_i128.pow(places);
                (value.div_euclid(one), value.rem_euclid(one) * 10_i128.pow(DIGITS_MAX as u32 - places))
            }
        }
    }

    pub(super) fn order_key(self) -> Vec<u8> {
        match self {
            BoundValue::Whole(value) => ordered(value).to_vec(),
            BoundValue::Number(..) => {
                let (whole, fraction) = self.parts();
                [((whole as u128) ^ 1 << 127).to_be_bytes(), (fraction as u128).to_be_bytes()].concat()
            }
        }
    }
}

fn integer(name: &str, text: &str, within: std::ops::RangeInclusive<i64>) -> SqlResult<BoundValue> {
    let value: i128 = text.trim().parse().map_err(|_| invalid(name, text))?;
    let value = i64::try_from(value).ok().filter(|value| within.contains(value));
    value.map(BoundValue::Whole).ok_or_else(|| {
        SqlError::new(SqlState::NumericValueOutOfRange, format!("value \"{text}\" is out of range for type {name}"))
    })
}

fn number(text: &str) -> SqlResult<BoundValue> {
    let bad = || invalid("numeric", text);
    let trimmed = text.trim();
    let (mantissa, exponent) = trimmed.split_once(['e', 'E']).unwrap_or((trimmed, "0"));
    let exponent: i64 = exponent.parse().map_err(|_| bad())?;
    let (negative, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut all = format!("{whole}{fraction}");
    if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let range = || {
        let message = format!("value \"{text}\" is out of range for type numeric");
        SqlError::new(SqlState::NumericValueOutOfRange, message)
    };
    let places = (fraction.len() as i64).saturating_sub(exponent);
    if places < 0 {
        all.extend(std::iter::repeat_n('0', usize::try_from(-places).ok().filter(|n| *n <= DIGITS_MAX).ok_or_else(range)?));
    }
    let places = u32::try_from(places.max(0)).ok().filter(|places| *places <= DIGITS_MAX as u32).ok_or_else(range)?;
    let digits = all.trim_start_matches('0');
    if digits.len() > DIGITS_MAX {
        return Err(range());
    }
    let value: i128 = if digits.is_empty() { 0 } else { digits.parse().map_err(|_| range())? };
    Ok(BoundValue::number(if negative { -value } else { value }, places))
}

fn number_text(value: i128, places: usize) -> String {
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let sign = if value < 0 { "-" } else { "" };
    if places == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

/// A day, and what is behind it if it is before the first year.
fn civil(days: i64) -> (String, &'static str) {
    let (year, month, day) = civil_of_days(days);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

fn moment(us: i64, zone: &str) -> String {
    let (date, era) = civil(us.div_euclid(DAY_US));
    format!("{date} {}{zone}{era}", clock(us.rem_euclid(DAY_US)))
}
