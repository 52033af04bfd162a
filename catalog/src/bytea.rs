//! The text form of `bytea`: `\x` and hexadecimal digits, or the older one with escapes.

use crate::error::{SqlError, SqlResult, SqlState};

/// Reads a `bytea`.
///
/// # Errors
/// `22023` for bad digits, `22P02` for a bad escape.
pub fn read(text: &str) -> SqlResult<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return read_hex(hex);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match rest {
            [b'\\', tail @ ..] => {
                bytes.push(b'\\');
                rest = tail;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            _ => {
                return Err(SqlError::new(SqlState::InvalidTextRepresentation, "invalid input syntax for type bytea"));
            }
        }
    }
    Ok(bytes)
}

fn read_hex(hex: &str) -> SqlResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(hex.len() / 2);
    let mut high: Option<u8> = None;
    for c in hex.chars() {
        if c.is_ascii_whitespace() && high.is_none() {
            continue;
        }
        let digit =
            c.to_digit(16).ok_or_else(|| SqlError::invalid_parameter(format!("invalid hexadecimal digit: \"{c}\"")))? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(first) => bytes.push(first << 4 | digit),
        }
    }
    if high.is_some() {
        return Err(SqlError::invalid_parameter("invalid hexadecimal data: odd number of digits"));
    }
    Ok(bytes)
}
