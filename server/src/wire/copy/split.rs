//! Lines of the text and CSV formats: where one ends, wherever the client cut its data, and which fields it has.

use super::options::{CopyFormat, CopyOptions};
use super::write::bad_format;
use std::ops::Range;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// The longest line that is taken, in bytes.
const LINE_BYTES_MAX: usize = 256 << 20;

/// Cuts data into lines.
pub struct LineSplitter {
    csv: bool,
    quote: u8,
    escape: u8,
    buffer: Vec<u8>,
    /// Where the current line starts, and up to where it was looked at.
    start: usize,
    seen: usize,
    /// What was before `seen`: a backslash (or in CSV, within quotes, an escape) that takes the next byte with it.
    escaped: bool,
    in_quotes: bool,
    /// Whether lines end with a carriage return too, by the first line; none before that.
    carriage_returns: Option<bool>,
    /// Whether the marker `\.` has come: nothing after it counts.
    ended: bool,
}

impl LineSplitter {
    /// A splitter of data with these options.
    pub fn new(options: &CopyOptions) -> LineSplitter {
        LineSplitter {
            csv: options.format == CopyFormat::Csv,
            quote: options.quote,
            escape: options.escape,
            buffer: vec![],
            start: 0,
            seen: 0,
            escaped: false,
            in_quotes: false,
            carriage_returns: None,
            ended: false,
        }
    }

    /// Adds data.
    ///
    /// # Errors
    /// `54000` for a line without end.
    pub fn push(&mut self, data: &[u8]) -> SqlResult<()> {
        if self.ended {
            return Ok(());
        }
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.seen -= self.start;
            self.start = 0;
        }
        if self.buffer.len() + data.len() > LINE_BYTES_MAX + crate::wire::message::MESSAGE_BYTES_MAX {
            return Err(SqlError::new(SqlState::ProgramLimitExceeded, "a line of COPY data is too long"));
        }
        self.buffer.extend_from_slice(data);
        Ok(())
    }

    /// Where the next line is, without its end: a whole one, or at the end of all data (`last`) what is left.
    ///
    /// # Errors
    /// `22P04` for line ends of two kinds, and for quotes that are not closed.
    pub fn next_line(&mut self, last: bool) -> SqlResult<Option<Range<usize>>> {
        if self.ended {
            return Ok(None);
        }
        while let Some(byte) = self.buffer.get(self.seen).copied() {
            self.seen += 1;
            if self.ends_line(byte) {
                let (start, end) = (self.start, self.seen - 1);
                self.start = self.seen;
                return self.line(start, end);
            }
        }
        if !last || self.start == self.buffer.len() {
            return Ok(None);
        }
        if self.in_quotes {
            return Err(bad_format("unterminated CSV quoted field"));
        }
        let (start, end) = (self.start, self.buffer.len());
        self.start = end;
        self.line(start, end)
    }

    /// The bytes of the line that was found last; valid up to the next [`LineSplitter::push`].
    pub fn bytes(&self, line: Range<usize>) -> &[u8] {
        &self.buffer[line]
    }

    /// Moves on by a byte; whether it is a line's end.
    fn ends_line(&mut self, byte: u8) -> bool {
        if !self.csv {
            let escaped = std::mem::take(&mut self.escaped);
            self.escaped = byte == b'\\' && !escaped;
            return byte == b'\n' && !escaped;
        }
        if self.in_quotes && self.escape != self.quote && byte == self.escape && !self.escaped {
            self.escaped = true;
            return false;
        }
        if byte == self.quote && !self.escaped {
            self.in_quotes = !self.in_quotes;
        }
        self.escaped = false;
        byte == b'\n' && !self.in_quotes
    }

    fn line(&mut self, start: usize, end: usize) -> SqlResult<Option<Range<usize>>> {
        let returns = self.buffer[start..end].ends_with(b"\r");
        let expected = *self.carriage_returns.get_or_insert(returns);
        if expected && !returns && end < self.buffer.len() {
            return Err(bad_format("unquoted newline found in data").with_hint("Use \"\\n\" to represent newline."));
        }
        if !expected && returns && !self.csv {
            return Err(
                bad_format("literal carriage return found in data").with_hint("Use \"\\r\" to represent carriage return.")
            );
        }
        let line = start..if returns && expected { end - 1 } else { end };
        if &self.buffer[line.clone()] == b"\\." {
            self.ended = true;
            return Ok(None);
        }
        Ok(Some(line))
    }
}

