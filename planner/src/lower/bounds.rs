//! When a join may forget rows because its condition compares times of both sides: `b.time BETWEEN a.time AND a.time + '1 hour'`.
//!
//! `other <= column + shift` says of a row with `column` that it meets no partner whose `other` is later. Once the watermark of
//! `other` is, none is to come. Each comparison tells this about one side, so an interval needs two of them.

use super::expressions::{Physical, has_cast};
use super::facts::Facts;
use super::time::{derived, is_time};
use arrow::datatypes::Schema;
use datafusion::logical_expr::Operator as BinaryOperator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::split_conjunction;
use thalweg_plan::{DeltaKind, JoinBound, WatermarkTransform};

/// The bounds of both sides, as far as the condition has some: of several for one side, the first.
///
/// `condition` is over the columns of the left, of which there are `width`, then those of the right; `schema` has both.
pub(super) fn join_bounds(condition: &Physical, schema: &Schema, width: usize, sides: [&Facts; 2]) -> [Option<JoinBound>; 2] {
    let mut bounds = [None, None];
    for part in split_conjunction(condition) {
        let Some((lesser, greater)) = part.as_any().downcast_ref::<BinaryExpr>().and_then(in_order) else { continue };
        let (Some((other, before)), Some((column, after))) = (shifted_column(lesser, schema), shifted_column(greater, schema))
        else {
            continue;
        };
        let Some(shift_us) = after.checked_sub(before) else { continue };
        let (side, column, other) = match (column < width, other < width) {
            (true, false) => (0, column, other - width),
            (false, true) => (1, column - width, other),
            _ => continue,
        };
        let own = sides[side].kind != DeltaKind::Append;
        let is_final = !own || sides[side].times.contains_key(&column);
        if is_final && sides[1 - side].times.contains_key(&other) && bounds[side].is_none() {
            bounds[side] = Some(JoinBound { column, other, shift_us, own });
        }
    }
    bounds
}

/// The lesser and the greater side of a comparison.
fn in_order(comparison: &BinaryExpr) -> Option<(&Physical, &Physical)> {
    match comparison.op() {
        BinaryOperator::Lt | BinaryOperator::LtEq => Some((comparison.left(), comparison.right())),
        BinaryOperator::Gt | BinaryOperator::GtEq => Some((comparison.right(), comparison.left())),
        _ => None,
    }
}

/// A column of times and the microseconds that are added to it.
fn shifted_column(expr: &Physical, schema: &Schema) -> Option<(usize, i64)> {
    if has_cast(expr) {
        return None;
    }
    let (column, transform) = derived(expr)?;
    let shift = match transform {
        WatermarkTransform::Identity => 0,
        WatermarkTransform::Shift(by) => by,
        WatermarkTransform::Window { .. } => return None,
    };
    is_time(schema.field(column).data_type()).then_some((column, shift))
}
