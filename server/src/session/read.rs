//! Queries, and values that stand in statements.

use super::{ClientSession, origins, system_types};
use crate::database::query::Rows;
use crate::wire::session::{Outcome, ResultColumn, RowTag};
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, Column, ObjectKind, SqlError, SqlResult, SqlType};
use thalweg_planner::ast;

/// The result columns of a query's columns.
pub fn result_columns(columns: &[Column]) -> Vec<ResultColumn> {
    columns.iter().map(|c| ResultColumn::new(&c.name, c.sql_type.clone())).collect()
}

/// The result columns of a plan, with the types that its fields are shown as: system relations have some of their own.
pub fn plan_columns(columns: &[Column], plan: &LogicalPlan) -> Vec<ResultColumn> {
    let oids = system_types::oids(plan);
    if oids.len() != columns.len() {
        return result_columns(columns);
    }
    let with_items = |(place, column): (usize, ResultColumn)| match &column.sql_type {
        SqlType::Array(item) if **item == SqlType::Text => match system_types::item_type(plan, place) {
            Some(item @ (SqlType::Uuid | SqlType::Json | SqlType::Jsonb | SqlType::Carried(_))) => {
                ResultColumn::new(column.name, SqlType::Array(Box::new(item)))
            }
            _ => column,
        },
        _ => column,
    };
    let typed = |(column, oid): (ResultColumn, Option<u32>)| match oid {
        Some(oid) => ResultColumn { type_oid: oid, ..column },
        None => column,
    };
    result_columns(columns).into_iter().enumerate().map(with_items).zip(oids).map(typed).collect()
}

fn folded(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn from_origin((column, origin): (ResultColumn, Option<origins::Origin>)) -> ResultColumn {
    match origin {
        Some((table, place)) => column.from_relation(table, place),
        None => column,
    }
}

/// The columns as those of the same names in a relation.
pub(super) fn from_object(columns: Vec<ResultColumn>, object: &CatalogObject) -> Vec<ResultColumn> {
    columns
        .into_iter()
        .map(|column| {
            let origin = origins::place_in(object, &column.name);
            from_origin((column, origin))
        })
        .collect()
}

impl ClientSession {
    /// Runs a query; its columns, and its rows as they come.
    pub(super) async fn rows(&mut self, query: &ast::Query, params: &[ScalarValue]) -> SqlResult<(Vec<ResultColumn>, Rows)> {
        let running = self.running();
        let declared = self.declared(params);
        let (plan, _) = running.plan(query, &declared)?;
        let columns = self.with_origins(plan_columns(&running.describe(&plan)?, &plan), query, &plan);
        let rows = running.run(plan, params).await?;
        Ok((columns, rows))
    }

    /// The types of these parameters: as they were described, which their values alone don't tell.
    pub(super) fn declared(&self, params: &[ScalarValue]) -> Vec<Option<SqlType>> {
        if params.len() == self.param_types.len() {
            return self.param_types.clone();
        }
        params.iter().map(|value| SqlType::from_arrow(&value.data_type()).ok()).collect()
    }

    pub(super) async fn query(&mut self, query: &ast::Query, params: &[ScalarValue]) -> SqlResult<Outcome> {
        let (columns, rows) = self.rows(query, params).await?;
        Ok(Outcome::Rows { columns, rows, tag: RowTag::Counted("SELECT") })
    }

    /// The columns with where they come from and what is written of their types: drivers ask for that.
    pub(super) fn with_origins(&self, columns: Vec<ResultColumn>, query: &ast::Query, plan: &LogicalPlan) -> Vec<ResultColumn> {
        let mut columns = self.with_relations(columns, query, plan);
        for (column, modifier) in columns.iter_mut().zip(thalweg_planner::written_modifiers(query)) {
            column.written_modifier = modifier;
        }
        columns
    }

    fn with_relations(&self, columns: Vec<ResultColumn>, query: &ast::Query, plan: &LogicalPlan) -> Vec<ResultColumn> {
        match self.view_of(query) {
            // A view is bound as its query: what comes from it is its own column all the same.
            Some(None) => columns,
            Some(Some(view)) => from_object(columns, &view),
            None => {
                let origins = origins::origins(plan);
                if origins.len() != columns.len() {
                    return columns;
                }
                columns.into_iter().zip(origins).map(from_origin).collect()
            }
        }
    }

    /// The one view that a query reads and nothing else, none in it if there are more relations; none if there is no view.
    fn view_of(&self, query: &ast::Query) -> Option<Option<Arc<CatalogObject>>> {
        let mut names = vec![];
        let _ = ast::visit_relations(query, |name| {
            names.push(name.clone());
            std::ops::ControlFlow::<()>::Continue(())
        });
        let catalog = self.database.catalog();
        let path = self.search_path();
        let find = |name: &ast::ObjectName| {
            let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
            match parts.as_slice() {
                [name] => path.iter().find_map(|schema| catalog.find(schema, name).map(Arc::clone)),
                [.., schema, name] => catalog.find(schema, name).map(Arc::clone),
                [] => None,
            }
        };
        let view = names.iter().filter_map(find).find(|object| object.kind() == ObjectKind::View)?;
        let is_alone = names.len() == 1 && matches!(query.body.as_ref(), ast::SetExpr::Select(_));
        Some(is_alone.then_some(view))
    }

    /// The values of constant expressions, cast to these types.
    pub(super) async fn constants(&mut self, values: &[ast::Expr], oids: &[u32]) -> SqlResult<Vec<ScalarValue>> {
        let mut constants = vec![];
        for (value, oid) in values.iter().zip(oids) {
            // An OID tells no length.
            let wanted = match SqlType::from_oid(*oid).or_else(|| self.database.catalog().type_of_oid(*oid)) {
                None | Some(SqlType::Char(_)) => SqlType::Text,
                Some(wanted) => wanted,
            };
            let query = thalweg_planner::parse_query(&format!("SELECT CAST({value} AS {})", wanted.in_sql()))?;
            let (_, mut rows) = self.rows(&query, &[]).await?;
            let first = rows.next().await.ok_or_else(|| SqlError::internal("a constant has no value"))??;
            constants.push(ScalarValue::try_from_array(first.column(0), 0).map_err(|e| thalweg_planner::sql_error(&e))?);
        }
        Ok(constants)
    }
}
