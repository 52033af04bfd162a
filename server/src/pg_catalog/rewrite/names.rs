//! Names of result columns: as Postgres gives them, and yet each its own, as DataFusion demands.

use super::folded;
use crate::wire::session::NAME_MARK;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Ident, Query, Select, SelectItem, SetExpr, TrimWhereField, Visit, Visitor,
};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Names the results of a query; `outermost` if it is the statement's own.
pub fn name_results(query: &mut Query, outermost: bool) {
    name_in(&mut query.body, outermost);
}

/// Names the columns of recursive expressions where they begin, so that their other part can refer to them.
pub fn name_recursive(query: &mut Query) {
    let Some(with) = query.with.as_mut().filter(|with| with.recursive) else { return };
    for cte in &mut with.cte_tables {
        let columns: Vec<Ident> = cte.alias.columns.iter().map(|column| column.name.clone()).collect();
        if let Some(select) = first_select(&mut cte.query.body) {
            for (item, name) in select.projection.iter_mut().zip(columns) {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: name };
                }
            }
        }
    }
}

fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&mut query.body),
        _ => None,
    }
}

fn name_in(body: &mut SetExpr, outermost: bool) {
    match body {
        SetExpr::Select(select) => name_select(select, outermost),
        SetExpr::SetOperation { left, right, .. } => {
            name_in(left, outermost);
            name_in(right, outermost);
        }
        // A nested query was visited by itself.
        _ => {}
    }
}

fn name_select(select: &mut Select, outermost: bool) {
    let wildcard =
        select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut seen: HashMap<String, usize> = HashMap::new();
    for item in &mut select.projection {
        let (expr, given) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(folded(alias))),
            _ => continue,
        };
        let plain = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let name = given.clone().unwrap_or_else(|| result_name(expr));
        let count = seen.entry(name.clone()).or_insert(0);
        *count += 1;
        // Beside a wildcard, a column that is named too comes twice.
        // A name that comes from within would hide the column that it comes from.
        let hides = outermost && !plain && given.is_none() && refers_to(expr, &name);
        let repeated = *count > 1 || hides || (wildcard && plain && given.is_none() && outermost);
        if plain && given.is_none() && !repeated {
            continue;
        }
        let unique = if repeated { format!("{name}{NAME_MARK}{count}") } else { name };
        let expr = expr.clone();
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', unique) };
    }
}

/// Whether a column of this name is part of an expression.
fn refers_to(expr: &Expr, name: &str) -> bool {
    struct Find<'a>(&'a str);
    impl Visitor for Find<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let column = match expr {
                Expr::Identifier(ident) => Some(ident),
                Expr::CompoundIdentifier(idents) => idents.last(),
                _ => None,
            };
            if column.is_some_and(|ident| folded(ident) == self.0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    expr.visit(&mut Find(name)).is_break()
}

/// The name that Postgres gives to an expression.
pub fn result_name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => folded(ident),
        Expr::CompoundIdentifier(idents) => idents.last().map(folded).unwrap_or_default(),
        Expr::Nested(inner) => result_name(inner),
        Expr::Function(function) => {
            let name = super::parts(&function.name).pop().unwrap_or_default();
            match name.as_str() {
                "_regclass_in" | "_regclass_out" | "_regclass_shown" => named_by_argument(function, "regclass"),
                "_regtype_in" | "_regtype_out" | "_regtype_shown" => named_by_argument(function, "regtype"),
                "_regproc_in" | "_regproc_out" | "_regproc_name" | "_regproc_shown" => named_by_argument(function, "regproc"),
                "_regnamespace_in" | "_regnamespace_out" | "_regnamespace_shown" => named_by_argument(function, "regnamespace"),
                "_regrole_in" | "_regrole_out" | "_regrole_shown" => named_by_argument(function, "regrole"),
                "array_has" | "array_remove" => "?column?".to_string(),
                "array_element" | "get_field" => named_by_argument(function, "?column?"),
                _ => name,
            }
        }
        Expr::Cast { expr, data_type, .. } => match result_name(expr).as_str() {
            "?column?" => cast_name(data_type),
            name => name.to_string(),
        },
        Expr::Case { else_result, .. } => match else_result.as_deref().map(result_name) {
            Some(name) if name != "?column?" => name,
            _ => "case".to_string(),
        },
        Expr::Array(_) => "array".to_string(),
        Expr::Exists { .. } => "exists".to_string(),
        Expr::Trim { trim_where, .. } => match trim_where {
            Some(TrimWhereField::Leading) => "ltrim".to_string(),
            Some(TrimWhereField::Trailing) => "rtrim".to_string(),
            _ => "btrim".to_string(),
        },
        Expr::Substring { .. } => "substring".to_string(),
        Expr::Extract { .. } => "extract".to_string(),
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(expr)) => result_name(expr),
                Some(SelectItem::ExprWithAlias { alias, .. }) => alias.value.clone(),
                _ => "?column?".to_string(),
            },
            _ => "?column?".to_string(),
        },
        _ => "?column?".to_string(),
    }
}

fn named_by_argument(function: &datafusion::sql::sqlparser::ast::Function, otherwise: &str) -> String {
    let first = super::build::arguments(function).and_then(|args| args.into_iter().next());
    match first.map(|expr| result_name(&expr)) {
        Some(name) if name != "?column?" => name,
        _ => otherwise.to_string(),
    }
}

fn cast_name(data_type: &DataType) -> String {
    if let DataType::Custom(name, _) = data_type
        && let Some(of) = thalweg_planner::types::spelled(name)
    {
        return of.name;
    }
    type_name(&data_type.to_string().to_lowercase())
}

/// The internal name of a type, which is what casts are named by.
fn type_name(sql: &str) -> String {
    match sql {
        "int" | "integer" => "int4",
        "smallint" => "int2",
        "bigint" => "int8",
        "boolean" => "bool",
        "character varying" => "varchar",
        "double precision" => "float8",
        "real" => "float4",
        other => other.split('(').next().unwrap_or(other),
    }
    .to_string()
}
