//! `extract(field FROM time)`, exact, and `date_part('field', time)`, the same as a double: parts of dates, times, timestamps and
//! intervals, counted as Postgres counts them.
//!
//! A `timestamptz` is taken apart in the time zone that the function is called with: the session's, and UTC in what is computed continuously.

use super::{error, time_zone};
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, Offset, TimeZone};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::datetime::calendar::{DAY_US, civil_of_days, days_of_civil};
use thalweg_catalog::{SqlError, SqlResult, SqlType};

/// The name that `EXTRACT` is planned as.
pub(crate) const NAME: &str = "extract";

const SECOND_US: i64 = 1_000_000;
const MINUTE_US: i64 = 60 * SECOND_US;
const HOUR_US: i64 = 60 * MINUTE_US;

/// The Julian day of 1970-01-01.
const UNIX_JULIAN: i64 = 2_440_588;

/// Decimal places of Julian days with a time of day.
const JULIAN_SCALE: i8 = 20;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let function = |name, exact, aliases: &[&str]| {
        let aliases = aliases.iter().map(ToString::to_string).collect();
        ScalarUDF::from(Extract { name, exact, aliases, signature: Signature::user_defined(Volatility::Immutable) })
    };
    vec![function(NAME, true, &[]), function("date_part", false, &["datepart"])]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Extract {
    name: &'static str,
    /// Whether the result is a number with decimal places, else a double.
    exact: bool,
    aliases: Vec<String>,
    signature: Signature,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Century,
    Day,
    Decade,
    Dow,
    Doy,
    Epoch,
    Hour,
    IsoDow,
    IsoYear,
    Julian,
    Microseconds,
    Millennium,
    Milliseconds,
    Minute,
    Month,
    Quarter,
    Second,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
    Week,
    Year,
}

impl Part {
    fn parse(name: &str) -> Option<Part> {
        Some(match name.to_lowercase().as_str() {
            "c" | "cent" | "century" | "centuries" => Part::Century,
            "d" | "day" | "days" => Part::Day,
            "dec" | "decs" | "decade" | "decades" => Part::Decade,
            "dow" => Part::Dow,
            "doy" => Part::Doy,
            "epoch" => Part::Epoch,
            "h" | "hr" | "hrs" | "hour" | "hours" => Part::Hour,
            "isodow" => Part::IsoDow,
            "isoyear" => Part::IsoYear,
            "j" | "jd" | "julian" => Part::Julian,
            "us" | "usec" | "usecs" | "microsecond" | "microseconds" => Part::Microseconds,
            "mil" | "mils" | "millennium" | "millennia" => Part::Millennium,
            "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => Part::Milliseconds,
            "m" | "min" | "mins" | "minute" | "minutes" => Part::Minute,
            "mon" | "mons" | "month" | "months" => Part::Month,
            "qtr" | "quarter" => Part::Quarter,
            "s" | "sec" | "secs" | "second" | "seconds" => Part::Second,
            "timezone" => Part::Timezone,
            "timezone_h" | "timezone_hour" => Part::TimezoneHour,
            "timezone_m" | "timezone_minute" => Part::TimezoneMinute,
            "w" | "week" | "weeks" => Part::Week,
            "y" | "yr" | "yrs" | "year" | "years" => Part::Year,
            _ => return None,
        })
    }

    fn is_of_clock(self) -> bool {
        matches!(self, Part::Hour | Part::Minute | Part::Second | Part::Milliseconds | Part::Microseconds)
    }

    fn is_of_zone(self) -> bool {
        matches!(self, Part::Timezone | Part::TimezoneHour | Part::TimezoneMinute)
    }

    /// Whether values of a type have this part.
    fn is_of(self, time: &DataType) -> bool {
        match time {
            DataType::Date32 => !self.is_of_clock() && !self.is_of_zone(),
            DataType::Time64(_) => self.is_of_clock() || self == Part::Epoch,
            DataType::Timestamp(_, None) => !self.is_of_zone(),
            DataType::Interval(_) => {
                let of_weeks = [Part::Dow, Part::Doy, Part::IsoDow, Part::IsoYear, Part::Week, Part::Julian];
                !of_weeks.contains(&self) && !self.is_of_zone()
            }
            _ => true,
        }
    }

