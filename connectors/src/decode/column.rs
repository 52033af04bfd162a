//! Columns under construction.
//!
//! Unlike Arrow's own builders these can be cut back, which is how a record that turns out to be bad leaves no trace, and how
//! the last of two equal keys wins.

use crate::datetime::{parse_date, parse_time, parse_timestamp, parse_timestamp_tz};
use crate::decode::fault::{Fault, Fit};
use crate::decode::json;
use crate::decode::names::Names;
use crate::decode::value::{Misfit, parse_boolean, parse_bytea, parse_float, parse_integer, parse_numeric, parse_uuid, trim};
use arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, ListArray, PrimitiveArray, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use std::mem::take;
use std::sync::Arc;
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{Column, SqlType};

/// One column of the batch to come.
pub(crate) struct ColumnBuilder {
    pub(crate) name: String,
    pub(crate) sql_type: SqlType,
    nullable: bool,
    len: usize,
    /// None as long as there is no NULL.
    validity: Option<BooleanBufferBuilder>,
    values: Values,
}

/// The values so far; NULLs stand there as some value.
enum Values {
    Boolean(BooleanBufferBuilder),
    Int2(Vec<i16>),
    Int4(Vec<i32>),
    Int8(Vec<i64>),
    Float4(Vec<f32>),
    Float8(Vec<f64>),
    Numeric {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
    },
    Bytes {
        bytes: Vec<u8>,
        ends: Vec<i32>,
    },
    Date(Vec<i32>),
    /// Microseconds of a time of day, a timestamp or a timestamp with time zone.
    Micros(Vec<i64>),
    Interval(Vec<IntervalMonthDayNano>),
    Array {
        ends: Vec<i32>,
        items: Box<ColumnBuilder>,
    },
    Record {
        names: Box<Names>,
        fields: Vec<ColumnBuilder>,
    },
}

fn values_of(sql_type: &SqlType) -> Values {
    match sql_type {
        SqlType::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
        SqlType::Int2 => Values::Int2(vec![]),
        SqlType::Int4 => Values::Int4(vec![]),
        SqlType::Int8 => Values::Int8(vec![]),
        SqlType::Float4 => Values::Float4(vec![]),
        SqlType::Float8 => Values::Float8(vec![]),
        SqlType::Numeric(shape) => {
            let (precision, scale) = shape.unwrap_or(NUMERIC_DEFAULT);
            Values::Numeric { values: vec![], precision, scale }
        }
        SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Bytea => Values::Bytes { bytes: vec![], ends: vec![] },
        SqlType::Uuid | SqlType::Json | SqlType::Jsonb | SqlType::Carried(_) => Values::Bytes { bytes: vec![], ends: vec![] },
        SqlType::Date => Values::Date(vec![]),
        SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz => Values::Micros(vec![]),
        SqlType::Interval => Values::Interval(vec![]),
        SqlType::Array(item) => {
            Values::Array { ends: vec![], items: Box::new(ColumnBuilder::new(&Column::new("item", (**item).clone()))) }
        }
        SqlType::Record(fields) => Values::Record {
            names: Box::new(Names::new(fields.iter().enumerate().map(|(place, (name, _))| (name.clone(), Some(place))))),
            fields: fields.iter().map(|(name, t)| ColumnBuilder::new(&Column::new(name.clone(), t.clone()))).collect(),
        },
    }
}

