//! Results of a type such as `regclass`: clients are shown names, and are sent OIDs in binary, so that a result holds both.

use super::build::call;
use super::parts;
use datafusion::sql::sqlparser::ast::{DataType, Expr, GroupByExpr, Query, SelectItem, SetExpr};

/// The function that makes both of each item of the outermost select list that is a cast to such a type; none for the others.
pub(super) fn functions(query: &Query) -> Vec<Option<&'static str>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return vec![] };
    // What is grouped by must stay as it is written there.
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(exprs, _) if exprs.is_empty());
    if is_grouped || select.distinct.is_some() {
        return vec![];
    }
    let item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => function(expr),
        _ => None,
    };
    select.projection.iter().map(item).collect()
}

fn function(expr: &Expr) -> Option<&'static str> {
    let data_type = match expr {
        Expr::Nested(inner) => return function(inner),
        Expr::Cast { data_type, .. } => data_type,
        _ => return None,
    };
    let name = match data_type {
        DataType::Regclass => return Some("_regclass_shown"),
        DataType::Custom(name, _) => parts(name).pop()?,
        _ => return None,
    };
    match name.as_str() {
        "regclass" => Some("_regclass_shown"),
        "regtype" => Some("_regtype_shown"),
        "regnamespace" => Some("_regnamespace_shown"),
        "regproc" | "regprocedure" => Some("_regproc_shown"),
        "regrole" => Some("_regrole_shown"),
        _ => None,
    }
}

/// Puts the functions around the items, which have been rewritten meanwhile.
pub(super) fn show(query: &mut Query, functions: Vec<Option<&'static str>>) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    for (item, function) in select.projection.iter_mut().zip(functions) {
        if let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }, Some(function)) = (item, function) {
            let value = looked_up(std::mem::replace(expr, super::build::null()));
            *expr = call(function, vec![value]);
        }
    }
}

/// What was to be shown by name, before it is: the OID, or a name.
fn looked_up(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(inner) => looked_up(*inner),
        Expr::Function(function) => {
            let name = parts(&function.name).pop().unwrap_or_default();
            let is_shown = name.starts_with("_reg") && (name.ends_with("_out") || name == "_regproc_name");
            match super::build::arguments(&function).and_then(|mut args| args.pop()).filter(|_| is_shown) {
                Some(value) => value,
                None => Expr::Function(function),
            }
        }
        other => other,
    }
}
