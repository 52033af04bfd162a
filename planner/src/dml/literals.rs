//! Literals in quotes that are assigned. They have no type of their own: it follows from the column that they go to.

use crate::ast::{self, Expr as SqlExpr, SelectItem};
use crate::parse::parse_expr;
use crate::{rewrite, types};
use thalweg_catalog::{CarriedType, CatalogObject, SqlResult, SqlType};

/// Gives literals the types of the columns that they go to, in the rows of `VALUES` and in the select list of a query.
pub(super) fn type_rows(body: &mut ast::SetExpr, table: &CatalogObject, targets: &[usize]) -> SqlResult<()> {
    let types = targets.iter().map(|target| &table.columns[*target].sql_type);
    match body {
        ast::SetExpr::Values(values) => {
            for (place, wanted) in types.enumerate() {
                // Where all rows have literals, they are read together: one cast for the column.
                let is_plain = |row: &Vec<SqlExpr>| row.get(place).is_none_or(|value| is_literal(value) || is_null(value));
                if matches!(wanted, SqlType::Array(_)) || !values.rows.iter().all(is_plain) {
                    values.rows.iter_mut().filter_map(|row| row.get_mut(place)).try_for_each(|value| typed(value, wanted))?;
                }
            }
            Ok(())
        }
        ast::SetExpr::Select(select) => {
            let is_wildcard = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            for (item, wanted) in select.projection.iter_mut().take_while(|item| !is_wildcard(item)).zip(types) {
                if let SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } = item {
                    typed(value, wanted)?;
                }
            }
            Ok(())
        }
        ast::SetExpr::Query(query) => type_rows(&mut query.body, table, targets),
        _ => Ok(()),
    }
}

/// Casts a literal in quotes to the type of its column. Types that are carried by text are left to the assignment, which refuses
/// what is too long where a cast would cut it.
pub(super) fn typed(value: &mut SqlExpr, wanted: &SqlType) -> SqlResult<()> {
    use SqlType as T;
    // Beside numbers, texts of amounts would be read as such.
    let is_money = *wanted == T::Carried(CarriedType::Money);
    let is_text = matches!(wanted, T::Text | T::Varchar(_) | T::Char(_) | T::Uuid | T::Json | T::Jsonb | T::Carried(_));
    let is_typed = if is_money { is_literal(value) || is_number(value) } else { !is_text && is_literal(value) };
    if !is_typed {
        return Ok(());
    }
    let SqlExpr::Cast { data_type, .. } = parse_expr(&format!("CAST(NULL AS {})", types::written(wanted)))? else {
        return Ok(());
    };
    *value = rewrite::cast(std::mem::replace(value, rewrite::null()), data_type);
    Ok(())
}

fn is_literal(expr: &SqlExpr) -> bool {
    rewrite::text_of(expr).is_some()
}

fn is_number(expr: &SqlExpr) -> bool {
    match expr {
        SqlExpr::Value(value) => matches!(value.value, ast::Value::Number(..)),
        SqlExpr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => is_number(expr),
        _ => false,
    }
}

fn is_null(expr: &SqlExpr) -> bool {
    matches!(expr, SqlExpr::Value(value) if value.value == ast::Value::Null)
}
