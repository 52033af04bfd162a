//! Operators between values of different types, as in Postgres: before DataFusion's own coercion, which is laxer.
//!
//! A literal in quotes has no type of its own and takes that of what it is compared with. Other text is no number and no time.

use crate::functions::{error, interval};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Union,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{SqlError, SqlState, SqlType, array_text};

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// One expression whose parts have been rewritten.
///
/// # Errors
/// `42883` for operators that are not there for their types, `42804` for what should be boolean and is not, `42846` for casts
/// that are not there.
pub(super) fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => binary_expr(binary, schema),
        Expr::Between(Between { expr, negated, low, high }) => {
            let (low, high) = (alike(*low, &expr, Operator::GtEq, schema)?, alike(*high, &expr, Operator::LtEq, schema)?);
            let expr = alike(*expr, &low, Operator::GtEq, schema)?;
            let (expr, mut bounds) = doubles(expr, vec![low, high], schema);
            let (high, low) = (bounds.swap_remove(1), bounds.swap_remove(0));
            Ok(Transformed::yes(Expr::Between(Between::new(Box::new(expr), negated, Box::new(low), Box::new(high)))))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list = list.into_iter().map(|item| alike(item, &expr, Operator::Eq, schema)).collect::<Result<_>>()?;
            let (expr, list) = doubles(*expr, list, schema);
            Ok(Transformed::yes(Expr::InList(InList::new(Box::new(expr), list, negated))))
        }
        Expr::Cast(cast) => {
            if let Some(from) = type_of(&cast.expr, schema).filter(|from| !is_castable(from, &cast.data_type)) {
                let message = format!("cannot cast type {} to {}", shown(&from), shown(&cast.data_type));
                return Err(error(at(SqlError::new(SqlState::CannotCoerce, message), &cast.expr)));
            }
            Ok(Transformed::no(Expr::Cast(cast)))
        }
        Expr::Not(inner) => {
            boolean(&inner, "NOT", schema)?;
            Ok(Transformed::no(Expr::Not(inner)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Refuses a pair of a join's keys that no `=` is there for.
pub(super) fn check_keys(left: (&Expr, &DFSchema), right: (&Expr, &DFSchema)) -> Result<()> {
    match (type_of(left.0, left.1), type_of(right.0, right.1)) {
        (Some(l), Some(r)) if is_text(&l) && has_own_type(&r) || is_text(&r) && has_own_type(&l) => {
            Err(mismatch(&l, Operator::Eq, &r, left.0))
        }
        _ => Ok(()),
    }
}

/// The union with literals in quotes as the types that stand beside them.
pub(super) fn typed_literals(union: Union) -> Result<Union> {
    let wanted: Vec<Option<DataType>> = (0..union.schema.fields().len())
        .map(|place| {
            let types = union.inputs.iter().map(|input| input.schema().field(place).data_type());
            types.into_iter().find(|found| has_own_type(found)).cloned()
        })
        .collect();
    with_typed_literals(union, &wanted, as_type)
}

/// The union with literals in quotes made what is wanted in their places.
pub(super) fn with_typed_literals<T>(union: Union, wanted: &[Option<T>], typed: impl Fn(Expr, &T) -> Expr) -> Result<Union> {
    let typed_input = |input: Arc<LogicalPlan>| {
        let LogicalPlan::Projection(projection) = input.as_ref() else { return Ok(input) };
        let exprs = projection.expr.iter().zip(wanted).map(|(expr, wanted)| match wanted {
            Some(wanted) if is_untyped(&expr.clone().unalias()) => {
                let name = expr.schema_name().to_string();
                typed(expr.clone().unalias(), wanted).alias(name)
            }
            _ => expr.clone(),
        });
        let plan = LogicalPlanBuilder::from(projection.input.as_ref().clone()).project(exprs)?.build()?;
        Ok(Arc::new(plan))
    };
    let inputs = union.inputs.into_iter().map(typed_input).collect::<Result<_>>()?;
    Ok(Union { inputs, schema: union.schema })
}

/// Refuses a union of text with numbers, booleans or times.
pub(super) fn check_union(union: &Union) -> Result<()> {
    let first = union.inputs[0].as_ref();
    for other in &union.inputs[1..] {
        let pairs = first.schema().fields().iter().zip(other.schema().fields());
        for (place, (left, right)) in pairs.enumerate() {
            let (l, r) = (left.data_type(), right.data_type());
            let is_mismatch = is_text(l) && has_own_type(r) || is_text(r) && has_own_type(l);
            if is_mismatch && !gives_literal(first, place) && !gives_literal(other, place) {
                let message = format!("UNION types {} and {} cannot be matched", shown(l), shown(r));
                return Err(error(SqlError::new(SqlState::DatatypeMismatch, message).with_hint("Cast one of them.")));
            }
        }
    }
    Ok(())
}

fn gives_literal(plan: &LogicalPlan, place: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => projection.expr.get(place).is_some_and(|e| is_untyped(&e.clone().unalias())),
        _ => false,
    }
}

/// `real` beside other numbers than floats: all of them are taken as `double precision`.
fn doubles(value: Expr, others: Vec<Expr>, schema: &DFSchema) -> (Expr, Vec<Expr>) {
    let is_exact = |t: &DataType| t.is_integer() || matches!(t, DataType::Decimal128(..));
    let of = |expr: &Expr| type_of(expr, schema);
    let is_real = |expr: &Expr| of(expr) == Some(DataType::Float32);
    let is_mixed = |expr: &Expr| {
        is_real(&value) && of(expr).is_some_and(|t| is_exact(&t)) || is_real(expr) && of(&value).is_some_and(|t| is_exact(&t))
    };
    if !others.iter().any(is_mixed) {
        return (value, others);
    }
    let double = |expr: Expr| as_type(expr, &DataType::Float64);
    (double(value), others.into_iter().map(double).collect())
}

fn binary_expr(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let BinaryExpr { left, op, right } = binary;
    let is_calculated = op.is_numerical_operators() || is_comparison(op);
    let (left, right) = if is_calculated {
        let (left, mut right) = doubles(*left, vec![*right], schema);
        (Box::new(left), Box::new(right.swap_remove(0)))
    } else {
        (left, right)
    };
    match op {
        Operator::And | Operator::Or => {
            boolean(&left, &op.to_string(), schema)?;
            boolean(&right, &op.to_string(), schema)?;
        }
        Operator::Plus | Operator::Minus => {
            return arithmetic(BinaryExpr { left, op, right }, schema);
        }
        op if op.supports_propagation() => {
            if let (Some(l), Some(r)) = (type_of(&left, schema), type_of(&right, schema))
                && is_text(&l)
                && has_own_type(&r)
                && !is_untyped(&left)
            {
                return Err(mismatch(&l, op, &r, &left));
            }
            let right = alike(*right, &left, op, schema)?;
            let left = alike(*left, &right, op, schema)?;
            return Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))));
        }
        _ => {}
    }
    Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })))
}

