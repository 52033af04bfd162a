//! Rows as data of `COPY … TO STDOUT`.

use super::options::{CopyFormat, CopyOptions, ForcedColumns};
use crate::wire::session::ResultColumn;
use crate::wire::value::write::BatchWriter;
use bytes::{BufMut, BytesMut};
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// What every binary copy begins with, then no flags and no extension.
pub(super) const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// Writes the rows of one copy.
pub struct CopyWriter {
    options: CopyOptions,
    names: Vec<String>,
    /// CSV columns that are quoted whatever they hold.
    forced: Vec<bool>,
    /// Whether the binary header was written.
    begun: bool,
    scratch: BytesMut,
}

impl CopyWriter {
    /// A writer of rows with these columns.
    ///
    /// # Errors
    /// `42703` for an option about a column that is not there.
    pub fn new(options: CopyOptions, columns: &[ResultColumn]) -> SqlResult<CopyWriter> {
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let forced = match &options.force_quote {
            ForcedColumns::All => vec![true; names.len()],
            ForcedColumns::Named(wanted) => flags_of(wanted, names.iter().map(String::as_str))?,
        };
        Ok(CopyWriter { options, names, forced, begun: false, scratch: BytesMut::new() })
    }

    /// What is sent before all rows.
    pub fn header(&mut self) -> Option<BytesMut> {
        if !self.options.header || self.options.format == CopyFormat::Binary {
            return None;
        }
        let mut out = BytesMut::new();
        for (at, name) in self.names.iter().enumerate() {
            if at > 0 {
                out.put_u8(self.options.delimiter);
            }
            match self.options.format {
                CopyFormat::Csv => put_csv(&self.options, name.as_bytes(), false, self.names.len() == 1, &mut out),
                _ => put_escaped(name.as_bytes(), self.options.delimiter, &mut out),
            }
        }
        out.put_u8(b'\n');
        Some(out)
    }

    /// Appends one row.
    ///
    /// # Errors
    /// A value that has no binary form.
    pub fn write_row(&mut self, batch: &BatchWriter, row: usize, out: &mut BytesMut) -> SqlResult<()> {
        if self.options.format == CopyFormat::Binary {
            self.begin_binary(out);
            out.put_u16(batch.width() as u16);
            return batch.write_row(row, out);
        }
        for column in 0..batch.width() {
            if column > 0 {
                out.put_u8(self.options.delimiter);
            }
            if batch.is_null(column, row) {
                out.put_slice(self.options.null.as_bytes());
                continue;
            }
            self.scratch.clear();
            batch.write_text(column, row, &mut self.scratch)?;
            match self.options.format {
                CopyFormat::Csv => put_csv(&self.options, &self.scratch, self.forced[column], batch.width() == 1, out),
                _ => put_escaped(&self.scratch, self.options.delimiter, out),
            }
        }
        out.put_u8(b'\n');
        Ok(())
    }

    /// What is sent after all rows, piece by piece.
    pub fn trailer(&mut self) -> Vec<BytesMut> {
        let mut pieces = vec![];
        if self.options.format == CopyFormat::Binary {
            if !self.begun {
                let mut header = BytesMut::new();
                self.begin_binary(&mut header);
                pieces.push(header);
            }
            pieces.push(BytesMut::from(&(-1i16).to_be_bytes()[..]));
        }
        pieces
    }

    fn begin_binary(&mut self, out: &mut BytesMut) {
        if !self.begun {
            self.begun = true;
            out.put_slice(SIGNATURE);
            out.put_i32(0);
            out.put_i32(0);
        }
    }
}

/// For each of `names`, whether it is among `wanted`.
pub(super) fn flags_of<'a>(wanted: &[String], names: impl Iterator<Item = &'a str> + Clone) -> SqlResult<Vec<bool>> {
    if let Some(unknown) = wanted.iter().find(|name| !names.clone().any(|n| n == name.as_str())) {
        return Err(SqlError::new(SqlState::UndefinedColumn, format!("column \"{unknown}\" does not exist")));
    }
    Ok(names.map(|name| wanted.iter().any(|w| w == name)).collect())
}

/// Appends a value of the text format.
fn put_escaped(value: &[u8], delimiter: u8, out: &mut BytesMut) {
    for byte in value {
        let letter = match byte {
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b'\\' => b'\\',
            other if *other == delimiter => *other,
            other => {
                out.put_u8(*other);
                continue;
            }
        };
        out.put_slice(&[b'\\', letter]);
    }
}

/// Appends a value of the CSV format, quoted where it could be read as something else.
fn put_csv(options: &CopyOptions, value: &[u8], forced: bool, alone: bool, out: &mut BytesMut) {
    let quoted = forced
        || value == options.null.as_bytes()
        // Alone on its line, this would end the data.
        || (alone && value == b"\\.")
        || value.iter().any(|b| *b == options.delimiter || *b == options.quote || matches!(b, b'\n' | b'\r'));
    if !quoted {
        return out.put_slice(value);
    }
    out.put_u8(options.quote);
    for byte in value {
        if *byte == options.quote || *byte == options.escape {
            out.put_u8(options.escape);
        }
        out.put_u8(*byte);
    }
    out.put_u8(options.quote);
}

/// `22P04`: data that is not of the copy's format.
pub(super) fn bad_format(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::BadCopyFileFormat, message)
}
