//! Functions that give rows: `generate_series` in a select list, and the names of columns in `FROM`.

use super::{call, ident, query, select_values};
use datafusion::sql::sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, SelectItem,
    TableAlias, TableAliasColumnDef, TableFactor, Value,
};
use std::ops::ControlFlow;

pub(super) const NAME: &str = "generate_series";

/// Functions that give tables, and the windows, which `windows` rewrites.
const OF_TABLES: [&str; 5] = [NAME, "range", "tumble", "hop", "unnest"];

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

/// The arguments of `generate_series` in `FROM`; none of anything else.
pub(super) fn arguments(factor: &TableFactor) -> Vec<&Expr> {
    match factor {
        TableFactor::Table { name, args: Some(args), .. } if is_series(name) => args.args.iter().filter_map(plain_one).collect(),
        _ => vec![],
    }
}

/// The arguments of a call that have no names.
pub(super) fn plain(args: &FunctionArguments) -> Vec<&Expr> {
    match args {
        FunctionArguments::List(list) => list.args.iter().filter_map(plain_one).collect(),
        _ => vec![],
    }
}

fn plain_one(arg: &FunctionArg) -> Option<&Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// A function in `FROM` that gives one value, as a query that calls it.
pub(super) fn call_in_query(factor: &mut TableFactor) {
    let TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } = factor else { return };
    let [part] = name.0.as_slice() else { return };
    let Some(function) = part.as_ident().map(|ident| crate::parse_fold(ident).value) else { return };
    if OF_TABLES.contains(&function.as_str()) {
        return;
    }
    let args: Vec<Expr> = args.args.iter().filter_map(plain_one).cloned().collect();
    let mut alias = alias.take().unwrap_or_else(|| TableAlias { explicit: true, name: ident(&function), columns: vec![] });
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
    let value = SelectItem::UnnamedExpr(call(&function, args));
    let subquery = Box::new(query(select_values(vec![value])));
    *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
}

/// A series in `FROM` with parameters, whose values are known when it is run, as a list that is spread: DataFusion's own must know them
/// when it is planned.
pub(super) fn spread_parameters(factor: &mut TableFactor) {
    let has_parameter = |expr: &&Expr| {
        ast::visit_expressions(*expr, |part| match part {
            Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    };
    let args: Vec<Expr> = arguments(factor).into_iter().cloned().collect();
    if !args.iter().any(|arg| has_parameter(&arg)) {
        return;
    }
    let TableFactor::Table { alias, with_ordinality: false, .. } = factor else { return };
    let alias = alias.take();
    let array_exprs = vec![call("series", args)];
    *factor = TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_offset_alias: None, with_ordinality: false };
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
