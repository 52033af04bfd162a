//! Data of `COPY … FROM STDIN`, cut anywhere by the client, as batches of the target's columns.

use super::options::{CopyFormat, CopyOptions};
use super::split::{Fields, LineSplitter, NullRule};
use super::write::{SIGNATURE, bad_format, flags_of};
use crate::wire::guard::Stop;
use crate::wire::settings::OutputSettings;
use crate::wire::value::read::{ColumnReader, utf8};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use bytes::{Buf, BytesMut};
use std::ops::Range;
use std::sync::Arc;
use thalweg_catalog::{Column, SqlError, SqlResult};

/// A batch is given out at so many rows, or so many bytes of data.
const BATCH_ROWS: usize = 8192;
const BATCH_BYTES: usize = 4 << 20;

/// How much of a bad value an error shows, in characters.
const SHOWN_MAX: usize = 100;

/// Reads the rows of one copy. Every column of a batch can be NULL: that a column must not be is for the target to check.
pub struct CopyReader {
    options: CopyOptions,
    relation: String,
    names: Vec<String>,
    rules: Vec<NullRule>,
    schema: SchemaRef,
    readers: Vec<ColumnReader>,
    rows: usize,
    bytes: usize,
    /// The line, or in binary the row, that is being read, from 1.
    line: u64,
    input: Input,
}

enum Input {
    Lines { splitter: LineSplitter, fields: Fields, header: bool },
    Binary { buffer: BytesMut, begun: bool, ended: bool },
}

impl CopyReader {
    /// A reader of rows with these columns.
    ///
    /// # Errors
    /// `42703` for an option about a column that is not there, `0A000` for a column whose type has no input.
    pub fn new(columns: &[Column], options: CopyOptions, relation: String, settings: OutputSettings) -> SqlResult<CopyReader> {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let not_null = flags_of(&options.force_not_null, names.iter().map(String::as_str))?;
        let null = flags_of(&options.force_null, names.iter().map(String::as_str))?;
        let rules = not_null.into_iter().zip(null);
        let input = match options.format {
            CopyFormat::Binary => Input::Binary { buffer: BytesMut::new(), begun: false, ended: false },
            _ => Input::Lines { splitter: LineSplitter::new(&options), fields: Fields::default(), header: options.header },
        };
        Ok(CopyReader {
            relation,
            rules: rules.map(|(force_not_null, force_null)| NullRule { force_not_null, force_null }).collect(),
            schema: Arc::new(Schema::new(
                columns.iter().map(|column| column.sql_type.to_field(&column.name, true)).collect::<Vec<_>>(),
            )),
            readers: columns.iter().map(|c| ColumnReader::new(&c.sql_type, settings)).collect::<SqlResult<_>>()?,
            names,
            options,
            rows: 0,
            bytes: 0,
            line: 0,
            input,
        })
    }

    /// Adds data; [`CopyReader::full_batch`] is to be called until it gives none.
    ///
    /// # Errors
    /// `54000` for a line without end.
    pub fn push(&mut self, data: &[u8]) -> Result<(), Stop> {
        match &mut self.input {
            Input::Lines { splitter, .. } => splitter.push(data).map_err(Stop::from),
            Input::Binary { ended: true, .. } => Ok(()),
            Input::Binary { buffer, .. } => {
                buffer.extend_from_slice(data);
                Ok(())
            }
        }
    }

    /// A batch, once enough rows have come.
    ///
    /// # Errors
    /// With the row and the column in the context: `22P04` for data that is not of the format, else the value's.
    pub fn full_batch(&mut self) -> Result<Option<RecordBatch>, Stop> {
        while self.rows < BATCH_ROWS && self.bytes < BATCH_BYTES {
            if !self.read_row(false)? {
                return Ok(None);
            }
        }
        self.batch().map(Some).map_err(Stop::from)
    }

