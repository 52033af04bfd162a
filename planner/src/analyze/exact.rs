//! Arithmetic that reports what it can't hold, and casts that round and print as in Postgres.

use crate::functions::{arithmetic, interval, read_time, text};
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::functions::math;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

/// Digits behind the point that a numeric is given before it is divided; Arrow's division adds four.
const DIVIDED_SCALE: i8 = 12;

#[derive(Debug)]
pub(super) struct ExactArithmetic;

impl AnalyzerRule for ExactArithmetic {
    fn name(&self) -> &str {
        "exact_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = config.execution.time_zone.as_deref().unwrap_or("UTC");
        Ok(plan.transform_up_with_subqueries(|node| rewrite(node, zone))?.data)
    }
}

fn rewrite(node: LogicalPlan, zone: &str) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = &node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| rewrite_expr(expr, &schema, zone))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })?
    .map_data(|node| node.recompute_schema())
}

fn rewrite_expr(expr: Expr, schema: &DFSchema, zone: &str) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => binary_expr(binary, schema),
        Expr::Negative(inner) if inner.get_type(schema)?.is_signed_integer() => {
            Ok(Transformed::yes(arithmetic::negate().call(vec![*inner])))
        }
        Expr::Cast(cast) => cast_expr(cast, schema, zone),
        Expr::Between(between) => between_expr(between, schema),
        // What is rounded to whole numbers has no digits behind the point.
        Expr::ScalarFunction(call) if matches!(call.name(), "floor" | "ceil") && call.args.len() == 1 => {
            match call.args[0].get_type(schema)? {
                DataType::Decimal128(precision, scale) if scale > 0 => {
                    let whole = (precision - scale as u8 + 1).min(38);
                    let rounded = Box::new(Expr::ScalarFunction(call));
                    Ok(Transformed::yes(Expr::Cast(Cast::new(rounded, DataType::Decimal128(whole, 0)))))
                }
                _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
            }
        }
        other => Ok(Transformed::no(other)),
    }
}

fn binary_expr(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let original = |binary| Ok(Transformed::no(Expr::BinaryExpr(binary)));
    if binary.op.supports_propagation() && is_interval(&binary.left, schema)? && is_interval(&binary.right, schema)? {
        let [left, right] = [binary.left, binary.right].map(|side| Box::new(interval::order().call(vec![*side])));
        return Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(left, binary.op, right))));
    }
    if !matches!(binary.op, Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide) {
        return original(binary);
    }
    let (left, right) = (binary.left.get_type(schema)?, binary.right.get_type(schema)?);
    match (binary.op, &left, &right) {
        (Operator::Plus | Operator::Minus | Operator::Multiply, left, right) if left.is_integer() && left == right => {
            let function = match binary.op {
                Operator::Plus => arithmetic::add(),
                Operator::Minus => arithmetic::subtract(),
                _ => arithmetic::multiply(),
            };
            Ok(Transformed::yes(function.call(vec![*binary.left, *binary.right])))
        }
        (Operator::Divide, DataType::Float32 | DataType::Float64, right) if left == *right => {
            Ok(Transformed::yes(arithmetic::divide().call(vec![*binary.left, *binary.right])))
        }
        (Operator::Divide, DataType::Decimal128(precision, scale), DataType::Decimal128(..)) => {
            let wider = i16::from(*precision) + i16::from(DIVIDED_SCALE - scale);
            if *scale >= DIVIDED_SCALE || *scale < 0 || wider > 38 {
                return original(binary);
            }
            let left = Expr::Cast(Cast::new(binary.left, DataType::Decimal128(wider as u8, DIVIDED_SCALE)));
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), binary.op, binary.right))))
        }
        _ => original(binary),
    }
}

/// Intervals in the order that Postgres compares them by: Arrow's goes by months, then days, then the rest.
fn between_expr(between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !is_interval(&between.expr, schema)? {
        return Ok(Transformed::no(Expr::Between(between)));
    }
    let [expr, low, high] = [between.expr, between.low, between.high].map(|side| Box::new(interval::order().call(vec![*side])));
    Ok(Transformed::yes(Expr::Between(Between::new(expr, between.negated, low, high))))
}

fn is_interval(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(expr.get_type(schema)? == DataType::Interval(IntervalUnit::MonthDayNano))
}

fn cast_expr(cast: Cast, schema: &DFSchema, zone: &str) -> Result<Transformed<Expr>> {
    let from = cast.expr.get_type(schema)?;
    let to = cast.data_type.clone();
    if to.is_integer() {
        // Of two whole numbers that are equally near, floats go to the even one and numerics away from zero.
        let round = match from {
            DataType::Float32 | DataType::Float64 => Some(arithmetic::round_even()),
            DataType::Decimal128(_, scale) if scale > 0 => Some(math::round()),
            _ => None,
        };
        if let Some(round) = round {
            let rounded = round.call(vec![*cast.expr]);
            return Ok(Transformed::yes(Expr::Cast(Cast::new(Box::new(rounded), to))));
        }
    }
    if matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        && let Some(read) = read_time::read_time(cast.expr.as_ref().clone(), &to, zone)
    {
        return Ok(Transformed::yes(read));
    }
    if to == DataType::Utf8 && text::prints_differently(&from) {
        return Ok(Transformed::yes(text::to_text().call(vec![*cast.expr])));
    }
    if to == DataType::Binary && from == DataType::Utf8 {
        return Ok(Transformed::yes(text::bytes_of(*cast.expr)));
    }
    Ok(Transformed::no(Expr::Cast(cast)))
}
