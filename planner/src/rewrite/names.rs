//! The names of output columns, as Postgres gives them.
//!
//! DataFusion wants the columns of a select list to have different names, and Postgres does not: a name that repeats
//! carries a hidden suffix inside, which [`visible_name`] takes off where names are shown.

use crate::errors::span_position;
use crate::types::internal_name;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TrimWhereField,
};
use std::collections::HashMap;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// What stands between a repeated name and its number; no name that a user writes has it.
pub const HIDDEN_SUFFIX: char = '\u{1}';

/// The name of an output column without what makes it unique.
pub fn visible_name(name: &str) -> &str {
    name.split(HIDDEN_SUFFIX).next().unwrap_or(name)
}

/// Gives every unnamed output of the query's own `SELECT`s a name. Queries inside are visited on their own.
pub(super) fn name_outputs(query: &mut Query) -> SqlResult<()> {
    name_recursive_columns(query);
    check_order(query)?;
    name_body(&mut query.body);
    order_by_names(query);
    Ok(())
}

/// Refuses an order by a name that outputs have which compute different things.
fn check_order(query: &Query) -> SqlResult<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = query.order_by.as_ref() else { return Ok(()) };
    let outputs = || {
        select.projection.iter().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) => Some((output_name(expr), expr)),
            SelectItem::ExprWithAlias { expr, alias } => Some((crate::parse_fold(alias).value, expr)),
            _ => None,
        })
    };
    for key in order {
        let Expr::Identifier(ident) = &key.expr else { continue };
        let wanted = crate::parse_fold(ident).value;
        let mut found = outputs().filter(|(name, _)| *name == wanted).map(|(_, expr)| expr);
        let Some(first) = found.next() else { continue };
        if found.any(|other| !may_be_same(first, other)) {
            let error = SqlError::new(SqlState::AmbiguousColumn, format!("ORDER BY \"{wanted}\" is ambiguous"));
            return Err(error.at(span_position(ident.span).unwrap_or(1)));
        }
    }
    Ok(())
}

/// Whether two outputs are the same, or may be: a column can be written with its relation or without.
fn may_be_same(left: &Expr, right: &Expr) -> bool {
    match (left, right) {
        (Expr::Identifier(name), Expr::CompoundIdentifier(parts)) | (Expr::CompoundIdentifier(parts), Expr::Identifier(name)) => {
            parts.last().is_some_and(|last| crate::parse_fold(last).value == crate::parse_fold(name).value)
        }
        _ => left == right,
    }
}

/// The columns of a recursive common table expression have their names in its second term already, so they go to the first.
fn name_recursive_columns(query: &mut Query) {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return };
    for cte in &mut with.cte_tables {
        let SetExpr::SetOperation { left, .. } = cte.query.body.as_mut() else { continue };
        let SetExpr::Select(select) = left.as_mut() else { continue };
        let named = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
        if cte.alias.columns.len() != select.projection.len() || !select.projection.iter().all(named) {
            continue;
        }
        for (item, column) in select.projection.iter_mut().zip(std::mem::take(&mut cte.alias.columns)) {
            *item = match std::mem::replace(item, super::wildcard()) {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    SelectItem::ExprWithAlias { expr, alias: column.name }
                }
                other => other,
            };
        }
    }
}

/// An order by what an output computes is an order by that output: DataFusion finds it by its name alone.
fn order_by_names(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = query.order_by.as_mut() else { return };
    for key in order {
        if matches!(key.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)) {
            continue;
        }
        let same = select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if *expr == key.expr => Some(alias.clone()),
            _ => None,
        });
        if let Some(alias) = same {
            key.expr = Expr::Identifier(alias);
        }
    }
}

/// Whether a name is one of Postgres's functions that are called without parentheses, and that the parser takes for columns. No
/// column can be named so without quotes.
pub(super) fn is_called_bare(name: &Ident) -> bool {
    let is = |function: &str| name.value.eq_ignore_ascii_case(function);
    name.quote_style.is_none() && (is("current_role") || is("current_schema"))
}

/// Whether a wildcard of the select list gives this column too.
fn is_in_wildcard(expr: &Expr, projection: &[SelectItem]) -> bool {
    projection.iter().any(|item| match (item, expr) {
        (SelectItem::Wildcard(_), _) => true,
        (
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _),
            Expr::CompoundIdentifier(parts),
        ) => {
            let qualifier = parts.iter().rev().skip(1).map(|ident| crate::parse_fold(ident).value);
            let named = name.0.iter().rev().filter_map(|part| part.as_ident()).map(|ident| crate::parse_fold(ident).value);
            qualifier.eq(named)
        }
        _ => false,
    })
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
    for item in &select.projection {
        // A column that a wildcard gives as well is its second one, wherever it stands.
        if let SelectItem::UnnamedExpr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) = item
            && is_in_wildcard(expr, &select.projection)
        {
            seen.insert(output_name(expr), 1);
        }
    }
    for item in &mut select.projection {
        let (name, is_plain) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let plain = match &*expr {
                    Expr::Identifier(name) => !is_called_bare(name),
                    expr => matches!(expr, Expr::CompoundIdentifier(_)),
                };
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
