//! Records to rows.
//!
//! A [`Decoder`] takes the bytes of one record after another (a line of a file, a message's payload) and gives a batch with the
//! columns that are read. A record that is malformed, or has a value that does not fit its column, is left out whole and
//! reported as a [`RecordError`]; nothing of it stays behind. No input makes a decoder panic.
//!
//! What goes where (all formats):
//! - A field goes to the column of exactly its name, else to the first of its name in another case. A missing field, like a
//!   null, gives NULL; NULL in a column that is NOT NULL is an error of the record. Columns that are not read are not checked.
//! - Numbers are exact. A fraction beyond the scale of a `numeric` is rounded half away from zero; what has too many digits is
//!   an error. Integer columns take `12.0` and `12e1`, not `12.5`. Numbers may stand in strings.
//! - A timestamp is `YYYY-MM-DD[ T]HH:MM:SS[.ffffff]` with an optional zone (`Z`, `±hh`, `±hhmm`, `±hh:mm`), or an integer:
//!   milliseconds since 1970. As in Postgres, `timestamp` ignores a zone and `timestamptz` without one is UTC.
//! - `bytea` is `\x` with hexadecimal digits; any other text stands for its bytes.
//! - Text columns take numbers, booleans, objects and arrays as they are written. JSON columns keep the text of any value.

pub(crate) mod column;
mod csv;
mod fault;
mod json;
mod names;
pub(crate) mod value;

pub use csv::CsvOptions;
pub(crate) use csv::record_length as csv_record_length;

use crate::error::{ConnectorError, ConnectorResult};
use crate::source::RecordError;
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use column::ColumnBuilder;
use csv::CsvDecoder;
pub(crate) use fault::excerpt;
use fault::{Fault, Fit};
use json::JsonDecoder;
use names::Names;
use std::collections::BTreeMap;
use std::fmt::Display;
use thalweg_catalog::object::Encode;
use thalweg_catalog::options::Options;
use thalweg_catalog::{Column, SqlError, SqlResult, SqlType, schema_of};

/// How many rows a batch holds at most.
pub const BATCH_ROWS: usize = 8192;

/// After how many bytes of records a batch is given out even if it has few rows.
pub const BATCH_BYTES: usize = 16 << 20;

/// How records are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object a record.
    Json,
    /// One line of fields a record.
    Csv(CsvOptions),
    /// The record is the value of the only column.
    Bytes,
}

impl Format {
    /// The format of an `ENCODE` clause with its options.
    ///
    /// # Errors
    /// `22023` for unknown options; `0A000` for Parquet, whose rows are no records.
    pub fn new(encode: Encode, options: &BTreeMap<String, String>) -> SqlResult<Format> {
        let mut options = Options::new(format!("ENCODE {encode}"), options);
        let format = match encode {
            Encode::Json => Format::Json,
            Encode::Csv => Format::Csv(CsvOptions::parse(&mut options)?),
            Encode::Bytes => Format::Bytes,
            Encode::Parquet => {
                return Err(SqlError::unsupported("ENCODE PARQUET does not fit a connector that reads single records")
                    .with_hint("Use JSON, CSV or BYTES."));
            }
        };
        options.finish()?;
        Ok(format)
    }

    /// Checks that records of this format can fill these columns.
    ///
    /// # Errors
    /// `42P16` if they can't.
    pub fn check(&self, columns: &[Column]) -> SqlResult<()> {
        match (self, columns) {
            (Format::Bytes, [only]) if matches!(only.sql_type, SqlType::Bytea | SqlType::Text) => Ok(()),
            (Format::Bytes, _) => Err(SqlError::new(
                thalweg_catalog::SqlState::InvalidTableDefinition,
                "ENCODE BYTES needs exactly one column, of type bytea or text",
            )
            .with_hint("Declare one column for the record; INCLUDE columns do not count.")),
            _ => Ok(()),
        }
    }
}

/// Makes batches from records. See the [module](self) for what it takes.
pub struct Decoder {
    schema: SchemaRef,
    builders: Vec<ColumnBuilder>,
    /// All declared names with their builders, to read a header with.
    names: Names,
    format: FormatDecoder,
    rows: usize,
    bytes: usize,
    errors: Vec<RecordError>,
}

enum FormatDecoder {
    Json(JsonDecoder),
    Csv(CsvDecoder),
    Bytes,
}

