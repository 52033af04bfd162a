//! Dates, times and intervals, read from text: ISO 8601 and what Postgres prints; of other notations the common ones.

use super::SessionTimeZone;
use super::calendar::{DAY_US, days_in_month, days_of_civil, is_date, is_timestamp, to_chrono};
use crate::error::{SqlError, SqlResult, SqlState};
use arrow::datatypes::IntervalMonthDayNano;

fn bad_syntax(type_name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::InvalidDatetimeFormat, format!("invalid input syntax for type {type_name}: \"{text}\""))
}

fn field_overflow(text: &str) -> SqlError {
    SqlError::new(SqlState::DatetimeFieldOverflow, format!("date/time field value out of range: \"{text}\""))
}

/// `0A000`: calendars and watermarks have no infinity.
pub fn infinite(type_name: &str) -> SqlError {
    SqlError::unsupported(format!("an infinite {type_name} is not supported"))
}

/// A date or timestamp that no calendar lacks, but that its type does not reach.
fn beyond(type_name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::DatetimeFieldOverflow, format!("{type_name} out of range: \"{text}\""))
}

const MONTHS: [&str; 12] =
    ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];

/// Reads a `date`: days since 1970.
pub fn date(text: &str) -> SqlResult<i32> {
    // Like Postgres, takes a timestamp's text too and drops its time.
    let days = timestamp_parts("date", text)?.days;
    i32::try_from(days).ok().filter(|days| is_date(i64::from(*days))).ok_or_else(|| beyond("date", text))
}

/// Reads a `time`: microseconds since midnight.
pub fn time(text: &str) -> SqlResult<i64> {
    let trimmed = text.trim();
    let (clock, _) = split_zone(trimmed);
    match clock_us(clock) {
        Some(Some(us)) => Ok(us),
        Some(None) => Err(field_overflow(text)),
        None => Err(bad_syntax("time", text)),
    }
}

/// Reads a `timestamp`: microseconds since 1970. A zone in the text doesn't count.
pub fn timestamp(text: &str) -> SqlResult<i64> {
    let parts = timestamp_parts("timestamp", text)?;
    let us = parts.days.checked_mul(DAY_US).and_then(|us| us.checked_add(parts.us));
    us.filter(|us| is_timestamp(*us)).ok_or_else(|| beyond("timestamp", text))
}

/// Reads a `timestamptz`: microseconds since 1970 UTC. Without a zone in the text, that of the session counts.
pub fn timestamptz(text: &str, zone: &SessionTimeZone) -> SqlResult<i64> {
    const NAME: &str = "timestamp with time zone";
    let parts = timestamp_parts(NAME, text)?;
    let local = parts.days.checked_mul(DAY_US).and_then(|us| us.checked_add(parts.us)).ok_or_else(|| beyond(NAME, text))?;
    let offset = match parts.zone.as_deref() {
        None => zone.offset_of_local(&to_chrono(local)),
        Some(written) => match fixed_offset(written) {
            Some(seconds) => seconds,
            None => SessionTimeZone::parse(written)
                .ok_or_else(|| SqlError::invalid_parameter(format!("time zone \"{written}\" not recognized")))?
                .offset_of_local(&to_chrono(local)),
        },
    };
    local.checked_sub(i64::from(offset) * 1_000_000).filter(|us| is_timestamp(*us)).ok_or_else(|| beyond(NAME, text))
}

/// Reads a `timetz`: microseconds since midnight, and how many seconds its clock is ahead of UTC. Without a zone in the text, that
/// of the session counts, if it is the same on every day.
///
/// # Errors
/// `22007` and `22008` for what is no time, or is in a zone that depends on the day; `0A000` if that is the session's.
pub fn timetz(text: &str, zone: &SessionTimeZone) -> SqlResult<(i64, i32)> {
    const NAME: &str = "time with time zone";
    let (clock, written) = split_zone(text.trim());
    let us = clock_us(clock).ok_or_else(|| bad_syntax(NAME, text))?.ok_or_else(|| field_overflow(text))?;
    let offset = match written.map(str::trim).filter(|written| !written.is_empty()) {
        Some(written) => {
            let zone = || SessionTimeZone::parse(written)?.constant_offset();
            fixed_offset(written).or_else(zone).ok_or_else(|| bad_syntax(NAME, text))?
        }
        None => zone.constant_offset().ok_or_else(|| {
            SqlError::unsupported(format!("a time of day in the time zone \"{}\" is not supported", zone.name()))
                .with_hint("Write how far it is from UTC, as in 12:00+02.")
        })?,
    };
    Ok((us, offset))
}

/// A timestamp's parts: its day, its time, and what stands for a zone.
struct TimestampParts {
    days: i64,
    us: i64,
    zone: Option<String>,
}