    /// The client has sent everything.
    ///
    /// # Errors
    /// `22P04` for binary data that stops within a row.
    pub fn end(&mut self) -> Result<(), Stop> {
        match &self.input {
            // A copy without its closing mark is taken, as long as it ends between rows.
            Input::Binary { buffer, .. } if !buffer.is_empty() => Err(self.stop(bad_format("unexpected EOF in COPY data"), None)),
            Input::Binary { begun: false, .. } => Err(bad_format("COPY file signature not recognized").into()),
            _ => Ok(()),
        }
    }

    /// Batches of what is left after [`CopyReader::end`], until none.
    ///
    /// # Errors
    /// As [`CopyReader::full_batch`].
    pub fn last_batch(&mut self) -> Result<Option<RecordBatch>, Stop> {
        while self.rows < BATCH_ROWS && self.bytes < BATCH_BYTES && self.read_row(true)? {}
        if self.rows == 0 {
            return Ok(None);
        }
        self.batch().map(Some).map_err(Stop::from)
    }

    fn batch(&mut self) -> SqlResult<RecordBatch> {
        let arrays = self.readers.iter_mut().map(ColumnReader::finish).collect::<SqlResult<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        self.bytes = 0;
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| SqlError::internal(format!("a batch of COPY data could not be built: {error}")))
    }

    /// Reads one row, if there is a whole one.
    fn read_row(&mut self, last: bool) -> Result<bool, Stop> {
        match &mut self.input {
            Input::Lines { .. } => self.read_line(last),
            Input::Binary { .. } => self.read_tuple(),
        }
    }

    fn read_line(&mut self, last: bool) -> Result<bool, Stop> {
        let Input::Lines { splitter, fields, header } = &mut self.input else { return Ok(false) };
        let found = splitter.next_line(last);
        self.line += 1;
        let line = match found {
            Ok(Some(line)) => line,
            Ok(None) => {
                self.line -= 1;
                return Ok(false);
            }
            Err(error) => return Err(self.stop(error, None)),
        };
        if std::mem::take(header) {
            return self.read_line(last);
        }
        let bytes = splitter.bytes(line.clone());
        self.bytes += bytes.len();
        let split = match self.options.format {
            CopyFormat::Csv => fields.split_csv(bytes, &self.options),
            _ => {
                fields.split_text(bytes, &self.options);
                Ok(())
            }
        };
        let split = split.and_then(|()| check_width(fields.len(), bytes, &self.names));
        if let Err(error) = split {
            let shown = shown(bytes);
            return Err(self.stop(error, Some(format!(": \"{shown}\""))));
        }
        for (at, reader) in self.readers.iter_mut().enumerate() {
            let appended = match fields.get(at, self.rules[at]) {
                None => {
                    reader.append_null();
                    Ok(())
                }
                Some(value) => utf8(value).and_then(|text| reader.append_text(text)),
            };
            if let Err(error) = appended {
                let value = fields.get(at, self.rules[at]).map(shown).unwrap_or_default();
                let place = format!(", column {}: \"{value}\"", self.names[at]);
                return Err(self.stop(error, Some(place)));
            }
        }
        self.rows += 1;
        Ok(true)
    }

    fn read_tuple(&mut self) -> Result<bool, Stop> {
        let Input::Binary { buffer, begun, ended } = &mut self.input else { return Ok(false) };
        if *ended {
            return Ok(false);
        }
        if !*begun {
            *begun = skip_header(buffer)?;
            if !*begun {
                return Ok(false);
            }
        }
        let tuple = match tuple_of(buffer) {
            Tuple::Incomplete => return Ok(false),
            Tuple::End => {
                *ended = true;
                buffer.clear();
                return Ok(false);
            }
            Tuple::Values(tuple, length) => Ok((tuple, length)),
            Tuple::Malformed => Err(bad_format("unexpected EOF in COPY data")),
        };
        self.line += 1;
        let width = self.names.len();
        let (values, length) = match tuple.and_then(|(values, length)| {
            if values.len() == width {
                return Ok((values, length));
            }
            Err(bad_format(format!("row field count is {}, expected {width}", values.len())))
        }) {
            Ok(found) => found,
            Err(error) => return Err(self.stop(error, None)),
        };
        let tuple = buffer.split_to(length);
        for (at, value) in values.into_iter().enumerate() {
            let reader = &mut self.readers[at];
            let appended = match value {
                None => {
                    reader.append_null();
                    Ok(())
                }
                Some(range) => reader.append_binary(&tuple[range]),
            };
            if let Err(error) = appended {
                let place = format!(", column {}", self.names[at]);
                return Err(self.stop(error, Some(place)));
            }
        }
        self.bytes += length;
        self.rows += 1;
        Ok(true)
    }

    /// Where the next row is to come, for the context of an error.
    pub fn place(&self) -> String {
        format!("COPY {}, line {}", self.relation, self.line + 1)
    }

    /// The error with its place in the data.
    fn stop(&self, error: SqlError, place: Option<String>) -> Stop {
        Stop::Error(error, Some(format!("COPY {}, line {}{}", self.relation, self.line, place.unwrap_or_default()).into()))
    }
}