/// The fields of a line, NULLs as none. The buffers are used again for the next line.
#[derive(Default)]
pub struct Fields {
    bytes: Vec<u8>,
    ends: Vec<(usize, Kind)>,
}

/// What a field is beyond its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Null,
    /// Quoted, and like the null string all the same.
    QuotedNull,
}

/// How a column reads what may be NULL.
#[derive(Clone, Copy, Default)]
pub struct NullRule {
    /// Nothing is NULL.
    pub force_not_null: bool,
    /// Even a quoted null string is NULL.
    pub force_null: bool,
}

impl Fields {
    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field's value, none for NULL.
    pub fn get(&self, at: usize, rule: NullRule) -> Option<&[u8]> {
        let (end, kind) = self.ends[at];
        let start = if at == 0 { 0 } else { self.ends[at - 1].0 };
        let null = match kind {
            Kind::Plain => false,
            Kind::Null => !rule.force_not_null,
            Kind::QuotedNull => rule.force_null,
        };
        (!null).then(|| &self.bytes[start..end])
    }

    /// Takes a line of the text format apart.
    pub fn split_text(&mut self, line: &[u8], options: &CopyOptions) {
        self.bytes.clear();
        self.ends.clear();
        let mut raw_start = 0;
        let mut at = 0;
        loop {
            match line.get(at) {
                Some(b'\\') if at + 1 < line.len() => {
                    at = self.unescape(line, at + 1);
                    continue;
                }
                Some(byte) if *byte != options.delimiter => self.bytes.push(*byte),
                end => {
                    // Whether it is NULL is told by how it was written, before escapes.
                    let null = &line[raw_start..at] == options.null.as_bytes();
                    self.ends.push((self.bytes.len(), if null { Kind::Null } else { Kind::Plain }));
                    raw_start = at + 1;
                    if end.is_none() {
                        return;
                    }
                }
            }
            at += 1;
        }
    }

    /// Adds what the escape at `at` (after the backslash) stands for; where it ends.
    fn unescape(&mut self, line: &[u8], at: usize) -> usize {
        let digits = |start: usize, most: usize, radix: u32| {
            let digits = line[start..].iter().take(most).map_while(|b| char::from(*b).to_digit(radix));
            digits.fold((0u32, 0usize), |(value, count), digit| (value * radix + digit, count + 1))
        };
        match line[at] {
            b'0'..=b'7' => {
                let (value, count) = digits(at, 3, 8);
                self.bytes.push(value as u8);
                return at + count;
            }
            b'x' if digits(at + 1, 2, 16).1 > 0 => {
                let (value, count) = digits(at + 1, 2, 16);
                self.bytes.push(value as u8);
                return at + 1 + count;
            }
            b'b' => self.bytes.push(0x08),
            b'f' => self.bytes.push(0x0c),
            b'n' => self.bytes.push(b'\n'),
            b'r' => self.bytes.push(b'\r'),
            b't' => self.bytes.push(b'\t'),
            b'v' => self.bytes.push(0x0b),
            other => self.bytes.push(other),
        }
        at + 1
    }

    /// Takes a line of the CSV format apart.
    ///
    /// # Errors
    /// `22P04` for quotes that are not closed.
    pub fn split_csv(&mut self, line: &[u8], options: &CopyOptions) -> SqlResult<()> {
        self.bytes.clear();
        self.ends.clear();
        let mut at = 0;
        let (mut field_start, mut was_quoted, mut in_quotes) = (0, false, false);
        loop {
            match line.get(at).copied() {
                None if in_quotes => return Err(bad_format("unterminated CSV quoted field")),
                Some(byte) if in_quotes => {
                    let next = line.get(at + 1).copied();
                    if byte == options.escape && next.is_some_and(|n| n == options.quote || n == options.escape) {
                        self.bytes.extend(next);
                        at += 1;
                    } else if byte == options.quote {
                        in_quotes = false;
                    } else {
                        self.bytes.push(byte);
                    }
                }
                Some(byte) if byte == options.quote => {
                    in_quotes = true;
                    was_quoted = true;
                }
                Some(byte) if byte != options.delimiter => self.bytes.push(byte),
                end => {
                    let kind = match (&self.bytes[field_start..] == options.null.as_bytes(), was_quoted) {
                        (false, _) => Kind::Plain,
                        (true, false) => Kind::Null,
                        (true, true) => Kind::QuotedNull,
                    };
                    field_start = self.bytes.len();
                    self.ends.push((field_start, kind));
                    was_quoted = false;
                    if end.is_none() {
                        return Ok(());
                    }
                }
            }
            at += 1;
        }
    }
}
