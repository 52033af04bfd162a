//! JSON text: checked as Postgres checks it, and in the form that `jsonb` keeps: keys once each, shortest first, numbers written out.

pub mod contains;
pub mod get;

use crate::error::{SqlError, SqlResult, SqlState};

/// How deep arrays and objects may be nested.
const DEPTH_MAX: usize = 1000;

/// The most digits of a number on either side of its point, as of `numeric` in Postgres.
const DIGITS_MAX: i64 = 131_072;

/// How many bytes the numbers of a text may take when they are written out: a few digits can stand for a hundred thousand.
const WRITTEN_MAX: usize = 1 << 28;

/// How much of a text an error shows, in characters.
const SHOWN_MAX: usize = 50;

/// Checks that a text is JSON.
///
/// # Errors
/// `22P02` with what is wrong in the detail.
pub fn check(text: &str) -> SqlResult<()> {
    canonical(text).map(drop)
}

/// The text of the value that `jsonb` makes of a JSON text.
///
/// # Errors
/// As [`check`]; `22003` for a number that is too large, `54000` for numbers that are too long together.
pub fn canonical(text: &str) -> SqlResult<String> {
    let mut reader = Reader { text, at: 0, depth: 0, written: 0 };
    let mut out = String::with_capacity(text.len());
    reader.value(&mut out, |found| format!("Expected JSON value, but found \"{found}\"."))?;
    match reader.peek() {
        None => Ok(out),
        Some(_) => Err(reader.unexpected(|found| format!("Expected end of input, but found \"{found}\"."))),
    }
}

/// Reads a text from the front.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// How many bytes numbers have taken so far.
    written: usize,
}

impl<'a> Reader<'a> {
    /// The next byte that is no blank.
    fn peek(&mut self) -> Option<u8> {
        let blanks = self.text[self.at..].bytes().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += blanks;
        self.text.as_bytes().get(self.at).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// The word, number, string or sign that stands here.
    fn token(&self) -> &'a str {
        let rest = &self.text[self.at..];
        let word = rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '+' | '.')).unwrap_or(rest.len());
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = match rest.as_bytes().first() {
            Some(b'"') => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            _ => word.max(first),
        };
        &rest[..end]
    }

    fn unexpected(&mut self, detail: impl FnOnce(&str) -> String) -> SqlError {
        match self.peek() {
            None => invalid("The input string ended unexpectedly."),
            Some(byte) if byte.is_ascii_punctuation() && byte != b'-' || is_word(self.token()) => {
                invalid(detail(&shown(self.token())))
            }
            Some(_) => invalid(format!("Token \"{}\" is invalid.", shown(self.token()))),
        }
    }

    /// Reads a value and appends its `jsonb` form.
    fn value(&mut self, out: &mut String, detail: impl FnOnce(&str) -> String) -> SqlResult<()> {
        match self.peek() {
            Some(b'{') => self.nested(out, Reader::object),
            Some(b'[') => self.nested(out, Reader::array),
            Some(b'"') => {
                let string = self.string()?;
                put_string(&string, out);
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(out),
            Some(b't' | b'f' | b'n') if ["true", "false", "null"].contains(&self.token()) => {
                out.push_str(self.token());
                self.at += self.token().len();
                Ok(())
            }
            _ => Err(self.unexpected(detail)),
        }
    }

    fn nested(&mut self, out: &mut String, read: fn(&mut Self, &mut String) -> SqlResult<()>) -> SqlResult<()> {
        if self.depth == DEPTH_MAX {
            return Err(SqlError::new(SqlState::StatementTooComplex, "JSON is nested too deeply"));
        }
        self.depth += 1;
        self.at += 1;
        read(self, out)?;
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self, out: &mut String) -> SqlResult<()> {
        out.push('[');
        if !self.accept(b']') {
            self.value(out, |found| format!("Expected array element or \"]\", but found \"{found}\"."))?;
            while !self.accept(b']') {
                if !self.accept(b',') {
                    return Err(self.unexpected(|found| format!("Expected \",\" or \"]\", but found \"{found}\".")));
                }
                out.push_str(", ");
                self.value(out, |found| format!("Expected JSON value, but found \"{found}\"."))?;
            }
        }
        out.push(']');
        Ok(())
    }

    fn object(&mut self, out: &mut String) -> SqlResult<()> {
        let mut entries: Vec<(String, String)> = vec![];
        while !self.accept(b'}') {
            if !entries.is_empty() && !self.accept(b',') {
                return Err(self.unexpected(|found| format!("Expected \",\" or \"}}\", but found \"{found}\".")));
            }
            if self.peek() != Some(b'"') {
                let wanted = if entries.is_empty() { "string or \"}\"" } else { "string" };
                return Err(self.unexpected(|found| format!("Expected {wanted}, but found \"{found}\".")));
            }
            let key = self.string()?;
            if !self.accept(b':') {
                return Err(self.unexpected(|found| format!("Expected \":\", but found \"{found}\".")));
            }
            let mut value = String::new();
            self.value(&mut value, |found| format!("Expected JSON value, but found \"{found}\"."))?;
            entries.push((key, value));
        }
        // The sort is stable: of equal keys the last one counts.
        entries.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        out.push('{');
        let last = |at: usize| entries.get(at + 1).is_none_or(|(next, _)| *next != entries[at].0);
        for (count, at) in (0..entries.len()).filter(|at| last(*at)).enumerate() {
            out.push_str(if count > 0 { ", " } else { "" });
            put_string(&entries[at].0, out);
            out.push_str(": ");
            out.push_str(&entries[at].1);
        }
        out.push('}');
        Ok(())
    }

    /// Reads a string in quotes; what it stands for.
    fn string(&mut self) -> SqlResult<String> {
        self.at += 1;
        let mut string = String::new();
        let text = self.text;
        let mut chars = text[self.at..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(string);
                }
                '\\' => {
                    let Some((_, escaped)) = chars.next() else { break };
                    string.push(match escaped {
                        '"' | '\\' | '/' => escaped,
                        'b' => '\u{8}',
                        'f' => '\u{c}',
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        'u' => unicode(&mut chars)?,
                        other => return Err(invalid(format!("Escape sequence \"\\{other}\" is invalid."))),
                    });
                }
                c if c < ' ' => return Err(invalid(format!("Character with value 0x{:02x} must be escaped.", c as u32))),
                c => string.push(c),
            }
        }
        Err(invalid(format!("Token \"{}\" is invalid.", shown(&text[self.at - 1..]))))
    }

    fn number(&mut self, out: &mut String) -> SqlResult<()> {
        let token = self.token();
        let (negative, digits) = token.strip_prefix('-').map_or((false, token), |rest| (true, rest));
        let (mantissa, exponent) = digits.split_once(['e', 'E']).map_or((digits, "0"), |(m, e)| (m, e));
        let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let leads_with_zero = whole.len() > 1 && whole.starts_with('0');
        let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if !are_digits(whole) || leads_with_zero || fraction.is_some_and(|f| !are_digits(f)) || !are_digits(exponent_digits) {
            return Err(invalid(format!("Token \"{}\" is invalid.", shown(token))));
        }
        self.at += token.len();
        let start = out.len();
        put_number(negative, whole, fraction.unwrap_or(""), exponent.parse().unwrap_or(i64::MAX), out)?;
        self.written += out.len() - start;
        if self.written > WRITTEN_MAX {
            let message = format!("the numbers of a JSON value take more than {WRITTEN_MAX} bytes");
            return Err(SqlError::new(SqlState::ProgramLimitExceeded, message));
        }
        Ok(())
    }
}

