//! `to_timestamp(text, pattern)`, `to_timestamp(seconds)` and `to_date(text, pattern)`.

use super::super::{error, is_text, wrong_types};
use super::from_char::{Fields, TimePattern};
use arrow::array::{Array, ArrayRef, AsArray, Date32Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::datetime::calendar::{
    DAY_US, civil_of_days, days_in_month, days_of_civil, is_date, is_timestamp, to_chrono,
};
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType};

const SECOND_US: i64 = 1_000_000;

/// The Julian day of 1970-01-01.
const UNIX_JULIAN: i64 = 2_440_588;

/// The most hours that a zone may be away from UTC.
const ZONE_HOURS_MAX: i32 = 15;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let function =
        |name, to: SqlType| ScalarUDF::from(ToTime { name, to, signature: Signature::user_defined(Volatility::Immutable) });
    vec![function("to_timestamp", SqlType::TimestampTz), function("to_date", SqlType::Date)]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ToTime {
    name: &'static str,
    to: SqlType,
    signature: Signature,
}

impl ScalarUDFImpl for ToTime {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [text, pattern] if is_text(text) && is_text(pattern) => Ok(vec![DataType::Utf8; 2]),
            [seconds] if self.to == SqlType::TimestampTz && (seconds.is_numeric() || seconds.is_null()) => {
                Ok(vec![DataType::Float64])
            }
            _ => wrong_types(self.name, types),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.to_arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result: ArrayRef = match arrays.as_slice() {
            [seconds] => {
                let moments = seconds.as_primitive::<Float64Type>().iter().map(|s| s.map(of_seconds).transpose());
                Arc::new(moments.collect::<SqlResult<TimestampMicrosecondArray>>().map_err(error)?.with_timezone("+00:00"))
            }
            [texts, patterns] => {
                let (texts, patterns) = (texts.as_string::<i32>(), patterns.as_string::<i32>());
                if self.to == SqlType::Date {
                    Arc::new(each(texts, patterns, date)?.into_iter().collect::<Date32Array>())
                } else {
                    let zone = super::session_zone(&args.config_options);
                    let moments = each(texts, patterns, |fields, text| moment(fields, text, &zone))?;
                    Arc::new(TimestampMicrosecondArray::from(moments).with_timezone("+00:00"))
                }
            }
            _ => return wrong_types(self.name, &[]),
        };
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

/// What each text is by its pattern, which most often is the same for all.
fn each<T>(texts: &StringArray, patterns: &StringArray, read: impl Fn(&Fields, &str) -> SqlResult<T>) -> Result<Vec<Option<T>>> {
    let mut known: Option<(&str, TimePattern)> = None;
    let mut values = Vec::with_capacity(texts.len());
    for (text, pattern) in texts.iter().zip(patterns.iter()) {
        let (Some(text), Some(pattern)) = (text, pattern) else {
            values.push(None);
            continue;
        };
        let (_, read_pattern) = match known.take_if(|(name, _)| *name == pattern) {
            Some(same) => known.insert(same),
            None => known.insert((pattern, TimePattern::new(pattern))),
        };
        values.push(Some(read_pattern.read(text).and_then(|fields| read(&fields, text)).map_err(error)?));
    }
    Ok(values)
}

/// The moment that is so many seconds after 1970.
fn of_seconds(seconds: f64) -> SqlResult<i64> {
    if seconds.is_infinite() {
        return Err(thalweg_catalog::datetime::read::infinite("timestamp"));
    }
    let us = (seconds * SECOND_US as f64).round();
    // Greater doubles than 64 bits hold become the greatest number, which no timestamp reaches.
    let us = Some(us as i64).filter(|us| !seconds.is_nan() && is_timestamp(*us));
    us.ok_or_else(|| SqlError::new(SqlState::DatetimeFieldOverflow, format!("timestamp out of range: \"{seconds}\"")))
}

/// The date that fields are of.
fn date(fields: &Fields, text: &str) -> SqlResult<i32> {
    let days = days_of(fields, text)?;
    clock_of(fields, text)?;
    let days = Some(days).filter(|days| is_date(*days)).and_then(|days| i32::try_from(days).ok());
    days.ok_or_else(|| SqlError::new(SqlState::DatetimeFieldOverflow, format!("date out of range: \"{text}\"")))
}

/// The moment that fields are of, in this zone unless they have their own: microseconds since 1970.
fn moment(fields: &Fields, text: &str, zone: &SessionTimeZone) -> SqlResult<i64> {
    let days = days_of(fields, text)?;
    let clock = clock_of(fields, text)?;
    let out_of_range = || SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range");
    let local = days.checked_mul(DAY_US).and_then(|us| us.checked_add(clock)).ok_or_else(out_of_range)?;
    let offset = match fields.zone_sign {
        0 => zone.offset_of_local(&to_chrono(local)),
        sign => {
            let (hours, minutes) = (fields.zone_hours, fields.zone_minutes);
            if !(0..=ZONE_HOURS_MAX).contains(&hours) || !(0..60).contains(&minutes) {
                let message = format!("time zone displacement out of range: \"{text}\"");
                return Err(SqlError::new(SqlState::InvalidTimeZoneDisplacement, message));
            }
            sign * (hours * 3600 + minutes * 60)
        }
    };
    local.checked_sub(i64::from(offset) * SECOND_US).filter(|us| is_timestamp(*us)).ok_or_else(out_of_range)
}

fn overflow(text: &str) -> SqlError {
    SqlError::new(SqlState::DatetimeFieldOverflow, format!("date/time field value out of range: \"{text}\""))
}

/// The time of day in microseconds.
fn clock_of(fields: &Fields, text: &str) -> SqlResult<i64> {
    let of_day = fields.seconds_of_day;
    let given = |field: i32, otherwise: i32| i64::from(if field == 0 { otherwise } else { field });
    let (mut hour, minute) = (given(fields.hour, of_day / 3600), given(fields.minute, of_day / 60 % 60));
    let second = given(fields.second, of_day % 60);
    if fields.is_half_day {
        if !(1..=12).contains(&hour) {
            let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
            return Err(SqlError::new(SqlState::InvalidDatetimeFormat, message)
                .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
        }
        hour = hour % 12 + if fields.afternoon { 12 } else { 0 };
    }
    let fraction = i64::from(fields.milliseconds) * 1000 + i64::from(fields.microseconds);
    let is_time =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second) && (0..SECOND_US).contains(&fraction);
    if is_time { Ok(((hour * 60 + minute) * 60 + second) * SECOND_US + fraction) } else { Err(overflow(text)) }
}

/// The year, with 0 for 1 BC; none if there is no year and no century.
fn year_of(fields: &Fields) -> Option<i64> {
    let sign = if fields.before_christ { -1 } else { 1 };
    let (year, century) = (i64::from(fields.year), sign * i64::from(fields.century));
    // The first year of a century: the 21st after Christ began in 2001, the 6th before in 600 BC.
    let first = if century >= 0 { (century - 1) * 100 + 1 } else { century * 100 + 1 };
    if year == 0 {
        return (century != 0).then_some(first);
    }
    if century == 0 || fields.year_digits > 2 {
        let year = sign * year;
        return Some(if year < 0 { year + 1 } else { year });
    }
    Some(match year % 100 {
        0 => century * 100 + i64::from(century < 0),
        of_century if century >= 0 => (century - 1) * 100 + of_century,
        of_century => (century + 1) * 100 - of_century + 1,
    })
}

/// The day, counted from 1970.
fn days_of(fields: &Fields, text: &str) -> SqlResult<i64> {
    let mut given = Given { year: year_of(fields), month: None, day: None };
    if fields.julian != 0 {
        given = Given::all_of(i64::from(fields.julian) - UNIX_JULIAN);
    }
    let is_iso = fields.iso_weeks == Some(true);
    let mut day_of_year = i64::from(fields.day_of_year);
    let before = (i64::from(fields.week) - 1) * 7;
    if fields.week != 0 && is_iso {
        let of_week = match fields.day_of_week {
            0 => 0,
            // Sunday is the last day of the week.
            1 => 6,
            day => i64::from(day) - 2,
        };
        given = Given::all_of(first_iso_monday(given.year.unwrap_or(0)) + before + of_week);
    } else if fields.week != 0 {
        day_of_year = before + 1;
    }
    if fields.week_of_month != 0 {
        given.day = Some((i64::from(fields.week_of_month) - 1) * 7 + 1);
    } else if fields.day != 0 {
        given.day = Some(fields.day.into());
    }
    if fields.month != 0 {
        given.month = Some(fields.month.into());
    }
    if day_of_year != 0 && (given.month.unwrap_or(1) <= 1 || given.day.unwrap_or(1) <= 1) {
        if given.year.unwrap_or(0) == 0 && !fields.before_christ {
            let message = "cannot calculate day of year without year information";
            return Err(SqlError::new(SqlState::InvalidDatetimeFormat, message));
        }
        given.fill(day_of_year, is_iso).ok_or_else(|| overflow(text))?;
    }
    given.days().ok_or_else(|| overflow(text))
}

/// What of a date a text gives.
struct Given {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
}

impl Given {
    fn all_of(days: i64) -> Given {
        let (year, month, day) = civil_of_days(days);
        Given { year: Some(year), month: Some(month.into()), day: Some(day.into()) }
    }

