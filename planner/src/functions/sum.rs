//! `sum` of numerics that reports what doesn't fit. DataFusion's own wraps.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array};
use arrow::buffer::NullBuffer;
use arrow::compute::{not, nullif, prep_null_mask_filter};
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlState};

pub(super) fn function() -> AggregateUDF {
    AggregateUDF::from(Sum { inner: sum_udaf() })
}

/// DataFusion's sum but for numerics.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Sum {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let data_type = args.return_field.data_type().clone();
        match (&data_type, args.is_distinct) {
            (DataType::Decimal128(..), false) => Ok(Box::new(NumericSum { sum: 0, count: 0, data_type })),
            (DataType::Decimal128(..), true) => Ok(Box::new(DistinctSum { values: self.inner.accumulator(args)?, data_type })),
            _ => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            DataType::Decimal128(..) => {
                Ok(Box::new(GroupSums { sums: vec![], seen: vec![], data_type: args.return_field.data_type().clone() }))
            }
            _ => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            DataType::Decimal128(..) if !args.is_distinct => self.accumulator(args),
            _ => self.inner.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn overflow() -> datafusion::error::DataFusionError {
    error(
        SqlError::new(SqlState::NumericValueOutOfRange, "value out of range")
            .with_detail(format!("A sum has more than {} digits.", Decimal128Type::MAX_PRECISION)),
    )
}

fn added(sum: i128, value: i128) -> Result<i128> {
    sum.checked_add(value).ok_or_else(overflow)
}

/// The sum as a value of its type.
fn checked(sum: i128, data_type: &DataType) -> Result<i128> {
    let DataType::Decimal128(precision, _) = data_type else { return Ok(sum) };
    if Decimal128Type::is_valid_decimal_precision(sum, *precision) { Ok(sum) } else { Err(overflow()) }
}

/// The sum of one group or window frame.
#[derive(Debug)]
struct NumericSum {
    sum: i128,
    count: i64,
    data_type: DataType,
}

impl NumericSum {
    /// Adds values, or takes them back with a `sign` of −1.
    fn change(&mut self, values: &ArrayRef, sign: i64) -> Result<()> {
        for value in values.as_primitive::<Decimal128Type>().iter().flatten() {
            self.sum = added(self.sum, value * i128::from(sign))?;
            self.count += sign;
        }
        Ok(())
    }
}

impl Accumulator for NumericSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], 1)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.change(&values[0], -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = if self.count == 0 { None } else { Some(checked(self.sum, &self.data_type)?) };
        ScalarValue::new_primitive::<Decimal128Type>(sum, &self.data_type)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sum of the values that DataFusion's accumulator has kept as distinct.
#[derive(Debug)]
struct DistinctSum {
    values: Box<dyn Accumulator>,
    data_type: DataType,
}

impl Accumulator for DistinctSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.values.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut total = NumericSum { sum: 0, count: 0, data_type: self.data_type.clone() };
        for state in self.values.state()? {
            if let ScalarValue::List(list) = state {
                total.change(list.values(), 1)?;
            }
        }
        total.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.values.state()
    }

    fn size(&self) -> usize {
        self.values.size()
    }
}

/// The sums of many groups.
#[derive(Debug)]
struct GroupSums {
    sums: Vec<i128>,
    /// Whether a group has had a value: its sum is NULL else.
    seen: Vec<bool>,
    data_type: DataType,
}

impl GroupsAccumulator for GroupSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.sums.resize(groups_total, 0);
        self.seen.resize(groups_total, false);
        let values = values[0].as_primitive::<Decimal128Type>();
        for (row, &group) in groups.iter().enumerate() {
            let is_kept = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if is_kept && values.is_valid(row) {
                self.sums[group] = added(self.sums[group], values.value(row))?;
                self.seen[group] = true;
            }
        }
        Ok(())
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        groups_total: usize,
    ) -> Result<()> {
        self.update_batch(states, groups, filter, groups_total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let seen = emit_to.take_needed(&mut self.seen);
        for sum in &sums {
            checked(*sum, &self.data_type)?;
        }
        let sums = Decimal128Array::new(sums.into(), Some(NullBuffer::from(seen)));
        Ok(Arc::new(sums.with_data_type(self.data_type.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit_to)?])
    }

    fn supports_convert_to_state(&self) -> bool {
        true
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let kept = match filter {
            None => Arc::clone(&values[0]),
            Some(filter) => nullif(&values[0], &not(&prep_null_mask_filter(filter))?)?,
        };
        let sums = kept.as_primitive::<Decimal128Type>().clone().with_data_type(self.data_type.clone());
        Ok(vec![Arc::new(sums)])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}
