//! Where functions cannot stand: aggregates within aggregates, window functions without `OVER`.

use crate::errors::span_position;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Function, Query, Spanned, Visit, Visitor};
use std::ops::ControlFlow;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// Refuses a part of a statement, as it was written, with a function in a place where it has no meaning.
///
/// # Errors
/// `42803` for an aggregate within another, `42809` for a window function without a window.
pub(super) fn check<V: Visit>(part: &V, state: &SessionState) -> SqlResult<()> {
    match part.visit(&mut Places { state, within: vec![] }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Places<'a> {
    state: &'a SessionState,
    /// The aggregates and queries that this place is in: whether each is an aggregate.
    within: Vec<bool>,
}

impl Places<'_> {
    fn is_aggregate(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Function(function) if function.over.is_none()
            && self.state.aggregate_functions().contains_key(&name_of(function)))
    }
}

fn name_of(function: &Function) -> String {
    let name = function.name.0.last().and_then(|part| part.as_ident());
    name.map(|ident| crate::parse_fold(ident).value).unwrap_or_default()
}

fn refused(state: SqlState, message: String, expr: &Expr) -> ControlFlow<Box<SqlError>> {
    ControlFlow::Break(Box::new(SqlError::new(state, message).at(span_position(expr.span()).unwrap_or(1))))
}

impl Visitor for Places<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
        self.within.push(false);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<Self::Break> {
        self.within.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        if self.is_aggregate(expr) {
            if self.within.last() == Some(&true) {
                return refused(SqlState::GroupingError, "aggregate function calls cannot be nested".into(), expr);
            }
            self.within.push(true);
        }
        if let Expr::Function(function) = expr
            && function.over.is_none()
            && function.within_group.is_empty()
        {
            let name = name_of(function);
            if self.state.window_functions().contains_key(&name) && !self.state.aggregate_functions().contains_key(&name) {
                return refused(SqlState::WrongObjectType, format!("window function {name} requires an OVER clause"), expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        if self.is_aggregate(expr) {
            self.within.pop();
        }
        ControlFlow::Continue(())
    }
}