    /// How many digits the part of a value of this type has, and how many of them are decimal places.
    fn size(self, time: &DataType) -> (u8, i8) {
        match (self, time) {
            (Part::Second, _) => (8, 6),
            (Part::Milliseconds, _) => (8, 3),
            (Part::Epoch, DataType::Date32) => (15, 0),
            (Part::Epoch, DataType::Interval(_)) => (24, 6),
            (Part::Epoch, _) => (20, 6),
            (Part::Julian, DataType::Timestamp(..)) => (30, JULIAN_SCALE),
            _ => (10, 0),
        }
    }
}

/// The part that is named, if values of the type have it.
///
/// # Errors
/// `22023` for a name that no part has, `0A000` for a part that the type has not.
fn named(name: Option<&ScalarValue>, time: &DataType) -> SqlResult<Part> {
    let Some(name) = name.and_then(|value| value.try_as_str().flatten()) else {
        return Err(SqlError::unsupported("the field to extract must be written out"));
    };
    let type_name = SqlType::from_arrow(time)?;
    let lower = name.to_lowercase();
    match Part::parse(name) {
        Some(part) if part.is_of(time) => Ok(part),
        Some(_) => Err(SqlError::unsupported(format!("unit \"{lower}\" not supported for type {type_name}"))),
        None => Err(SqlError::invalid_parameter(format!("unit \"{lower}\" not recognized for type {type_name}"))),
    }
}

