//! `ARRAY(SELECT rolname FROM pg_roles WHERE oid = ANY (x) ORDER BY 1)`: how psql asks for the names of a policy's roles. What
//! is correlated by `ANY` is planned by nobody, so it becomes a call.

use super::nothing::select_of;
use super::{build, folded, parts};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Function, FunctionArguments, Select, SelectItem, TableFactor};

/// The call that an expression of this form becomes.
pub(super) fn role_names(expr: &Expr) -> Option<Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. }) = expr else { return None };
    if !parts(name).last()?.eq_ignore_ascii_case("array") {
        return None;
    }
    let select = select_of(query)?;
    let Some(Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. }) = &select.selection else { return None };
    let reads_roles = only_relation(select)? == "pg_roles" && only_column(select)? == "rolname" && column(left)? == "oid";
    let array = match &**right {
        Expr::Nested(inner) => inner,
        _ => right,
    };
    reads_roles.then(|| build::call("_role_names", vec![(**array).clone()]))
}

fn only_relation(select: &Select) -> Option<String> {
    match select.from.as_slice() {
        [from] if from.joins.is_empty() => match &from.relation {
            TableFactor::Table { name, args: None, .. } => parts(name).pop(),
            _ => None,
        },
        _ => None,
    }
}

fn only_column(select: &Select) -> Option<String> {
    match select.projection.as_slice() {
        [SelectItem::UnnamedExpr(expr)] => column(expr),
        _ => None,
    }
}

fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(folded(ident)),
        Expr::CompoundIdentifier(idents) => idents.last().map(folded),
        _ => None,
    }
}
