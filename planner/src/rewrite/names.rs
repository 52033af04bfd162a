//! The names of output columns, as Postgres gives them.
//!
//! DataFusion wants the columns of a select list to have different names, and Postgres does not: a name that repeats
//! carries a hidden suffix inside, which [`visible_name`] takes off where names are shown.

use crate::types::internal_name;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArguments, Query, Select, SelectItem, SetExpr, TrimWhereField};
use std::collections::HashMap;
use thalweg_catalog::SqlResult;

/// What stands between a repeated name and its number; no name that a user writes has it.
pub const HIDDEN_SUFFIX: char = '\u{1}';

/// The name of an output column without what makes it unique.
pub fn visible_name(name: &str) -> &str {
    name.split(HIDDEN_SUFFIX).next().unwrap_or(name)
}

/// Gives every unnamed output of the query's own `SELECT`s a name. Queries inside are visited on their own.
pub(super) fn name_outputs(query: &mut Query) -> SqlResult<()> {
    name_body(&mut query.body);
    Ok(())
}

fn name_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => name_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            name_body(left);
            name_body(right);
        }
        _ => {}
    }
}

fn name_select(select: &mut Select) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for item in &mut select.projection {
        let (name, is_plain) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                (output_name(expr), plain)
            }
            SelectItem::ExprWithAlias { alias, .. } => (crate::parse_fold(alias).value, false),
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => continue,
        };
        let count = seen.entry(name.clone()).or_insert(0);
        let unique = if *count == 0 { name } else { format!("{name}{HIDDEN_SUFFIX}{count}") };
        *count += 1;
        if is_plain && *count == 1 {
            continue;
        }
        let taken = std::mem::replace(item, super::wildcard());
        *item = match taken {
            SelectItem::UnnamedExpr(expr) => SelectItem::ExprWithAlias { expr, alias: super::ident(&unique) },
            SelectItem::ExprWithAlias { expr, mut alias } => {
                if *count > 1 {
                    alias.value = unique;
                    alias.quote_style = Some('"');
                }
                SelectItem::ExprWithAlias { expr, alias }
            }
            other => other,
        };
    }
}

/// The name of an expression in a select list.
pub(super) fn output_name(expr: &Expr) -> String {
    figure(expr).map_or_else(|| "?column?".to_string(), |(name, _)| name)
}

/// A name, and how sure it is: of a column or function (2), or of a type or keyword (1), which an outer name may replace.
fn figure(expr: &Expr) -> Option<(String, u8)> {
    let sure = |name: &str| Some((name.to_string(), 2));
    match expr {
        Expr::Identifier(ident) => Some((crate::parse_fold(ident).value, 2)),
        Expr::CompoundIdentifier(parts) => parts.last().map(|ident| (crate::parse_fold(ident).value, 2)),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::CompoundFieldAccess { root, access_chain } => field_access(root, access_chain),
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(|ident| crate::parse_fold(ident).value)?;
            // Keywords that read as functions have no parentheses.
            let _ = matches!(function.args, FunctionArguments::None);
            Some((name, 2))
        }
        Expr::Cast { expr, data_type, .. } => match figure(expr) {
            Some((name, 2)) => Some((name, 2)),
            _ => Some((internal_name(data_type), 1)),
        },
        Expr::TypedString(typed) => Some((internal_name(&typed.data_type), 1)),
        Expr::Interval(_) => Some(("interval".into(), 1)),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(figure) {
            Some((name, 2)) => Some((name, 2)),
            _ => Some(("case".into(), 1)),
        },
        Expr::Extract { .. } => sure("extract"),
        Expr::Ceil { .. } => sure("ceil"),
        Expr::Floor { .. } => sure("floor"),
        Expr::Position { .. } => sure("position"),
        Expr::Substring { .. } => sure("substring"),
        Expr::Overlay { .. } => sure("overlay"),
        Expr::AtTimeZone { .. } => sure("timezone"),
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(TrimWhereField::Leading) => sure("ltrim"),
            Some(TrimWhereField::Trailing) => sure("rtrim"),
            _ => sure("btrim"),
        },
        Expr::Array(_) => sure("array"),
        Expr::Tuple(_) => sure("row"),
        Expr::Exists { .. } => sure("exists"),
        Expr::Subquery(query) => subquery_name(&query.body),
        _ => None,
    }
}

fn field_access(root: &Expr, chain: &[datafusion::sql::sqlparser::ast::AccessExpr]) -> Option<(String, u8)> {
    use datafusion::sql::sqlparser::ast::AccessExpr;
    match chain.iter().rev().find_map(|access| match access {
        AccessExpr::Dot(expr) => Some(expr),
        AccessExpr::Subscript(_) => None,
    }) {
        Some(expr) => figure(expr),
        None => figure(root),
    }
}

fn subquery_name(body: &SetExpr) -> Option<(String, u8)> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => figure(expr),
            SelectItem::ExprWithAlias { alias, .. } => Some((crate::parse_fold(alias).value, 2)),
            _ => None,
        },
        SetExpr::SetOperation { left, .. } => subquery_name(left),
        SetExpr::Query(query) => subquery_name(&query.body),
        SetExpr::Values(_) => Some(("column1".into(), 2)),
        _ => None,
    }
}
