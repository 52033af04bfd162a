//! The rules by which values are made.

use crate::datetime::{parse_date, parse_timestamp_tz};
use crate::decode::value::{Misfit, parse_float, parse_integer, parse_scaled};
use crate::random::{Stream, below, unit};
use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    StringArray, TimestampMicrosecondArray,
};
use arrow::error::ArrowError;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::options::Options;
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{Column, SqlError, SqlResult, SqlType};

const DAY_US: i64 = crate::datetime::DAY_US;
/// Random times lie in 2024 unless said otherwise.
const YEAR_START_US: i64 = 1_704_067_200_000_000;
const TEXT_LENGTH_MAX: usize = 65_536;

/// How the values of a column are made.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Rule {
    sql_type: SqlType,
    stream: Stream,
    maker: Maker,
}

/// A way to make values. Whole numbers stand for days, microseconds and units of a numeric's scale too.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Maker {
    /// start, start + step, …; from the start again after so many.
    Sequence {
        start: i64,
        step: i64,
        count: u64,
    },
    /// Any of min, min + 1, …, all equally likely; `span` is how many there are, 0 for 2^64.
    Whole {
        min: i64,
        span: u64,
    },
    Real {
        min: f64,
        width: f64,
    },
    RealSequence {
        start: f64,
        step: f64,
        count: u64,
    },
    Boolean,
    Letters {
        length: usize,
    },
    Uuid,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sequence,
    Random,
}

impl Rule {
    /// The rule of the column at this place, from its options.
    pub(super) fn parse(column: &Column, place: u64, options: &BTreeMap<String, String>) -> SqlResult<Rule> {
        let mut options = Options::new(format!("column \"{}\" of connector \"datagen\"", column.name), options);
        let kind = options.one_of("kind", &[("sequence", Kind::Sequence), ("random", Kind::Random)])?.unwrap_or(Kind::Random);
        let seed = options.parsed("seed")?.unwrap_or(place);
        let maker = match (&column.sql_type, kind) {
            (SqlType::Boolean, Kind::Random) => Maker::Boolean,
            (SqlType::Uuid, Kind::Random) => Maker::Uuid,
            (SqlType::Text | SqlType::Varchar(_), Kind::Random) => letters(&mut options, &column.sql_type)?,
            (SqlType::Float4 | SqlType::Float8, kind) => reals(&mut options, kind)?,
            (SqlType::Text | SqlType::Varchar(None), Kind::Sequence) => wholes(&mut options, &SqlType::Int8, kind)?,
            (SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Numeric(_), kind)
            | (SqlType::Date | SqlType::Timestamp | SqlType::TimestampTz, kind) => wholes(&mut options, &column.sql_type, kind)?,
            (sql_type, kind) => {
                let what = if kind == Kind::Sequence { "as a sequence" } else { "by datagen" };
                return Err(SqlError::unsupported(format!("column \"{}\" of type {sql_type} can't be made {what}", column.name)));
            }
        };
        options.finish()?;
        Ok(Rule { sql_type: column.sql_type.clone(), stream: Stream::new(seed, 1), maker })
    }

