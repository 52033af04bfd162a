//! Intervals: between two times, and in the order in which Postgres compares them.

use super::error;
use arrow::array::{ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::{SqlError, SqlState};

use crate::datetime::calendar::DAY_US;

const DAY_NS: i64 = DAY_US * 1_000;

/// Days of a month where one has to stand for all.
const MONTH_DAYS: i32 = 30;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Operation {
    Between,
    Order,
}

macro_rules! operation {
    ($name:ident, $operation:expr, $doc:literal) => {
        #[doc = $doc]
        pub(crate) fn $name() -> Arc<ScalarUDF> {
            static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Interval::new($operation))));
            Arc::clone(&FUNCTION)
        }
    };
}

operation!(between, Operation::Between, "From the second timestamp to the first, in whole days and the rest.");
operation!(order, Operation::Order, "An interval's microseconds, 30 days to a month: what Postgres compares.");

pub(super) fn functions() -> Vec<ScalarUDF> {
    [between(), order()].iter().map(|function| function.as_ref().clone()).collect()
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Interval {
    operation: Operation,
    signature: Signature,
}

impl Interval {
    fn new(operation: Operation) -> Interval {
        let arguments = if operation == Operation::Order { 1 } else { 2 };
        Interval { operation, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Interval {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        match self.operation {
            Operation::Between => "time_between",
            Operation::Order => "interval_order",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match (self.operation, types) {
            (Operation::Between, [DataType::Timestamp(..), DataType::Timestamp(..)]) => {
                Ok(DataType::Interval(IntervalUnit::MonthDayNano))
            }
            (Operation::Order, [DataType::Interval(IntervalUnit::MonthDayNano)]) => Ok(DataType::Decimal128(38, 0)),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|a| a.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let result: ArrayRef = match (self.operation, arrays.as_slice()) {
            (Operation::Between, [later, earlier]) => {
                let (later, earlier) =
                    (later.as_primitive::<TimestampMicrosecondType>(), earlier.as_primitive::<TimestampMicrosecondType>());
                let both = later.iter().zip(earlier).map(|(l, e)| l.zip(e).map(|(l, e)| time_between(l, e)).transpose());
                Arc::new(both.collect::<Result<IntervalMonthDayNanoArray>>()?)
            }
            (Operation::Order, [interval]) => {
                let intervals = interval.as_primitive::<IntervalMonthDayNanoType>().iter();
                Arc::new(intervals.map(|i| i.map(total_ns)).collect::<Decimal128Array>().with_precision_and_scale(38, 0)?)
            }
            _ => return super::wrong_types(self.name(), &[]),
        };
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

fn out_of_range() -> datafusion::error::DataFusionError {
    error(SqlError::new(SqlState::DatetimeFieldOverflow, "interval out of range"))
}

fn time_between(later: i64, earlier: i64) -> Result<IntervalMonthDayNano> {
    let us = later.checked_sub(earlier).ok_or_else(out_of_range)?;
    let days = i32::try_from(us / DAY_US).map_err(|_| out_of_range())?;
    Ok(IntervalMonthDayNano::new(0, days, us % DAY_US * 1_000))
}

fn total_ns(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * i128::from(MONTH_DAYS) + i128::from(interval.days);
    days * i128::from(DAY_NS) + i128::from(interval.nanoseconds)
}
