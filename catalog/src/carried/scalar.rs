//! Single values that are numbers inside: `timetz`, `money`, `pg_lsn`.

use super::{invalid, ordered};
use crate::datetime::{SessionTimeZone, read};
use crate::error::{SqlError, SqlResult, SqlState};
use std::fmt;

/// A time of day and how far its clock is from UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeTz {
    /// Microseconds since midnight.
    pub us: i64,
    /// Seconds that the clock is ahead of UTC.
    pub offset_s: i32,
}

impl TimeTz {
    /// Reads a time; without a zone in the text it is in this one.
    pub fn parse(text: &str, zone: &SessionTimeZone) -> SqlResult<TimeTz> {
        let (us, offset_s) = read::timetz(text, zone)?;
        Ok(TimeTz { us, offset_s })
    }

    pub(super) fn order_key(&self) -> Vec<u8> {
        // By the moment in UTC; of one moment, the zone farther east first.
        let utc = self.us - i64::from(self.offset_s) * 1_000_000;
        [ordered(utc), ordered(-i64::from(self.offset_s))].concat()
    }
}

impl fmt::Display for TimeTz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clock(self.us))?;
        write_offset(self.offset_s, f)
    }
}

/// A time of day with as many digits behind the point as it needs.
pub(super) fn clock(us: i64) -> String {
    let (seconds, fraction) = (us / 1_000_000, us % 1_000_000);
    let whole = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match fraction {
        0 => whole,
        _ => format!("{whole}.{fraction:06}").trim_end_matches('0').to_string(),
    }
}

fn write_offset(offset_s: i32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let away = offset_s.unsigned_abs();
    write!(f, "{}{:02}", if offset_s < 0 { '-' } else { '+' }, away / 3600)?;
    if !away.is_multiple_of(3600) {
        write!(f, ":{:02}", away / 60 % 60)?;
    }
    if !away.is_multiple_of(60) {
        write!(f, ":{:02}", away % 60)?;
    }
    Ok(())
}

/// An amount of money, shown in dollars.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Money {
    /// Hundredths.
    pub cents: i64,
}

impl Money {
    /// Reads an amount, with a sign, a `$`, and commas or without; what is less than a cent is rounded.
    pub fn parse(text: &str) -> SqlResult<Money> {
        let bad = || invalid("money", text);
        let range = || {
            let message = format!("value \"{text}\" is out of range for type money");
            SqlError::new(SqlState::NumericValueOutOfRange, message)
        };
        let mut digits = text.trim_start();
        let mut negative = false;
        // A sign, and parentheses for one, may stand before or behind the symbol.
        let mut marks = vec!['+', '-', '(', '$'];
        while let Some(mark) = digits.chars().next().filter(|mark| marks.contains(mark)) {
            negative |= matches!(mark, '-' | '(');
            marks.retain(|other| if mark == '$' { *other != '$' } else { *other == '$' });
            digits = digits[1..].trim_start();
        }
        let behind = |c: char| c.is_whitespace() || matches!(c, ')' | '-' | '+' | '$');
        let amount = digits.trim_end_matches(behind);
        negative |= digits[amount.len()..].contains('-');
        let digits = amount;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = whole.replace(',', "");
        let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        if !are_digits(&whole) || !are_digits(fraction) {
            return Err(bad());
        }
        let place = |at: usize| fraction.as_bytes().get(at).map_or(0, |b| i128::from(b - b'0'));
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| range())? };
        let below = place(0) * 10 + place(1) + i128::from(place(2) >= 5);
        let cents = whole.checked_mul(100).and_then(|cents| cents.checked_add(below)).ok_or_else(range)?;
        let cents = i64::try_from(if negative { -cents } else { cents }).map_err(|_| range())?;
        Ok(Money { cents })
    }

    /// As a number with two decimal places.
    pub fn number(&self) -> String {
        let cents = self.cents.unsigned_abs();
        format!("{}{}.{:02}", if self.cents < 0 { "-" } else { "" }, cents / 100, cents % 100)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = self.cents.unsigned_abs();
        let digits = (cents / 100).to_string();
        f.write_str(if self.cents < 0 { "-$" } else { "$" })?;
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        write!(f, ".{:02}", cents % 100)
    }
}

/// A place in a write-ahead log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Reads two hexadecimal numbers of 32 bits around a slash.
    pub fn parse(text: &str) -> SqlResult<Lsn> {
        let bad = || invalid("pg_lsn", text);
        let half = |digits: &str| {
            let is_hex = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten().ok_or_else(bad)
        };
        let (high, low) = text.split_once('/').ok_or_else(bad)?;
        Ok(Lsn(half(high)? << 32 | half(low)?))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}