    /// The values of these rows.
    pub(super) fn column(&self, rows: &[u64]) -> Result<ArrayRef, ArrowError> {
        Ok(match &self.sql_type {
            SqlType::Boolean => Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(self.stream.at(*row) & 1 == 1)))),
            SqlType::Float4 => Arc::new(Float32Array::from_iter_values(rows.iter().map(|row| self.real(*row) as f32))),
            SqlType::Float8 => Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| self.real(*row)))),
            // Ranges were checked to fit the type.
            SqlType::Int2 => Arc::new(Int16Array::from_iter_values(rows.iter().map(|row| self.whole(*row) as i16))),
            SqlType::Int4 => Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| self.whole(*row) as i32))),
            SqlType::Int8 => Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| self.whole(*row)))),
            SqlType::Date => Arc::new(Date32Array::from_iter_values(rows.iter().map(|row| self.whole(*row) as i32))),
            SqlType::Numeric(shape) => {
                let (precision, scale) = shape.unwrap_or(NUMERIC_DEFAULT);
                let values = Decimal128Array::from_iter_values(rows.iter().map(|row| i128::from(self.whole(*row))));
                Arc::new(values.with_precision_and_scale(precision, scale)?)
            }
            SqlType::Timestamp => Arc::new(self.times(rows)),
            SqlType::TimestampTz => Arc::new(self.times(rows).with_timezone("+00:00")),
            _ => Arc::new(StringArray::from_iter_values(rows.iter().map(|row| self.text(*row)))),
        })
    }

    fn times(&self, rows: &[u64]) -> TimestampMicrosecondArray {
        TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| self.whole(*row)))
    }

    fn whole(&self, row: u64) -> i64 {
        match self.maker {
            Maker::Sequence { start, step, count } => start.wrapping_add(((row % count) as i64).wrapping_mul(step)),
            Maker::Whole { min, span: 0 } => min.wrapping_add(self.stream.at(row) as i64),
            Maker::Whole { min, span } => min.wrapping_add(below(self.stream.at(row), span) as i64),
            _ => 0,
        }
    }

    fn real(&self, row: u64) -> f64 {
        match self.maker {
            Maker::Real { min, width } => min + unit(self.stream.at(row)) * width,
            Maker::RealSequence { start, step, count } => start + (row % count) as f64 * step,
            _ => 0.0,
        }
    }

    fn text(&self, row: u64) -> String {
        match self.maker {
            Maker::Letters { length } => {
                let random = Stream::new(self.stream.at(row), 2);
                (0..length).map(|place| char::from(b'a' + below(random.at(place as u64), 26) as u8)).collect()
            }
            Maker::Uuid => {
                let (high, low) = (self.stream.at(row * 2), self.stream.at(row * 2 + 1));
                // Version 4, variant 1, as random uuids say of themselves.
                let high = high & !0xf000 | 0x4000;
                let low = low & !(0b11 << 62) | 0b10 << 62;
                let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
                format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xffff_ffff_ffff)
            }
            _ => self.whole(row).to_string(),
        }
    }
}

fn letters(options: &mut Options, sql_type: &SqlType) -> SqlResult<Maker> {
    let limit = match sql_type {
        SqlType::Varchar(Some(limit)) => *limit as usize,
        _ => TEXT_LENGTH_MAX,
    };
    let length = options.parsed("length")?.unwrap_or(10.min(limit));
    if length > limit {
        return Err(SqlError::invalid_parameter(format!(
            "option \"length\" of connector \"datagen\" can be at most {limit} here"
        )));
    }
    Ok(Maker::Letters { length })
}

fn bad(name: &str, text: &str) -> SqlError {
    SqlError::invalid_parameter(format!("invalid value for option \"{name}\" of connector \"datagen\": \"{text}\""))
}

fn real(options: &mut Options, name: &'static str) -> SqlResult<Option<f64>> {
    let Some(text) = options.text(name) else { return Ok(None) };
    match parse_float::<f64>(text.trim().as_bytes()) {
        Ok(value) if value.is_finite() => Ok(Some(value)),
        _ => Err(bad(name, &text)),
    }
}

fn reals(options: &mut Options, kind: Kind) -> SqlResult<Maker> {
    if kind == Kind::Random {
        let (min, max) = (real(options, "min")?, real(options, "max")?);
        let min = min.unwrap_or(0.0);
        let max = max.unwrap_or(min + 1.0);
        if max < min || !(max - min).is_finite() {
            return Err(SqlError::invalid_parameter("option \"max\" of connector \"datagen\" is below \"min\""));
        }
        return Ok(Maker::Real { min, width: max - min });
    }
    let start = real(options, "start")?.unwrap_or(0.0);
    let step = real(options, "step")?.unwrap_or(1.0);
    let count = match real(options, "end")? {
        None => u64::MAX,
        // A float beyond the range saturates.
        Some(end) if step != 0.0 && (end - start) / step >= 0.0 => ((end - start) / step) as u64 + 1,
        Some(_) => return Err(SqlError::invalid_parameter("option \"end\" of connector \"datagen\" is never reached")),
    };
    Ok(Maker::RealSequence { start, step, count })
}