fn timestamp_parts(type_name: &str, text: &str) -> SqlResult<TimestampParts> {
    let mut rest = text.trim();
    let lower = rest.to_ascii_lowercase();
    match lower.as_str() {
        "epoch" => return Ok(TimestampParts { days: 0, us: 0, zone: Some("+00".to_string()) }),
        "infinity" | "-infinity" | "+infinity" => {
            return Err(infinite(type_name));
        }
        _ => {}
    }
    let before_christ = lower.ends_with(" bc");
    if before_christ || lower.ends_with(" ad") {
        rest = rest[..rest.len() - 3].trim_end();
    }
    let (days, rest) = leading_date(rest, before_christ).ok_or_else(|| bad_syntax(type_name, text))?;
    let days = days.ok_or_else(|| field_overflow(text))?;
    let clock = rest.trim_start_matches([' ', 'T', 't']);
    if clock.is_empty() {
        return Ok(TimestampParts { days, us: 0, zone: None });
    }
    // Directly after a date comes either a time, or its zone.
    let (clock, zone) = if clock.starts_with(|c: char| c.is_ascii_digit()) { split_zone(clock) } else { ("", Some(clock)) };
    let us = match clock {
        "" => 0,
        _ => clock_us(clock).ok_or_else(|| bad_syntax(type_name, text))?.ok_or_else(|| field_overflow(text))?,
    };
    let zone = zone.map(str::trim).filter(|zone| !zone.is_empty()).map(str::to_string);
    if zone.as_deref().is_some_and(|zone| fixed_offset(zone).is_none() && SessionTimeZone::parse(zone).is_none()) {
        return Err(bad_syntax(type_name, text));
    }
    Ok(TimestampParts { days, us, zone })
}

/// The date that a text begins with and what follows it. The inner none is a date that the calendar does not have.
fn leading_date(text: &str, before_christ: bool) -> Option<(Option<i64>, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '/' | '.'))).unwrap_or(text.len());
    // A `T` between date and time ends the date too; month names are told from it by the digit in front.
    let end = text[..end]
        .char_indices()
        .skip(1)
        .find(|(at, c)| matches!(c, 'T' | 't' | 'Z' | 'z') && text.as_bytes()[at - 1].is_ascii_digit())
        .map_or(end, |(at, _)| at);
    let (date, rest) = text.split_at(end);
    let (year, month, day) = date_fields(date)?;
    let year = if before_christ { 1 - year } else { year };
    let valid = (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month) && year.abs() < 1_000_000;
    Some((valid.then(|| days_of_civil(year, month, day)), rest))
}

fn date_fields(date: &str) -> Option<(i64, u32, u32)> {
    let fields: Vec<&str> = date.split(['-', '/', '.']).collect();
    match fields.as_slice() {
        [all] if all.len() == 8 => Some((all[..4].parse().ok()?, all[4..6].parse().ok()?, all[6..].parse().ok()?)),
        [year, month, day] if year.len() >= 3 && month_name(year).is_none() => {
            Some((year.parse().ok()?, month_number(month)?, day.parse().ok()?))
        }
        // The order of DateStyle's default, MDY; with a month's name either way.
        [month, day, year] if month_name(month).is_some() => Some((short_year(year)?, month_name(month)?, day.parse().ok()?)),
        [day, month, year] if month_name(month).is_some() => Some((short_year(year)?, month_name(month)?, day.parse().ok()?)),
        [month, day, year] => Some((short_year(year)?, month.parse().ok()?, day.parse().ok()?)),
        _ => None,
    }
}

fn month_number(text: &str) -> Option<u32> {
    text.parse().ok().or_else(|| month_name(text))
}

fn month_name(text: &str) -> Option<u32> {
    let lower = text.to_ascii_lowercase();
    if lower.len() < 3 {
        return None;
    }
    MONTHS.iter().position(|name| name.starts_with(&lower)).map(|at| at as u32 + 1)
}

/// A year of two digits is the one nearest to 2020.
fn short_year(text: &str) -> Option<i64> {
    let year: i64 = text.parse().ok()?;
    Some(if text.len() > 2 {
        year
    } else if year < 70 {
        year + 2000
    } else {
        year + 1900
    })
}

/// Splits a time from the zone after it.
fn split_zone(text: &str) -> (&str, Option<&str>) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.'))).unwrap_or(text.len());
    let (clock, rest) = text.split_at(end);
    let rest_lower = rest.trim_start().to_ascii_lowercase();
    let half = rest_lower.starts_with("am") || rest_lower.starts_with("pm");
    // Not the beginning of `America/New_York`.
    if half && !rest_lower[2..].starts_with(|c: char| c.is_ascii_alphabetic()) {
        let end = end + rest.len() - rest.trim_start().len() + 2;
        let (clock, rest) = text.split_at(end);
        return (clock, Some(rest));
    }
    (clock, (!rest.is_empty()).then_some(rest))
}

