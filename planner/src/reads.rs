//! What a change of data reads: only that needs the right to read, though more is read to carry it out.

use crate::ast::{self, Expr, SelectItem};
use crate::dml::deleted_rows;
use crate::rewrite;
use crate::statement::Statement;
use std::ops::ControlFlow;

/// A query that reads what an `INSERT`, `UPDATE` or `DELETE` names of its table: in conditions, in new values, in
/// `RETURNING`. None if it names nothing.
pub fn read_by_change(statement: &Statement) -> Option<ast::Query> {
    let (factor, values, selection, returning) = match statement {
        Statement::Insert(insert) => {
            let ast::TableObject::TableName(name) = &insert.table else { return None };
            let mut factor = rewrite::table_factor(name.clone());
            if let (ast::TableFactor::Table { alias, .. }, Some(given)) = (&mut factor, &insert.table_alias) {
                *alias = Some(ast::TableAlias { explicit: true, name: given.clone(), columns: vec![] });
            }
            (factor, vec![], None, &insert.returning)
        }
        Statement::Update(update) => {
            let values = update.assignments.iter().map(|assignment| assignment.value.clone()).filter(|v| !is_default(v));
            (update.table.relation.clone(), values.collect(), update.selection.clone(), &update.returning)
        }
        Statement::Delete(delete) => {
            let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
            let relation = &from.first()?.relation;
            (relation.clone(), vec![], deleted_rows(delete, relation), &delete.returning)
        }
        _ => return None,
    };
    let mut items: Vec<SelectItem> = values.into_iter().map(SelectItem::UnnamedExpr).collect();
    items.extend(returning.iter().flatten().cloned());
    if items.is_empty() && selection.is_none() {
        return None;
    }
    for (place, item) in items.iter_mut().enumerate() {
        // Names need not differ among what is assigned, but must among what is selected.
        if let SelectItem::UnnamedExpr(expr) = item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: rewrite::ident(&format!("read {place}")) };
        }
    }
    if items.is_empty() {
        items.push(SelectItem::UnnamedExpr(rewrite::number(1)));
    }
    Some(rewrite::query(rewrite::select(items, factor, selection)))
}

fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The names of all functions that are called in a part of a statement, without their schema, in lower case unless quoted.
pub(crate) fn called_functions<V: ast::Visit>(part: &V) -> Vec<String> {
    let mut names = vec![];
    let _ = ast::visit_expressions(part, |expr| {
        if let Expr::Function(function) = expr
            && let Some(ident) = function.name.0.last().and_then(|part| part.as_ident())
        {
            names.push(crate::parse_fold(ident).value);
        }
        ControlFlow::<()>::Continue(())
    });
    names
}
