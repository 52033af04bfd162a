//! JSON, from bytes straight into columns: one pass, nothing in between.
//!
//! Fields that nobody reads are stepped over; that they are well-formed is still checked. RFC 8259 to the letter: no comments,
//! no trailing commas, no bare words, no control characters in strings. Of two equal keys the last one wins.

use crate::decode::column::ColumnBuilder;
use crate::decode::fault::{Fault, Fit};
use crate::decode::names::{Names, Slot};
use crate::decode::value::Misfit;
use crate::scan::string_stop;
use thalweg_catalog::SqlType;

/// How deep arrays and objects may stand in each other.
const DEPTH_MAX: usize = 64;

/// Reads records that are one JSON object each.
pub(crate) struct JsonDecoder {
    names: Names,
    scratch: Vec<u8>,
}

impl JsonDecoder {
    pub(crate) fn new(names: Names) -> JsonDecoder {
        JsonDecoder { names, scratch: vec![] }
    }

    /// Appends one row. After an error the builders hold parts of it, to be cut off.
    pub(crate) fn push(&mut self, record: &[u8], builders: &mut [ColumnBuilder], row: usize) -> Fit<()> {
        let mut parser = Parser { scanner: Scanner::new(record), scratch: &mut self.scratch };
        parser.scanner.space();
        if parser.scanner.peek() != b'{' {
            return Err(parser.scanner.malformed("a JSON object"));
        }
        parser.object(&mut self.names, builders, row, 1)?;
        parser.scanner.end()
    }
}

/// Appends one JSON value; for columns of arrays and records in other formats.
pub(crate) fn push_value(text: &[u8], builder: &mut ColumnBuilder) -> Fit<()> {
    let mut parser = Parser { scanner: Scanner::new(text), scratch: &mut vec![] };
    parser.scanner.space();
    parser.value(builder, 1)?;
    parser.scanner.end()
}

/// Checks that a text is one JSON value.
pub(crate) fn check(text: &[u8]) -> Fit<()> {
    let mut scanner = Scanner::new(text);
    scanner.space();
    scanner.skip(1)?;
    scanner.end()
}

/// A place in the text.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Whether a string held a byte that is not ASCII, so that the text has to be checked to be UTF-8. Outside of strings
    /// such a byte is an error anyway.
    wide_text: bool,
}

impl<'a> Scanner<'a> {
    fn new(bytes: &'a [u8]) -> Scanner<'a> {
        Scanner { bytes, at: 0, wide_text: false }
    }

    #[cold]
    fn malformed(&self, expected: &str) -> Fault {
        if self.at >= self.bytes.len() {
            Fault::new(format!("malformed JSON: it ends where {expected} should stand"))
        } else {
            Fault::new(format!("malformed JSON at byte {}: expected {expected}", self.at + 1))
        }
    }

    /// The byte here; 0, which no token starts with, at the end.
    #[inline(always)]
    fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    #[inline(always)]
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte;
        self.at += usize::from(found);
        found
    }

    fn end(&mut self) -> Fit<()> {
        self.space();
        if self.at < self.bytes.len() {
            return Err(self.malformed("the end of the record"));
        }
        if self.wide_text && std::str::from_utf8(self.bytes).is_err() {
            return Err(Fault::new("invalid UTF-8"));
        }
        Ok(())
    }

    /// Steps over a string; gives what stands between its quotes and whether that holds escapes.
    #[inline(always)]
    fn string(&mut self) -> Fit<(&'a [u8], bool)> {
        let start = self.at + 1;
        let stop = string_stop(self.bytes, start, &mut self.wide_text);
        if self.bytes.get(stop) == Some(&b'"') {
            self.at = stop + 1;
            return Ok((&self.bytes[start..stop], false));
        }
        self.string_with_escapes(start, stop)
    }

    fn string_with_escapes(&mut self, start: usize, mut stop: usize) -> Fit<(&'a [u8], bool)> {
        loop {
            self.at = stop;
            match self.bytes.get(stop) {
                Some(b'"') => {
                    self.at = stop + 1;
                    return Ok((&self.bytes[start..stop], true));
                }
                Some(b'\\') => match self.bytes.get(stop + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => stop += 2,
                    Some(b'u') if hex4(self.bytes, stop + 2).is_some() => stop += 6,
                    _ => return Err(self.malformed("a valid escape")),
                },
                Some(_) => return Err(self.malformed("no control character in a string")),
                None => return Err(self.malformed("the end of a string")),
            }
            stop = string_stop(self.bytes, stop, &mut self.wide_text);
        }
    }

