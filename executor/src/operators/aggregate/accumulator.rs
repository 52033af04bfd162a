//! The loops that add a delta's rows to their groups' accumulators.
//!
//! Accumulators lie without alignment in the bytes of a group's value and are little-endian, as they are stored.

use crate::error::OperatorError;
use crate::operators::rows::{as_condition, rows_with_values, true_rows};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, i256};
use thalweg_storage::state::{GroupTable, Slot};

/// One accumulator of each group.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Accumulator {
    pub kind: Kind,
    /// The column whose values it takes; none to count rows.
    pub argument: Option<usize>,
    pub filter: Option<usize>,
    /// It sees a value when it comes to be in this set and when it ceases to, instead of each time.
    pub set: Option<usize>,
    /// Where it lies in the group's value.
    pub offset: usize,
}

/// What an accumulator keeps. Zero bytes are its empty state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// How many values: i64.
    Count,
    /// Sum of integers: i128, which no count of 64-bit values can overflow.
    SumInteger,
    /// Sum of decimals: i128 that wraps, and how often it has: i64. So that too large a sum heals.
    SumDecimal,
    /// Sum of floats: see [`add_float`]; then how many NaN, infinity and minus infinity, which no sum can give back.
    SumFloat,
    /// How many are true: i64.
    Trues,
    /// The least or greatest so far, and whether there was any: i64.
    Extreme { greatest: bool, number: Number },
}

/// How the values of an extreme are kept: i64, f64 or i128.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Number {
    Integer,
    Float,
    Decimal,
}

/// The rows that an accumulator sees, with their groups.
pub(super) struct Rows<'a> {
    pub slots: &'a [Slot],
    /// None: each counts +1.
    pub weights: Option<&'a [i64]>,
    /// None: all.
    pub keep: Option<BooleanBuffer>,
}

impl Rows<'_> {
    #[inline]
    fn each(&self, mut visit: impl FnMut(usize, Slot, i64)) {
        match (&self.keep, self.weights) {
            (None, None) => self.slots.iter().enumerate().for_each(|(row, slot)| visit(row, *slot, 1)),
            (None, Some(weights)) => {
                self.slots.iter().zip(weights).enumerate().for_each(|(row, (slot, weight))| visit(row, *slot, *weight));
            }
            (Some(keep), weights) => {
                keep.set_indices().for_each(|row| visit(row, self.slots[row], weights.map_or(1, |w| w[row])));
            }
        }
    }
}

/// Adds the rows' weights at `offset`.
pub(super) fn add_weights(groups: &mut GroupTable, offset: usize, rows: &Rows<'_>) {
    rows.each(|_, slot, weight| add_i64(groups.value_mut(slot), offset, weight));
}

impl Accumulator {
    /// Adds the rows' values. `argument` has a value in each row that `rows` keeps.
    pub fn add(&self, groups: &mut GroupTable, argument: Option<&ArrayRef>, rows: &Rows<'_>) -> Result<(), OperatorError> {
        let offset = self.offset;
        let Some(argument) = argument else {
            add_weights(groups, offset, rows);
            return Ok(());
        };
        match self.kind {
            Kind::Count => add_weights(groups, offset, rows),
            Kind::SumInteger => {
                let values = argument.as_primitive::<Int64Type>().values();
                rows.each(|row, slot, weight| {
                    let value = groups.value_mut(slot);
                    let sum = i128_at(value, offset) + i128::from(values[row]) * i128::from(weight);
                    value[offset..offset + 16].copy_from_slice(&sum.to_le_bytes());
                });
            }
            Kind::SumDecimal => {
                let values = argument.as_primitive::<Decimal128Type>().values();
                rows.each(|row, slot, weight| add_decimal(groups.value_mut(slot), offset, values[row], weight));
            }
            Kind::SumFloat => {
                let values = argument.as_primitive::<Float64Type>().values();
                rows.each(|row, slot, weight| add_float(groups.value_mut(slot), offset, values[row], weight));
            }
            Kind::Trues => {
                let values = argument.as_boolean().values();
                rows.each(|row, slot, weight| {
                    if values.value(row) {
                        add_i64(groups.value_mut(slot), offset, weight);
                    }
                });
            }
            Kind::Extreme { greatest, number } => extreme(groups, offset, argument, rows, greatest, number)?,
        }
        Ok(())
    }
}