/// Four hexadecimal digits, or eight for what needs two of them.
fn unicode(chars: &mut std::str::CharIndices<'_>) -> SqlResult<char> {
    let first = hex(chars)?;
    let code = match first {
        0 => {
            return Err(SqlError::new(SqlState::UntranslatableCharacter, "unsupported Unicode escape sequence")
                .with_detail("\\u0000 cannot be converted to text."));
        }
        0xD800..=0xDBFF => {
            let low = match (chars.next(), chars.next()) {
                (Some((_, '\\')), Some((_, 'u'))) => hex(chars)?,
                _ => 0,
            };
            if !(0xDC00..=0xDFFF).contains(&low) {
                return Err(invalid("Unicode low surrogate must follow a high surrogate."));
            }
            0x10000 + ((first - 0xD800) << 10) + (low - 0xDC00)
        }
        code => code,
    };
    char::from_u32(code).ok_or_else(|| invalid("Unicode low surrogate must follow a high surrogate."))
}

fn hex(chars: &mut std::str::CharIndices<'_>) -> SqlResult<u32> {
    (0..4).try_fold(0, |code, _| {
        let digit = chars.next().and_then(|(_, c)| c.to_digit(16));
        let digit = digit.ok_or_else(|| invalid("\"\\u\" must be followed by four hexadecimal digits."))?;
        Ok(code << 4 | digit)
    })
}

/// Appends a number without its exponent; the decimal places that were written stay.
fn put_number(negative: bool, whole: &str, fraction: &str, exponent: i64, out: &mut String) -> SqlResult<()> {
    let digits: String = format!("{whole}{fraction}");
    let point = whole.len() as i64 + exponent.clamp(-2 * DIGITS_MAX, 2 * DIGITS_MAX);
    let places = (digits.len() as i64 - point).max(0);
    if digits.bytes().any(|b| b != b'0') && (point > DIGITS_MAX || places > DIGITS_MAX) {
        return Err(SqlError::new(SqlState::NumericValueOutOfRange, "value overflows numeric format"));
    }
    let digit = |at: i64| usize::try_from(at).ok().and_then(|at| digits.as_bytes().get(at)).map_or('0', |b| char::from(*b));
    let before: String = (0..point.clamp(0, DIGITS_MAX)).map(digit).collect();
    let before = before.trim_start_matches('0');
    if negative && digits.bytes().any(|b| b != b'0') {
        out.push('-');
    }
    out.push_str(if before.is_empty() { "0" } else { before });
    if places > 0 {
        out.push('.');
        out.extend((point..point + places.min(DIGITS_MAX)).map(digit));
    }
    Ok(())
}

/// Appends a string in quotes.
fn put_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn is_word(token: &str) -> bool {
    ["true", "false", "null"].contains(&token) || token.strip_prefix('-').unwrap_or(token).parse::<f64>().is_ok()
}

fn shown(token: &str) -> String {
    token.chars().take(SHOWN_MAX).collect()
}

fn invalid(detail: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::InvalidTextRepresentation, "invalid input syntax for type json").with_detail(detail)
}

#[cfg(test)]
mod tests;
