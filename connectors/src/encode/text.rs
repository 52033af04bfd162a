//! Single values as text, the same in all text formats.

use crate::datetime::write_fraction;
use arrow::array::types::IntervalMonthDayNano;
use std::io::Write;

/// Writes an integer.
#[inline]
pub(super) fn write_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_digits(out, u128::from(value.unsigned_abs()), 1);
}

/// Writes at least so many digits.
fn write_digits(out: &mut Vec<u8>, value: u128, digits_min: usize) {
    // 2^128 has 39 digits.
    let mut digits = [b'0'; 40];
    let mut at = digits.len();
    let mut high = value;
    // Division of 128 bits is slow: most numbers are not that long.
    while high > u128::from(u64::MAX) {
        at -= 1;
        digits[at] = b'0' + (high % 10) as u8;
        high /= 10;
    }
    let mut low = high as u64;
    while low > 0 {
        at -= 1;
        digits[at] = b'0' + (low % 10) as u8;
        low /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len().saturating_sub(digits_min))..]);
}

/// Writes a decimal of units of 10^−scale; `trim` leaves out zeros at the end of the fraction.
pub(super) fn write_decimal(out: &mut Vec<u8>, value: i128, scale: i8, trim: bool) {
    if value < 0 {
        out.push(b'-');
    }
    let places = usize::try_from(scale).unwrap_or(0);
    let start = out.len();
    write_digits(out, value.unsigned_abs(), places + 1);
    if places > 0 {
        let point = out.len() - places;
        out.insert(point, b'.');
        debug_assert!(point > start);
        if trim {
            while out.last() == Some(&b'0') {
                out.pop();
            }
            if out.last() == Some(&b'.') {
                out.pop();
            }
        }
    }
}

/// Writes a finite float with the fewest digits that read back as the same.
pub(super) fn write_float<T: Into<f64> + std::fmt::Display + std::fmt::LowerExp + Copy>(out: &mut Vec<u8>, value: T) {
    let size = value.into().abs();
    // Writing to a vector can't fail.
    let _ = if size == 0.0 || (1e-5..1e15).contains(&size) { write!(out, "{value}") } else { write!(out, "{value:e}") };
}

/// The word for a float that is not finite.
pub(super) fn not_finite(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value.is_infinite() {
        Some(if value > 0.0 { "Infinity" } else { "-Infinity" })
    } else {
        None
    }
}

/// Writes `\x` and hexadecimal digits.
pub(super) fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Writes an interval as Postgres does: `1 year 2 mons 3 days 04:05:06.7`.
pub(super) fn write_interval(out: &mut Vec<u8>, interval: IntervalMonthDayNano) {
    let start = out.len();
    let parts = [(interval.months / 12, "year"), (interval.months % 12, "mon"), (interval.days, "day")];
    for (count, unit) in parts.into_iter().filter(|(count, _)| *count != 0) {
        if out.len() > start {
            out.push(b' ');
        }
        write_integer(out, i64::from(count));
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if count != 1 {
            out.push(b's');
        }
    }
    let us = interval.nanoseconds / 1000;
    if us == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(b' ');
    }
    if us < 0 {
        out.push(b'-');
    }
    let (seconds, fraction) = (us.unsigned_abs() / 1_000_000, us.unsigned_abs() % 1_000_000);
    write_digits(out, u128::from(seconds / 3600), 2);
    out.push(b':');
    write_digits(out, u128::from(seconds / 60 % 60), 2);
    out.push(b':');
    write_digits(out, u128::from(seconds % 60), 2);
    write_fraction(out, fraction as i64);
}

#[cfg(test)]
mod tests;
