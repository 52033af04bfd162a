//! `IS DISTINCT FROM` with the precedence that it has in Postgres, above `NOT`, `AND` and `OR`.
//!
//! The parser takes all that follows as its right side: of `a IS DISTINCT FROM b AND c` it makes `a IS DISTINCT FROM (b AND c)`,
//! and then `x AND (… OR d)` of what should be `(x AND …) OR d`. Brackets that were written are nodes of their own, so an
//! `AND` or `OR` without them in a place that binds tighter can only come from there.

use super::null;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

/// Puts an expression whose right side reaches too far into the first operand of that side. Its parts must be in order.
pub(super) fn regroup(expr: &mut Expr) {
    let Some((right, looser)) = right_side(expr) else { return };
    if !is_one_of(right, looser) {
        return;
    }
    let mut tree = std::mem::replace(right, null());
    let mut first = &mut tree;
    while is_one_of(first, looser)
        && let Expr::BinaryOp { left, .. } = first
    {
        first = left;
    }
    std::mem::swap(right, first);
    *first = std::mem::replace(expr, null());
    *expr = tree;
}

/// The right side of an expression, and the operators that bind looser than it.
fn right_side(expr: &mut Expr) -> Option<(&mut Expr, &'static [BinaryOperator])> {
    match expr {
        Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) => {
            Some((right, &[BinaryOperator::And, BinaryOperator::Or]))
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some((expr, &[BinaryOperator::And, BinaryOperator::Or])),
        Expr::BinaryOp { op: BinaryOperator::And, right, .. } => Some((right, &[BinaryOperator::Or])),
        _ => None,
    }
}

fn is_one_of(expr: &Expr, operators: &[BinaryOperator]) -> bool {
    matches!(expr, Expr::BinaryOp { op, .. } if operators.contains(op))
}
