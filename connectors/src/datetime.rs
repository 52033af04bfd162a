//! Dates and times as text: read as Postgres reads ISO input, written as ISO 8601.

use crate::decode::value::Misfit;

/// Microseconds in a second.
pub(crate) const SECOND_US: i64 = 1_000_000;
/// Microseconds in a day.
pub(crate) const DAY_US: i64 = 86_400 * SECOND_US;

/// Days since 1970 of a date of the Gregorian calendar.
///
/// Counts in years that start in March, so that the leap day is the last of its year.
pub(crate) fn days_of_date(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day since 1970: year, month, day.
pub(crate) fn date_of_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[inline(always)]
fn two_digits(text: &[u8], at: usize) -> Option<i64> {
    match text.get(at..at + 2) {
        Some([a @ b'0'..=b'9', b @ b'0'..=b'9']) => Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
        _ => None,
    }
}

/// Reads `YYYY-MM-DD` (the year may have up to six digits) at the start; gives the days since 1970 and the rest.
fn date_prefix(text: &[u8]) -> Result<(i64, &[u8]), Misfit> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if !(4..=6).contains(&digits) || text.get(digits) != Some(&b'-') || text.get(digits + 3) != Some(&b'-') {
        return Err(Misfit::Syntax);
    }
    let year = text[..digits].iter().fold(0, |year, digit| year * 10 + i64::from(digit - b'0'));
    let month = two_digits(text, digits + 1).ok_or(Misfit::Syntax)?;
    let day = two_digits(text, digits + 4).ok_or(Misfit::Syntax)?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return Err(Misfit::Range);
    }
    Ok((days_of_date(year, month, day), &text[digits + 6..]))
}

/// Reads `HH:MM[:SS[.fraction]]` at the start; gives microseconds since midnight and the rest. A fraction is rounded to
/// microseconds; 24:00 and a leap second run into what follows them, as in Postgres.
fn time_prefix(text: &[u8]) -> Result<(i64, &[u8]), Misfit> {
    let hour = two_digits(text, 0).ok_or(Misfit::Syntax)?;
    if text.get(2) != Some(&b':') {
        return Err(Misfit::Syntax);
    }
    let minute = two_digits(text, 3).ok_or(Misfit::Syntax)?;
    let (mut second, mut fraction, mut rest) = (0, 0, &text[5..]);
    if rest.first() == Some(&b':') {
        second = two_digits(rest, 1).ok_or(Misfit::Syntax)?;
        rest = &rest[3..];
        if rest.first() == Some(&b'.') {
            let digits = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let mut unit = SECOND_US / 10;
            for (place, digit) in rest[1..=digits].iter().enumerate() {
                let digit = i64::from(digit - b'0');
                fraction += if place == 6 { i64::from(digit >= 5) } else { digit * unit };
                unit /= 10;
            }
            rest = &rest[1 + digits..];
        }
    }
    let time = (hour * 3600 + minute * 60 + second) * SECOND_US + fraction;
    if minute > 59 || second > 60 || time > DAY_US {
        return Err(Misfit::Range);
    }
    Ok((time, rest))
}

/// Reads nothing, `Z`, `±hh`, `±hhmm` or `±hh:mm`; gives seconds east of Greenwich.
fn zone(text: &[u8]) -> Result<Option<i64>, Misfit> {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let sign = match text.first() {
        None => return Ok(None),
        Some(b'Z' | b'z') if text.len() == 1 => return Ok(Some(0)),
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ if text.eq_ignore_ascii_case(b"utc") => return Ok(Some(0)),
        _ => return Err(Misfit::Syntax),
    };
    let hours = two_digits(text, 1).ok_or(Misfit::Syntax)?;
    let minutes = match text.len() {
        3 => 0,
        5 => two_digits(text, 3).ok_or(Misfit::Syntax)?,
        6 if text[3] == b':' => two_digits(text, 4).ok_or(Misfit::Syntax)?,
        _ => return Err(Misfit::Syntax),
    };
    if hours > 15 || minutes > 59 {
        return Err(Misfit::Range);
    }
    Ok(Some(sign * (hours * 3600 + minutes * 60)))
}