fn arithmetic(binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let BinaryExpr { left, op, right } = binary;
    let (Some(l), Some(r)) = (type_of(&left, schema), type_of(&right, schema)) else {
        return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
    };
    let calculated = |left: Expr, right: Expr| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
    let is_time = |t: &DataType| matches!(t, DataType::Timestamp(TimeUnit::Microsecond, _));
    Ok(Transformed::yes(match (op, &l, &r) {
        (Operator::Plus | Operator::Minus, DataType::Date32, DataType::Interval(_)) => {
            calculated(as_type(*left, &TIMESTAMP), *right)
        }
        (Operator::Plus, DataType::Interval(_), DataType::Date32) => calculated(*left, as_type(*right, &TIMESTAMP)),
        (Operator::Minus, DataType::Date32, later) if is_time(later) => {
            interval::between().call(vec![as_type(*left, later), *right])
        }
        (Operator::Minus, earlier, DataType::Date32) if is_time(earlier) => {
            interval::between().call(vec![*left, as_type(*right, earlier)])
        }
        (Operator::Minus, l, r) if is_time(l) && l == r => interval::between().call(vec![*left, *right]),
        _ => return Ok(Transformed::no(calculated(*left, *right))),
    }))
}

pub(super) fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// The value as it stands on the right of an operator, `other` on the left.
fn alike(value: Expr, other: &Expr, op: Operator, schema: &DFSchema) -> Result<Expr> {
    let (Some(own), Some(wanted)) = (type_of(&value, schema), type_of(other, schema)) else { return Ok(value) };
    if let (Expr::Literal(ScalarValue::Utf8(Some(text)), _), DataType::List(item)) = (&value, &wanted) {
        return array(text, item.data_type());
    }
    if !is_text(&own) || !has_own_type(&wanted) {
        return Ok(value);
    }
    if is_untyped(&value) { Ok(untyped_as(value, &wanted)) } else { Err(mismatch(&wanted, op, &own, &value)) }
}

