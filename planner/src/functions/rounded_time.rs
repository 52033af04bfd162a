//! `rounded_time(time, digits)`: a time with so many digits behind the seconds' point, rounded as casts to `timestamp(p)`,
//! `timestamptz(p)`, `time(p)` and `interval(p)` do.

use super::error;
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::SqlError;

/// 2000-01-01, from which Postgres counts: of two equally near values, the one farther from it is taken.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(RoundedTime { signature: Signature::any(2, Volatility::Immutable) })]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RoundedTime {
    signature: Signature,
}

impl ScalarUDFImpl for RoundedTime {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "rounded_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [time @ (DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Time64(TimeUnit::Microsecond)), _]
            | [time @ DataType::Interval(IntervalUnit::MonthDayNano), _] => Ok(time.clone()),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let digits = match &args.args[1] {
            ColumnarValue::Scalar(digits) => digits.cast_to(&DataType::Int64)?,
            ColumnarValue::Array(_) => ScalarValue::Null,
        };
        let ScalarValue::Int64(Some(digits @ 0..=6)) = digits else {
            return Err(error(SqlError::invalid_parameter("the digits of a time must be written out, and be from 0 to 6")));
        };
        let unit = 10i64.pow(6 - digits as u32);
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let times = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let result: ArrayRef = match times.data_type() {
            DataType::Time64(_) => {
                let times = times.as_primitive::<Time64MicrosecondType>();
                Arc::new(times.unary::<_, Time64MicrosecondType>(|us| rounded(us, unit)))
            }
            DataType::Interval(_) => {
                let values = times.as_primitive::<IntervalMonthDayNanoType>();
                Arc::new(values.unary::<_, IntervalMonthDayNanoType>(|value| IntervalMonthDayNano {
                    nanoseconds: rounded(value.nanoseconds / 1000, unit) * 1000,
                    ..value
                }))
            }
            kind => Arc::new(
                times
                    .as_primitive::<TimestampMicrosecondType>()
                    .unary::<_, TimestampMicrosecondType>(|us| rounded(us - POSTGRES_EPOCH_US, unit) + POSTGRES_EPOCH_US)
                    .with_data_type(kind.clone()),
            ),
        };
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

/// The multiple of `unit` that is nearest; of two, the one farther from zero.
fn rounded(us: i64, unit: i64) -> i64 {
    let half = if us < 0 { -unit / 2 } else { unit / 2 };
    us.saturating_add(half) / unit * unit
}