/// A time of day in microseconds. The inner none is a time that no clock shows.
fn clock_us(text: &str) -> Option<Option<i64>> {
    let lower = text.trim().to_ascii_lowercase();
    let (clock, half) = match (lower.strip_suffix("am"), lower.strip_suffix("pm")) {
        (Some(clock), _) => (clock.trim_end(), Some(0)),
        (_, Some(clock)) => (clock.trim_end(), Some(12)),
        _ => (lower.as_str(), None),
    };
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let fields: Vec<&str> = whole.split(':').collect();
    let (hours, minutes, seconds) = match fields.as_slice() {
        [h, m, s] => (*h, *m, *s),
        [h, m] => (*h, *m, "0"),
        [all] if all.len() == 6 => (&all[..2], &all[2..4], &all[4..]),
        [all] if all.len() == 4 => (&all[..2], &all[2..], "0"),
        _ => return None,
    };
    let (mut hours, minutes, seconds): (i64, i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?, seconds.parse().ok()?);
    let fraction = fraction_us(fraction)?;
    if let Some(half) = half {
        if !(1..=12).contains(&hours) {
            return Some(None);
        }
        hours = hours % 12 + half;
    }
    let valid = (0..=24).contains(&hours) && (0..60).contains(&minutes) && (0..=60).contains(&seconds);
    let us = || ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction;
    Some(valid.then(us).filter(|us| *us <= DAY_US))
}

/// The digits after a point as microseconds, rounded.
fn fraction_us(digits: &str) -> Option<i64> {
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut us: i64 = 0;
    for at in 0..6 {
        us = us * 10 + digits.as_bytes().get(at).map_or(0, |b| i64::from(b - b'0'));
    }
    Some(us + i64::from(digits.as_bytes().get(6).is_some_and(|b| *b >= b'5')))
}

/// The seconds east of UTC that `+hh`, `+hhmm`, `+hh:mm`, `+hh:mm:ss`, `Z` or `UTC` stand for.
fn fixed_offset(text: &str) -> Option<i32> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("z") || text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("gmt") {
        return Some(0);
    }
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    let fields: Vec<&str> = digits.split(':').collect();
    if !fields.iter().all(|field| !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    let (h, m, s) = match fields.as_slice() {
        [all] if all.len() == 4 => (&all[..2], &all[2..], "0"),
        [h] => (*h, "0", "0"),
        [h, m] => (*h, *m, "0"),
        [h, m, s] => (*h, *m, *s),
        _ => return None,
    };
    let (h, m, s): (i32, i32, i32) = (h.parse().ok()?, m.parse().ok()?, s.parse().ok()?);
    (h <= 15 && m < 60 && s < 60).then(|| sign * (h * 3600 + m * 60 + s))
}

/// The parts of an interval while it is read, exact in the units that Postgres keeps.
#[derive(Default)]
struct IntervalParts {
    months: i64,
    days: i64,
    us: i128,
}

/// Reads an `interval`: `1 year 2 mons 3 days 04:05:06.7`, `1 day ago`, `P1Y2M3DT4H5M6S`, `1-2 3 4:05:06`.
pub fn interval(text: &str) -> SqlResult<IntervalMonthDayNano> {
    let trimmed = text.trim();
    let parts = match trimmed.strip_prefix(['P', 'p']) {
        Some(iso) => interval_iso(iso),
        None => interval_words(trimmed),
    };
    let parts = parts.ok_or_else(|| bad_syntax("interval", text))?;
    let overflow = || SqlError::new(SqlState::DatetimeFieldOverflow, format!("interval field value out of range: \"{text}\""));
    let months = i32::try_from(parts.months).map_err(|_| overflow())?;
    let days = i32::try_from(parts.days).map_err(|_| overflow())?;
    let nanoseconds = parts.us.checked_mul(1000).and_then(|ns| i64::try_from(ns).ok()).ok_or_else(overflow)?;
    Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
}

