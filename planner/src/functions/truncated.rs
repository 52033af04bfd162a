//! `date_trunc(unit, moment)` in a time zone other than UTC: the beginning of the hour, day, month, … that clocks there show.

use super::error;
use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::datetime::calendar::{DAY_US, civil_of_days, days_of_civil, to_chrono};
use thalweg_catalog::{SqlError, SqlType};

const SECOND_US: i64 = 1_000_000;

/// The beginning of the unit that a moment is in, where clocks show the time of this zone.
pub(crate) fn truncated(unit: Expr, moment: Expr, zone: &str) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function()));
    FUNCTION.call(vec![unit, moment, lit(zone)])
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![function()]
}

fn function() -> ScalarUDF {
    ScalarUDF::from(Truncated { signature: Signature::any(3, Volatility::Immutable) })
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Truncated {
    signature: Signature,
}

impl ScalarUDFImpl for Truncated {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "truncated_in_zone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, DataType::Timestamp(TimeUnit::Microsecond, Some(_)), _] => Ok(SqlType::TimestampTz.to_arrow()),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let zone = match &args.args[2] {
            ColumnarValue::Scalar(zone) => zone.try_as_str().flatten().and_then(SessionTimeZone::parse),
            ColumnarValue::Array(_) => None,
        };
        let zone = zone.ok_or_else(|| error(SqlError::internal("a moment is truncated in a zone that is not known")))?;
        let units = arrow::compute::cast(&args.args[0].to_array(rows)?, &DataType::Utf8)?;
        let moments = args.args[1].to_array(rows)?;
        let moments = moments.as_primitive::<TimestampMicrosecondType>();
        let mut truncated = Vec::with_capacity(rows);
        for (unit, moment) in units.as_string::<i32>().iter().zip(moments) {
            truncated.push(match (unit, moment) {
                (Some(unit), Some(us)) => Some(truncate(unit, us, &zone).map_err(error)?),
                _ => None,
            });
        }
        let result: ArrayRef =
            Arc::new(TimestampMicrosecondArray::from(truncated).with_data_type(SqlType::TimestampTz.to_arrow()));
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

fn truncate(unit: &str, us: i64, zone: &SessionTimeZone) -> Result<i64, SqlError> {
    let offset = i64::from(zone.offset_at(&to_chrono(us))) * SECOND_US;
    let local = us.saturating_add(offset);
    let of_clock = match unit.to_ascii_lowercase().as_str() {
        "microsecond" | "microseconds" => Some(1),
        "millisecond" | "milliseconds" => Some(1_000),
        "second" | "seconds" => Some(SECOND_US),
        "minute" | "minutes" => Some(60 * SECOND_US),
        "hour" | "hours" => Some(3_600 * SECOND_US),
        _ => None,
    };
    // Within an hour clocks are not set, so that it is the same one even where they show two alike.
    if let Some(length) = of_clock {
        return Ok(us - local.rem_euclid(length));
    }
    let days = first_day(unit, local.div_euclid(DAY_US))?;
    let local = days * DAY_US;
    Ok(local - i64::from(zone.offset_of_local(&to_chrono(local))) * SECOND_US)
}

/// The first day of the unit that a day is in.
fn first_day(unit: &str, days: i64) -> Result<i64, SqlError> {
    let (year, month, _) = civil_of_days(days);
    // The first year of a century or millennium ends in 1.
    let first_of = |years: i64| (year - 1).div_euclid(years) * years + 1;
    Ok(match unit.to_ascii_lowercase().as_str() {
        "day" | "days" => days,
        "week" | "weeks" => days - (days + 3).rem_euclid(7),
        "month" | "months" => days_of_civil(year, month, 1),
        "quarter" => days_of_civil(year, (month - 1) / 3 * 3 + 1, 1),
        "year" | "years" => days_of_civil(year, 1, 1),
        "decade" | "decades" => days_of_civil(year.div_euclid(10) * 10, 1, 1),
        "century" | "centuries" => days_of_civil(first_of(100), 1, 1),
        "millennium" | "millennia" => days_of_civil(first_of(1000), 1, 1),
        other => {
            let message = format!("unit \"{other}\" not recognized for type timestamp with time zone");
            return Err(SqlError::invalid_parameter(message));
        }
    })
}
