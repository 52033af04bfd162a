//! CSV records.

use super::json::JsonColumn;
use super::text::{not_finite, write_decimal, write_float, write_hex, write_integer, write_interval};
use crate::datetime::{write_date, write_time, write_timestamp};
use crate::decode::CsvOptions;
use crate::error::{ConnectorError, ConnectorResult};
use arrow::array::RecordBatch;
use thalweg_catalog::Column;

/// The rows of a batch as CSV records.
pub struct CsvRows {
    columns: Vec<JsonColumn>,
    options: CsvOptions,
}

impl CsvRows {
    /// The rows of `batch`, whose columns are `columns`.
    ///
    /// # Errors
    /// If the batch does not have these columns.
    pub fn new(batch: &RecordBatch, columns: &[Column], options: &CsvOptions) -> ConnectorResult<CsvRows> {
        if batch.num_columns() != columns.len() {
            return Err(ConnectorError::internal("a batch to be encoded has other columns"));
        }
        let typed =
            columns.iter().zip(batch.columns()).map(|(column, values)| JsonColumn::new(&column.sql_type, values.as_ref()));
        Ok(CsvRows { columns: typed.collect::<ConnectorResult<_>>()?, options: options.clone() })
    }

    /// Writes the record that names the columns, with its line end.
    pub fn write_header(columns: &[Column], options: &CsvOptions, out: &mut Vec<u8>) {
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                out.push(options.delimiter);
            }
            write_field(out, column.name.as_bytes(), options);
        }
        out.push(b'\n');
    }

    /// Writes one row, with its line end.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        let mut field = vec![];
        for (place, column) in self.columns.iter().enumerate() {
            if place > 0 {
                out.push(self.options.delimiter);
            }
            if column.is_null(row) {
                out.extend_from_slice(self.options.null.as_bytes());
                continue;
            }
            field.clear();
            write_value(column, row, &mut field);
            write_field(out, &field, &self.options);
        }
        out.push(b'\n');
    }
}

fn write_value(column: &JsonColumn, row: usize, out: &mut Vec<u8>) {
    match column {
        JsonColumn::Int2(values) => write_integer(out, i64::from(values.value(row))),
        JsonColumn::Int4(values) => write_integer(out, i64::from(values.value(row))),
        JsonColumn::Int8(values) => write_integer(out, values.value(row)),
        JsonColumn::Float4(values) => match not_finite(f64::from(values.value(row))) {
            Some(word) => out.extend_from_slice(word.as_bytes()),
            None => write_float(out, values.value(row)),
        },
        JsonColumn::Float8(values) => match not_finite(values.value(row)) {
            Some(word) => out.extend_from_slice(word.as_bytes()),
            None => write_float(out, values.value(row)),
        },
        JsonColumn::Numeric { values, scale, trim } => write_decimal(out, values.value(row), *scale, *trim),
        JsonColumn::Text(values) | JsonColumn::Json(values) => out.extend_from_slice(values.value(row).as_bytes()),
        JsonColumn::Bytea(values) => write_hex(out, values.value(row)),
        JsonColumn::Date(values) => write_date(out, i64::from(values.value(row))),
        JsonColumn::Time(values) => write_time(out, values.value(row)),
        JsonColumn::Timestamp { values, zone } => {
            write_timestamp(out, values.value(row), b' ');
            if *zone {
                out.extend_from_slice(b"+00");
            }
        }
        JsonColumn::Interval(values) => write_interval(out, values.value(row)),
        JsonColumn::Boolean(_) | JsonColumn::Array { .. } | JsonColumn::Record { .. } => column.write(row, out),
    }
}

/// Writes a field that is not NULL, with quotes where it would be read as something else without.
fn write_field(out: &mut Vec<u8>, field: &[u8], options: &CsvOptions) {
    let special = |byte: &u8| *byte == options.delimiter || *byte == options.quote || matches!(byte, b'\n' | b'\r');
    if field != options.null.as_bytes() && !field.is_empty() && !field.iter().any(special) {
        out.extend_from_slice(field);
        return;
    }
    out.push(options.quote);
    for byte in field {
        if *byte == options.quote {
            out.push(options.quote);
        }
        out.push(*byte);
    }
    out.push(options.quote);
}

#[cfg(test)]
mod tests;