impl ColumnBuilder {
    pub(crate) fn new(column: &Column) -> ColumnBuilder {
        ColumnBuilder {
            name: column.name.clone(),
            sql_type: column.sql_type.clone(),
            nullable: column.nullable,
            len: 0,
            validity: None,
            values: values_of(&column.sql_type),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The builders of a record's fields with their names, if this is a column of records.
    #[inline]
    pub(crate) fn record(&mut self) -> Option<(&mut Names, &mut [ColumnBuilder])> {
        match &mut self.values {
            Values::Record { names, fields } => Some((names, fields)),
            _ => None,
        }
    }

    /// The builder of an array's items, if this is a column of arrays.
    pub(crate) fn items(&mut self) -> Option<&mut ColumnBuilder> {
        match &mut self.values {
            Values::Array { items, .. } => Some(items),
            _ => None,
        }
    }

    /// Counts one value that was appended, or whose parts were.
    #[inline(always)]
    fn appended(&mut self) {
        self.len += 1;
        if let Some(validity) = &mut self.validity {
            validity.append(true);
        }
    }

    /// Ends a record whose fields have been appended.
    pub(crate) fn end_record(&mut self) {
        self.appended();
    }

    /// Ends an array whose items have been appended.
    pub(crate) fn end_array(&mut self) -> Fit<()> {
        if let Values::Array { ends, items } = &mut self.values {
            ends.push(end_of(items.len)?);
        }
        self.appended();
        Ok(())
    }

    pub(crate) fn append_null(&mut self) -> Fit<()> {
        if !self.nullable {
            return Err(Fault::new("null value in a column that is NOT NULL").within(&self.name));
        }
        match &mut self.values {
            Values::Boolean(values) => values.append(false),
            Values::Int2(values) => values.push(0),
            Values::Int4(values) | Values::Date(values) => values.push(0),
            Values::Int8(values) | Values::Micros(values) => values.push(0),
            Values::Float4(values) => values.push(0.0),
            Values::Float8(values) => values.push(0.0),
            Values::Numeric { values, .. } => values.push(0),
            Values::Bytes { bytes, ends } => ends.push(end_of(bytes.len())?),
            Values::Interval(values) => values.push(IntervalMonthDayNano::ZERO),
            Values::Array { ends, items } => ends.push(end_of(items.len)?),
            Values::Record { fields, .. } => {
                for field in fields {
                    field.append_null()?;
                }
            }
        }
        let validity = self.validity.get_or_insert_with(|| {
            let mut validity = BooleanBufferBuilder::new(self.len + 1);
            validity.append_n(self.len, true);
            validity
        });
        validity.append(false);
        self.len += 1;
        Ok(())
    }

    /// Appends an integer without going through its text, if the column takes one as it is.
    #[inline(always)]
    pub(crate) fn append_integer(&mut self, value: i64) -> bool {
        match &mut self.values {
            Values::Int8(values) => values.push(value),
            Values::Int4(values) => match i32::try_from(value) {
                Ok(value) => values.push(value),
                Err(_) => return false,
            },
            _ => return false,
        }
        self.appended();
        true
    }

    /// Appends what a text says; the text of a JSON string or of a CSV field. The whole record is known to be UTF-8, or is
    /// checked before it counts.
    #[inline]
    pub(crate) fn append_text(&mut self, text: &[u8]) -> Fit<()> {
        if let (Values::Bytes { bytes, ends }, SqlType::Text | SqlType::Varchar(None)) = (&mut self.values, &self.sql_type) {
            bytes.extend_from_slice(text);
            ends.push(end_of(bytes.len())?);
        } else {
            self.append_parsed(text, trim(text))?;
        }
        self.appended();
        Ok(())
    }

    /// Appends a JSON number, by its text.
    pub(crate) fn append_number(&mut self, text: &[u8]) -> Fit<()> {
        match &mut self.values {
            Values::Micros(values) if self.sql_type != SqlType::Time => {
                values.push(millis(text).map_err(|m| Fault::misfit(m, &self.sql_type, text))?);
            }
            Values::Bytes { bytes, ends } if matches!(self.sql_type, SqlType::Json | SqlType::Jsonb) => {
                json::push(bytes, &self.sql_type, text)?;
                ends.push(end_of(bytes.len())?);
            }
            _ => return self.append_text(text),
        }
        self.appended();
        Ok(())
    }

    /// Appends a JSON boolean.
    pub(crate) fn append_boolean(&mut self, value: bool) -> Fit<()> {
        let text: &[u8] = if value { b"true" } else { b"false" };
        match &mut self.values {
            Values::Boolean(values) => values.append(value),
            Values::Bytes { bytes, ends } if !matches!(self.sql_type, SqlType::Uuid | SqlType::Bytea | SqlType::Carried(_)) => {
                return if matches!(self.sql_type, SqlType::Json | SqlType::Jsonb) {
                    bytes.extend_from_slice(text);
                    ends.push(end_of(bytes.len())?);
                    self.appended();
                    Ok(())
                } else {
                    self.append_text(text)
                };
            }
            _ => return Err(Fault::misfit(Misfit::Syntax, &self.sql_type, text)),
        }
        self.appended();
        Ok(())
    }

    /// Whether JSON values go here as their own text.
    pub(crate) fn keeps_json(&self) -> bool {
        matches!(self.sql_type, SqlType::Json | SqlType::Jsonb)
    }

    /// Appends the text of a JSON object, array or (into a JSON column) string.
    pub(crate) fn append_json(&mut self, text: &[u8]) -> Fit<()> {
        match (&mut self.values, &self.sql_type) {
            (Values::Bytes { bytes, ends }, SqlType::Json | SqlType::Jsonb) => {
                json::push(bytes, &self.sql_type, text)?;
                ends.push(end_of(bytes.len())?);
                self.appended();
                Ok(())
            }
            (_, SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_)) => self.append_text(text),
            _ => Err(Fault::misfit(Misfit::Syntax, &self.sql_type, text)),
        }
    }

    /// Appends a payload as it is.
    pub(crate) fn append_bytes(&mut self, payload: &[u8]) -> Fit<()> {
        match &mut self.values {
            Values::Bytes { bytes, ends } if self.sql_type == SqlType::Bytea => {
                bytes.extend_from_slice(payload);
                ends.push(end_of(bytes.len())?);
                self.appended();
                Ok(())
            }
            _ => self.append_text(payload),
        }
    }

    fn append_parsed(&mut self, text: &[u8], trimmed: &[u8]) -> Fit<()> {
        let sql_type = &self.sql_type;
        let misfit = |m: Misfit| Fault::misfit(m, sql_type, text);
        let out_of_range = || Fault::misfit(Misfit::Range, sql_type, text);
        match &mut self.values {
            Values::Boolean(values) => values.append(parse_boolean(trimmed).map_err(misfit)?),
            Values::Int2(values) => {
                let value = parse_integer(trimmed).map_err(misfit)?;
                values.push(i16::try_from(value).map_err(|_| out_of_range())?);
            }
            Values::Int4(values) => {
                let value = parse_integer(trimmed).map_err(misfit)?;
                values.push(i32::try_from(value).map_err(|_| out_of_range())?);
            }
            Values::Int8(values) => values.push(parse_integer(trimmed).map_err(misfit)?),
            Values::Float4(values) => values.push(parse_float(trimmed).map_err(misfit)?),
            Values::Float8(values) => values.push(parse_float(trimmed).map_err(misfit)?),
            Values::Numeric { values, precision, scale } => {
                values.push(parse_numeric(trimmed, *precision, *scale).map_err(misfit)?);
            }
            Values::Date(values) => values.push(parse_date(trimmed).map_err(misfit)?),
            Values::Micros(values) => values.push(parse_micros(sql_type, trimmed).map_err(misfit)?),
            Values::Interval(values) => values.push(parse_interval(trimmed).map_err(misfit)?),
            Values::Bytes { bytes, ends } => {
                append_text_type(bytes, sql_type, text, trimmed)?;
                ends.push(end_of(bytes.len())?);
            }
            Values::Array { .. } | Values::Record { .. } => return Err(misfit(Misfit::Syntax)),
        }
        Ok(())
    }

    /// Cuts back to the first `len` values, and whatever parts of a further one there are.
    pub(crate) fn truncate(&mut self, len: usize) {
        match &mut self.values {
            Values::Boolean(values) => values.truncate(len),
            Values::Int2(values) => values.truncate(len),
            Values::Int4(values) | Values::Date(values) => values.truncate(len),
            Values::Int8(values) | Values::Micros(values) => values.truncate(len),
            Values::Float4(values) => values.truncate(len),
            Values::Float8(values) => values.truncate(len),
            Values::Numeric { values, .. } => values.truncate(len),
            Values::Bytes { bytes, ends } => {
                ends.truncate(len);
                bytes.truncate(ends.last().map_or(0, |end| *end as usize));
            }
            Values::Interval(values) => values.truncate(len),
            Values::Array { ends, items } => {
                ends.truncate(len);
                items.truncate(ends.last().map_or(0, |end| *end as usize));
            }
            Values::Record { fields, .. } => fields.iter_mut().for_each(|field| field.truncate(len)),
        }
        if let Some(validity) = &mut self.validity {
            validity.truncate(len);
        }
        self.len = self.len.min(len);
    }

    /// Takes what has been appended.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.validity.take().map(|mut validity| NullBuffer::new(validity.finish()));
        let rows = take(&mut self.len);
        Ok(match &mut self.values {
            Values::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int2(values) => Arc::new(Int16Array::new(drain(values), nulls)),
            Values::Int4(values) => Arc::new(Int32Array::new(drain(values), nulls)),
            Values::Int8(values) => Arc::new(Int64Array::new(drain(values), nulls)),
            Values::Float4(values) => Arc::new(Float32Array::new(drain(values), nulls)),
            Values::Float8(values) => Arc::new(Float64Array::new(drain(values), nulls)),
            Values::Numeric { values, precision, scale } => {
                Arc::new(Decimal128Array::new(drain(values), nulls).with_precision_and_scale(*precision, *scale)?)
            }
            Values::Bytes { bytes, ends } => {
                let capacity = bytes.len();
                let buffer = Buffer::from_vec(std::mem::replace(bytes, Vec::with_capacity(capacity)));
                if self.sql_type == SqlType::Bytea {
                    Arc::new(BinaryArray::try_new(offsets(ends), buffer, nulls)?)
                } else {
                    Arc::new(StringArray::try_new(offsets(ends), buffer, nulls)?)
                }
            }
            Values::Date(values) => Arc::new(Date32Array::new(drain(values), nulls)),
            Values::Micros(values) => match self.sql_type {
                SqlType::Time => Arc::new(Time64MicrosecondArray::new(drain(values), nulls)),
                SqlType::TimestampTz => Arc::new(TimestampMicrosecondArray::new(drain(values), nulls).with_timezone("+00:00")),
                _ => Arc::new(TimestampMicrosecondArray::new(drain(values), nulls)),
            },
            Values::Interval(values) => Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::new(drain(values), nulls)),
            Values::Array { ends, items } => match self.sql_type.to_arrow() {
                DataType::List(field) => Arc::new(ListArray::try_new(field, offsets(ends), items.finish()?, nulls)?),
                other => return Err(ArrowError::SchemaError(format!("an array column is carried by {other}"))),
            },
            Values::Record { fields, .. } => match self.sql_type.to_arrow() {
                DataType::Struct(types) if types.is_empty() => Arc::new(StructArray::new_empty_fields(rows, nulls)),
                DataType::Struct(types) => {
                    let columns = fields.iter_mut().map(ColumnBuilder::finish).collect::<Result<Vec<_>, _>>()?;
                    Arc::new(StructArray::try_new(types, columns, nulls)?)
                }
                other => return Err(ArrowError::SchemaError(format!("a record column is carried by {other}"))),
            },
        })
    }
}

