//! `CREATE TABLE … AS`: the query runs first, so that nothing is created if it fails; then the table, then its rows, in the
//! session's transaction if it is in one.

use super::ClientSession;
use super::read::plan_columns;
use crate::database::change::{self, Kind};
use crate::database::pending::Pending;
use crate::wire::session::{NAMED_OIDS, Outcome, Severity};
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use thalweg_planner::statement::CreateTableAs;

impl ClientSession {
    pub(super) async fn create_table_as(
        &mut self,
        create: &CreateTableAs,
        sql: &str,
        params: &[ScalarValue],
    ) -> SqlResult<Outcome> {
        let running = self.running();
        let (plan, _) = running.plan(&create.query.query, &self.declared(params))?;
        let columns = running.describe(&plan)?;
        if let Some(column) = plan_columns(&columns, &plan).iter().find(|column| NAMED_OIDS.contains(&column.type_oid)) {
            let message = format!("column \"{}\" is of a type of Postgres's own catalog, which tables can't have", column.name);
            return Err(SqlError::unsupported(message).with_hint("Cast it to text, or to oid."));
        }
        let fields: Vec<_> = columns.iter().map(|column| column.sql_type.to_field(&column.name, true)).collect();
        let rows = match create.with_data {
            true => Some(change::collect(running.run(plan, params).await?, &Arc::new(Schema::new(fields))).await?),
            false => None,
        };
        let mut create = create.clone();
        if create.temporary {
            self.place_temporary(&mut create.name).await?;
        }
        let (database, by, sql) = (Arc::clone(&self.database), self.by(), sql.to_string());
        let made = Self::apart(async move { database.create_table_as(&create, columns, &by, &sql).await }).await?;
        let (created, Some(table)) = made else {
            made.0.notices.into_iter().for_each(|text| self.notice(Severity::Notice, SqlState::DuplicateTable, text));
            return Ok(Outcome::Tag("CREATE TABLE AS".into()));
        };
        self.note_all(created.notices);
        let Some(rows) = rows else { return Ok(Outcome::Tag("CREATE TABLE AS".into())) };
        // The columns may have names of their own.
        let rows = RecordBatch::try_new(change::unchecked_schema(&table), rows.columns().to_vec())
            .map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
        let change = change::change_of(&Kind::Insert, &table, &rows, &Pending::new(&table), None)?;
        let count = change.rows;
        let holder = self.holder();
        self.write_change(&table, change.delta, holder).await?;
        Ok(Outcome::Tag(format!("SELECT {count}")))
    }
}
