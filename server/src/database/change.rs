//! `INSERT`, `UPDATE`, `DELETE`: rows to the change that they make to a table, checked against its keys and NULLs.

use super::locks::Key;
use super::moment;
use super::pending::Pending;
use super::query::{Rows, Statement};
use super::storage_error;
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::{cast, concat_batches, filter_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, Delta, Epoch, ErrorObject, ObjectId, SqlError, SqlResult, SqlState};
use thalweg_executor::Reading;
use thalweg_storage::state::RowCodec;

/// A change of a table, ready to be written.
pub struct Change {
    /// The net change.
    pub delta: Delta,
    /// How many rows the statement was about.
    pub rows: u64,
    /// The rows for `RETURNING`: the new ones, or for a delete the old ones.
    pub returned: RecordBatch,
}

/// What rows a statement gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
/// The caller holds the new rows' keys or the table, and `reading` has what was committed for these keys.
///
/// # Errors
/// `23502` for a NULL where none may be, `23505` for a key that is taken.
pub fn change_of(
    kind: &Kind,
    table: &Arc<CatalogObject>,
    rows: &RecordBatch,
    pending: &Pending,
    reading: Option<&Reading>,
) -> SqlResult<Change> {
    let width = table.columns.len();
    let unchecked = unchecked_schema(table);
    let part = |from: usize| {
        let columns = rows.columns()[from..from + width].to_vec();
        RecordBatch::try_new(Arc::clone(&unchecked), columns).map_err(|e| thalweg_planner::errors::arrow_error(&e))
    };
    let (old, new) = match kind {
        Kind::Insert => (None, Some(checked(table, &part(0)?)?)),
        Kind::Update => (Some(checked(table, &part(0)?)?), Some(checked(table, &part(width)?)?)),
        Kind::Delete => (Some(checked(table, &part(0)?)?), None),
    };
    change_between(table, old, new, pending, reading)
}

/// The change from old rows to new ones, as the table has them; there need not be as many.
///
/// # Errors
/// `23505` for a key that is taken.
pub fn change_between(
    table: &Arc<CatalogObject>,
    old: Option<RecordBatch>,
    new: Option<RecordBatch>,
    pending: &Pending,
    reading: Option<&Reading>,
) -> SqlResult<Change> {
    let schema = table.arrow_schema();
    if let Some(new) = &new {
        check_keys(table, old.as_ref(), new, pending, reading)?;
    }
    let returned = new.clone().or_else(|| old.clone()).unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&schema)));
    let mut deltas = vec![];
    if let Some(old) = old {
        let gone = Int64Array::from(vec![-1; old.num_rows()]);
        deltas.push(Delta::weighted(old, gone));
    }
    deltas.extend(new.map(Delta::inserts));
    let delta = Delta::concat(&schema, &deltas).map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
    Ok(Change { delta, rows: returned.num_rows() as u64, returned })
}

/// Rows of a table that have no NULL where none may be.
///
/// # Errors
/// `23502`.
pub fn checked(table: &CatalogObject, rows: &RecordBatch) -> SqlResult<RecordBatch> {
    check_nulls(table, rows)?;
    let checked = RecordBatch::try_new(table.arrow_schema(), rows.columns().to_vec());
    checked.map_err(|e| thalweg_planner::errors::arrow_error(&e))
}

/// The keys of rows of a table, to be locked; none if it has no key.
///
/// # Errors
/// `23502` for a NULL where none may be.
pub fn keys_of(table: &CatalogObject, rows: &RecordBatch) -> SqlResult<Vec<Key>> {
    if table.key().is_empty() {
        return Ok(vec![]);
    }
    check_nulls(table, rows)?;
    let columns: Vec<ArrayRef> = table.key().iter().map(|place| Arc::clone(rows.column(*place))).collect();
    encoded_keys(table, &columns)
}

/// Keys, given as an array for each column of the key, as they are locked.
///
/// # Errors
/// If they are of other types.
pub fn encoded_keys(table: &CatalogObject, columns: &[ArrayRef]) -> SqlResult<Vec<Key>> {
    let stored = |e: thalweg_storage::StorageError| storage_error(&e);
    let count = columns.first().map_or(0, |column| column.len());
    let rows = key_codec(table).and_then(|codec| codec.encode(columns, count)).map_err(stored)?;
    note_encoded(count);
    Ok((0..count).map(|row| Key::from(rows.row(row))).collect())
}