/// The beginning of a text for an error.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(SHOWN_MAX) {
        Some((cut, _)) => format!("{}...", &text[..cut]),
        None => text.into_owned(),
    }
}

fn check_width(fields: usize, line: &[u8], names: &[String]) -> SqlResult<()> {
    if names.is_empty() && line.is_empty() {
        return Ok(());
    }
    match names.get(fields) {
        Some(missing) => Err(bad_format(format!("missing data for column \"{missing}\""))),
        None if fields > names.len() => Err(bad_format("extra data after last expected column")),
        None => Ok(()),
    }
}

/// Takes the header off, once all of it is there.
fn skip_header(buffer: &mut BytesMut) -> SqlResult<bool> {
    let head = buffer.len().min(SIGNATURE.len());
    if buffer[..head] != SIGNATURE[..head] {
        return Err(bad_format("COPY file signature not recognized"));
    }
    let Some(words) = buffer.get(SIGNATURE.len()..SIGNATURE.len() + 8) else { return Ok(false) };
    let flags = u32::from_be_bytes([words[0], words[1], words[2], words[3]]);
    let extension = u32::from_be_bytes([words[4], words[5], words[6], words[7]]) as usize;
    if flags & (1 << 16) != 0 {
        return Err(bad_format("invalid COPY file header (WITH OIDS)"));
    }
    if flags >> 16 != 0 {
        return Err(bad_format("unrecognized critical flags in COPY file header"));
    }
    if extension > BATCH_BYTES {
        return Err(bad_format("invalid COPY file header (wrong length)"));
    }
    let length = SIGNATURE.len() + 8 + extension;
    if buffer.len() < length {
        return Ok(false);
    }
    buffer.advance(length);
    Ok(true)
}

/// What a binary copy goes on with.
enum Tuple {
    /// Too little to tell.
    Incomplete,
    /// The closing mark.
    End,
    /// A row: where its values are, NULLs as none, and how long it is in all.
    Values(Vec<Option<Range<usize>>>, usize),
    /// A length that nothing has.
    Malformed,
}

fn tuple_of(buffer: &[u8]) -> Tuple {
    let Some(count) = buffer.get(..2) else { return Tuple::Incomplete };
    let count = i16::from_be_bytes([count[0], count[1]]);
    if count == -1 {
        return Tuple::End;
    }
    let Ok(count) = usize::try_from(count) else { return Tuple::Malformed };
    let mut values = Vec::with_capacity(count.min(1024));
    let mut at = 2;
    for _ in 0..count {
        let Some(length) = buffer.get(at..at + 4) else { return Tuple::Incomplete };
        let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        at += 4;
        if length == -1 {
            values.push(None);
            continue;
        }
        let Ok(length) = usize::try_from(length) else { return Tuple::Malformed };
        if buffer.len() < at + length {
            return Tuple::Incomplete;
        }
        values.push(Some(at..at + length));
        at += length;
    }
    Tuple::Values(values, at)
}