/// Reads a value of the type as a whole number.
fn whole(options: &mut Options, name: &'static str, sql_type: &SqlType) -> SqlResult<Option<i64>> {
    let Some(text) = options.text(name) else { return Ok(None) };
    let bytes = text.trim().as_bytes();
    let value = match sql_type {
        SqlType::Date => parse_date(bytes).map(i64::from),
        SqlType::Timestamp | SqlType::TimestampTz => parse_timestamp_tz(bytes),
        SqlType::Numeric(shape) => {
            let (_, scale) = shape.unwrap_or(NUMERIC_DEFAULT);
            parse_scaled(bytes, scale).and_then(|(value, _)| i64::try_from(value).map_err(|_| Misfit::Range))
        }
        _ => parse_integer(bytes),
    };
    value.map(Some).map_err(|_| bad(name, &text))
}

/// The unit of a step, the first value unless said otherwise, and how far random values go from there.
fn defaults(sql_type: &SqlType) -> (i64, i64, i64) {
    match sql_type {
        SqlType::Int2 => (1, 0, i64::from(i16::MAX)),
        SqlType::Date => (1, YEAR_START_US / DAY_US, 365),
        SqlType::Timestamp | SqlType::TimestampTz => (1_000_000, YEAR_START_US, 366 * DAY_US - 1),
        SqlType::Numeric(shape) => {
            let (precision, scale) = shape.unwrap_or(NUMERIC_DEFAULT);
            let unit = 10i64.checked_pow(u32::try_from(scale).unwrap_or(0)).unwrap_or(1);
            let largest = 10i64.checked_pow(u32::from(precision)).map_or(i64::MAX, |limit| limit - 1);
            (unit, 0, unit.saturating_mul(1000).min(largest))
        }
        _ => (1, 0, i64::from(i32::MAX)),
    }
}

fn limits(sql_type: &SqlType) -> (i64, i64) {
    match sql_type {
        SqlType::Int2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        SqlType::Int4 | SqlType::Date => (i64::from(i32::MIN), i64::from(i32::MAX)),
        SqlType::Numeric(shape) => {
            let (precision, _) = shape.unwrap_or(NUMERIC_DEFAULT);
            let limit = 10i64.checked_pow(u32::from(precision)).map_or(i64::MAX, |limit| limit - 1);
            (-limit, limit)
        }
        _ => (i64::MIN, i64::MAX),
    }
}

fn wholes(options: &mut Options, sql_type: &SqlType, kind: Kind) -> SqlResult<Maker> {
    let ((unit, first, reach), (lowest, highest)) = (defaults(sql_type), limits(sql_type));
    let check = |value: i64| {
        if (lowest..=highest).contains(&value) {
            Ok(value)
        } else {
            Err(SqlError::invalid_parameter(format!("a value of connector \"datagen\" is out of range for type {sql_type}")))
        }
    };
    if kind == Kind::Random {
        let min = check(whole(options, "min", sql_type)?.unwrap_or(first))?;
        let max = check(whole(options, "max", sql_type)?.unwrap_or(min.saturating_add(reach).min(highest)))?;
        if max < min {
            return Err(SqlError::invalid_parameter("option \"max\" of connector \"datagen\" is below \"min\""));
        }
        return Ok(Maker::Whole { min, span: (max.wrapping_sub(min) as u64).wrapping_add(1) });
    }
    let start = check(whole(options, "start", sql_type)?.unwrap_or(first))?;
    let step = match sql_type {
        SqlType::Timestamp | SqlType::TimestampTz => match options.duration_ms("step")? {
            None => unit,
            Some(ms) => i64::try_from(ms).unwrap_or(i64::MAX / 1000).saturating_mul(1000),
        },
        SqlType::Date => options.parsed("step")?.unwrap_or(1),
        _ => whole(options, "step", sql_type)?.unwrap_or(unit),
    };
    let end = whole(options, "end", sql_type)?.map(check).transpose()?;
    let last = end.unwrap_or(if step < 0 { lowest } else { highest });
    let distance = i128::from(last) - i128::from(start);
    if step == 0 || distance / i128::from(step) < 0 || (distance < 0) != (step < 0) && distance != 0 {
        return Err(SqlError::invalid_parameter("option \"end\" of connector \"datagen\" is never reached"));
    }
    let count = u64::try_from(distance / i128::from(step) + 1).unwrap_or(u64::MAX);
    Ok(Maker::Sequence { start, step, count })
}

#[cfg(test)]
mod tests;