    /// Steps over a number; gives its text.
    #[inline]
    fn number(&mut self) -> Fit<&'a [u8]> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if !self.eat(b'-') {
                self.eat(b'+');
            }
            self.digits()?;
        }
        Ok(&self.bytes[start..self.at])
    }

    #[inline(always)]
    fn digits(&mut self) -> Fit<()> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start { Err(self.malformed("a digit")) } else { Ok(()) }
    }

    /// Steps over an integer of up to 18 digits and gives it; stays where it is if there is another kind of number.
    #[inline(always)]
    fn short_integer(&mut self) -> Option<i64> {
        let negative = self.peek() == b'-';
        let start = self.at + usize::from(negative);
        let (mut at, mut value) = (start, 0i64);
        while let Some(digit @ b'0'..=b'9') = self.bytes.get(at) {
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
            at += 1;
        }
        let digits = at - start;
        let leading_zero = digits > 1 && self.bytes[start] == b'0';
        if digits == 0 || digits > 18 || leading_zero || matches!(self.bytes.get(at), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.at = at;
        Some(if negative { -value } else { value })
    }

    #[inline]
    fn word(&mut self, word: &[u8]) -> Fit<()> {
        if self.bytes[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.malformed("a JSON value"))
        }
    }

    /// Steps over a value of any kind.
    fn skip(&mut self, depth: usize) -> Fit<()> {
        match self.peek() {
            b'"' => self.string().map(|_| ()),
            b'-' | b'0'..=b'9' => self.number().map(|_| ()),
            b'{' => self.skip_object(depth),
            b'[' => self.skip_array(depth),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => Err(self.malformed("a JSON value")),
        }
    }

    fn skip_object(&mut self, depth: usize) -> Fit<()> {
        self.enter(depth)?;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != b'"' {
                return Err(self.malformed("a key"));
            }
            self.string()?;
            self.colon()?;
            self.skip(depth + 1)?;
            if !self.more(b'}')? {
                return Ok(());
            }
        }
    }

    fn skip_array(&mut self, depth: usize) -> Fit<()> {
        self.enter(depth)?;
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            self.skip(depth + 1)?;
            if !self.more(b']')? {
                return Ok(());
            }
        }
    }

    /// Steps over the bracket that opens an object or array, and the space behind it.
    #[inline(always)]
    fn enter(&mut self, depth: usize) -> Fit<()> {
        if depth > DEPTH_MAX {
            return Err(Fault::new(format!("JSON is nested more than {DEPTH_MAX} deep")));
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    #[inline(always)]
    fn colon(&mut self) -> Fit<()> {
        self.space();
        if !self.eat(b':') {
            return Err(self.malformed("\":\""));
        }
        self.space();
        Ok(())
    }

    /// Steps over the comma before another item, or over the closing bracket; true for another item.
    #[inline(always)]
    fn more(&mut self, close: u8) -> Fit<bool> {
        self.space();
        if self.eat(b',') {
            self.space();
            return Ok(true);
        }
        if self.eat(close) { Ok(false) } else { Err(self.malformed("\",\" or a closing bracket")) }
    }
}

/// Puts the values of a text into builders.
struct Parser<'a, 's> {
    scanner: Scanner<'a>,
    /// Strings without their escapes.
    scratch: &'s mut Vec<u8>,
}

impl Parser<'_, '_> {
    fn object(&mut self, names: &mut Names, builders: &mut [ColumnBuilder], row: usize, depth: usize) -> Fit<()> {
        self.scanner.enter(depth)?;
        names.begin();
        let mut place = 0;
        let mut more = !self.scanner.eat(b'}');
        while more {
            let slot = self.key(names, place)?;
            self.scanner.colon()?;
            match slot.builder {
                Some(index) => {
                    let builder = &mut builders[index];
                    let again = builder.len() > row;
                    if names.accept(index, slot, again) {
                        if again {
                            builder.truncate(row);
                        }
                        self.value(builder, depth + 1).map_err(|fault| fault.within(&builder.name))?;
                    } else {
                        self.scanner.skip(depth + 1)?;
                    }
                }
                None => self.scanner.skip(depth + 1)?,
            }
            place += 1;
            more = self.scanner.more(b'}')?;
        }
        for builder in builders {
            if builder.len() == row {
                builder.append_null()?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn key(&mut self, names: &mut Names, place: usize) -> Fit<Slot> {
        if let Some((slot, length)) = names.expected(place, &self.scanner.bytes[self.scanner.at..]) {
            self.scanner.at += length;
            return Ok(slot);
        }
        self.unexpected_key(names, place)
    }

    fn unexpected_key(&mut self, names: &mut Names, place: usize) -> Fit<Slot> {
        let start = self.scanner.at;
        if self.scanner.peek() != b'"' {
            return Err(self.scanner.malformed("a key"));
        }
        let (mut name, escaped) = self.scanner.string()?;
        if escaped {
            unescape(name, self.scratch)?;
            name = self.scratch;
        }
        // Checked here, since a key that is expected is not looked at again.
        let name = std::str::from_utf8(name).map_err(|_| Fault::new("invalid UTF-8"))?;
        Ok(names.look_up(place, &self.scanner.bytes[start..self.scanner.at], name))
    }

    #[inline]
    fn value(&mut self, builder: &mut ColumnBuilder, depth: usize) -> Fit<()> {
        match self.scanner.peek() {
            b'"' => self.text(builder),
            b'-' | b'0'..=b'9' => {
                let start = self.scanner.at;
                if let Some(value) = self.scanner.short_integer() {
                    if builder.append_integer(value) {
                        return Ok(());
                    }
                    self.scanner.at = start;
                }
                builder.append_number(self.scanner.number()?)
            }
            b'n' => {
                self.scanner.word(b"null")?;
                builder.append_null()
            }
            b't' => {
                self.scanner.word(b"true")?;
                builder.append_boolean(true)
            }
            b'f' => {
                self.scanner.word(b"false")?;
                builder.append_boolean(false)
            }
            b'{' => self.record(builder, depth),
            b'[' => self.array(builder, depth),
            _ => Err(self.scanner.malformed("a JSON value")),
        }
    }

    #[inline]
    fn text(&mut self, builder: &mut ColumnBuilder) -> Fit<()> {
        let start = self.scanner.at;
        let (text, escaped) = self.scanner.string()?;
        if builder.keeps_json() {
            return builder.append_json(&self.scanner.bytes[start..self.scanner.at]);
        }
        if !escaped {
            return builder.append_text(text);
        }
        unescape(text, self.scratch)?;
        builder.append_text(self.scratch)
    }

    fn record(&mut self, builder: &mut ColumnBuilder, depth: usize) -> Fit<()> {
        let row = builder.len();
        let Some((names, fields)) = builder.record() else { return self.raw(builder, depth) };
        self.object(names, fields, row, depth)?;
        builder.end_record();
        Ok(())
    }

    fn array(&mut self, builder: &mut ColumnBuilder, depth: usize) -> Fit<()> {
        let Some(items) = builder.items() else { return self.raw(builder, depth) };
        self.scanner.enter(depth)?;
        let mut more = !self.scanner.eat(b']');
        while more {
            self.value(items, depth + 1)?;
            more = self.scanner.more(b']')?;
        }
        builder.end_array()
    }

    /// An object or array into a column that keeps its text.
    fn raw(&mut self, builder: &mut ColumnBuilder, depth: usize) -> Fit<()> {
        let start = self.scanner.at;
        self.scanner.skip(depth)?;
        builder.append_json(&self.scanner.bytes[start..self.scanner.at])
    }
}

/// Writes what a string without its quotes means; its escapes are known to be well-formed.
fn unescape(text: &[u8], out: &mut Vec<u8>) -> Fit<()> {
    out.clear();
    let mut rest = text;
    while let Some(place) = rest.iter().position(|byte| *byte == b'\\') {
        out.extend_from_slice(&rest[..place]);
        let (plain, length) = match rest.get(place + 1) {
            Some(b'b') => (0x08, 2),
            Some(b'f') => (0x0c, 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b't') => (b'\t', 2),
            Some(b'u') => {
                let (character, length) = unicode_escape(rest, place)?;
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[place + length..];
                continue;
            }
            Some(other) => (*other, 2),
            None => return Err(Fault::new("malformed JSON: a string ends in an escape")),
        };
        out.push(plain);
        rest = &rest[place + length..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// The character of a `\u` escape, or of two that make up a pair, and their length.
fn unicode_escape(text: &[u8], at: usize) -> Fit<(char, usize)> {
    let lone = || Fault::new("malformed JSON: half of a surrogate pair");
    let first = hex4(text, at + 2).ok_or_else(lone)?;
    if first == 0 {
        return Err(Fault::new("\\u0000 cannot be converted to text"));
    }
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 6));
    }
    let second = match text.get(at + 6..at + 8) {
        Some(b"\\u") => hex4(text, at + 8).ok_or_else(lone)?,
        _ => return Err(lone()),
    };
    if !(0xd800..0xdc00).contains(&first) || !(0xdc00..0xe000).contains(&second) {
        return Err(lone());
    }
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)).map(|c| (c, 12)).ok_or_else(lone)
}

fn hex4(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 4)?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// Appends JSON as its type keeps it.
pub(crate) fn push(bytes: &mut Vec<u8>, sql_type: &SqlType, text: &[u8]) -> Fit<()> {
    if *sql_type != SqlType::Jsonb {
        bytes.extend_from_slice(text);
        return Ok(());
    }
    let misfit = || Fault::misfit(Misfit::Syntax, sql_type, text);
    let checked = std::str::from_utf8(text).map_err(|_| misfit())?;
    bytes.extend_from_slice(thalweg_catalog::json::canonical(checked).map_err(|_| misfit())?.as_bytes());
    Ok(())
}