/// Arrow counts bytes and items of one array in 31 bits.
#[inline(always)]
fn end_of(length: usize) -> Fit<i32> {
    i32::try_from(length).map_err(|_| Fault::new("too much text in one batch"))
}

/// Takes the values, leaving room for as many.
fn drain<T: arrow::datatypes::ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    let capacity = values.len();
    ScalarBuffer::from(std::mem::replace(values, Vec::with_capacity(capacity)))
}

fn offsets(ends: &mut Vec<i32>) -> OffsetBuffer<i32> {
    let mut all = Vec::with_capacity(ends.len() + 1);
    all.push(0);
    all.append(ends);
    OffsetBuffer::new(ScalarBuffer::from(all))
}

/// An integer number of milliseconds since 1970, as microseconds.
fn millis(text: &[u8]) -> Result<i64, Misfit> {
    parse_integer(text)?.checked_mul(1000).ok_or(Misfit::Range)
}

fn parse_micros(sql_type: &SqlType, text: &[u8]) -> Result<i64, Misfit> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    // Eight and fourteen digits would be a date or a timestamp in the compact form of ISO 8601, which is not read.
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) && !matches!(digits.len(), 8 | 14);
    match sql_type {
        SqlType::Time => parse_time(text),
        _ if is_number => millis(text),
        SqlType::TimestampTz => parse_timestamp_tz(text),
        _ => parse_timestamp(text),
    }
}

