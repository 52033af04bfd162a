//! Columns built from wire values: what COPY and parameters bring.

use super::numeric::{self, Decimal, DecimalError};
use super::{Format, parse};
use crate::wire::settings::OutputSettings;
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder, Int16Builder,
    Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, ListArray, NullBufferBuilder, StringBuilder,
    Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::IntervalMonthDayNano;
use std::sync::Arc;
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType, array_text, json};
use thalweg_planner::datetime::calendar::{POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_US};
use thalweg_planner::datetime::read as datetime;

/// The last time of a day, 24:00, in microseconds.
const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;

/// Builds an array of one type from text and binary values.
pub struct ColumnReader {
    sql_type: SqlType,
    settings: OutputSettings,
    builder: Builder,
}

enum Builder {
    Boolean(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Numeric(Decimal128Builder, u8, i8),
    String(StringBuilder),
    Bytea(BinaryBuilder),
    Date(Date32Builder),
    Time(Time64MicrosecondBuilder),
    Timestamp(TimestampMicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Array { items: Box<ColumnReader>, offsets: Vec<i32>, nulls: NullBufferBuilder },
}

impl ColumnReader {
    /// A builder of values of this type.
    ///
    /// # Errors
    /// `0A000` for records, which have no input form.
    pub fn new(sql_type: &SqlType, settings: OutputSettings) -> SqlResult<ColumnReader> {
        let builder = match sql_type {
            SqlType::Boolean => Builder::Boolean(BooleanBuilder::new()),
            SqlType::Int2 => Builder::Int2(Int16Builder::new()),
            SqlType::Int4 => Builder::Int4(Int32Builder::new()),
            SqlType::Int8 => Builder::Int8(Int64Builder::new()),
            SqlType::Float4 => Builder::Float4(Float32Builder::new()),
            SqlType::Float8 => Builder::Float8(Float64Builder::new()),
            SqlType::Numeric(size) => {
                let (precision, scale) = size.unwrap_or(NUMERIC_DEFAULT);
                Builder::Numeric(Decimal128Builder::new().with_data_type(sql_type.to_arrow()), precision, scale)
            }
            SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) | SqlType::Uuid | SqlType::Json | SqlType::Jsonb => {
                Builder::String(StringBuilder::new())
            }
            SqlType::Bytea => Builder::Bytea(BinaryBuilder::new()),
            SqlType::Date => Builder::Date(Date32Builder::new()),
            SqlType::Time => Builder::Time(Time64MicrosecondBuilder::new()),
            SqlType::Timestamp | SqlType::TimestampTz => {
                Builder::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(sql_type.to_arrow()))
            }
            SqlType::Interval => Builder::Interval(IntervalMonthDayNanoBuilder::new()),
            SqlType::Array(item) => Builder::Array {
                items: Box::new(ColumnReader::new(item, settings)?),
                offsets: vec![0],
                nulls: NullBufferBuilder::new(0),
            },
            SqlType::Record(_) => {
                return Err(SqlError::unsupported("input of anonymous composite types is not implemented"));
            }
        };
        Ok(ColumnReader { sql_type: sql_type.clone(), settings, builder })
    }

    /// Adds a value in one of the two formats.
    ///
    /// # Errors
    /// `22P02` or `22003` and their like for bad text, `22P03` for bad binary.
    pub fn append(&mut self, format: Format, bytes: &[u8]) -> SqlResult<()> {
        match format {
            Format::Text => self.append_text(utf8(bytes)?),
            Format::Binary => self.append_binary(bytes),
        }
    }

