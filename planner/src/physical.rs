//! Expressions in the form that is evaluated on batches.

use crate::errors::sql_error;
use arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use std::sync::Arc;
use thalweg_catalog::SqlResult;

/// The physical form of an expression of an analyzed plan over these columns. Arithmetic that overflows is an error.
///
/// # Errors
/// Expressions that have no physical form, such as a subquery that was not decorrelated.
pub fn physical_expr(expr: &Expr, input: &DFSchema, options: &Arc<ConfigOptions>) -> SqlResult<Arc<dyn PhysicalExpr>> {
    let mut props = ExecutionProps::new();
    props.config_options = Some(Arc::clone(options));
    let expr = create_physical_expr(expr, input, &props).map_err(|e| sql_error(&e))?;
    checked(with_durations(expr, input)?, input)
}

/// The same expression, in which times are moved by numbers of microseconds where they were moved by constant intervals without
/// months: Arrow moves by an interval through the calendar, a row at a time.
fn with_durations(expr: Arc<dyn PhysicalExpr>, input: &DFSchema) -> SqlResult<Arc<dyn PhysicalExpr>> {
    expr.transform_up(|node| {
        let Some(binary) = node.as_any().downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(node)) };
        let moves = matches!(binary.op(), Operator::Plus | Operator::Minus)
            && binary.left().data_type(input.as_arrow())? == DataType::Timestamp(TimeUnit::Microsecond, None);
        let length = binary.right().as_any().downcast_ref::<Literal>().filter(|_| moves).map(Literal::value);
        let Some(ScalarValue::IntervalMonthDayNano(Some(interval))) = length else { return Ok(Transformed::no(node)) };
        let Some(micros) = fixed_micros(*interval) else { return Ok(Transformed::no(node)) };
        let length = Arc::new(Literal::new(ScalarValue::DurationMicrosecond(Some(micros))));
        let moved = BinaryExpr::new(Arc::clone(binary.left()), *binary.op(), length);
        Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
    })
    .map(|transformed| transformed.data)
    .map_err(|e| sql_error(&e))
}

/// The length of an interval without months, whose days have 24 hours; none if it is no whole number of microseconds.
fn fixed_micros(interval: IntervalMonthDayNano) -> Option<i64> {
    const DAY_US: i64 = 86_400_000_000;
    if interval.months != 0 || interval.nanoseconds % 1_000 != 0 {
        return None;
    }
    i64::from(interval.days).checked_mul(DAY_US)?.checked_add(interval.nanoseconds / 1_000)
}

/// The same expression, in which sums, differences and products of integers report overflow rather than wrap.
///
/// # Errors
/// None in practice: the tree is rebuilt as it was.
pub fn checked(expr: Arc<dyn PhysicalExpr>, input: &DFSchema) -> SqlResult<Arc<dyn PhysicalExpr>> {
    expr.transform_up(|node| {
        let Some(binary) = node.as_any().downcast_ref::<BinaryExpr>() else { return Ok(Transformed::no(node)) };
        let is_arithmetic = matches!(binary.op(), Operator::Plus | Operator::Minus | Operator::Multiply);
        if !is_arithmetic || !is_integer(&binary.left().data_type(input.as_arrow())?) {
            return Ok(Transformed::no(node));
        }
        let safe = BinaryExpr::new(Arc::clone(binary.left()), *binary.op(), Arc::clone(binary.right()));
        Ok(Transformed::yes(Arc::new(safe.with_fail_on_overflow(true)) as Arc<dyn PhysicalExpr>))
    })
    .map(|transformed| transformed.data)
    .map_err(|e| sql_error(&e))
}

fn is_integer(data_type: &DataType) -> bool {
    data_type.is_integer()
}
