//! `timezone(zone, time)`, which is also `time AT TIME ZONE zone`: between local times and moments.

use super::error;
use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::{SqlError, SqlState};

/// What Arrow calls the zone of `timestamptz`.
const UTC: &str = "+00:00";

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![function()]
}

fn function() -> ScalarUDF {
    ScalarUDF::from(AtTimeZone { signature: Signature::user_defined(Volatility::Immutable) })
}

/// A moment as the time that clocks in the zone show, or such a time as the moment.
pub(crate) fn at_time_zone(time: Expr, zone: &str) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function()));
    FUNCTION.call(vec![lit(zone), time])
}

/// The time zone of this name, or offset.
pub(super) fn zone(name: &str) -> Result<Tz> {
    let name = if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("gmt") { UTC } else { name };
    name.parse().map_err(|_| {
        error(
            SqlError::invalid_parameter(format!("time zone \"{name}\" not recognized"))
                .with_hint("Use a name such as 'Europe/Berlin', or an offset such as '+02:00'."),
        )
    })
}

/// Microseconds since 1970 of the local time that clocks in the zone show.
pub(super) fn local_micros(micros: i64, zone: &Tz) -> Option<i64> {
    let utc = DateTime::from_timestamp_micros(micros)?.naive_utc();
    let offset = zone.offset_from_utc_datetime(&utc).fix().local_minus_utc();
    micros.checked_add(i64::from(offset) * 1_000_000)
}

/// The moment at which clocks in the zone show a local time; the second of two, or as if they had not been set forward.
fn moment_micros(micros: i64, zone: &Tz) -> Option<i64> {
    let local: NaiveDateTime = DateTime::from_timestamp_micros(micros)?.naive_utc();
    let offset = match zone.offset_from_local_datetime(&local) {
        MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(_, offset) => offset.fix(),
        MappedLocalTime::None => zone.offset_from_utc_datetime(&local.checked_sub_signed(TimeDelta::hours(24))?).fix(),
    };
    micros.checked_sub(i64::from(offset.local_minus_utc()) * 1_000_000)
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AtTimeZone {
    signature: Signature,
}

impl ScalarUDFImpl for AtTimeZone {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let micros = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
        match types {
            [DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8, time] => match time {
                DataType::Timestamp(_, Some(_)) | DataType::Utf8 | DataType::Null => {
                    Ok(vec![DataType::Utf8, micros(Some(UTC.into()))])
                }
                DataType::Timestamp(_, None) | DataType::Date32 => Ok(vec![DataType::Utf8, micros(None)]),
                _ => super::wrong_types(self.name(), types),
            },
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, DataType::Timestamp(_, Some(_))] => Ok(DataType::Timestamp(TimeUnit::Microsecond, None)),
            [_, DataType::Timestamp(_, None)] => Ok(DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let times = args.args[1].to_array(rows)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let fixed = match &args.args[0] {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))) => Some(zone(name)?),
            _ => None,
        };
        let names = args.args[0].to_array(rows)?;
        let names = names.as_string::<i32>();
        let mut moved = Vec::with_capacity(rows);
        for row in 0..rows {
            if times.is_null(row) || names.is_null(row) {
                moved.push(None);
                continue;
            }
            let zone = match fixed {
                Some(zone) => zone,
                None => zone(names.value(row))?,
            };
            let micros = times.value(row);
            let result = if times.timezone().is_some() { local_micros(micros, &zone) } else { moment_micros(micros, &zone) };
            moved.push(Some(
                result.ok_or_else(|| error(SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range")))?,
            ));
        }
        let zone = if times.timezone().is_some() { None } else { Some(Arc::<str>::from(UTC)) };
        let result: ArrayRef = Arc::new(TimestampMicrosecondArray::from(moved).with_timezone_opt(zone));
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}
