//! What a change of data reads: only that needs the right to read, though more is read to carry it out.

use crate::ast::{self, Expr, SelectItem};
use crate::dml::{conflict, deleted_rows};
use crate::rewrite;
use crate::statement::Statement;
use std::ops::ControlFlow;

/// Queries that read what an `INSERT`, `UPDATE` or `DELETE` names of its table: in conditions, in new values, in `RETURNING`.
pub fn read_by_change(statement: &Statement) -> Vec<ast::Query> {
    let replacing = match statement {
        Statement::Insert(insert) => read_by_replacing(insert),
        _ => None,
    };
    replacing.into_iter().chain(read_by_rows(statement)).collect()
}

fn read_by_rows(statement: &Statement) -> Option<ast::Query> {
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
    name_items(&mut items);
    if items.is_empty() {
        items.push(SelectItem::UnnamedExpr(rewrite::number(1)));
    }
    Some(rewrite::query(rewrite::select(items, factor, selection)))
}

/// Of an insert that changes rows that are there. What it names of the new ones counts as well.
fn read_by_replacing(insert: &ast::Insert) -> Option<ast::Query> {
    let update = conflict::update_of(insert)?;
    let ast::TableObject::TableName(table) = &insert.table else { return None };
    let values = update.assignments.iter().map(|assignment| &assignment.value).filter(|value| !is_default(value));
    let mut items: Vec<SelectItem> = values.cloned().map(SelectItem::UnnamedExpr).collect();
    items.push(SelectItem::UnnamedExpr(rewrite::number(1)));
    name_items(&mut items);
    let from = conflict::named_relations(table, insert.table_alias.as_ref()).to_vec();
    let selection = update.selection.clone();
    Some(rewrite::query(ast::Select { from, selection, ..rewrite::select_values(items) }))
}

/// Names need not differ among what is assigned, but must among what is selected.
fn name_items(items: &mut [SelectItem]) {
    for (place, item) in items.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) = item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: rewrite::ident(&format!("read {place}")) };
        }
    }
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