    /// Adds a NULL.
    pub fn append_null(&mut self) {
        match &mut self.builder {
            Builder::Boolean(b) => b.append_null(),
            Builder::Int2(b) => b.append_null(),
            Builder::Int4(b) => b.append_null(),
            Builder::Int8(b) => b.append_null(),
            Builder::Float4(b) => b.append_null(),
            Builder::Float8(b) => b.append_null(),
            Builder::Numeric(b, ..) => b.append_null(),
            Builder::String(b) => b.append_null(),
            Builder::Bytea(b) => b.append_null(),
            Builder::Date(b) => b.append_null(),
            Builder::Time(b) => b.append_null(),
            Builder::Timestamp(b) => b.append_null(),
            Builder::Interval(b) => b.append_null(),
            Builder::Array { offsets, nulls, .. } => {
                offsets.push(offsets.last().copied().unwrap_or(0));
                nulls.append_null();
            }
        }
    }

    /// Adds a value from its text form.
    ///
    /// # Errors
    /// As [`ColumnReader::append`].
    pub fn append_text(&mut self, text: &str) -> SqlResult<()> {
        match &mut self.builder {
            Builder::Boolean(b) => b.append_value(parse::boolean(text)?),
            Builder::Int2(b) => b.append_value(parse::integer("smallint", text)?),
            Builder::Int4(b) => b.append_value(parse::integer("integer", text)?),
            Builder::Int8(b) => b.append_value(parse::integer("bigint", text)?),
            Builder::Float4(b) => b.append_value(parse::float("real", text)?),
            Builder::Float8(b) => b.append_value(parse::float("double precision", text)?),
            Builder::Numeric(b, precision, scale) => {
                b.append_value(sized(decimal(text)?, *precision, *scale)?);
            }
            Builder::String(b) => append_string(b, &self.sql_type, text)?,
            Builder::Bytea(b) => b.append_value(parse::bytea(text)?),
            Builder::Date(b) => b.append_value(datetime::date(text)?),
            Builder::Time(b) => b.append_value(datetime::time(text)?),
            Builder::Timestamp(b) if self.sql_type == SqlType::Timestamp => b.append_value(datetime::timestamp(text)?),
            Builder::Timestamp(b) => b.append_value(datetime::timestamptz(text, &self.settings.time_zone)?),
            Builder::Interval(b) => b.append_value(datetime::interval(text)?),
            Builder::Array { items, offsets, nulls } => {
                let elements = array_text::elements(text)?;
                let end = next_offset(offsets, elements.len())?;
                for element in elements {
                    match element {
                        Some(element) => items.append_text(&element)?,
                        None => items.append_null(),
                    }
                }
                offsets.push(end);
                nulls.append_non_null();
            }
        }
        Ok(())
    }

    /// Adds a value from its binary form.
    ///
    /// # Errors
    /// As [`ColumnReader::append`].
    pub fn append_binary(&mut self, bytes: &[u8]) -> SqlResult<()> {
        match &mut self.builder {
            Builder::Boolean(b) => b.append_value(fixed::<1>(bytes)?[0] != 0),
            Builder::Int2(b) => b.append_value(i16::from_be_bytes(fixed(bytes)?)),
            Builder::Int4(b) => b.append_value(i32::from_be_bytes(fixed(bytes)?)),
            Builder::Int8(b) => b.append_value(i64::from_be_bytes(fixed(bytes)?)),
            Builder::Float4(b) => b.append_value(f32::from_be_bytes(fixed(bytes)?)),
            Builder::Float8(b) => b.append_value(f64::from_be_bytes(fixed(bytes)?)),
            Builder::Numeric(b, precision, scale) => b.append_value(sized(decimal_binary(bytes)?, *precision, *scale)?),
            Builder::String(b) => match &self.sql_type {
                SqlType::Uuid => b.append_value(parse::uuid_text(&fixed(bytes)?)),
                SqlType::Jsonb => match bytes.split_first() {
                    Some((1, rest)) => append_string(b, &self.sql_type, utf8(rest)?)?,
                    _ => return Err(bad_binary()),
                },
                sql_type => append_string(b, sql_type, utf8(bytes)?)?,
            },
            Builder::Bytea(b) => b.append_value(bytes),
            Builder::Date(b) => {
                b.append_value(match i32::from_be_bytes(fixed(bytes)?) {
                    infinite @ (i32::MIN | i32::MAX) => infinite,
                    days => days.checked_add(POSTGRES_EPOCH_DAYS).ok_or_else(|| out_of_range("date"))?,
                });
            }
            Builder::Time(b) => {
                let us = i64::from_be_bytes(fixed(bytes)?);
                if !(0..=DAY_US).contains(&us) {
                    return Err(SqlError::new(SqlState::DatetimeFieldOverflow, "time out of range"));
                }
                b.append_value(us);
            }
            Builder::Timestamp(b) => {
                b.append_value(match i64::from_be_bytes(fixed(bytes)?) {
                    infinite @ (i64::MIN | i64::MAX) => infinite,
                    us => us.checked_add(POSTGRES_EPOCH_US).ok_or_else(|| out_of_range("timestamp"))?,
                });
            }
            Builder::Interval(b) => b.append_value(interval_binary(bytes)?),
            Builder::Array { items, offsets, nulls } => {
                let count = append_array_binary(items, bytes)?;
                offsets.push(next_offset(offsets, count)?);
                nulls.append_non_null();
            }
        }
        Ok(())
    }

