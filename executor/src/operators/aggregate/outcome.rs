//! From a group's state to the values that are shown.

use super::accumulator::{Number, f64_at, i64_at, i128_at, wide_sum};
use crate::error::OperatorError;
use arrow::array::{Array, ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, i256};
use std::sync::Arc;

/// How one aggregate follows from the state.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub formula: Formula,
    /// The type of the column.
    pub output: DataType,
}

/// What is computed. Numbers are offsets in a group's value.
#[derive(Clone, Debug)]
pub(super) enum Formula {
    Count {
        count: usize,
    },
    /// Of integers or decimals. `carries`: the sum is followed by a carry.
    ExactSum {
        sum: usize,
        count: usize,
        scale: i8,
        carries: bool,
        mean: bool,
    },
    FloatSum {
        sum: usize,
        count: usize,
        mean: bool,
    },
    Truth {
        trues: usize,
        count: usize,
        all: bool,
    },
    Extreme {
        value: usize,
        number: Number,
    },
    /// The first or last of a set's values.
    Value {
        set: usize,
        greatest: bool,
    },
}

/// The column of an aggregate over some groups, and the groups whose value can't be shown, with the reason.
pub(super) struct Shown {
    pub column: ArrayRef,
    pub faults: Vec<(usize, &'static str)>,
}

impl Outcome {
    /// The column for these groups' values. None for results that come from a set.
    pub fn show(&self, states: &[&[u8]]) -> Result<Option<Shown>, OperatorError> {
        let column: ArrayRef = match &self.formula {
            Formula::Count { count } => Arc::new(Int64Array::from_iter_values(states.iter().map(|s| i64_at(s, *count)))),
            Formula::Truth { trues, count, all } => {
                Arc::new(states.iter().map(|s| truth(s, *trues, *count, *all)).collect::<BooleanArray>())
            }
            Formula::ExactSum { .. } => return self.show_exact(states).map(Some),
            Formula::FloatSum { sum, count, mean } => return self.show_float(states, *sum, *count, *mean).map(Some),
            Formula::Extreme { value, number } => return self.show_extreme(states, *value, *number).map(Some),
            Formula::Value { .. } => return Ok(None),
        };
        Ok(Some(Shown { column: self.typed(column)?, faults: Vec::new() }))
    }

    /// The set that the result comes from, and whether it is its greatest value.
    pub fn value_set(&self) -> Option<(usize, bool)> {
        match self.formula {
            Formula::Value { set, greatest } => Some((set, greatest)),
            _ => None,
        }
    }

    /// The column in the type of the output.
    pub fn typed(&self, column: ArrayRef) -> Result<ArrayRef, OperatorError> {
        Ok(if column.data_type() == &self.output { column } else { cast(&column, &self.output)? })
    }

    fn show_exact(&self, states: &[&[u8]]) -> Result<Shown, OperatorError> {
        let Formula::ExactSum { sum, count, scale, carries, mean } = self.formula else {
            return Err(OperatorError::Plan("not a sum".into()));
        };
        let (output_scale, limit, reason) = match self.output {
            DataType::Int64 => (0, None, "bigint out of range"),
            DataType::Decimal128(precision, scale) => (scale, Some(power_of_ten(precision)), "numeric field overflow"),
            DataType::Float64 if mean => return self.show_float_mean(states, sum, count, scale, carries),
            ref other => return Err(OperatorError::Plan(format!("an exact sum can't be shown as {other}"))),
        };
        let up = i256::from_i128(power_of_ten(output_scale.saturating_sub(scale).max(0) as u8));
        let down = i256::from_i128(power_of_ten(scale.saturating_sub(output_scale).max(0) as u8));
        let mut faults = Vec::new();
        let mut values: Vec<Option<i128>> = Vec::with_capacity(states.len());
        for (place, state) in states.iter().enumerate() {
            let values_seen = i64_at(state, count);
            if values_seen == 0 {
                values.push(None);
                continue;
            }
            let value = if !carries && !mean && scale == output_scale {
                Some(i128_at(state, sum))
            } else {
                let exact = if carries { wide_sum(state, sum) } else { i256::from_i128(i128_at(state, sum)) };
                let divisor = if mean { down * i256::from_i128(i128::from(values_seen)) } else { down };
                exact.checked_mul(up).and_then(|n| n.checked_div(divisor)).and_then(|n| n.to_i128())
            };
            let fits = |v: &i128| match limit {
                Some(limit) => v.abs() < limit,
                None => i64::try_from(*v).is_ok(),
            };
            let value = value.filter(fits);
            if value.is_none() {
                faults.push((place, reason));
            }
            values.push(value);
        }
        let column: ArrayRef = match self.output {
            DataType::Int64 => Arc::new(values.into_iter().map(|v| v.map(|v| v as i64)).collect::<Int64Array>()),
            _ => Arc::new(Decimal128Array::from_iter(values).with_data_type(self.output.clone())),
        };
        Ok(Shown { column, faults })
    }

