//! Queries, and values that stand in statements.

use super::ClientSession;
use crate::database::query::Rows;
use crate::wire::session::{Outcome, ResultColumn, RowTag};
use arrow::datatypes::FieldRef;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use std::sync::Arc;
use thalweg_catalog::{Column, SqlError, SqlResult, SqlType};
use thalweg_planner::ast;

/// The result columns of a query's columns.
pub fn result_columns(columns: &[Column]) -> Vec<ResultColumn> {
    columns.iter().map(|c| ResultColumn::new(&c.name, c.sql_type.clone())).collect()
}

/// The result columns of a plan, with the types that its fields are shown as: system relations have some of their own.
pub fn plan_columns(columns: &[Column], plan: &LogicalPlan) -> Vec<ResultColumn> {
    let fields = plan.schema().fields();
    let typed = |(column, field): (ResultColumn, &FieldRef)| column.with_type_of(field);
    if fields.len() == columns.len() {
        result_columns(columns).into_iter().zip(fields).map(typed).collect()
    } else {
        result_columns(columns)
    }
}

impl ClientSession {
    /// Runs a query; its columns, and its rows as they come.
    pub(super) async fn rows(&mut self, query: &ast::Query, params: &[ScalarValue]) -> SqlResult<(Vec<ResultColumn>, Rows)> {
        let running = self.running();
        let declared: Vec<Option<SqlType>> = params.iter().map(|value| SqlType::from_arrow(&value.data_type()).ok()).collect();
        let (plan, _) = running.plan(query, &declared)?;
        let columns = self.with_origins(plan_columns(&running.describe(&plan)?, &plan), query);
        let rows = running.run(plan, params).await?;
        Ok((columns, rows))
    }

    pub(super) async fn query(&mut self, query: &ast::Query, params: &[ScalarValue]) -> SqlResult<Outcome> {
        let (columns, rows) = self.rows(query, params).await?;
        Ok(Outcome::Rows { columns, rows, tag: RowTag::Counted("SELECT") })
    }

    /// The columns with where they come from, for a query over one relation of the catalog: drivers ask for that.
    fn with_origins(&self, columns: Vec<ResultColumn>, query: &ast::Query) -> Vec<ResultColumn> {
        let ast::SetExpr::Select(select) = query.body.as_ref() else { return columns };
        let [from] = select.from.as_slice() else { return columns };
        let ast::TableFactor::Table { name, .. } = &from.relation else { return columns };
        if !from.joins.is_empty() || name.0.len() != 1 {
            return columns;
        }
        let name = name.0[0].as_ident().map(|i| if i.quote_style.is_some() { i.value.clone() } else { i.value.to_lowercase() });
        let catalog = self.database.catalog();
        let path = self.search_path();
        let Some(object) = name.and_then(|name| path.iter().find_map(|schema| catalog.find(schema, &name).map(Arc::clone)))
        else {
            return columns;
        };
        let origin = |column: ResultColumn| match object
            .columns
            .iter()
            .position(|c| c.name == column.name && c.sql_type == column.sql_type)
        {
            Some(place) => column.from_relation(object.id.0, place as i16 + 1),
            None => column,
        };
        columns.into_iter().map(origin).collect()
    }

    /// The values of constant expressions, as these types.
    pub(super) async fn constants(&mut self, values: &[ast::Expr], oids: &[u32]) -> SqlResult<Vec<ScalarValue>> {
        let mut constants = vec![];
        for (value, oid) in values.iter().zip(oids) {
            let query = thalweg_planner::parse_query(&format!("SELECT {value}"))?;
            let (_, mut rows) = self.rows(&query, &[]).await?;
            let first = rows.next().await.ok_or_else(|| SqlError::internal("a constant has no value"))??;
            let scalar = ScalarValue::try_from_array(first.column(0), 0).map_err(|e| thalweg_planner::sql_error(&e))?;
            let wanted = SqlType::from_oid(*oid).unwrap_or(SqlType::Text).to_arrow();
            constants.push(scalar.cast_to(&wanted).map_err(|e| thalweg_planner::sql_error(&e))?);
        }
        Ok(constants)
    }
}