/// Numbers with units, a time of day after them or alone: what Postgres writes, and most of what it reads.
fn parse_interval(text: &[u8]) -> Result<IntervalMonthDayNano, Misfit> {
    let text = std::str::from_utf8(text).map_err(|_| Misfit::Syntax)?;
    let (units, clock) = match text.rsplit_once(' ') {
        Some((units, clock)) if clock.contains(':') => (units, Some(clock)),
        None if text.contains(':') => ("", Some(text)),
        _ => (text, None),
    };
    let read = arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
    let mut interval = match units {
        "" if clock.is_some() => IntervalMonthDayNano::ZERO,
        units => read(units).map_err(|_| Misfit::Syntax)?,
    };
    if let Some(clock) = clock {
        let (sign, clock) = match clock.strip_prefix('-') {
            Some(clock) => (-1, clock),
            None => (1, clock.strip_prefix('+').unwrap_or(clock)),
        };
        let nanos = parse_clock(clock)?.checked_mul(sign * 1000).ok_or(Misfit::Range)?;
        interval.nanoseconds = interval.nanoseconds.checked_add(nanos).ok_or(Misfit::Range)?;
    }
    Ok(interval)
}

/// `H:MM[:SS[.ffffff]]` with any number of hours, in microseconds.
fn parse_clock(text: &str) -> Result<i64, Misfit> {
    let (hours, rest) = text.split_once(':').ok_or(Misfit::Syntax)?;
    if hours.is_empty() || !hours.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Misfit::Syntax);
    }
    let hours: i64 = hours.parse().map_err(|_| Misfit::Range)?;
    let rest = parse_time(format!("00:{rest}").as_bytes())?;
    hours.checked_mul(3_600_000_000).and_then(|us| us.checked_add(rest)).ok_or(Misfit::Range)
}

