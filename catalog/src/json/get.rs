//! Parts of JSON texts: members, elements and what is at a path, as slices of the text that they stand in.
//!
//! The texts are taken to be JSON, as [`super::check`] finds it. Of texts that are not, parts are found or not, and nothing
//! worse.

use super::Reader;
use crate::error::SqlResult;
use std::borrow::Cow;

/// What kind of value a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Object,
    Array,
    String,
    Number,
    Boolean,
    Null,
}

impl Kind {
    /// The kind of a value.
    pub fn of(text: &str) -> Kind {
        match text.trim_start().as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Its name, as `jsonb_typeof` gives it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::Null => "null",
        }
    }
}

/// Goes over the parts of an array or object.
struct Parts<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parts<'a> {
    /// Behind the bracket that the text begins with.
    fn of(text: &'a str) -> Parts<'a> {
        let at = text.len() - text.trim_start().len() + 1;
        Parts { text, at: at.min(text.len()) }
    }

    /// The next byte that is neither blank nor between parts.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r' | b',' | b':')).count();
        self.text.as_bytes().get(self.at).copied().filter(|b| !matches!(b, b']' | b'}'))
    }

    /// The next value, or key with its quotes; none at the end.
    fn next(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut depth = 0usize;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => self.pass_string(),
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => depth -= 1,
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => break,
                _ => {}
            }
            self.at += 1;
            if depth == 0 && matches!(first, b'"' | b'{' | b'[') {
                break;
            }
        }
        self.at = self.at.min(bytes.len());
        self.text.get(start..self.at)
    }

    /// To the quote that ends the string that begins here.
    fn pass_string(&mut self) {
        let bytes = self.text.as_bytes();
        self.at += 1;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'"' => return,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }
}

/// The value of a key of an object, the last one if there are several; none of anything else.
///
/// # Errors
/// `22P05` for a key that text can't hold.
pub fn member<'a>(text: &'a str, key: &str) -> SqlResult<Option<&'a str>> {
    if Kind::of(text) != Kind::Object {
        return Ok(None);
    }
    let mut parts = Parts::of(text);
    let mut found = None;
    while let Some(name) = parts.next() {
        let value = parts.next();
        if string(name)? == key {
            found = value;
        }
    }
    Ok(found)
}

/// The element of an array at a place from 0, or from −1 backwards; none of anything else.
pub fn element(text: &str, place: i64) -> Option<&str> {
    let place = if place >= 0 {
        usize::try_from(place).ok()?
    } else {
        length(text)?.checked_sub(usize::try_from(place.unsigned_abs()).ok()?)?
    };
    elements(text)?.nth(place)
}

/// How many elements an array has; none of anything else.
pub fn length(text: &str) -> Option<usize> {
    elements(text).map(Iterator::count)
}

pub(super) fn elements(text: &str) -> Option<impl Iterator<Item = &str>> {
    let mut parts = (Kind::of(text) == Kind::Array).then(|| Parts::of(text))?;
    Some(std::iter::from_fn(move || parts.next()))
}

/// The keys and values of an object; nothing of anything else.
///
/// # Errors
/// As [`member`].
pub(super) fn entries(text: &str) -> impl Iterator<Item = SqlResult<(Cow<'_, str>, &str)>> {
    let mut parts = (Kind::of(text) == Kind::Object).then(|| Parts::of(text));
    std::iter::from_fn(move || {
        let parts = parts.as_mut()?;
        let (name, value) = (parts.next()?, parts.next()?);
        Some(string(name).map(|name| (name, value)))
    })
}

/// What is at the end of a path of keys and places.
///
/// # Errors
/// As [`member`].
pub fn at_path<'a, 'p>(text: &'a str, path: impl IntoIterator<Item = &'p str>) -> SqlResult<Option<&'a str>> {
    let mut found = text;
    for step in path {
        let next = match Kind::of(found) {
            Kind::Object => member(found, step)?,
            // A place may have a sign and blanks before it.
            Kind::Array => step.trim_start().parse::<i64>().ok().and_then(|place| element(found, place)),
            _ => None,
        };
        match next {
            Some(next) => found = next,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// A value as text: strings without their quotes, nothing for `null`, everything else as it is written.
///
/// # Errors
/// `22P05` for a string that text can't hold.
pub fn as_text(value: &str) -> SqlResult<Option<Cow<'_, str>>> {
    match Kind::of(value) {
        Kind::Null => Ok(None),
        Kind::String => string(value.trim()).map(Some),
        _ => Ok(Some(Cow::Borrowed(value))),
    }
}

/// What a string in quotes stands for.
pub(super) fn string(quoted: &str) -> SqlResult<Cow<'_, str>> {
    let Some(rest) = quoted.strip_prefix('"') else { return Ok(Cow::Borrowed(quoted)) };
    match rest.strip_suffix('"') {
        Some(plain) if !plain.contains('\\') => Ok(Cow::Borrowed(plain)),
        _ => Reader { text: quoted, at: 0, depth: 0, written: 0 }.string().map(Cow::Owned),
    }
}
