//! Intervals: between two times, and in the order in which Postgres compares them.

use super::error;
use arrow::array::{ArrayRef, AsArray, Decimal128Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::{SqlError, SqlState};

use thalweg_catalog::datetime::calendar::DAY_US;

const DAY_NS: i64 = DAY_US * 1_000;

/// Days of a month where one has to stand for all.
const MONTH_DAYS: i32 = 30;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Operation {
    Between,
    Order,
    Times,
    Divided,
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

operation!(times, Operation::Times, "An interval so many times.");
operation!(divided, Operation::Divided, "The part of an interval that a divisor gives.");

pub(super) fn functions() -> Vec<ScalarUDF> {
    [between(), order(), times(), divided()].iter().map(|function| function.as_ref().clone()).collect()
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
            Operation::Times => "interval_times",
            Operation::Divided => "interval_divided",
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
            (
                Operation::Times | Operation::Divided,
                [interval @ DataType::Interval(IntervalUnit::MonthDayNano), DataType::Float64],
            ) => Ok(interval.clone()),
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
            (operation, [interval, factor]) => {
                let (intervals, factors) =
                    (interval.as_primitive::<IntervalMonthDayNanoType>(), factor.as_primitive::<Float64Type>());
                let divides = operation == Operation::Divided;
                let both = intervals.iter().zip(factors).map(|(i, f)| i.zip(f).map(|(i, f)| scaled(i, f, divides)).transpose());
                Arc::new(both.collect::<Result<IntervalMonthDayNanoArray>>()?)
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

/// Each part times the factor; what is left of a month goes to days and of a day to the time, as in Postgres.
fn scaled(interval: IntervalMonthDayNano, factor: f64, divides: bool) -> Result<IntervalMonthDayNano> {
    if divides && factor == 0.0 {
        return Err(error(SqlError::new(SqlState::DivisionByZero, "division by zero")));
    }
    let by = |value: f64| if divides { value / factor } else { value * factor };
    let (months, days) = (by(f64::from(interval.months)), by(f64::from(interval.days)));
    let rest_days = rounded((months - months.trunc()) * f64::from(MONTH_DAYS));
    let rest_us = rounded((days - days.trunc() + rest_days - rest_days.trunc()) * DAY_US as f64);
    let us = (by(interval.nanoseconds as f64 / 1_000.0) + rest_us).round_ties_even();
    let days = days.trunc() + rest_days.trunc();
    let fits = |value: f64, limit: f64| value.is_finite() && value.abs() < limit;
    if !fits(months, 2f64.powi(31)) || !fits(days, 2f64.powi(31)) || !fits(us, 2f64.powi(63) / 1_000.0) {
        return Err(out_of_range());
    }
    Ok(IntervalMonthDayNano::new(months.trunc() as i32, days as i32, us as i64 * 1_000))
}

/// To microseconds of a second: what a division left behind them is no part of the value.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

fn total_ns(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * i128::from(MONTH_DAYS) + i128::from(interval.days);
    days * i128::from(DAY_NS) + i128::from(interval.nanoseconds)
}