impl Decoder {
    /// A decoder of records that hold `columns`, of which those in `projection` are read, in that order.
    ///
    /// # Errors
    /// If the projection names a column twice or one that is not there.
    pub fn new(format: &Format, columns: &[Column], projection: &[usize]) -> ConnectorResult<Decoder> {
        let mut builder_of = vec![None; columns.len()];
        for (builder, column) in projection.iter().enumerate() {
            match builder_of.get_mut(*column) {
                Some(place @ None) => *place = Some(builder),
                _ => return Err(ConnectorError::internal(format!("projection {projection:?} does not fit the columns"))),
            }
        }
        let names = || Names::new(columns.iter().zip(&builder_of).map(|(column, builder)| (column.name.clone(), *builder)));
        let read: Vec<Column> = projection.iter().map(|column| columns[*column].clone()).collect();
        Ok(Decoder {
            schema: schema_of(&read),
            builders: read.iter().map(ColumnBuilder::new).collect(),
            format: match format {
                Format::Json => FormatDecoder::Json(JsonDecoder::new(names())),
                Format::Csv(options) => FormatDecoder::Csv(CsvDecoder::new(options.clone(), builder_of.clone())),
                Format::Bytes => FormatDecoder::Bytes,
            },
            names: names(),
            rows: 0,
            bytes: 0,
            errors: vec![],
        })
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reads the names of the fields from a header. Does nothing for formats that have none.
    ///
    /// # Errors
    /// If the header is malformed.
    pub fn header(&mut self, record: &[u8]) -> ConnectorResult<()> {
        match &mut self.format {
            FormatDecoder::Csv(csv) => csv
                .set_header(record, |name| self.names.resolve(name).builder)
                .map_err(|fault| ConnectorError::user(fault.to_string())),
            FormatDecoder::Json(_) | FormatDecoder::Bytes => Ok(()),
        }
    }

    /// Appends the row of one record; false if the record is bad, which is then among the errors with this position.
    pub fn push(&mut self, record: &[u8], position: impl Display) -> bool {
        self.bytes += record.len();
        match self.decode(record) {
            Ok(()) => {
                self.rows += 1;
                true
            }
            Err(fault) => {
                self.builders.iter_mut().for_each(|builder| builder.truncate(self.rows));
                self.reject(record, position, fault.to_string());
                false
            }
        }
    }

    /// Notes a record that is bad for a reason that its bytes alone don't show.
    pub fn reject(&mut self, record: &[u8], position: impl Display, reason: impl Into<String>) {
        self.errors.push(RecordError { position: position.to_string(), reason: reason.into(), excerpt: excerpt(record) });
    }

    fn decode(&mut self, record: &[u8]) -> Fit<()> {
        match &mut self.format {
            FormatDecoder::Json(json) => json.push(record, &mut self.builders, self.rows),
            FormatDecoder::Csv(csv) => csv.push(record, &mut self.builders, self.rows),
            FormatDecoder::Bytes => {
                for builder in &mut self.builders {
                    if builder.sql_type != SqlType::Bytea {
                        check_text(record).map_err(|fault| fault.within(&builder.name))?;
                    }
                    builder.append_bytes(record)?;
                }
                Ok(())
            }
        }
    }

    /// How many rows the batch has so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether there is neither a row nor an error.
    pub fn is_empty(&self) -> bool {
        self.rows == 0 && self.errors.is_empty()
    }

    /// Whether the batch should be taken before more is pushed.
    pub fn is_full(&self) -> bool {
        self.rows + self.errors.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    /// Takes the rows and the errors so far, and starts anew.
    ///
    /// # Errors
    /// If the columns do not fit together, which is a fault of ours.
    pub fn finish(&mut self) -> ConnectorResult<(RecordBatch, Vec<RecordError>)> {
        let internal =
            |error: arrow::error::ArrowError| ConnectorError::internal(format!("decoding made no valid batch: {error}"));
        let columns = self.builders.iter_mut().map(ColumnBuilder::finish).collect::<Result<Vec<_>, _>>().map_err(internal)?;
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.rows)));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(internal)?;
        self.bytes = 0;
        Ok((batch, std::mem::take(&mut self.errors)))
    }
}

/// Whether a text is one JSON value.
pub(crate) fn is_json(text: &str) -> bool {
    json::check(text.as_bytes()).is_ok()
}

fn check_text(record: &[u8]) -> Fit<()> {
    match std::str::from_utf8(record) {
        Err(_) => Err(Fault::new("invalid UTF-8")),
        Ok(text) if text.contains('\0') => Err(Fault::new("a character with code 0 cannot be in text")),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