/// An array's text as an array of these items.
fn array(text: &str, item: &DataType) -> Result<Expr> {
    let elements = array_text::elements(text).map_err(error)?.into_iter().map(|element| match (element, item) {
        (Some(inner), DataType::List(deeper)) => array(&inner, deeper.data_type()),
        (element, item) => Ok(as_type(Expr::Literal(ScalarValue::Utf8(element), None), item)),
    });
    let elements = elements.collect::<Result<Vec<_>>>()?;
    if elements.is_empty() {
        return Ok(Expr::Literal(ScalarValue::List(ScalarValue::new_list_nullable(&[], item)), None));
    }
    Ok(make_array(elements))
}

fn untyped_as(literal: Expr, wanted: &DataType) -> Expr {
    match wanted {
        // A literal keeps the digits that a column's type would round away.
        DataType::Decimal128(_, scale) if *scale <= NUMERIC_DEFAULT.1 => {
            as_type(literal, &DataType::Decimal128(NUMERIC_DEFAULT.0, NUMERIC_DEFAULT.1))
        }
        wanted => as_type(literal, wanted),
    }
}

fn as_type(value: Expr, to: &DataType) -> Expr {
    Expr::Cast(Cast::new(Box::new(value), to.clone()))
}

fn is_untyped(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::LargeUtf8(_) | ScalarValue::Utf8View(_), _))
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    // What has no type before coercion, such as a parameter, is left to it.
    expr.get_type(schema).ok()
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn has_own_type(data_type: &DataType) -> bool {
    data_type.is_numeric() || is_time(data_type) || *data_type == DataType::Boolean
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Interval(_))
}

/// Whether Postgres has a cast. Of types that are neither numbers, booleans nor times, DataFusion knows.
fn is_castable(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::Boolean, to) if to.is_numeric() => to.is_integer(),
        (from, DataType::Boolean) if from.is_numeric() => from.is_integer(),
        (DataType::Boolean, to) => !is_time(to),
        (from, DataType::Boolean) => !is_time(from),
        (from, to) => !(from.is_numeric() && is_time(to) || is_time(from) && to.is_numeric()),
    }
}

fn boolean(expr: &Expr, what: &str, schema: &DFSchema) -> Result<()> {
    match type_of(expr, schema) {
        Some(found) if found.is_numeric() || is_time(&found) || is_text(&found) && !is_untyped(expr) => {
            let message = format!("argument of {what} must be type boolean, not type {}", shown(&found));
            Err(error(at(SqlError::new(SqlState::DatatypeMismatch, message), expr)))
        }
        _ => Ok(()),
    }
}

fn mismatch(left: &DataType, op: Operator, right: &DataType, place: &Expr) -> datafusion::error::DataFusionError {
    let message = format!("operator does not exist: {} {op} {}", shown(left), shown(right));
    let error_of = SqlError::new(SqlState::UndefinedFunction, message)
        .with_hint("No operator matches the given name and argument types. You might need to add explicit type casts.");
    error(at(error_of, place))
}

fn shown(data_type: &DataType) -> String {
    match SqlType::from_arrow(data_type) {
        Ok(SqlType::Numeric(_)) => "numeric".to_string(),
        Ok(found) => found.to_string(),
        Err(_) => data_type.to_string(),
    }
}

/// The error at the first column of an expression: nothing else knows where it stands.
pub(super) fn at(found: SqlError, expr: &Expr) -> SqlError {
    let mut position = None;
    let visited = expr.apply(|part| match part {
        Expr::Column(column) => {
            let start = column.spans.first().map(|span| span.start);
            position = start.filter(|start| start.line > 0 && start.column > 0).map(|start| start.column as usize);
            Ok(if position.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        }
        _ => Ok(TreeNodeRecursion::Continue),
    });
    match (visited, position) {
        (Ok(_), Some(position)) => found.at(position),
        _ => found,
    }
}
