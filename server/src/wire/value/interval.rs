//! The four text forms of an interval.

use super::text::{write_fraction, write_padded, write_time};
use crate::wire::settings::IntervalStyle;
use arrow::datatypes::IntervalMonthDayNano;
use bytes::{BufMut, BytesMut};
use std::fmt::Write;

/// An interval taken apart. All parts of the time of day have its sign.
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    /// Microseconds.
    time: i64,
}

/// Appends an `interval`.
pub fn write_interval(value: IntervalMonthDayNano, style: IntervalStyle, out: &mut BytesMut) {
    let parts = Parts { years: value.months / 12, months: value.months % 12, days: value.days, time: value.nanoseconds / 1000 };
    match style {
        IntervalStyle::Postgres => write_postgres(&parts, out),
        IntervalStyle::PostgresVerbose => write_verbose(&parts, out),
        IntervalStyle::SqlStandard => write_standard(&parts, out),
        IntervalStyle::Iso8601 => write_iso(&parts, out),
    }
}

impl Parts {
    fn hours(&self) -> u64 {
        self.time.unsigned_abs() / 3_600_000_000
    }

    fn minutes(&self) -> u64 {
        self.time.unsigned_abs() / 60_000_000 % 60
    }

    /// Microseconds of the last minute.
    fn seconds_us(&self) -> u64 {
        self.time.unsigned_abs() % 60_000_000
    }
}

/// Appends formatted text. A BytesMut grows as it is written to: this can't fail.
fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn write_seconds(us: u64, out: &mut BytesMut) {
    put(out, format_args!("{}", us / 1_000_000));
    write_fraction(us % 1_000_000, out);
}

fn write_postgres(parts: &Parts, out: &mut BytesMut) {
    let start = out.len();
    let mut negative_before = false;
    let fields = [(parts.years, "year"), (parts.months, "mon"), (parts.days, "day")].into_iter().filter(|(n, _)| *n != 0);
    for (count, unit) in fields {
        let space = if out.len() > start { " " } else { "" };
        let sign = if negative_before && count > 0 { "+" } else { "" };
        let plural = if count == 1 { "" } else { "s" };
        put(out, format_args!("{space}{sign}{count} {unit}{plural}"));
        negative_before = count < 0;
    }
    if parts.time != 0 || out.len() == start {
        if out.len() > start {
            out.put_u8(b' ');
        }
        if parts.time < 0 {
            out.put_u8(b'-');
        } else if negative_before {
            out.put_u8(b'+');
        }
        write_time(parts.time, out);
    }
}

/// What is negative as a whole ends in `ago`; a part of another sign than the first has a minus then.
fn write_verbose(parts: &Parts, out: &mut BytesMut) {
    out.put_u8(b'@');
    let sign = if parts.time < 0 { -1 } else { 1 };
    let time = |value: u64| sign * value as i64;
    let fields = [
        (i64::from(parts.years), "year"),
        (i64::from(parts.months), "mon"),
        (i64::from(parts.days), "day"),
        (time(parts.hours()), "hour"),
        (time(parts.minutes()), "min"),
    ];
    let mut before: Option<bool> = None;
    for (value, unit) in fields.into_iter().filter(|(value, _)| *value != 0) {
        let ago = *before.get_or_insert(value < 0);
        let shown = if ago { -value } else { value };
        put(out, format_args!(" {shown} {unit}{}", if shown == 1 { "" } else { "s" }));
    }
    let us = parts.seconds_us();
    if us > 0 {
        let ago = *before.get_or_insert(parts.time < 0);
        out.put_slice(if ago == (parts.time < 0) { b" " } else { b" -" });
        write_seconds(us, out);
        out.put_slice(if us == 1_000_000 { b" sec" } else { b" secs" });
    }
    match before {
        None => out.put_slice(b" 0"),
        Some(true) => out.put_slice(b" ago"),
        Some(false) => {}
    }
}

fn write_standard(parts: &Parts, out: &mut BytesMut) {
    let signs = [parts.years.signum().into(), parts.months.signum().into(), parts.days.signum().into(), parts.time.signum()];
    let (negative, positive) = (signs.contains(&-1), signs.contains(&1));
    let (has_months, has_time) = (signs[0] != 0 || signs[1] != 0, signs[2] != 0 || signs[3] != 0);
    let (years, months, days) = (parts.years.unsigned_abs(), parts.months.unsigned_abs(), parts.days.unsigned_abs());
    if !negative && !positive {
        return out.put_u8(b'0');
    }
    // What the standard has no form for is shown in all parts, each with its sign.
    if negative && positive || has_months && has_time {
        let sign = |negative: bool| if negative { '-' } else { '+' };
        let month_sign = sign(parts.years < 0 || parts.months < 0);
        put(out, format_args!("{month_sign}{years}-{months} {}{days} {}", sign(parts.days < 0), sign(parts.time < 0)));
        return write_clock(parts, out);
    }
    if negative {
        out.put_u8(b'-');
    }
    if has_months {
        return put(out, format_args!("{years}-{months}"));
    }
    if days > 0 {
        put(out, format_args!("{days} "));
    }
    write_clock(parts, out);
}

/// Hours as they are, minutes and seconds of two digits, without a sign.
fn write_clock(parts: &Parts, out: &mut BytesMut) {
    put(out, format_args!("{}:{:02}:", parts.hours(), parts.minutes()));
    write_padded(parts.seconds_us() / 1_000_000, 2, out);
    write_fraction(parts.seconds_us() % 1_000_000, out);
}

fn write_iso(parts: &Parts, out: &mut BytesMut) {
    if parts.years == 0 && parts.months == 0 && parts.days == 0 && parts.time == 0 {
        return out.put_slice(b"PT0S");
    }
    out.put_u8(b'P');
    for (value, unit) in [(parts.years, 'Y'), (parts.months, 'M'), (parts.days, 'D')].into_iter().filter(|(n, _)| *n != 0) {
        put(out, format_args!("{value}{unit}"));
    }
    if parts.time == 0 {
        return;
    }
    out.put_u8(b'T');
    let sign = if parts.time < 0 { "-" } else { "" };
    for (value, unit) in [(parts.hours(), 'H'), (parts.minutes(), 'M')].into_iter().filter(|(n, _)| *n != 0) {
        put(out, format_args!("{sign}{value}{unit}"));
    }
    if parts.seconds_us() > 0 {
        put(out, format_args!("{sign}"));
        write_seconds(parts.seconds_us(), out);
        out.put_u8(b'S');
    }
}
