//! JSON objects.

use super::text::{not_finite, write_decimal, write_float, write_hex, write_integer, write_interval};
use crate::datetime::{write_date, write_time, write_timestamp};
use crate::decode::is_json;
use crate::error::{ConnectorError, ConnectorResult};
use crate::scan::string_stop;
use arrow::array::types::IntervalMonthDayNanoType;
use arrow::array::{
    Array, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array,
    Int64Array, ListArray, PrimitiveArray, RecordBatch, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use thalweg_catalog::{Column, SqlType};

/// The rows of a batch as JSON objects.
pub struct JsonRows {
    fields: Vec<JsonField>,
}

/// A key with its quotes and colon, and its values.
pub(super) struct JsonField {
    key: Vec<u8>,
    values: JsonColumn,
}

/// Values of one column.
pub(super) enum JsonColumn {
    Boolean(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Numeric { values: Decimal128Array, scale: i8, trim: bool },
    Text(StringArray),
    Json(StringArray),
    Bytea(BinaryArray),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp { values: TimestampMicrosecondArray, zone: bool },
    Interval(PrimitiveArray<IntervalMonthDayNanoType>),
    Array { values: ListArray, items: Box<JsonColumn> },
    Record { values: StructArray, fields: Vec<JsonField> },
}

impl JsonRows {
    /// The rows of `batch`, whose columns are `columns`; objects have those in `selection`, in that order.
    ///
    /// # Errors
    /// If the batch does not have these columns.
    pub fn new(batch: &RecordBatch, columns: &[Column], selection: &[usize]) -> ConnectorResult<JsonRows> {
        let fields = selection.iter().map(|index| match (columns.get(*index), batch.columns().get(*index)) {
            (Some(column), Some(values)) => JsonField::new(&column.name, &column.sql_type, values.as_ref()),
            _ => Err(ConnectorError::internal(format!("a batch to be encoded has no column {index}"))),
        });
        Ok(JsonRows { fields: fields.collect::<ConnectorResult<_>>()? })
    }

    /// Writes one row, without a line end.
    pub fn write(&self, row: usize, out: &mut Vec<u8>) {
        write_object(&self.fields, row, out);
    }
}

impl JsonField {
    fn new(name: &str, sql_type: &SqlType, values: &dyn Array) -> ConnectorResult<JsonField> {
        let mut key = vec![];
        write_string(&mut key, name);
        key.push(b':');
        Ok(JsonField { key, values: JsonColumn::new(sql_type, values)? })
    }
}

/// The array as the kind that carries the type.
pub(super) fn carried<T: Clone + 'static>(sql_type: &SqlType, values: &dyn Array) -> ConnectorResult<T> {
    values
        .as_any()
        .downcast_ref::<T>()
        .cloned()
        .ok_or_else(|| ConnectorError::internal(format!("a column of type {sql_type} is carried as {}", values.data_type())))
}

impl JsonColumn {
    pub(super) fn new(sql_type: &SqlType, values: &dyn Array) -> ConnectorResult<JsonColumn> {
        Ok(match sql_type {
            SqlType::Boolean => JsonColumn::Boolean(carried(sql_type, values)?),
            SqlType::Int2 => JsonColumn::Int2(carried(sql_type, values)?),
            SqlType::Int4 => JsonColumn::Int4(carried(sql_type, values)?),
            SqlType::Int8 => JsonColumn::Int8(carried(sql_type, values)?),
            SqlType::Float4 => JsonColumn::Float4(carried(sql_type, values)?),
            SqlType::Float8 => JsonColumn::Float8(carried(sql_type, values)?),
            SqlType::Numeric(shape) => {
                let values: Decimal128Array = carried(sql_type, values)?;
                // A numeric without declared scale is shown without the zeros that the kept scale adds.
                JsonColumn::Numeric { scale: values.scale(), values, trim: shape.is_none() }
            }
            SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Uuid | SqlType::Carried(_) => {
                JsonColumn::Text(carried(sql_type, values)?)
            }
            SqlType::Json | SqlType::Jsonb => JsonColumn::Json(carried(sql_type, values)?),
            SqlType::Bytea => JsonColumn::Bytea(carried(sql_type, values)?),
            SqlType::Date => JsonColumn::Date(carried(sql_type, values)?),
            SqlType::Time => JsonColumn::Time(carried(sql_type, values)?),
            SqlType::Timestamp => JsonColumn::Timestamp { values: carried(sql_type, values)?, zone: false },
            SqlType::TimestampTz => JsonColumn::Timestamp { values: carried(sql_type, values)?, zone: true },
            SqlType::Interval => JsonColumn::Interval(carried(sql_type, values)?),
            SqlType::Array(item) => {
                let values: ListArray = carried(sql_type, values)?;
                let items = Box::new(JsonColumn::new(item, values.values().as_ref())?);
                JsonColumn::Array { values, items }
            }
            SqlType::Record(types) => {
                let values: StructArray = carried(sql_type, values)?;
                if values.num_columns() != types.len() {
                    return Err(ConnectorError::internal("a record is carried by a struct with other fields"));
                }
                let fields = types.iter().zip(values.columns()).map(|((name, t), v)| JsonField::new(name, t, v.as_ref()));
                JsonColumn::Record { fields: fields.collect::<ConnectorResult<_>>()?, values }
            }
        })
    }

    fn array(&self) -> &dyn Array {
        match self {
            JsonColumn::Boolean(values) => values,
            JsonColumn::Int2(values) => values,
            JsonColumn::Int4(values) => values,
            JsonColumn::Int8(values) => values,
            JsonColumn::Float4(values) => values,
            JsonColumn::Float8(values) => values,
            JsonColumn::Numeric { values, .. } => values,
            JsonColumn::Text(values) | JsonColumn::Json(values) => values,
            JsonColumn::Bytea(values) => values,
            JsonColumn::Date(values) => values,
            JsonColumn::Time(values) => values,
            JsonColumn::Timestamp { values, .. } => values,
            JsonColumn::Interval(values) => values,
            JsonColumn::Array { values, .. } => values,
            JsonColumn::Record { values, .. } => values,
        }
    }

    /// Whether the value is NULL.
    #[inline]
    pub(super) fn is_null(&self, row: usize) -> bool {
        self.array().is_null(row)
    }

    /// Writes a value as JSON.
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match self {
            JsonColumn::Boolean(values) => out.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            JsonColumn::Int2(values) => write_integer(out, i64::from(values.value(row))),
            JsonColumn::Int4(values) => write_integer(out, i64::from(values.value(row))),
            JsonColumn::Int8(values) => write_integer(out, values.value(row)),
            JsonColumn::Float4(values) => match not_finite(f64::from(values.value(row))) {
                Some(word) => write_string(out, word),
                None => write_float(out, values.value(row)),
            },
            JsonColumn::Float8(values) => match not_finite(values.value(row)) {
                Some(word) => write_string(out, word),
                None => write_float(out, values.value(row)),
            },
            JsonColumn::Numeric { values, scale, trim } => write_decimal(out, values.value(row), *scale, *trim),
            JsonColumn::Text(values) => write_string(out, values.value(row)),
            JsonColumn::Json(values) => write_json(out, values.value(row)),
            JsonColumn::Bytea(values) => {
                // Within JSON the backslash is escaped.
                out.extend_from_slice(b"\"\\");
                write_hex(out, values.value(row));
                out.push(b'"');
            }
            JsonColumn::Date(values) => quoted(out, |out| write_date(out, i64::from(values.value(row)))),
            JsonColumn::Time(values) => quoted(out, |out| write_time(out, values.value(row))),
            JsonColumn::Timestamp { values, zone } => quoted(out, |out| {
                write_timestamp(out, values.value(row), b'T');
                if *zone {
                    out.push(b'Z');
                }
            }),
            JsonColumn::Interval(values) => quoted(out, |out| write_interval(out, values.value(row))),
            JsonColumn::Array { values, items } => {
                let (start, end) = (values.value_offsets()[row] as usize, values.value_offsets()[row + 1] as usize);
                out.push(b'[');
                for item in start..end {
                    if item > start {
                        out.push(b',');
                    }
                    items.write(item, out);
                }
                out.push(b']');
            }
            JsonColumn::Record { fields, .. } => write_object(fields, row, out),
        }
    }
}

