//! `INSERT`, `UPDATE`, `DELETE`: rows to the change that they make to a table, checked against its keys and NULLs.

use super::query::{Rows, Statement};
use super::storage_error;
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, Delta, Epoch, ErrorObject, ObjectId, SqlError, SqlResult, SqlState};
use thalweg_executor::Reading;
use thalweg_storage::state::RowCodec;

/// A change of one table, ready to be written.
pub struct Change {
    /// Which table.
    pub table: ObjectId,
    /// The net change.
    pub delta: Delta,
    /// How many rows the statement was about.
    pub rows: u64,
    /// The rows for `RETURNING`: the new ones, or for a delete the old ones.
    pub returned: RecordBatch,
}

/// What rows a statement gave.
pub enum Kind {
    /// New rows.
    Insert,
    /// Old rows beside new ones.
    Update,
    /// Old rows.
    Delete,
}

/// All rows of a stream in one batch of this schema, whose types they may differ from.
///
/// # Errors
/// The stream's.
pub async fn collect(mut rows: Rows, schema: &SchemaRef) -> SqlResult<RecordBatch> {
    let mut batches = vec![];
    while let Some(batch) = rows.next().await {
        batches.push(with_schema(&batch?, schema)?);
    }
    concat_batches(schema, &batches).map_err(|e| thalweg_planner::errors::arrow_error(&e))
}

/// The batch's columns by place, in these types.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> SqlResult<RecordBatch> {
    let wrong = |e: arrow::error::ArrowError| thalweg_planner::errors::arrow_error(&e);
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            if column.data_type() == field.data_type() {
                Ok(Arc::clone(column))
            } else {
                cast(column, field.data_type()).map_err(wrong)
            }
        })
        .collect::<SqlResult<_>>()?;
    let nullable: Vec<_> = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(arrow::datatypes::Schema::new(nullable)), columns, &options).map_err(wrong)
}

/// The schema that rows of a table have before they were checked: as declared, but all columns may be NULL.
pub fn unchecked_schema(table: &CatalogObject) -> SchemaRef {
    let fields: Vec<_> = table.arrow_schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    Arc::new(arrow::datatypes::Schema::new(fields))
}

/// The change that a statement's rows make.
///
/// The caller holds the table's lock, and `reading` has the table with everything that was committed.
///
/// # Errors
/// `23502` for a NULL where none may be, `23505` for a key that is taken.
pub fn change_of(
    kind: &Kind,
    table: &Arc<CatalogObject>,
    rows: &RecordBatch,
    pending: &[Delta],
    reading: Option<&Reading>,
) -> SqlResult<Change> {
    let width = table.columns.len();
    let schema = table.arrow_schema();
    let unchecked = unchecked_schema(table);
    let part = |from: usize| {
        let columns = rows.columns()[from..from + width].to_vec();
        RecordBatch::try_new(Arc::clone(&unchecked), columns).map_err(|e| thalweg_planner::errors::arrow_error(&e))
    };
    let checked = |batch: RecordBatch| {
        check_nulls(table, &batch)?;
        RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()).map_err(|e| thalweg_planner::errors::arrow_error(&e))
    };
    let (old, new) = match kind {
        Kind::Insert => (None, Some(checked(part(0)?)?)),
        Kind::Update => (Some(checked(part(0)?)?), Some(checked(part(width)?)?)),
        Kind::Delete => (Some(checked(part(0)?)?), None),
    };
    if let Some(new) = &new {
        check_keys(table, old.as_ref(), new, pending, reading)?;
    }
    let count = rows.num_rows();
    let returned = new.clone().or_else(|| old.clone()).unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&schema)));
    let mut deltas = vec![];
    if let Some(old) = old {
        deltas.push(Delta::weighted(old, Int64Array::from(vec![-1; count])));
    }
    deltas.extend(new.map(Delta::inserts));
    let delta = Delta::concat(&schema, &deltas).map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
    Ok(Change { table: table.id, delta, rows: count as u64, returned })
}