    fn show_float_mean(
        &self,
        states: &[&[u8]],
        sum: usize,
        count: usize,
        scale: i8,
        carries: bool,
    ) -> Result<Shown, OperatorError> {
        let unit = 10f64.powi(i32::from(scale));
        let mean = |state: &&[u8]| {
            let values_seen = i64_at(state, count);
            let carry = if carries { i64_at(state, sum + 16) as f64 * 2f64.powi(128) } else { 0.0 };
            (values_seen != 0).then(|| (i128_at(state, sum) as f64 + carry) / unit / values_seen as f64)
        };
        let column: ArrayRef = Arc::new(states.iter().map(mean).collect::<Float64Array>());
        Ok(Shown { column, faults: Vec::new() })
    }

    fn show_float(&self, states: &[&[u8]], sum: usize, count: usize, mean: bool) -> Result<Shown, OperatorError> {
        let mut faults = Vec::new();
        let mut values: Vec<Option<f64>> = Vec::with_capacity(states.len());
        for (place, state) in states.iter().enumerate() {
            let values_seen = i64_at(state, count);
            if values_seen == 0 {
                values.push(None);
                continue;
            }
            let (value, fits) = float_sum(state, sum);
            if !fits {
                faults.push((place, "value out of range: overflow"));
            }
            values.push(fits.then_some(if mean { value / values_seen as f64 } else { value }));
        }
        Ok(Shown { column: self.typed(Arc::new(Float64Array::from(values)))?, faults })
    }

    fn show_extreme(&self, states: &[&[u8]], value: usize, number: Number) -> Result<Shown, OperatorError> {
        let seen = |state: &[u8], width: usize| i64_at(state, value + width) != 0;
        let column: ArrayRef = match number {
            Number::Integer => {
                let values = states.iter().map(|s| seen(s, 8).then(|| i64_at(s, value))).collect::<Int64Array>();
                match self.output {
                    DataType::Date32 => cast(&values, &DataType::Int32)?,
                    _ => Arc::new(values),
                }
            }
            Number::Float => Arc::new(states.iter().map(|s| seen(s, 8).then(|| f64_at(s, value))).collect::<Float64Array>()),
            Number::Decimal => {
                let values = Decimal128Array::from_iter(states.iter().map(|s| seen(s, 16).then(|| i128_at(s, value))));
                let DataType::Decimal128(..) = self.output else {
                    return Err(OperatorError::Plan(format!("a decimal can't be shown as {}", self.output)));
                };
                Arc::new(values.with_data_type(self.output.clone()))
            }
        };
        Ok(Shown { column: self.typed(column)?, faults: Vec::new() })
    }
}

fn truth(state: &[u8], trues: usize, count: usize, all: bool) -> Option<bool> {
    let (trues, count) = (i64_at(state, trues), i64_at(state, count));
    (count != 0).then_some(if all { trues == count } else { trues > 0 })
}

/// The sum of floats, and whether it is in range: infinite only if an infinity is among them.
fn float_sum(state: &[u8], sum: usize) -> (f64, bool) {
    let [nans, infinities, minus_infinities] = [16, 24, 32].map(|place| i64_at(state, sum + place) != 0);
    if nans || (infinities && minus_infinities) {
        return (f64::NAN, true);
    }
    if infinities || minus_infinities {
        return (if infinities { f64::INFINITY } else { f64::NEG_INFINITY }, true);
    }
    let value = f64_at(state, sum) + f64_at(state, sum + 8);
    (value, value.is_finite())
}

/// How many of a float sum's values are NaN or infinite.
pub(super) fn special_values(state: &[u8], sum: usize) -> i64 {
    [16, 24, 32].iter().map(|place| i64_at(state, sum + place)).sum()
}

/// 10 to the power of `exponent`, at most 10^38, which is the most that a decimal has.
fn power_of_ten(exponent: u8) -> i128 {
    10i128.pow(u32::from(exponent.min(38)))
}
