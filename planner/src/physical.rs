//! Expressions in the form that is evaluated on batches.

use crate::errors::sql_error;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::expressions::BinaryExpr;
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
    checked(expr, input)
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
