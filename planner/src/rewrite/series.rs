//! Functions that give rows: `generate_series` in a select list, and the names of columns in `FROM`.

use super::{call, ident};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, TableAlias,
    TableAliasColumnDef, TableFactor,
};

const NAME: &str = "generate_series";

/// `generate_series(…)` as a list that is spread.
pub(super) fn spread(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new("series"))]);
    (list.args.len() > 1).then(|| call("unnest", vec![Expr::Function(Function { name, ..function.clone() })]))
}

/// `unnest(generate_series(…))`, which is spread already.
pub(super) fn spread_within(unnest: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &unnest.args else { return None };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(inner)))] if is_series(&inner.name) => spread(inner),
        _ => None,
    }
}

fn is_series(name: &ObjectName) -> bool {
    matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(|ident| crate::parse_fold(ident).value == NAME))
}

/// The one column of a function in `FROM` has the alias's name, or the function's.
pub(super) fn name_column(factor: &mut TableFactor) {
    let (alias, name) = match factor {
        TableFactor::Table { name, alias, args: Some(_), .. } if is_series(name) => (alias, NAME),
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality: false, .. } if array_exprs.len() == 1 => {
            (alias, "unnest")
        }
        _ => return,
    };
    let alias = alias.get_or_insert_with(|| TableAlias { explicit: true, name: ident(name), columns: vec![] });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
}
