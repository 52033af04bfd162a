//! `thalweg_state."job.operator.table"`: every state table of every job, with typed columns, as of its last flush.

use super::running::name_of;
use crate::database::{Database, storage_error};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::{DefaultTableSource, MemTable};
use datafusion::logical_expr::TableSource;
use std::sync::Arc;
use thalweg_catalog::{Catalog, SqlError, SqlResult, SqlState, suggest};
use thalweg_storage::state::inspect::table_schema;

/// The names of all state tables.
pub fn names(database: &Database, catalog: &Catalog) -> Vec<String> {
    let mut names: Vec<String> = database
        .engine()
        .stores()
        .iter()
        .flat_map(|store| store.tables())
        .filter(|table| catalog.get(table.job).is_some())
        .map(|table| name(catalog, table.job, &table.operator_path, &table.spec.name))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn name(catalog: &Catalog, job: thalweg_catalog::ObjectId, operator: &str, table: &str) -> String {
    format!("{}.{operator}.{table}", name_of(catalog, job))
}

/// The state table of this name, over all workers.
///
/// # Errors
/// `42P01` with the nearest name; if state can't be read.
pub fn relation(database: &Database, catalog: &Catalog, wanted: &str) -> SqlResult<Option<Arc<dyn TableSource>>> {
    let mut partitions = vec![];
    let mut schema = None;
    for (worker, store) in database.engine().stores().iter().enumerate() {
        let found = store.tables().into_iter().find(|t| name(catalog, t.job, &t.operator_path, &t.spec.name) == wanted);
        let Some(table) = found else { continue };
        let schema = schema.get_or_insert_with(|| with_worker(&table_schema(&table)));
        let mut batches = vec![];
        for batch in store.scan_table(table.table_id).map_err(|e| storage_error(&e))? {
            let batch = batch.map_err(|e| storage_error(&e))?;
            let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![worker as i64; batch.num_rows()]))];
            columns.extend(batch.columns().iter().cloned());
            batches
                .push(RecordBatch::try_new(Arc::clone(schema), columns).map_err(|e| thalweg_planner::errors::arrow_error(&e))?);
        }
        partitions.push(batches);
    }
    match schema {
        Some(schema) => {
            let table = MemTable::try_new(schema, partitions).map_err(|e| thalweg_planner::sql_error(&e))?;
            Ok(Some(Arc::new(DefaultTableSource::new(Arc::new(table)))))
        }
        None => {
            let error = SqlError::new(SqlState::UndefinedTable, format!("state table \"{wanted}\" does not exist"));
            let names = names(database, catalog);
            Err(match suggest::nearest(wanted, names.iter().map(String::as_str)) {
                Some(near) => error.with_hint(format!("Did you mean \"{near}\"?")),
                None => error.with_hint("State tables are named \"job.operator.table\": see thalweg.operators."),
            })
        }
    }
}

/// The worker, then the table's columns. A key's column that a row has too stands there twice, the second time with a number.
fn with_worker(schema: &Schema) -> Arc<Schema> {
    let mut fields: Vec<Arc<Field>> = vec![Arc::new(Field::new("worker", DataType::Int64, false))];
    for field in schema.fields() {
        let taken = |name: &str| fields.iter().any(|f| f.name() == name);
        let numbered = (2..).map(|number| format!("{}_{number}", field.name()));
        let name = std::iter::once(field.name().clone()).chain(numbered).find(|name| !taken(name)).unwrap_or_default();
        fields.push(Arc::new(field.as_ref().clone().with_name(name)));
    }
    Arc::new(Schema::new(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_one_name_are_numbered() {
        let fields = ["b", "a", "b", "worker"].map(|name| Field::new(name, DataType::Utf8, true));
        let names: Vec<String> = with_worker(&Schema::new(fields.to_vec())).fields().iter().map(|f| f.name().clone()).collect();
        assert_eq!(names, ["worker", "b", "a", "b_2", "worker_2"]);
    }
}
