//! The text forms of single values, read as Postgres reads them.

pub use thalweg_catalog::bytea::read as bytea;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// `22P02`: a text that is no value of a type.
pub fn invalid(type_name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::InvalidTextRepresentation, format!("invalid input syntax for type {type_name}: \"{text}\""))
}

/// `22003`: a number that its type can't hold.
pub fn out_of_range(type_name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, format!("value \"{text}\" is out of range for type {type_name}"))
}

/// Reads a `boolean`: any beginning of a word that tells which is meant.
pub fn boolean(text: &str) -> SqlResult<bool> {
    let word = text.trim().to_ascii_lowercase();
    let starts = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    if starts("true", 1) || starts("yes", 1) || word == "on" || word == "1" {
        Ok(true)
    } else if starts("false", 1) || starts("no", 1) || starts("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(invalid("boolean", text))
    }
}

/// Reads an integer type.
pub fn integer<T: TryFrom<i64>>(type_name: &str, text: &str) -> SqlResult<T> {
    let digits = text.trim();
    match digits.parse::<i64>() {
        Ok(value) => T::try_from(value).map_err(|_| out_of_range(type_name, text)),
        Err(error) => match error.kind() {
            std::num::IntErrorKind::PosOverflow | std::num::IntErrorKind::NegOverflow => Err(out_of_range(type_name, text)),
            _ => Err(invalid(type_name, text)),
        },
    }
}

/// Reads a floating-point type.
pub fn float<T: std::str::FromStr + Into<f64> + Copy>(type_name: &str, text: &str) -> SqlResult<T> {
    let trimmed = text.trim();
    let parsed: T = trimmed.parse().map_err(|_| invalid(type_name, text))?;
    // Rust reads what is too large as infinite; Postgres refuses it unless the text says infinity.
    if parsed.into().is_infinite() && trimmed.bytes().any(|b| b.is_ascii_digit()) {
        return Err(out_of_range(type_name, text));
    }
    Ok(parsed)
}

/// The 16 bytes of a `uuid`, with hyphens or without, in braces or not.
pub fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    let text = text.strip_prefix('{').map_or(Some(text), |rest| rest.strip_suffix('}'))?;
    let mut bytes = [0u8; 16];
    let mut count = 0;
    let mut after_group = false;
    for byte in text.bytes() {
        if byte == b'-' {
            if !after_group || count % 4 != 0 {
                return None;
            }
            after_group = false;
            continue;
        }
        let digit = (byte as char).to_digit(16)? as u8;
        if count == 32 {
            return None;
        }
        bytes[count / 2] = bytes[count / 2] << 4 | digit;
        count += 1;
        after_group = true;
    }
    (count == 32 && after_group).then_some(bytes)
}

/// Writes the 16 bytes of a `uuid` as Postgres shows them.
pub fn uuid_text(bytes: &[u8; 16]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// Checks the length of a `character varying(n)`: characters beyond may only be blanks, which are cut off.
pub fn varchar(text: &str, limit: u32) -> SqlResult<&str> {
    let Some((cut, _)) = text.char_indices().nth(limit as usize) else { return Ok(text) };
    if text[cut..].bytes().all(|b| b == b' ') {
        return Ok(&text[..cut]);
    }
    Err(SqlError::new(SqlState::StringDataRightTruncation, format!("value too long for type character varying({limit})")))
}

/// Pads a `character(n)` with blanks to its length.
pub fn char(text: &str, length: u32) -> SqlResult<String> {
    let trimmed = text.trim_end_matches(' ');
    let count = trimmed.chars().count();
    if count > length as usize {
        return Err(SqlError::new(SqlState::StringDataRightTruncation, format!("value too long for type character({length})")));
    }
    Ok(format!("{trimmed}{}", " ".repeat(length as usize - count)))
}
