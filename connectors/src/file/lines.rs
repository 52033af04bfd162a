//! One file of lines, read in large blocks and decoded straight from them.

use super::compression::Compression;
use super::location::Location;
use super::reader::Step;
use crate::decode::{Decoder, Format, csv_record_length};
use crate::error::{ConnectorError, ConnectorResult};
use crate::scan::find_byte;
use crate::source::{SourceBatch, SplitId};
use std::fmt;
use std::io::{ErrorKind, Read};
use tokio::runtime::Handle;

/// How much is read at once.
pub(super) const BLOCK_BYTES: usize = 1 << 20;

/// A longer record is left out, as an error; so that a file without line ends does not fill the memory.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// A place in a file: how many bytes and lines of its text come before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct TextPosition {
    pub(super) offset: u64,
    pub(super) line: u64,
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset={},line={}", self.offset, self.line)
    }
}

impl TextPosition {
    pub(super) fn parse(text: &str) -> ConnectorResult<TextPosition> {
        let parts = text.strip_prefix("offset=").and_then(|rest| rest.split_once(",line="));
        match parts.map(|(offset, line)| (offset.parse(), line.parse())) {
            Some((Ok(offset), Ok(line))) => Ok(TextPosition { offset, line }),
            _ => Err(ConnectorError::internal(format!("\"{text}\" is no position in a text file"))),
        }
    }
}

/// How a record is reported to users.
struct AtLine(u64);

impl fmt::Display for AtLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.0)
    }
}

/// An open file.
pub(super) struct LineFile {
    split: SplitId,
    input: Box<dyn Read + Send>,
    decoder: Decoder,
    format: Format,
    /// Blank lines are no records.
    skip_blank: bool,
    /// Whether the last line counts only once it has ended.
    growing: bool,
    buffer: Vec<u8>,
    /// What of the buffer has been read from the file and not yet decoded.
    start: usize,
    end: usize,
    /// The place of `start`.
    position: TextPosition,
    /// The header has not been read yet.
    header_missing: bool,
    /// The rest of the line is part of a record that was too long.
    overlong: bool,
}

/// What a file is opened with.
pub(super) struct LineFileOptions<'a> {
    pub(super) split: SplitId,
    pub(super) location: &'a Location,
    pub(super) compression: Compression,
    pub(super) format: &'a Format,
    pub(super) columns: usize,
    pub(super) position: TextPosition,
    pub(super) growing: bool,
    pub(super) runtime: &'a Handle,
}

impl LineFile {
    /// Opens the file at a position. `buffer` is any old one, for its room.
    pub(super) fn open(options: LineFileOptions<'_>, decoder: Decoder, mut buffer: Vec<u8>) -> ConnectorResult<LineFile> {
        let LineFileOptions { split, location, compression, format, columns, position, growing, runtime } = options;
        let has_header = matches!(format, Format::Csv(csv) if csv.header);
        // A header is read again, and a compressed file is decompressed up to the position.
        let seek = if has_header || compression != Compression::None { 0 } else { position.offset };
        let failed = |error| ConnectorError::user(format!("can't decompress \"{split}\": {error}"));
        let input = compression.reader(location.open(seek, runtime)?).map_err(failed)?;
        buffer.resize(BLOCK_BYTES.max(buffer.len()), 0);
        let mut file = LineFile {
            split,
            input,
            decoder,
            format: format.clone(),
            skip_blank: match format {
                Format::Json => true,
                Format::Csv(_) => columns != 1,
                Format::Bytes => false,
            },
            growing,
            buffer,
            start: 0,
            end: 0,
            position: TextPosition { offset: seek, line: if seek == 0 { 0 } else { position.line } },
            header_missing: has_header,
            overlong: false,
        };
        file.read_header()?;
        if position.offset > file.position.offset {
            file.skip_to(position)?;
        }
        Ok(file)
    }

