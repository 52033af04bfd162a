//! `interval * number` and `interval / number`, for which DataFusion has no type: calls of functions from the start.

use crate::functions::interval;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

#[derive(Debug)]
pub(crate) struct ScaledIntervals;

impl ExprPlanner for ScaledIntervals {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if !matches!(raw.op, BinaryOperator::Multiply | BinaryOperator::Divide) {
            return Ok(PlannerResult::Original(raw));
        }
        let is_interval = |expr: &Expr| matches!(expr.get_type(schema), Ok(DataType::Interval(_)));
        let is_number = |expr: &Expr| expr.get_type(schema).is_ok_and(|t| t.is_numeric());
        let RawBinaryExpr { op, left, right } = raw;
        let factor = |expr: Expr| Expr::Cast(Cast::new(Box::new(expr), DataType::Float64));
        Ok(match op {
            BinaryOperator::Multiply if is_interval(&left) && is_number(&right) => {
                PlannerResult::Planned(interval::times().call(vec![left, factor(right)]))
            }
            BinaryOperator::Multiply if is_number(&left) && is_interval(&right) => {
                PlannerResult::Planned(interval::times().call(vec![right, factor(left)]))
            }
            BinaryOperator::Divide if is_interval(&left) && is_number(&right) => {
                PlannerResult::Planned(interval::divided().call(vec![left, factor(right)]))
            }
            op => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }
}
