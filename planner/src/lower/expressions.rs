//! Physical expressions over the columns of a relation: binding, substitution, casts, and what may be computed twice.

use arrow::datatypes::{DataType, Schema};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, Volatility};
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlType};

/// An expression that the executor can evaluate.
pub(super) type Physical = Arc<dyn PhysicalExpr>;

/// The expression bound by position to the columns of `schema`.
///
/// # Errors
/// `0A000` for what has no value of its own row: subqueries that are still there, and functions that are not the same each
/// time, since what they gave could not be taken back.
pub(super) fn physical(expr: &Expr, schema: &DFSchema, options: &Arc<ConfigOptions>) -> SqlResult<Physical> {
    expr.apply(|part| {
        refuse_unsupported(part)?;
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    crate::physical::physical_expr(expr, schema, options)
}

fn refuse_unsupported(expr: &Expr) -> Result<(), DataFusionError> {
    let error = match expr {
        Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::ScalarSubquery(_)
        | Expr::SetComparison(_)
        | Expr::OuterReferenceColumn(..) => SqlError::unsupported("this subquery can't be kept up to date")
            .with_hint("Write it as a join, with the correlated columns compared by =."),
        Expr::ScalarFunction(call) if call.func.signature().volatility == Volatility::Volatile => {
            SqlError::unsupported(format!("function {}() is not deterministic and can't be kept up to date", call.func.name()))
                .with_hint("Compute it where the rows are written, and keep its value in a column.")
        }
        Expr::Placeholder(_) => SqlError::unsupported("a query that is kept up to date can't have parameters"),
        Expr::GroupingSet(_) => refuse_grouping_sets(),
        _ => return Ok(()),
    };
    Err(DataFusionError::External(Box::new(error)))
}

/// What a user is told about `GROUPING SETS`, `ROLLUP` and `CUBE`.
pub(super) fn refuse_grouping_sets() -> SqlError {
    SqlError::unsupported("GROUPING SETS, ROLLUP and CUBE can't be kept up to date")
        .with_hint("Write one GROUP BY for each set and put them together by UNION ALL.")
}

/// What a user is told about an error of DataFusion.
pub(super) fn from_datafusion(error: DataFusionError) -> SqlError {
    crate::errors::sql_error(&error)
}

/// A reference to column `index` of `schema`.
pub(super) fn column(schema: &Schema, index: usize) -> Physical {
    Arc::new(Column::new(schema.field(index).name(), index))
}

/// The index, if the expression is nothing but a column.
pub(super) fn as_column(expr: &Physical) -> Option<usize> {
    expr.as_any().downcast_ref::<Column>().map(Column::index)
}

/// How often each column is referred to, added to `counts`.
pub(super) fn count_columns(expr: &Physical, counts: &mut BTreeMap<usize, usize>) {
    if let Some(index) = as_column(expr) {
        *counts.entry(index).or_default() += 1;
    }
    expr.children().into_iter().for_each(|child| count_columns(child, counts));
}

/// The expression with each column `i` replaced by what `by(i)` gives.
pub(super) fn replace_columns(expr: Physical, by: &dyn Fn(usize) -> Physical) -> SqlResult<Physical> {
    expr.transform_down(|part| match as_column(&part) {
        // The replacement has columns of its own, which are final: not to be replaced again.
        Some(index) => Ok(Transformed::new(by(index), true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(part)),
    })
    .data()
    .map_err(from_datafusion)
}

/// The type of the expression's values.
pub(super) fn type_of(expr: &Physical, input: &Schema) -> SqlResult<DataType> {
    expr.data_type(input).map_err(from_datafusion)
}

/// The expression cast to `to`, or itself if it has that type.
pub(super) fn cast_to(expr: Physical, input: &Schema, to: &DataType) -> SqlResult<Physical> {
    if same_type(&type_of(&expr, input)?, to) {
        return Ok(expr);
    }
    Ok(Arc::new(CastExpr::new(expr, to.clone(), None)))
}

/// Whether values of one type are values of the other as they are.
pub(super) fn same_type(left: &DataType, right: &DataType) -> bool {
    left == right || left.equals_datatype(right)
}

/// The type among those that state and the wire know which holds all values of `data_type`.
///
/// # Errors
/// `0A000` if there is none.
pub fn carried_type(data_type: &DataType) -> SqlResult<DataType> {
    Ok(match data_type {
        // Ranks and lengths: far below where the sign would begin.
        DataType::UInt64 => DataType::Int64,
        DataType::List(_) => data_type.clone(),
        _ => SqlType::from_arrow(data_type)?.to_arrow(),
    })
}

/// Whether computing the expression twice costs about as little as keeping its value in a column.
pub(super) fn is_cheap(expr: &Physical) -> bool {
    fn cost(expr: &Physical) -> usize {
        let any = expr.as_any();
        let own = if any.is::<Column>() || any.is::<Literal>() {
            0
        } else if any.is::<CastExpr>() || any.is::<BinaryExpr>() {
            1
        } else {
            3
        };
        own + expr.children().into_iter().map(cost).sum::<usize>()
    }
    cost(expr) <= 1
}

/// The expression without casts that go to a wider type and straight back.
pub(super) fn without_round_trips(expr: Physical, input: &Schema) -> SqlResult<Physical> {
    expr.transform_up(|part| {
        let Some(outer) = part.as_any().downcast_ref::<CastExpr>() else {
            return Ok(Transformed::no(part));
        };
        let Some(inner) = outer.expr().as_any().downcast_ref::<CastExpr>() else {
            return Ok(Transformed::no(part));
        };
        let own = inner.expr().data_type(input)?;
        let is_round_trip = same_type(&own, outer.cast_type()) && widens(&own, inner.cast_type());
        Ok(if is_round_trip { Transformed::yes(Arc::clone(inner.expr())) } else { Transformed::no(part) })
    })
    .data()
    .map_err(from_datafusion)
}

/// The column that the expression's value is one to one with, if it is a column or a widening cast of one.
pub(super) fn injective_column(expr: &Physical, input: &Schema) -> Option<usize> {
    if let Some(index) = as_column(expr) {
        return Some(index);
    }
    let cast = expr.as_any().downcast_ref::<CastExpr>()?;
    let from = cast.expr().data_type(input).ok()?;
    widens(&from, cast.cast_type()).then(|| injective_column(cast.expr(), input)).flatten()
}

fn widens(from: &DataType, to: &DataType) -> bool {
    let is_text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let integer_bits = |t: &DataType| match t {
        DataType::Int8 => Some(8),
        DataType::Int16 => Some(16),
        DataType::Int32 => Some(32),
        // The unsigned ones come from ranks and lengths: see `carried_type`.
        DataType::Int64 | DataType::UInt64 => Some(64),
        _ => None,
    };
    match (integer_bits(from), integer_bits(to)) {
        (Some(narrow), Some(wide)) => narrow <= wide,
        _ => is_text(from) && is_text(to),
    }
}

/// Whether any part of the expression is a cast.
pub(super) fn has_cast(expr: &Physical) -> bool {
    expr.as_any().is::<CastExpr>() || expr.children().into_iter().any(has_cast)
}

/// The scalar function that the expression calls, by name, with its arguments.
pub(super) fn as_call(expr: &Physical) -> Option<(&str, &[Physical])> {
    expr.as_any().downcast_ref::<ScalarFunctionExpr>().map(|call| (call.name(), call.args()))
}

/// Whether one expression is the same as the other.
pub(super) fn same_expr(left: &Physical, right: &Physical) -> bool {
    left.as_ref() == right.as_ref()
}
