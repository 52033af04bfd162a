//! Columns built from wire values: what COPY and parameters bring.

use super::numeric::{self, Decimal, DecimalError};
use super::{Format, array, carried, parse};
use crate::wire::settings::OutputSettings;
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder, Int16Builder,
    Int32Builder, Int64Builder, IntervalMonthDayNanoBuilder, ListArray, NullBufferBuilder, StringBuilder,
    Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::IntervalMonthDayNano;
use std::sync::Arc;
use thalweg_catalog::datetime::calendar::{POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_US, is_date, is_timestamp};
use thalweg_catalog::datetime::read as datetime;
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType, array_text, json};

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
            SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => Builder::String(StringBuilder::new()),
            SqlType::Uuid | SqlType::Json | SqlType::Jsonb | SqlType::Carried(_) => Builder::String(StringBuilder::new()),
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
            Builder::String(b) => match &self.sql_type {
                SqlType::Carried(of) => b.append_value(of.canonical(text, &self.settings.time_zone)?),
                sql_type => append_string(b, sql_type, text)?,
            },
            Builder::Bytea(b) => b.append_value(parse::bytea(text)?),
            Builder::Date(b) => b.append_value(datetime::date(text)?),
            Builder::Time(b) => b.append_value(datetime::time(text)?),
            Builder::Timestamp(b) if self.sql_type == SqlType::Timestamp => b.append_value(datetime::timestamp(text)?),
            Builder::Timestamp(b) => b.append_value(datetime::timestamptz(text, &self.settings.time_zone)?),
            Builder::Interval(b) => b.append_value(datetime::interval(text)?),
            Builder::Array { items, offsets, nulls } => {
                let start = items.len();
                let count = array::append_text(items, text)?;
                if !items.is_even(start) {
                    return Err(array_text::uneven(text));
                }
                offsets.push(next_offset(offsets, count)?);
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
                SqlType::Carried(of) => b.append_value(carried::read_binary(of, bytes)?),
                sql_type => append_string(b, sql_type, utf8(bytes)?)?,
            },
            Builder::Bytea(b) => b.append_value(bytes),
            Builder::Date(b) => {
                let days = match i32::from_be_bytes(fixed(bytes)?) {
                    i32::MIN | i32::MAX => return Err(datetime::infinite("date")),
                    days => days.checked_add(POSTGRES_EPOCH_DAYS).filter(|days| is_date(i64::from(*days))),
                };
                b.append_value(days.ok_or_else(|| beyond("date"))?);
            }
            Builder::Time(b) => {
                let us = i64::from_be_bytes(fixed(bytes)?);
                if !(0..=DAY_US).contains(&us) {
                    return Err(SqlError::new(SqlState::DatetimeFieldOverflow, "time out of range"));
                }
                b.append_value(us);
            }
            Builder::Timestamp(b) => {
                let us = match i64::from_be_bytes(fixed(bytes)?) {
                    i64::MIN | i64::MAX => return Err(datetime::infinite("timestamp")),
                    us => us.checked_add(POSTGRES_EPOCH_US).filter(|us| is_timestamp(*us)),
                };
                b.append_value(us.ok_or_else(|| beyond("timestamp"))?);
            }
            Builder::Interval(b) => b.append_value(interval_binary(bytes)?),
            Builder::Array { items, offsets, nulls } => {
                let count = array::append_binary(items, bytes)?;
                offsets.push(next_offset(offsets, count)?);
                nulls.append_non_null();
            }
        }
        Ok(())
    }

    /// Appends an array of these lengths, the outermost first, whose elements stand one behind the other. How many elements
    /// the outermost dimension has.
    ///
    /// # Errors
    /// As [`ColumnReader::append`]; `0A000` if there are more dimensions than the type has.
    pub(super) fn append_dimensions(&mut self, lengths: &[usize], elements: &mut array::Fields<'_>) -> SqlResult<usize> {
        let count = lengths.first().copied().unwrap_or(0);
        let deeper = lengths.get(1..).unwrap_or_default();
        if deeper.is_empty() && self.is_array() {
            return Err(array::too_flat());
        }
        for _ in 0..count {
            if deeper.is_empty() {
                match elements.next_value()? {
                    Some(bytes) => self.append_binary(bytes)?,
                    None => self.append_null(),
                }
                continue;
            }
            let Builder::Array { items, offsets, nulls } = &mut self.builder else { return Err(array::too_deep()) };
            let count = items.append_dimensions(deeper, elements)?;
            offsets.push(next_offset(offsets, count)?);
            nulls.append_non_null();
        }
        Ok(count)
    }

    /// Whether values are arrays.
    pub(super) fn is_array(&self) -> bool {
        matches!(self.builder, Builder::Array { .. })
    }

    /// What the innermost elements of arrays are, else what the values are.
    pub(super) fn element_type(&self) -> &SqlType {
        match &self.builder {
            Builder::Array { items, .. } => items.element_type(),
            _ => &self.sql_type,
        }
    }

    /// How many arrays were added; 0 for what is no array.
    fn len(&self) -> usize {
        match &self.builder {
            Builder::Array { offsets, .. } => offsets.len() - 1,
            _ => 0,
        }
    }

    /// Whether the arrays from this place on are of the same lengths in all dimensions.
    fn is_even(&self, from: usize) -> bool {
        let Builder::Array { items, offsets, .. } = &self.builder else { return true };
        let Some(first) = offsets.get(from) else { return true };
        let mut lengths = offsets[from..].windows(2).map(|pair| pair[1] - pair[0]);
        let length = lengths.next();
        lengths.all(|other| Some(other) == length) && items.is_even(*first as usize)
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

/// Exactly so many bytes.
///
/// # Errors
/// `08P01` if there are fewer, `22P03` if there are more.
pub fn fixed<const N: usize>(bytes: &[u8]) -> SqlResult<[u8; N]> {
    if bytes.len() < N {
        return Err(SqlError::new(SqlState::ProtocolViolation, "insufficient data left in message"));
    }
    bytes.try_into().map_err(|_| bad_binary())
}

pub(super) fn bad_binary() -> SqlError {
    SqlError::new(SqlState::InvalidBinaryRepresentation, "incorrect binary data format")
}

fn beyond(type_name: &str) -> SqlError {
    SqlError::new(SqlState::DatetimeFieldOverflow, format!("{type_name} out of range"))
}

fn out_of_range(type_name: &str) -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, format!("{type_name} out of range"))
}