fn check_nulls(table: &CatalogObject, batch: &RecordBatch) -> SqlResult<()> {
    for (column, values) in table.columns.iter().zip(batch.columns()) {
        if !column.nullable && values.null_count() > 0 {
            let row = (0..values.len()).find(|row| values.is_null(*row)).unwrap_or(0);
            return Err(SqlError::new(
                SqlState::NotNullViolation,
                format!("null value in column \"{}\" of relation \"{}\" violates not-null constraint", column.name, table.name),
            )
            .with_detail(format!("Failing row contains ({}).", shown(batch.columns(), row)))
            .about(ErrorObject { column: Some(column.name.clone()), ..object_of(table) }));
        }
    }
    Ok(())
}

fn shown(columns: &[ArrayRef], row: usize) -> String {
    let options = FormatOptions::default().with_null("null");
    let cell = |column: &ArrayRef| {
        ArrayFormatter::try_new(column.as_ref(), &options).map_or_else(|e| e.to_string(), |f| f.value(row).to_string())
    };
    columns.iter().map(cell).collect::<Vec<_>>().join(", ")
}

/// Refuses new rows whose key another row has.
fn check_keys(
    table: &CatalogObject,
    old: Option<&RecordBatch>,
    new: &RecordBatch,
    pending: &[Delta],
    reading: Option<&Reading>,
) -> SqlResult<()> {
    let key = table.key();
    if key.is_empty() {
        return Ok(());
    }
    let stored = |e: thalweg_storage::StorageError| storage_error(&e);
    let fields: Vec<_> = key.iter().map(|c| table.arrow_schema().field(*c).clone()).collect();
    let codec = RowCodec::new(&fields).map_err(stored)?;
    let columns = |batch: &RecordBatch| key.iter().map(|c| Arc::clone(batch.column(*c))).collect::<Vec<_>>();
    let encode = |batch: &RecordBatch| codec.encode(&columns(batch), batch.num_rows()).map_err(stored);
    let new_keys = encode(new)?;
    let mut seen: HashSet<&[u8]> = HashSet::new();
    for row in 0..new.num_rows() {
        if !seen.insert(new_keys.row(row)) {
            return Err(taken(table, &columns(new), row));
        }
    }
    // How often each key is there, as the transaction sees it: committed, plus its own writes, minus what this statement replaces.
    let mut there: HashMap<Vec<u8>, i64> = HashMap::new();
    for hold in reading.iter().flat_map(|r| r.relations.get(&table.id)).flatten() {
        let found = hold.get(&columns(new), key).map_err(stored)?;
        let found = codec.encode(found.columns(), found.num_rows()).map_err(stored)?;
        for row in 0..found.len() {
            *there.entry(found.row(row).to_vec()).or_default() += 1;
        }
    }
    for delta in pending {
        let keys = encode(delta.batch())?;
        for row in 0..delta.num_rows() {
            *there.entry(keys.row(row).to_vec()).or_default() += delta.weight(row);
        }
    }
    if let Some(old) = old {
        let keys = encode(old)?;
        for row in 0..old.num_rows() {
            *there.entry(keys.row(row).to_vec()).or_default() -= 1;
        }
    }
    match (0..new.num_rows()).find(|row| there.get(new_keys.row(*row)).is_some_and(|n| *n > 0)) {
        Some(row) => Err(taken(table, &columns(new), row)),
        None => Ok(()),
    }
}

fn taken(table: &CatalogObject, key: &[ArrayRef], row: usize) -> SqlError {
    let names: Vec<&str> = table.key().iter().map(|c| table.columns[*c].name.as_str()).collect();
    SqlError::new(SqlState::UniqueViolation, format!("duplicate key value violates unique constraint \"{}_pkey\"", table.name))
        .with_detail(format!("Key ({})=({}) already exists.", names.join(", "), shown(key, row)))
        .about(ErrorObject { constraint: Some(format!("{}_pkey", table.name)), ..object_of(table) })
}

fn object_of(table: &CatalogObject) -> ErrorObject {
    ErrorObject { schema: table.schema.clone(), table: table.name.clone(), ..ErrorObject::default() }
}

/// Reads a table with everything that has been committed to it.
///
/// # Errors
/// If its job has failed.
pub async fn committed(statement: &Statement, table: ObjectId) -> SqlResult<Reading> {
    let at_least: Epoch = statement.database.written(table).max(statement.at_least);
    statement.database.engine().read(&[table], at_least).await.map_err(|e| super::engine_error(&e, &statement.catalog))
}