#[cfg(test)]
thread_local! {
    static ENCODED_ROWS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// How many rows' keys this thread has encoded: what a write costs.
#[cfg(test)]
pub fn encoded_rows() -> usize {
    ENCODED_ROWS.get()
}

#[cfg(test)]
fn note_encoded(rows: usize) {
    ENCODED_ROWS.set(ENCODED_ROWS.get() + rows);
}

#[cfg(not(test))]
fn note_encoded(_rows: usize) {}

fn key_codec(table: &CatalogObject) -> thalweg_storage::StorageResult<RowCodec> {
    let fields: Vec<_> = table.key().iter().map(|place| table.arrow_schema().field(*place).clone()).collect();
    RowCodec::new(&fields)
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
    pending: &Pending,
    reading: Option<&Reading>,
) -> SqlResult<()> {
    let key = table.key();
    if key.is_empty() {
        return Ok(());
    }
    match which_taken(table, old, new, pending, reading)?.iter().position(|taken| *taken) {
        Some(row) => Err(taken(table, &key.iter().map(|c| Arc::clone(new.column(*c))).collect::<Vec<_>>(), row)),
        None => Ok(()),
    }
}

/// The new rows whose key no other row has, and of those of one key the first.
///
/// # Errors
/// If state can't be read.
pub fn free_rows(table: &CatalogObject, new: &RecordBatch, pending: &Pending, reading: &Reading) -> SqlResult<RecordBatch> {
    let free: BooleanArray =
        which_taken(table, None, new, pending, Some(reading))?.into_iter().map(|taken| Some(!taken)).collect();
    filter_record_batch(new, &free).map_err(|e| thalweg_planner::errors::arrow_error(&e))
}

/// For each new row whether its key is taken, by another row or by a new one before it.
fn which_taken(
    table: &CatalogObject,
    old: Option<&RecordBatch>,
    new: &RecordBatch,
    pending: &Pending,
    reading: Option<&Reading>,
) -> SqlResult<Vec<bool>> {
    let key = table.key();
    let stored = |e: thalweg_storage::StorageError| storage_error(&e);
    let codec = key_codec(table).map_err(stored)?;
    let columns = |batch: &RecordBatch| key.iter().map(|c| Arc::clone(batch.column(*c))).collect::<Vec<_>>();
    let encode = |batch: &RecordBatch| {
        note_encoded(batch.num_rows());
        codec.encode(&columns(batch), batch.num_rows()).map_err(stored)
    };
    let new_keys = encode(new)?;
    // How often each key is there, but for the transaction's own writes: committed, minus what this statement replaces.
    let mut there: HashMap<Vec<u8>, i64> = HashMap::new();
    for hold in reading.iter().flat_map(|r| r.relations.get(&table.id)).flatten() {
        let found = hold.get(&columns(new), key).map_err(stored)?;
        let found = codec.encode(found.columns(), found.num_rows()).map_err(stored)?;
        for row in 0..found.len() {
            *there.entry(found.row(row).to_vec()).or_default() += 1;
        }
    }
    if let Some(old) = old {
        let keys = encode(old)?;
        for row in 0..old.num_rows() {
            *there.entry(keys.row(row).to_vec()).or_default() -= 1;
        }
    }
    let mut seen: HashSet<&[u8]> = HashSet::new();
    let count = |key: &[u8]| there.get(key).copied().unwrap_or(0) + pending.net_of(key);
    let is_taken = |row| !seen.insert(new_keys.row(row)) || count(new_keys.row(row)) > 0;
    Ok((0..new.num_rows()).map(is_taken).collect())
}

/// Refuses old rows of a table with a key that are no longer as `reading` has them. Rows that the transaction has changed itself,
/// as `pending` has them, nobody else can have changed.
///
/// # Errors
/// `40001` for the first such row.
pub fn check_unchanged(table: &CatalogObject, old: &RecordBatch, pending: &Pending, reading: &Reading) -> SqlResult<()> {
    let stored = |e: thalweg_storage::StorageError| storage_error(&e);
    let fields: Vec<_> = table.arrow_schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    let (keys, rows) = (key_codec(table).map_err(stored)?, RowCodec::new(&fields).map_err(stored)?);
    let key_columns = |batch: &RecordBatch| table.key().iter().map(|c| Arc::clone(batch.column(*c))).collect::<Vec<_>>();
    let encoded = |batch: &RecordBatch| -> SqlResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let keys = keys.encode(&key_columns(batch), batch.num_rows()).map_err(stored)?;
        let rows = rows.encode(&batch.columns()[..fields.len()], batch.num_rows()).map_err(stored)?;
        Ok((0..batch.num_rows()).map(|row| (keys.row(row).to_vec(), rows.row(row).to_vec())).collect())
    };
    let every: Vec<usize> = (0..fields.len()).collect();
    let mut now: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for hold in reading.relations.get(&table.id).into_iter().flatten() {
        now.extend(encoded(&hold.get(&key_columns(old), &every).map_err(stored)?)?);
    }
    for (key, row) in encoded(old)? {
        if pending.has(&key) {
            continue;
        }
        match now.get(&key) {
            Some(found) if *found == row => {}
            Some(_) => return Err(moment::conflict("concurrent update")),
            None => return Err(moment::conflict("concurrent delete")),
        }
    }
    Ok(())
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

/// Reads a table as of an epoch that is at least this one.
///
/// # Errors
/// If its job has failed.
pub async fn read_since(statement: &Statement, table: ObjectId, at_least: Epoch) -> SqlResult<Reading> {
    statement.database.engine().read(&[table], at_least).await.map_err(|e| super::engine_error(&e, &statement.catalog))
}