/// Reads a date, or the date of a timestamp; days since 1970.
pub(crate) fn parse_date(text: &[u8]) -> Result<i32, Misfit> {
    let (days, rest) = date_prefix(text)?;
    if !rest.is_empty() {
        parse_local(text)?;
    }
    i32::try_from(days).map_err(|_| Misfit::Range)
}

/// Reads a time of day; microseconds since midnight. A zone after it is ignored, as in Postgres.
pub(crate) fn parse_time(text: &[u8]) -> Result<i64, Misfit> {
    let (time, rest) = time_prefix(text)?;
    zone(rest)?;
    Ok(time)
}

/// Reads a date with or without a time and a zone: microseconds since 1970 on the clock of that zone, and the zone.
fn parse_local(text: &[u8]) -> Result<(i64, Option<i64>), Misfit> {
    let (days, rest) = date_prefix(text)?;
    let (time, offset) = match rest {
        [] => (0, None),
        [b' ' | b'T' | b't', rest @ ..] => {
            let (time, rest) = time_prefix(rest)?;
            (time, zone(rest)?)
        }
        _ => return Err(Misfit::Syntax),
    };
    // The last days that microseconds in 64 bits can count lie in the year 294247.
    if days > 106_751_000 { Err(Misfit::Range) } else { Ok((days * DAY_US + time, offset)) }
}

/// Reads a timestamp without a time zone; a zone in the text is ignored, as in Postgres. Microseconds since 1970.
pub(crate) fn parse_timestamp(text: &[u8]) -> Result<i64, Misfit> {
    parse_local(text).map(|(us, _)| us)
}

/// Reads a timestamp with time zone, UTC where the text names none. Microseconds since 1970.
pub(crate) fn parse_timestamp_tz(text: &[u8]) -> Result<i64, Misfit> {
    parse_local(text).map(|(us, offset)| us - offset.unwrap_or(0) * SECOND_US)
}

fn push_two(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
}

/// Writes `YYYY-MM-DD`; years before 1 and after 9999 get a sign or more digits.
pub(crate) fn write_date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = date_of_days(days);
    if (0..=9999).contains(&year) {
        push_two(out, year / 100);
        push_two(out, year);
    } else {
        out.extend_from_slice(format!("{year:05}").as_bytes());
    }
    out.push(b'-');
    push_two(out, month);
    out.push(b'-');
    push_two(out, day);
}

/// Writes `HH:MM:SS` and, where there is one, a fraction without zeros at its end.
pub(crate) fn write_time(out: &mut Vec<u8>, time_us: i64) {
    let seconds = time_us / SECOND_US;
    push_two(out, seconds / 3600);
    out.push(b':');
    push_two(out, seconds / 60 % 60);
    out.push(b':');
    push_two(out, seconds % 60);
    write_fraction(out, time_us % SECOND_US);
}

/// Writes a part of a second with its point, without zeros at its end; nothing for none.
pub(crate) fn write_fraction(out: &mut Vec<u8>, mut fraction_us: i64) {
    if fraction_us == 0 {
        return;
    }
    out.push(b'.');
    let mut unit = SECOND_US / 10;
    while fraction_us > 0 {
        out.push(b'0' + (fraction_us / unit) as u8);
        fraction_us %= unit;
        unit /= 10;
    }
}

/// Writes `YYYY-MM-DD`, the separator, `HH:MM:SS[.ffffff]`.
pub(crate) fn write_timestamp(out: &mut Vec<u8>, us: i64, separator: u8) {
    write_date(out, us.div_euclid(DAY_US));
    out.push(separator);
    write_time(out, us.rem_euclid(DAY_US));
}

#[cfg(test)]
mod tests;
