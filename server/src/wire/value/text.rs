//! The text forms of single values, appended to a buffer.

use crate::wire::settings::ByteaOutput;
use bytes::{BufMut, BytesMut};
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::datetime::calendar::{DAY_US, civil_of_days, to_chrono};

/// Appends an integer.
pub fn write_integer(value: i64, out: &mut BytesMut) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.put_u8(b'-');
    }
    out.put_slice(&digits[at..]);
}

/// Appends a number of at least `width` digits.
pub(super) fn write_padded(value: u64, width: usize, out: &mut BytesMut) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    let mut rest = value;
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.put_slice(&digits[at.min(digits.len() - width)..]);
}

/// Appends a `real`.
pub fn write_float4(value: f32, extra_digits: i32, out: &mut BytesMut) {
    if extra_digits > 0 {
        write_float(f64::from(value), &format!("{value:e}"), 6, out);
    } else {
        write_float_rounded(f64::from(value), 6 + extra_digits, out);
    }
}

/// Appends a `double precision`.
pub fn write_float8(value: f64, extra_digits: i32, out: &mut BytesMut) {
    if extra_digits > 0 {
        write_float(value, &format!("{value:e}"), 15, out);
    } else {
        write_float_rounded(value, 15 + extra_digits, out);
    }
}

fn write_float_rounded(value: f64, digits: i32, out: &mut BytesMut) {
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    write_float(value, &format!("{mantissa}e{exponent}"), digits, out);
}

/// Lays out the digits of `scientific` (`d.ddde±x`) as C's `%g` does: plain from 10⁻⁴ up to 10^`plain_below`, else with an
/// exponent of at least two digits.
fn write_float(value: f64, scientific: &str, plain_below: i32, out: &mut BytesMut) {
    if value.is_nan() {
        return out.put_slice(b"NaN");
    }
    if value.is_infinite() {
        return out.put_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (negative, mantissa) = mantissa.strip_prefix('-').map_or((false, mantissa), |rest| (true, rest));
    if negative {
        out.put_u8(b'-');
    }
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    if value != 0.0 && !(-4..plain_below).contains(&exponent) {
        out.put_slice(mantissa.as_bytes());
        out.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
        return write_padded(u64::from(exponent.unsigned_abs()), 2, out);
    }
    if exponent < 0 {
        out.put_slice(b"0.");
        out.put_bytes(b'0', exponent.unsigned_abs() as usize - 1);
        return out.put_slice(&digits);
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.put_slice(&digits);
        out.put_bytes(b'0', whole - digits.len());
    } else {
        out.put_slice(&digits[..whole]);
        out.put_u8(b'.');
        out.put_slice(&digits[whole..]);
    }
}

/// Appends a `bytea`.
pub fn write_bytea(value: &[u8], output: ByteaOutput, out: &mut BytesMut) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match output {
        ByteaOutput::Hex => {
            out.put_slice(b"\\x");
            out.reserve(value.len() * 2);
            for byte in value {
                out.put_u8(HEX[usize::from(byte >> 4)]);
                out.put_u8(HEX[usize::from(byte & 15)]);
            }
        }
        ByteaOutput::Escape => {
            for byte in value {
                match byte {
                    b'\\' => out.put_slice(b"\\\\"),
                    0x20..=0x7e => out.put_u8(*byte),
                    _ => out.put_slice(&[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)]),
                }
            }
        }
    }
}

/// Appends year, month and day; whether the year is before Christ, which is said at the very end of a timestamp.
fn write_civil(days: i64, out: &mut BytesMut) -> bool {
    let (year, month, day) = civil_of_days(days);
    let before_christ = year <= 0;
    write_padded(if before_christ { 1 - year } else { year } as u64, 4, out);
    out.put_u8(b'-');
    write_padded(u64::from(month), 2, out);
    out.put_u8(b'-');
    write_padded(u64::from(day), 2, out);
    before_christ
}

/// Appends a `date`, given in days since 1970.
pub fn write_date(days: i32, out: &mut BytesMut) {
    match days {
        i32::MAX => out.put_slice(b"infinity"),
        i32::MIN => out.put_slice(b"-infinity"),
        _ => {
            if write_civil(i64::from(days), out) {
                out.put_slice(b" BC");
            }
        }
    }
}

/// Appends a `time`, given in microseconds.
pub fn write_time(us: i64, out: &mut BytesMut) {
    let seconds = us.unsigned_abs() / 1_000_000;
    write_padded(seconds / 3600, 2, out);
    out.put_u8(b':');
    write_padded(seconds / 60 % 60, 2, out);
    out.put_u8(b':');
    write_padded(seconds % 60, 2, out);
    write_fraction(us.unsigned_abs() % 1_000_000, out);
}

/// Appends a point and the digits of so many microseconds without closing zeros; nothing for none.
pub(super) fn write_fraction(us: u64, out: &mut BytesMut) {
    if us == 0 {
        return;
    }
    out.put_u8(b'.');
    let (mut us, mut width) = (us, 6);
    while us % 10 == 0 {
        us /= 10;
        width -= 1;
    }
    write_padded(us, width, out);
}

/// Appends a `timestamp`, given in microseconds since 1970, or in a zone a `timestamptz`.
pub fn write_timestamp(us: i64, zone: Option<&SessionTimeZone>, out: &mut BytesMut) {
    match us {
        i64::MAX => return out.put_slice(b"infinity"),
        i64::MIN => return out.put_slice(b"-infinity"),
        _ => {}
    }
    let offset = zone.map_or(0, |zone| zone.offset_at(&to_chrono(us)));
    let local = us.saturating_add(i64::from(offset) * 1_000_000);
    let before_christ = write_civil(local.div_euclid(DAY_US), out);
    out.put_u8(b' ');
    write_time(local.rem_euclid(DAY_US), out);
    if zone.is_some() {
        out.put_u8(if offset < 0 { b'-' } else { b'+' });
        let seconds = u64::from(offset.unsigned_abs());
        write_padded(seconds / 3600, 2, out);
        if seconds % 3600 != 0 {
            out.put_u8(b':');
            write_padded(seconds / 60 % 60, 2, out);
        }
        if seconds % 60 != 0 {
            out.put_u8(b':');
            write_padded(seconds % 60, 2, out);
        }
    }
    if before_christ {
        out.put_slice(b" BC");
    }
}

/// Appends an array's element, in quotes where it could be read as something else.
pub fn write_element(text: &[u8], out: &mut BytesMut) {
    let special = |b: &u8| matches!(b, b'"' | b'\\' | b'{' | b'}' | b',' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    if !text.is_empty() && !text.eq_ignore_ascii_case(b"null") && !text.iter().any(special) {
        return out.put_slice(text);
    }
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

/// Appends a record's field, in quotes where it could be read as something else.
pub fn write_field(text: &[u8], out: &mut BytesMut) {
    let special = |b: &u8| matches!(b, b'"' | b'\\' | b'(' | b')' | b',' | b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    if !text.is_empty() && !text.iter().any(special) {
        return out.put_slice(text);
    }
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(*byte);
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}