    /// The array of all values added so far; the builder starts again.
    pub fn finish(&mut self) -> SqlResult<ArrayRef> {
        Ok(match &mut self.builder {
            Builder::Boolean(b) => Arc::new(b.finish()),
            Builder::Int2(b) => Arc::new(b.finish()),
            Builder::Int4(b) => Arc::new(b.finish()),
            Builder::Int8(b) => Arc::new(b.finish()),
            Builder::Float4(b) => Arc::new(b.finish()),
            Builder::Float8(b) => Arc::new(b.finish()),
            Builder::Numeric(b, ..) => Arc::new(b.finish()),
            Builder::String(b) => Arc::new(b.finish()),
            Builder::Bytea(b) => Arc::new(b.finish()),
            Builder::Date(b) => Arc::new(b.finish()),
            Builder::Time(b) => Arc::new(b.finish()),
            Builder::Timestamp(b) => Arc::new(b.finish()),
            Builder::Interval(b) => Arc::new(b.finish()),
            Builder::Array { items, offsets, nulls } => {
                let offsets = std::mem::replace(offsets, vec![0]);
                let field = Arc::new(items.sql_type.to_field("item", true));
                let values = items.finish()?;
                let nulls = nulls.finish();
                let array = ListArray::try_new(field, OffsetBuffer::new(ScalarBuffer::from(offsets)), values, nulls);
                Arc::new(array.map_err(|error| SqlError::internal(format!("an array could not be built: {error}")))?)
            }
        })
    }
}

fn next_offset(offsets: &[i32], count: usize) -> SqlResult<i32> {
    let last = offsets.last().copied().unwrap_or(0);
    i32::try_from(count)
        .ok()
        .and_then(|count| last.checked_add(count))
        .ok_or_else(|| SqlError::new(SqlState::ProgramLimitExceeded, "too many array elements"))
}

fn append_string(builder: &mut StringBuilder, sql_type: &SqlType, text: &str) -> SqlResult<()> {
    match sql_type {
        SqlType::Varchar(Some(limit)) => builder.append_value(parse::varchar(text, *limit)?),
        SqlType::Char(length) => builder.append_value(parse::char(text, *length)?),
        SqlType::Uuid => {
            let bytes = parse::uuid_bytes(text).ok_or_else(|| parse::invalid("uuid", text))?;
            builder.append_value(parse::uuid_text(&bytes));
        }
        SqlType::Json => {
            json::check(text)?;
            builder.append_value(text);
        }
        SqlType::Jsonb => builder.append_value(json::canonical(text)?),
        _ => builder.append_value(text),
    }
    Ok(())
}