impl ScalarUDFImpl for Extract {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, time] = types else {
            return super::wrong_types(self.name, types);
        };
        let time = match time {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            DataType::Null => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Date32 | DataType::Date64 => DataType::Date32,
            DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
            DataType::Interval(_) | DataType::Duration(_) => DataType::Interval(IntervalUnit::MonthDayNano),
            _ => return super::wrong_types(self.name, types),
        };
        Ok(vec![DataType::Utf8, time])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        super::wrong_types(self.name, types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let time = &args.arg_fields[1];
        let part = named(args.scalar_arguments[0], time.data_type()).map_err(error)?;
        let (precision, scale) = part.size(time.data_type());
        let data_type = if self.exact { DataType::Decimal128(precision, scale) } else { DataType::Float64 };
        Ok(Arc::new(Field::new(self.name, data_type, time.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match &args.args[0] {
            ColumnarValue::Scalar(name) => Some(name),
            ColumnarValue::Array(_) => None,
        };
        let is_scalar = matches!(args.args[1], ColumnarValue::Scalar(_));
        let times = args.args[1].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let part = named(name, times.data_type()).map_err(error)?;
        let zone = match (times.data_type(), &args.config_options.execution.time_zone) {
            (DataType::Timestamp(_, Some(_)), Some(name)) if name != "+00:00" => Some(time_zone::zone(name)?),
            _ => None,
        };
        let (precision, scale) = part.size(times.data_type());
        let found = parts_of(&times, part, zone)?;
        let result: ArrayRef = if self.exact {
            Arc::new(found.with_precision_and_scale(precision, scale)?)
        } else {
            let one = 10f64.powi(scale.into());
            Arc::new(found.unary::<_, arrow::datatypes::Float64Type>(|value| value as f64 / one)) as Arc<Float64Array>
        };
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

/// The part of each value, in units of the last decimal place that it has.
fn parts_of(times: &ArrayRef, part: Part, zone: Option<Tz>) -> Result<Decimal128Array> {
    Ok(match times.data_type() {
        DataType::Date32 => times.as_primitive::<Date32Type>().unary(|days| of_date(i64::from(days), part)),
        DataType::Time64(_) => times.as_primitive::<Time64MicrosecondType>().unary(|us| of_clock(us, part)),
        DataType::Interval(_) => times.as_primitive::<IntervalMonthDayNanoType>().unary(|value| of_interval(value, part)),
        DataType::Timestamp(..) => times.as_primitive::<TimestampMicrosecondType>().unary(|us| match (part, zone) {
            (Part::Epoch, _) => us.into(),
            (_, None) => of_timestamp(us, 0, part),
            (_, Some(zone)) => of_timestamp(us, offset_seconds(us, &zone), part),
        }),
        other => return super::wrong_types(NAME, &[DataType::Utf8, other.clone()]),
    })
}

/// How many seconds clocks in the zone are ahead of UTC; 0 where the calendar of zones does not reach.
fn offset_seconds(us: i64, zone: &Tz) -> i64 {
    let moment = DateTime::from_timestamp_micros(us);
    moment.map_or(0, |moment| zone.offset_from_utc_datetime(&moment.naive_utc()).fix().local_minus_utc().into())
}

fn of_timestamp(us: i64, offset: i64, part: Part) -> i128 {
    let local = us.saturating_add(offset * SECOND_US);
    let (days, clock) = (local.div_euclid(DAY_US), local.rem_euclid(DAY_US));
    match part {
        Part::Timezone => offset.into(),
        Part::TimezoneHour => (offset / 3600).into(),
        Part::TimezoneMinute => (offset / 60 % 60).into(),
        Part::Julian => {
            let one = 10i128.pow(JULIAN_SCALE.unsigned_abs().into());
            let (clock, day) = (i128::from(clock), i128::from(DAY_US));
            i128::from(days + UNIX_JULIAN) * one + (clock * one + day / 2) / day
        }
        part if part.is_of_clock() => of_clock(clock, part),
        part => of_date(days, part),
    }
}

fn of_clock(us: i64, part: Part) -> i128 {
    i128::from(match part {
        Part::Hour => us / HOUR_US,
        Part::Minute => us / MINUTE_US % 60,
        Part::Epoch => us,
        // Seconds with six, milliseconds with three places: both count microseconds of the minute.
        _ => us % MINUTE_US,
    })
}

fn of_date(days: i64, part: Part) -> i128 {
    let (year, month, day) = civil_of_days(days);
    let day_of_week = (days + 4).rem_euclid(7);
    // Before Christ, whole tens and hundreds are counted backwards, and there is no year 0.
    let backwards = |unit: i64| if year > 0 { (year + unit - 1) / unit } else { -((unit - year) / unit) };
    i128::from(match part {
        Part::Century => backwards(100),
        Part::Millennium => backwards(1000),
        Part::Decade => year.div_euclid(10),
        Part::Year => without_zero(year),
        Part::Quarter => i64::from(month - 1) / 3 + 1,
        Part::Month => month.into(),
        Part::Day => day.into(),
        Part::Doy => days - days_of_civil(year, 1, 1) + 1,
        Part::Dow => day_of_week,
        Part::IsoDow => {
            if day_of_week == 0 {
                7
            } else {
                day_of_week
            }
        }
        Part::IsoYear => without_zero(civil_of_days(thursday(days)).0),
        Part::Week => {
            let thursday = thursday(days);
            (thursday - days_of_civil(civil_of_days(thursday).0, 1, 1)) / 7 + 1
        }
        Part::Julian => days + UNIX_JULIAN,
        _ => days * 86_400,
    })
}

fn without_zero(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

/// The Thursday of the week that a day is in: its year is the week's.
fn thursday(days: i64) -> i64 {
    days - (days + 3).rem_euclid(7) + 3
}

fn of_interval(value: IntervalMonthDayNano, part: Part) -> i128 {
    let us = value.nanoseconds / 1000;
    let (years, months) = (i64::from(value.months / 12), i64::from(value.months % 12));
    i128::from(match part {
        Part::Century => years / 100,
        Part::Millennium => years / 1000,
        Part::Decade => years / 10,
        Part::Year => years,
        Part::Quarter => months / 3 + 1,
        Part::Month => months,
        Part::Day => value.days.into(),
        Part::Epoch => {
            // A year has 365.25 days and a month 30, counted in quarters of a day.
            let quarters = 1461 * years + 120 * months + 4 * i64::from(value.days);
            return i128::from(quarters) * 21_600 * i128::from(SECOND_US) + i128::from(us);
        }
        part => return of_clock(us, part),
    })
}
