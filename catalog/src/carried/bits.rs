//! Bit strings: `bit(n)` and `bit varying(n)`, as text of `0` and `1`.

use crate::error::{SqlError, SqlResult, SqlState};

/// The bits that a text stands for: digits, perhaps behind a `b`, or hexadecimal ones behind an `x`.
pub fn parse(text: &str) -> SqlResult<String> {
    let bad = |digit: char, kind: &str| {
        SqlError::new(SqlState::InvalidTextRepresentation, format!("\"{digit}\" is not a valid {kind} digit"))
    };
    if let Some(digits) = text.strip_prefix(['x', 'X']) {
        return digits.chars().map(|c| c.to_digit(16).map(|d| format!("{d:04b}")).ok_or_else(|| bad(c, "hexadecimal"))).collect();
    }
    let digits = text.strip_prefix(['b', 'B']).unwrap_or(text);
    match digits.chars().find(|c| !matches!(c, '0' | '1')) {
        Some(other) => Err(bad(other, "binary")),
        None => Ok(digits.to_string()),
    }
}

/// Refuses bits of another number than the type's.
pub(super) fn exactly(bits: String, length: Option<u32>) -> SqlResult<String> {
    match length {
        Some(length) if bits.len() != length as usize => Err(SqlError::new(
            SqlState::StringDataLengthMismatch,
            format!("bit string length {} does not match type bit({length})", bits.len()),
        )),
        _ => Ok(bits),
    }
}

/// Refuses more bits than the type has room for.
pub(super) fn at_most(bits: String, limit: Option<u32>) -> SqlResult<String> {
    match limit {
        Some(limit) if bits.len() > limit as usize => {
            Err(SqlError::new(SqlState::StringDataRightTruncation, format!("bit string too long for type bit varying({limit})")))
        }
        _ => Ok(bits),
    }
}