/// Appends text to a column of a text type that has rules of its own.
fn append_text_type(bytes: &mut Vec<u8>, sql_type: &SqlType, text: &[u8], trimmed: &[u8]) -> Fit<()> {
    let misfit = |m: Misfit| Fault::misfit(m, sql_type, text);
    match sql_type {
        SqlType::Uuid => bytes.extend_from_slice(&parse_uuid(trimmed).map_err(misfit)?),
        SqlType::Bytea => parse_bytea(text, bytes).map_err(misfit)?,
        SqlType::Carried(carried) => {
            let text = std::str::from_utf8(text).map_err(|_| misfit(Misfit::Syntax))?;
            let kept = carried.canonical(text, &SessionTimeZone::UTC).map_err(|_| misfit(Misfit::Syntax))?;
            bytes.extend_from_slice(kept.as_bytes());
        }
        SqlType::Json | SqlType::Jsonb => {
            json::check(text).map_err(|_| misfit(Misfit::Syntax))?;
            json::push(bytes, sql_type, text)?;
        }
        SqlType::Varchar(Some(limit)) => {
            let (kept, _) = fit_characters(text, *limit as usize, sql_type)?;
            bytes.extend_from_slice(kept);
        }
        SqlType::Char(limit) => {
            let (kept, missing) = fit_characters(text, *limit as usize, sql_type)?;
            bytes.extend_from_slice(kept);
            bytes.resize(bytes.len() + missing, b' ');
        }
        _ => bytes.extend_from_slice(text),
    }
    Ok(())
}

/// The text, at most `limit` characters of it if the rest is blank, and how many characters are missing to the limit.
fn fit_characters<'a>(text: &'a [u8], limit: usize, sql_type: &SqlType) -> Fit<(&'a [u8], usize)> {
    let starts = text.iter().enumerate().filter(|(_, byte)| (**byte & 0xc0) != 0x80).map(|(place, _)| place);
    let mut count = 0;
    for start in starts {
        if count == limit {
            if text[start..].iter().all(|byte| *byte == b' ') {
                return Ok((&text[..start], 0));
            }
            return Err(Fault::new(format!("value too long for type {sql_type}")));
        }
        count += 1;
    }
    Ok((text, limit - count))
}
