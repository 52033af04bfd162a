//! Another name for the relation that columns are of.

use super::folded;
use datafusion::sql::sqlparser::ast::{Expr, Ident, VisitorMut};
use std::ops::ControlFlow;

/// Gives columns of the relation called `from` to the one called `to`. Never breaks off.
pub(super) struct Rename {
    pub(super) from: String,
    pub(super) to: String,
}

impl VisitorMut for Rename {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(idents) = expr
            && idents.len() == 2
            && folded(&idents[0]) == self.from
        {
            idents[0] = Ident::new(&self.to);
        }
        ControlFlow::Continue(())
    }
}