impl IntervalParts {
    /// Adds `whole`.`fraction` of a unit; the fraction goes down to smaller units, 30 days to a month.
    fn add(&mut self, number: &str, unit: &str) -> Option<()> {
        let (negative, unsigned) = match number.as_bytes().first()? {
            b'-' => (true, &number[1..]),
            b'+' => (false, &number[1..]),
            _ => (false, number),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        let fraction: f64 = if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
        if whole < 0 {
            return None;
        }
        let sign = if negative { -1 } else { 1 };
        let unit_us = |us: i128| i128::from(whole) * us + (fraction * us as f64).round() as i128;
        let (mut months, mut days, mut us) = (0i64, 0i64, 0i128);
        match unit {
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => us = unit_us(1),
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => us = unit_us(1_000),
            "s" | "sec" | "secs" | "second" | "seconds" => us = unit_us(1_000_000),
            "m" | "min" | "mins" | "minute" | "minutes" => us = unit_us(60_000_000),
            "h" | "hr" | "hrs" | "hour" | "hours" => us = unit_us(3_600_000_000),
            "d" | "day" | "days" => (days, us) = (whole, (fraction * DAY_US as f64).round() as i128),
            "w" | "week" | "weeks" => {
                let fraction_days = fraction * 7.0;
                days = whole.checked_mul(7)?.checked_add(fraction_days.trunc() as i64)?;
                us = (fraction_days.fract() * DAY_US as f64).round() as i128;
            }
            "mon" | "mons" | "month" | "months" => {
                let fraction_days = fraction * 30.0;
                (months, days) = (whole, fraction_days.trunc() as i64);
                us = (fraction_days.fract() * DAY_US as f64).round() as i128;
            }
            "y" | "yr" | "yrs" | "year" | "years" => {
                months = whole.checked_mul(12)?.checked_add((fraction * 12.0).round() as i64)?;
            }
            "decade" | "decades" => months = whole.checked_mul(120)?,
            "century" | "centuries" => months = whole.checked_mul(1_200)?,
            "millennium" | "millennia" => months = whole.checked_mul(12_000)?,
            _ => return None,
        }
        self.months = self.months.checked_add(sign * months)?;
        self.days = self.days.checked_add(sign * days)?;
        self.us = self.us.checked_add(i128::from(sign) * us)?;
        Some(())
    }
}

/// Reads `[-]hh:mm[:ss[.fff]]`, hours of any size.
fn signed_clock(text: &str) -> Option<i128> {
    let (negative, clock) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let fields: Vec<i128> = whole.split(':').map(|f| f.parse().ok().filter(|n| *n >= 0)).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match fields.as_slice() {
        [h, m] => (*h, *m, 0),
        [h, m, s] => (*h, *m, *s),
        _ => return None,
    };
    if minutes > 59 || seconds > 60 || hours > i128::from(i64::MAX) {
        return None;
    }
    let us = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + i128::from(fraction_us(fraction)?);
    Some(if negative { -us } else { us })
}

fn interval_words(text: &str) -> Option<IntervalParts> {
    let lower = text.to_ascii_lowercase();
    let mut parts = IntervalParts::default();
    let mut words: Vec<String> = vec![];
    for word in lower.trim_start_matches('@').split_ascii_whitespace() {
        // `5days` is a number and its unit.
        let cut = word.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(word.len());
        let (number, unit) = word.split_at(cut);
        words.extend([number, unit].into_iter().filter(|w| !w.is_empty()).map(str::to_string));
    }
    let ago = words.last().is_some_and(|word| word == "ago");
    if ago {
        words.pop();
    }
    if words.is_empty() {
        return None;
    }
    let mut at = 0;
    while at < words.len() {
        let word = words[at].as_str();
        let next_is_unit = words.get(at + 1).is_some_and(|next| next.starts_with(|c: char| c.is_ascii_alphabetic()));
        if word.contains(':') {
            parts.us = parts.us.checked_add(signed_clock(word)?)?;
        } else if next_is_unit {
            parts.add(word, &words[at + 1])?;
            at += 1;
        } else if let Some((years, months)) = word.trim_start_matches(['+', '-']).split_once('-') {
            let total = years.parse::<i64>().ok()?.checked_mul(12)?.checked_add(months.parse().ok()?)?;
            let total = if word.starts_with('-') { total.checked_neg()? } else { total };
            parts.months = parts.months.checked_add(total)?;
        } else {
            // A bare number is days before a time, else seconds.
            let unit = if words.get(at + 1).is_some_and(|next| next.contains(':')) { "day" } else { "second" };
            parts.add(word, unit)?;
        }
        at += 1;
    }
    if ago {
        parts = IntervalParts { months: parts.months.checked_neg()?, days: parts.days.checked_neg()?, us: -parts.us };
    }
    Some(parts)
}

/// What follows the `P` of an ISO 8601 duration.
fn interval_iso(text: &str) -> Option<IntervalParts> {
    let mut parts = IntervalParts::default();
    let mut in_time = false;
    let mut number = String::new();
    if text.is_empty() {
        return None;
    }
    for c in text.chars() {
        match c.to_ascii_uppercase() {
            '0'..='9' | '.' | '-' | '+' => number.push(c),
            'T' if number.is_empty() && !in_time => in_time = true,
            unit => {
                let unit = match (unit, in_time) {
                    ('Y', false) => "year",
                    ('M', false) => "month",
                    ('W', false) => "week",
                    ('D', false) => "day",
                    ('H', true) => "hour",
                    ('M', true) => "minute",
                    ('S', true) => "second",
                    _ => return None,
                };
                parts.add(&number, unit)?;
                number.clear();
            }
        }
    }
    number.is_empty().then_some(parts)
}