fn extreme(
    groups: &mut GroupTable,
    offset: usize,
    argument: &ArrayRef,
    rows: &Rows<'_>,
    greatest: bool,
    number: Number,
) -> Result<(), OperatorError> {
    match number {
        Number::Integer => {
            let values = as_integers(argument)?;
            let values = values.as_primitive::<Int64Type>().values();
            rows.each(|row, slot, _| {
                let (value, new) = (groups.value_mut(slot), values[row]);
                let old = i64_at(value, offset);
                if i64_at(value, offset + 8) == 0 || if greatest { new > old } else { new < old } {
                    value[offset..offset + 8].copy_from_slice(&new.to_le_bytes());
                    value[offset + 8..offset + 16].copy_from_slice(&1i64.to_le_bytes());
                }
            });
        }
        Number::Float => {
            let values = cast(argument, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>().values();
            rows.each(|row, slot, _| {
                let (value, new) = (groups.value_mut(slot), canonical(values[row]));
                let order = new.total_cmp(&f64_at(value, offset));
                if i64_at(value, offset + 8) == 0 || if greatest { order.is_gt() } else { order.is_lt() } {
                    value[offset..offset + 8].copy_from_slice(&new.to_le_bytes());
                    value[offset + 8..offset + 16].copy_from_slice(&1i64.to_le_bytes());
                }
            });
        }
        Number::Decimal => {
            let values = argument.as_primitive::<Decimal128Type>().values();
            rows.each(|row, slot, _| {
                let (value, new) = (groups.value_mut(slot), values[row]);
                let old = i128_at(value, offset);
                if i64_at(value, offset + 16) == 0 || if greatest { new > old } else { new < old } {
                    value[offset..offset + 16].copy_from_slice(&new.to_le_bytes());
                    value[offset + 16..offset + 24].copy_from_slice(&1i64.to_le_bytes());
                }
            });
        }
    }
    Ok(())
}

/// Integers, booleans, dates and times as 64-bit integers of the same order. A date stays in days.
fn as_integers(argument: &ArrayRef) -> Result<ArrayRef, OperatorError> {
    let argument = match argument.data_type() {
        DataType::Date32 => cast(argument, &DataType::Int32)?,
        _ => argument.clone(),
    };
    Ok(cast(&argument, &DataType::Int64)?)
}

/// One NaN above all numbers, and one zero.
#[inline]
fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

#[inline]
pub(super) fn i64_at(value: &[u8], offset: usize) -> i64 {
    i64::from_le_bytes(value[offset..offset + 8].try_into().expect("eight bytes were taken"))
}

#[inline]
pub(super) fn f64_at(value: &[u8], offset: usize) -> f64 {
    f64::from_le_bytes(value[offset..offset + 8].try_into().expect("eight bytes were taken"))
}

#[inline]
pub(super) fn i128_at(value: &[u8], offset: usize) -> i128 {
    i128::from_le_bytes(value[offset..offset + 16].try_into().expect("sixteen bytes were taken"))
}

/// Adds to an i64.
#[inline]
pub(super) fn add_i64(value: &mut [u8], offset: usize, by: i64) {
    let sum = i64_at(value, offset).wrapping_add(by);
    value[offset..offset + 8].copy_from_slice(&sum.to_le_bytes());
}

#[inline]
fn add_decimal(value: &mut [u8], offset: usize, number: i128, weight: i64) {
    let old = i128_at(value, offset);
    if let Some(sum) = number.checked_mul(i128::from(weight)).and_then(|n| old.checked_add(n)) {
        value[offset..offset + 16].copy_from_slice(&sum.to_le_bytes());
        return;
    }
    let sum = wide_sum(value, offset) + i256::from_i128(number) * i256::from_i128(i128::from(weight));
    // The sum is `carry * 2^128 + low`, with `low` taken as signed.
    let low = sum.to_i128().unwrap_or_else(|| sum.to_parts().0 as i128);
    let carry = (sum - i256::from_i128(low)).to_parts().1 as i64;
    value[offset..offset + 16].copy_from_slice(&low.to_le_bytes());
    value[offset + 16..offset + 24].copy_from_slice(&carry.to_le_bytes());
}

/// The exact sum of decimals.
pub(super) fn wide_sum(value: &[u8], offset: usize) -> i256 {
    let carry = i128::from(i64_at(value, offset + 16));
    i256::from_parts(0, carry) + i256::from_i128(i128_at(value, offset))
}

/// Adds to a sum of floats by Neumaier's compensated summation (ZAMM 54, 1974): the sum, then the rest that its rounding has
/// lost, so that what is retracted leaves (nearly) nothing behind.
#[inline]
fn add_float(value: &mut [u8], offset: usize, number: f64, weight: i64) {
    if !number.is_finite() {
        let place = if number.is_nan() {
            16
        } else if number > 0.0 {
            24
        } else {
            32
        };
        add_i64(value, offset + place, weight);
        return;
    }
    let (sum, rest) = (f64_at(value, offset), f64_at(value, offset + 8));
    let number = if weight == 1 { number } else { number * weight as f64 };
    let new = sum + number;
    let lost = if sum.abs() >= number.abs() { (sum - new) + number } else { (number - new) + sum };
    value[offset..offset + 8].copy_from_slice(&new.to_le_bytes());
    value[offset + 8..offset + 16].copy_from_slice(&(rest + lost).to_le_bytes());
}

/// The rows that an aggregate with this argument and filter sees; none if that is every row.
pub(super) fn rows_seen(
    columns: &[ArrayRef],
    argument: Option<usize>,
    filter: Option<usize>,
) -> Result<Option<BooleanBuffer>, OperatorError> {
    let values = rows_with_values(argument.map(|a| &columns[a]));
    let Some(filter) = filter else { return Ok(values) };
    let passed = true_rows(as_condition(&columns[filter])?);
    Ok(Some(match values {
        Some(values) => &values & &passed,
        None => passed,
    }))
}