    /// Gives its buffer back.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    pub(super) fn position(&self) -> TextPosition {
        self.position
    }

    /// How many bytes of the file have been read, with those of a line that has not ended.
    pub(super) fn seen(&self) -> u64 {
        self.position.offset + (self.end - self.start) as u64
    }

    /// Reads the header, if there is one to be read and it is all there.
    fn read_header(&mut self) -> ConnectorResult<()> {
        while self.header_missing {
            let length = match self.record_length() {
                Some(length) => length,
                None if self.fill()? => continue,
                None if self.start < self.end && !self.growing => self.end - self.start,
                None => return Ok(()),
            };
            self.decoder.header(&self.buffer[self.start..self.start + length])?;
            self.advance(length);
            self.header_missing = false;
        }
        Ok(())
    }

    fn skip_to(&mut self, position: TextPosition) -> ConnectorResult<()> {
        while self.position.offset < position.offset {
            let left = usize::try_from(position.offset - self.position.offset).unwrap_or(usize::MAX);
            let length = left.min(self.end - self.start);
            self.start += length;
            self.position.offset += length as u64;
            if self.start == self.end && self.position.offset < position.offset && !self.fill()? {
                return Err(ConnectorError::user(format!("file \"{}\" has become shorter than what was read of it", self.split)));
            }
        }
        self.position = position;
        Ok(())
    }

    /// The next rows, of about `records` records at most, or why there are none.
    pub(super) fn read(&mut self, records: usize) -> ConnectorResult<Step> {
        self.read_header()?;
        if self.header_missing {
            return Ok(if self.growing { Step::Waiting } else { Step::End(self.position.to_string()) });
        }
        let mut taken = 0;
        loop {
            while let Some(length) = self.record_length() {
                self.take_record(length);
                taken += 1;
                if self.decoder.is_full() || (taken >= records && !self.decoder.is_empty()) {
                    return self.rows();
                }
            }
            if self.end - self.start >= RECORD_BYTES_MAX {
                self.refuse_overlong();
                continue;
            }
            if self.fill()? {
                continue;
            }
            if !self.growing && self.start < self.end {
                self.take_record(self.end - self.start);
            }
            if !self.decoder.is_empty() {
                return self.rows();
            }
            return Ok(if self.growing { Step::Waiting } else { Step::End(self.position.to_string()) });
        }
    }

    /// The length of the record at the start of the buffer, with its line end, if it is all there.
    #[inline]
    fn record_length(&self) -> Option<usize> {
        let text = &self.buffer[self.start..self.end];
        match &self.format {
            Format::Csv(options) if !self.overlong => csv_record_length(text, options),
            _ => find_byte(text, b'\n').map(|place| place + 1),
        }
    }

    fn take_record(&mut self, length: usize) {
        let record = &self.buffer[self.start..self.start + length];
        let line = AtLine(self.position.line + 1);
        let text = record.strip_suffix(b"\n").unwrap_or(record);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let text = if self.position.offset == 0 { text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text) } else { text };
        let is_rest = std::mem::take(&mut self.overlong);
        let is_blank = self.skip_blank && text.trim_ascii().is_empty();
        if !is_rest && !is_blank {
            self.decoder.push(text, line);
        }
        self.advance(length);
    }

    fn advance(&mut self, length: usize) {
        let record = &self.buffer[self.start..self.start + length];
        // One line unless there are line ends in quotes.
        let lines = match self.format {
            Format::Csv(_) => record.iter().filter(|byte| **byte == b'\n').count() as u64,
            _ => 1,
        };
        self.start += length;
        self.position.offset += length as u64;
        self.position.line += lines.max(u64::from(self.end == self.start && lines == 0));
    }

    fn refuse_overlong(&mut self) {
        let length = self.end - self.start;
        if !self.overlong {
            let reason = format!("record is longer than {} MiB", RECORD_BYTES_MAX >> 20);
            self.decoder.reject(&self.buffer[self.start..self.end], AtLine(self.position.line + 1), reason);
        }
        self.overlong = true;
        self.start += length;
        self.position.offset += length as u64;
    }

    /// Reads more into the buffer; false at the end of the file.
    fn fill(&mut self) -> ConnectorResult<bool> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(length) => {
                    self.end += length;
                    return Ok(length > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let message = format!("can't read \"{}\": {error}", self.split);
                    // Damaged compressed files fail in these ways.
                    return Err(match error.kind() {
                        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => {
                            ConnectorError::user(message)
                        }
                        _ => ConnectorError::external(message),
                    });
                }
            }
        }
    }

    fn rows(&mut self) -> ConnectorResult<Step> {
        let (batch, errors) = self.decoder.finish()?;
        Ok(Step::Rows(SourceBatch { split: self.split.clone(), batch, position: self.position.to_string(), errors, lag: None }))
    }
}