/// Text in UTF-8 and without zero bytes, as Postgres demands of all text.
///
/// # Errors
/// `22021`.
pub fn utf8(bytes: &[u8]) -> SqlResult<&str> {
    let bad = |bytes: &[u8]| {
        let shown: Vec<String> = bytes.iter().take(4).map(|b| format!("0x{b:02x}")).collect();
        SqlError::new(
            SqlState::CharacterNotInRepertoire,
            format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
        )
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let start = error.valid_up_to();
        let end = error.error_len().map_or(bytes.len(), |length| start + length);
        bad(&bytes[start..end])
    })?;
    if bytes.contains(&0) { Err(bad(&[0])) } else { Ok(text) }
}

/// Reads a `numeric` from text, with as many decimal places as are written.
///
/// # Errors
/// `22P02`, or `22003` for what 38 digits can't hold.
pub fn decimal(text: &str) -> SqlResult<Decimal> {
    numeric::parse_text(text).map_err(|error| match error {
        DecimalError::Syntax => parse::invalid("numeric", text),
        DecimalError::Range => parse::out_of_range("numeric", text),
    })
}

/// Reads a `numeric` from its binary form.
///
/// # Errors
/// `22P03`, or `22003` for what 38 digits can't hold.
pub fn decimal_binary(bytes: &[u8]) -> SqlResult<Decimal> {
    numeric::parse_binary(bytes).ok_or_else(bad_binary)?.map_err(|_| out_of_range("numeric"))
}

/// The digits of a number in a column of this size.
///
/// # Errors
/// `22003` if it has too many.
pub fn sized(number: Decimal, precision: u8, scale: i8) -> SqlResult<i128> {
    numeric::rescale(number, scale.max(0) as u32).filter(|value| numeric::fits(*value, precision)).ok_or_else(|| {
        SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{}.",
            i32::from(precision) - i32::from(scale)
        ))
    })
}

fn interval_binary(bytes: &[u8]) -> SqlResult<IntervalMonthDayNano> {
    let bytes: [u8; 16] = fixed(bytes)?;
    let us = i64::from_be_bytes(fixed(&bytes[..8])?);
    let days = i32::from_be_bytes(fixed(&bytes[8..12])?);
    let months = i32::from_be_bytes(fixed(&bytes[12..])?);
    let nanoseconds = us.checked_mul(1000).ok_or_else(|| out_of_range("interval"))?;
    Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
}

/// Adds the elements of an array of one dimension; how many.
fn append_array_binary(items: &mut ColumnReader, bytes: &[u8]) -> SqlResult<usize> {
    let mut rest = Fields(bytes);
    let dimensions = rest.i32()?;
    let _has_null = rest.i32()?;
    let _element_oid = rest.i32()?;
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = rest.i32()?;
            let _lower_bound = rest.i32()?;
            usize::try_from(count).map_err(|_| bad_binary())?
        }
        _ => return Err(SqlError::unsupported("arrays of several dimensions are not supported as input")),
    };
    for _ in 0..count {
        match usize::try_from(rest.i32()?) {
            Ok(length) => items.append_binary(rest.take(length)?)?,
            Err(_) => items.append_null(),
        }
    }
    if rest.0.is_empty() { Ok(count) } else { Err(bad_binary()) }
}

/// Bytes that are read from the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> SqlResult<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(bad_binary)?;
        self.0 = rest;
        Ok(taken)
    }

    fn i32(&mut self) -> SqlResult<i32> {
        Ok(i32::from_be_bytes(fixed(self.take(4)?)?))
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> SqlResult<[u8; N]> {
    if bytes.len() < N {
        return Err(SqlError::new(SqlState::ProtocolViolation, "insufficient data left in message"));
    }
    bytes.try_into().map_err(|_| bad_binary())
}

fn bad_binary() -> SqlError {
    SqlError::new(SqlState::InvalidBinaryRepresentation, "incorrect binary data format")
}

fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, format!("{type_name} out of range"))
}