fn write_object(fields: &[JsonField], row: usize, out: &mut Vec<u8>) {
    out.push(b'{');
    for (place, field) in fields.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&field.key);
        field.values.write(row, out);
    }
    out.push(b'}');
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// Writes a JSON string.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let (mut from, mut wide_text) = (0, false);
    loop {
        let stop = string_stop(bytes, from, &mut wide_text);
        out.extend_from_slice(&bytes[from..stop]);
        match bytes.get(stop) {
            None => break,
            Some(b'"') => out.extend_from_slice(b"\\\""),
            Some(b'\\') => out.extend_from_slice(b"\\\\"),
            Some(b'\n') => out.extend_from_slice(b"\\n"),
            Some(b'\r') => out.extend_from_slice(b"\\r"),
            Some(b'\t') => out.extend_from_slice(b"\\t"),
            Some(other) => out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
        from = stop + 1;
    }
    out.push(b'"');
}

/// Writes the value that a JSON column holds, on one line. Text that is no JSON, which an expression may have made, becomes a
/// string, so that the object around it stays well-formed.
fn write_json(out: &mut Vec<u8>, text: &str) {
    if !is_json(text) {
        return write_string(out, text);
    }
    // Line ends stand only between tokens: within a string they are escaped.
    out.extend(text.trim_ascii().bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
}

#[cfg(test)]
mod tests;