    /// Takes from the day of a year what is not given, or is the first of its kind. None if the year has no such day.
    fn fill(&mut self, day_of_year: i64, is_iso: bool) -> Option<()> {
        let year = self.year.unwrap_or(0);
        if is_iso {
            *self = Given::all_of(first_iso_monday(year) + day_of_year - 1);
            return Some(());
        }
        let found = Given::all_of(days_of_civil(year, 1, 1) + day_of_year - 1);
        if found.year != Some(year) {
            return None;
        }
        self.month = self.month.filter(|month| *month > 1).or(found.month);
        self.day = self.day.filter(|day| *day > 1).or(found.day);
        Some(())
    }

    /// The day, counted from 1970; what is not given is the first of its kind. None for a day that no calendar has.
    fn days(&self) -> Option<i64> {
        let (year, month, day) = (self.year.unwrap_or(0), self.month.unwrap_or(1), self.day.unwrap_or(1));
        let last = match (self.year, self.month) {
            (Some(year), Some(month @ 1..=12)) => i64::from(days_in_month(year, month as u32)),
            _ => 31,
        };
        let in_calendar = (1..=12).contains(&month) && (1..=last).contains(&day) && year.abs() < 1_000_000;
        in_calendar.then(|| days_of_civil(year, month as u32, day as u32))
    }
}

/// The Monday of the first week of a year as ISO 8601 counts: the one with the 4th of January. Counted from 1970.
fn first_iso_monday(year: i64) -> i64 {
    let fourth = days_of_civil(year, 1, 4);
    fourth - (fourth + 3).rem_euclid(7)
}
