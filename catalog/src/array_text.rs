//! The text form of arrays: `{1,NULL,"a b"}`.

use crate::error::{SqlError, SqlResult, SqlState};

/// The most dimensions that an array may have.
pub const DIMENSIONS_MAX: usize = 6;

/// A part of an array's text form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A NULL.
    Null,
    /// A value's text.
    Value(String),
    /// A sub-array's text.
    Array(String),
}

/// How many dimensions an array's text form says that it has, at least 1: as many as there are braces in front.
///
/// # Errors
/// `54000` for more than [`DIMENSIONS_MAX`].
pub fn dimensions(text: &str) -> SqlResult<usize> {
    let braces = text.chars().filter(|c| !c.is_ascii_whitespace()).take_while(|c| *c == '{').count();
    check_dimensions(braces)?;
    Ok(braces.max(1))
}

/// # Errors
/// `54000` for more than [`DIMENSIONS_MAX`].
pub fn check_dimensions(count: usize) -> SqlResult<()> {
    if count <= DIMENSIONS_MAX {
        return Ok(());
    }
    let message = format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})");
    Err(SqlError::new(SqlState::ProgramLimitExceeded, message))
}

/// `22P02`: a text that is no array's.
pub fn malformed(text: &str, detail: &str) -> SqlError {
    SqlError::new(SqlState::InvalidTextRepresentation, format!("malformed array literal: \"{text}\"")).with_detail(detail)
}

/// `22P02`: an array's text whose sub-arrays differ in length or depth.
pub fn uneven(text: &str) -> SqlError {
    malformed(text, "Multidimensional arrays must have sub-arrays with matching dimensions.")
}

/// An array's text form taken apart: its elements in order, NULLs as none, sub-arrays as their own text.
pub fn elements(text: &str) -> SqlResult<Vec<Option<String>>> {
    let element = |part| match part {
        Part::Null => None,
        Part::Value(text) | Part::Array(text) => Some(text),
    };
    Ok(parts(text)?.into_iter().map(element).collect())
}

/// An array's text form taken apart into its elements in order.
pub fn parts(text: &str) -> SqlResult<Vec<Part>> {
    let malformed = |detail: &str| malformed(text, detail);
    let trimmed = text.trim();
    let inner = trimmed.strip_prefix('{').ok_or_else(|| malformed("Array value must start with \"{\"."))?;
    let mut parts = vec![];
    let mut chars = inner.char_indices().peekable();
    let skip_blanks = |chars: &mut Chars| {
        while chars.next_if(|(_, c)| c.is_ascii_whitespace()).is_some() {}
    };
    skip_blanks(&mut chars);
    if let Some((at, '}')) = chars.peek().copied() {
        return if inner[at + 1..].trim().is_empty() { Ok(vec![]) } else { Err(malformed("Junk after closing right brace.")) };
    }
    loop {
        skip_blanks(&mut chars);
        parts.push(match chars.peek().copied() {
            Some((start, '{')) => {
                Part::Array(sub_array(inner, start, &mut chars).ok_or_else(|| malformed("Unexpected end of input."))?)
            }
            Some((_, '"')) => Part::Value(quoted(&mut chars).ok_or_else(|| malformed("Unexpected end of input."))?),
            _ => {
                let element = unquoted(&mut chars).ok_or_else(|| malformed("Unexpected array element."))?;
                if element.eq_ignore_ascii_case("null") { Part::Null } else { Part::Value(element) }
            }
        });
        skip_blanks(&mut chars);
        match chars.next() {
            Some((_, ',')) => {}
            Some((at, '}')) if inner[at + 1..].trim().is_empty() => return Ok(parts),
            Some(_) => return Err(malformed("Unexpected array element.")),
            None => return Err(malformed("Unexpected end of input.")),
        }
    }
}

type Chars<'a> = std::iter::Peekable<std::str::CharIndices<'a>>;

/// The text of a nested array, whose braces count only outside quotes.
fn sub_array(text: &str, start: usize, chars: &mut Chars) -> Option<String> {
    let (mut depth, mut in_quotes) = (0, false);
    loop {
        let (at, c) = chars.next()?;
        match c {
            '\\' => {
                chars.next()?;
            }
            '"' => in_quotes = !in_quotes,
            '{' if !in_quotes => depth += 1,
            '}' if !in_quotes => {
                depth -= 1;
                if depth == 0 {
                    return Some(text[start..=at].to_string());
                }
            }
            _ => {}
        }
    }
}

fn quoted(chars: &mut Chars) -> Option<String> {
    chars.next();
    let mut element = String::new();
    loop {
        match chars.next()?.1 {
            '"' => return Some(element),
            '\\' => element.push(chars.next()?.1),
            c => element.push(c),
        }
    }
}

/// An element without quotes; blanks around it don't count, and there must be something.
fn unquoted(chars: &mut Chars) -> Option<String> {
    let mut element = String::new();
    let mut kept = 0;
    while let Some((_, c)) = chars.next_if(|(_, c)| !matches!(c, ',' | '}' | '{' | '"')) {
        if c == '\\' {
            element.push(chars.next()?.1);
            kept = element.len();
        } else {
            element.push(c);
            if !c.is_ascii_whitespace() {
                kept = element.len();
            }
        }
    }
    element.truncate(kept);
    (!element.is_empty()).then_some(element)
}
