//! Selects that can give no rows: they read relations that never have any, or ask for kinds of things that there are none of.

use super::build::{boolean, literal_text, null};
use super::{folded, parts};
use crate::pg_catalog::relations::empty::is_always_empty;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Join, JoinOperator, Query, Select, SelectItem, SetExpr, TableFactor, Visit, Visitor,
};
use std::ops::ControlFlow;

/// The select that a query is, if it is a plain one.
pub(super) fn select_of(query: &Query) -> Option<&Select> {
    match &*query.body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(inner) => select_of(inner),
        _ => None,
    }
}

/// Whether a select was made empty, or reads something that is.
pub(super) fn is_never(select: &Select) -> bool {
    reads_nothing(select) || select.selection == Some(boolean(false))
}

const AGGREGATES: [&str; 15] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "array_agg",
    "string_agg",
    "bool_and",
    "bool_or",
    "every",
    "json_agg",
    "jsonb_agg",
    "json_object_agg",
    "first_value",
    "last_value",
];

struct FindAggregate {
    depth: usize,
}

impl Visitor for FindAggregate {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.depth == 0 && function.over.is_none() => {
                let name = parts(&function.name).pop().unwrap_or_default().to_lowercase();
                if AGGREGATES.contains(&name.as_str()) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Whether a select list aggregates.
pub(super) fn aggregates(select: &Select) -> bool {
    select.projection.iter().any(|item| item.visit(&mut FindAggregate { depth: 0 }).is_break())
}

/// Columns that only hold these values.
const KINDS: [(&str, &[&str]); 3] = [("contype", &["p"]), ("prokind", &["f", "a", "w"]), ("typtype", &["b", "c", "e", "p"])];

/// Whether a condition asks, among what must hold, for a kind that there is none of: foreign keys, domains, procedures.
fn wants_unknown_kind(condition: &Expr) -> bool {
    match condition {
        Expr::Nested(inner) => wants_unknown_kind(inner),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => wants_unknown_kind(left) || wants_unknown_kind(right),
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
            let column = match &**left {
                Expr::Identifier(ident) => folded(ident),
                Expr::CompoundIdentifier(idents) => idents.last().map(folded).unwrap_or_default(),
                _ => return false,
            };
            let wanted = match &**right {
                Expr::Cast { expr, .. } => literal_text(expr),
                other => literal_text(other),
            };
            let known = KINDS.iter().find(|(name, _)| *name == column).map(|(_, values)| *values);
            matches!((known, wanted), (Some(known), Some(wanted)) if !known.contains(&wanted))
        }
        _ => false,
    }
}

/// Whether what a select reads can have no rows.
pub(super) fn reads_nothing(select: &Select) -> bool {
    select.selection.as_ref().is_some_and(wants_unknown_kind)
        || select.from.iter().any(|from| {
            let inner = |join: &Join| {
                matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
                    && is_empty_relation(&join.relation)
            };
            is_empty_relation(&from.relation) || from.joins.iter().any(inner)
        })
}

fn is_empty_relation(factor: &TableFactor) -> bool {
    match factor {
        TableFactor::Table { name, args: None, .. } => parts(name).last().is_some_and(|name| is_always_empty(name)),
        TableFactor::Derived { subquery, .. } => select_of(subquery).is_some_and(|s| is_never(s) && !aggregates(s)),
        _ => false,
    }
}

struct FindSubquery;

impl Visitor for FindSubquery {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
}

/// Leaves a select without rows only what tells its columns.
pub(super) fn make_empty(select: &mut Select) {
    select.selection = Some(boolean(false));
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) if Visit::visit(&*expr, &mut FindSubquery).is_break() => {
                let alias = Ident::with_quote('"', super::names::result_name(expr));
                *item = SelectItem::ExprWithAlias { expr: null(), alias };
            }
            SelectItem::ExprWithAlias { expr, .. } if Visit::visit(&*expr, &mut FindSubquery).is_break() => *expr = null(),
            _ => {}
        }
    }
}
