//! `INSERT … ON CONFLICT DO UPDATE`: new rows whose key another row has change that row.

use super::change;
use super::locks::Key;
use super::pending::Pending;
use super::storage_error;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use datafusion::physical_expr::PhysicalExpr;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, SqlError, SqlResult, SqlState};
use thalweg_executor::Reading;
use thalweg_storage::state::RowCodec;

/// New rows whose key is taken, beside the rows that have it.
pub struct Taken {
    /// The places of the new rows.
    places: Vec<u32>,
    /// Their keys, in the same order.
    keys: Vec<Key>,
    /// The rows that have the keys, in the same order.
    pub old: RecordBatch,
}

/// What an insert makes of a table.
pub struct Replaced {
    /// Rows that go.
    pub old: RecordBatch,
    /// Rows that come: new ones, and those that were changed, in the order of the new ones.
    pub new: RecordBatch,
}

/// Finds the rows that have the keys of new ones, as the transaction sees them.
///
/// # Errors
/// `21000` for a new row of a key that one before it has and no other row: it would change what has just been made.
pub fn find_taken(table: &Arc<CatalogObject>, new: &RecordBatch, pending: &Pending, reading: &Reading) -> SqlResult<Taken> {
    let keys = change::keys_of(table, new)?;
    let wanted: HashSet<&Key> = keys.iter().collect();
    let (rows, weights) = known_rows(table, new, &wanted, pending, reading)?;
    let current = current_rows(table, &rows, &weights)?;
    let mut added: HashSet<&Key> = HashSet::new();
    if !keys.iter().filter(|key| !current.contains_key(*key)).all(|key| added.insert(key)) {
        return Err(twice());
    }
    let (mut places, mut found, mut old) = (vec![], vec![], vec![]);
    for (place, key) in keys.iter().enumerate() {
        if let Some(row) = current.get(key) {
            places.push(place as u32);
            found.push(Arc::clone(key));
            old.push(*row);
        }
    }
    Ok(Taken { places, keys: found, old: take(&rows, old)? })
}

fn twice() -> SqlError {
    SqlError::new(SqlState::CardinalityViolation, "ON CONFLICT DO UPDATE command cannot affect row a second time")
        .with_hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}

/// All rows that were committed or written by the transaction with these keys, and how often each is there.
fn known_rows(
    table: &Arc<CatalogObject>,
    new: &RecordBatch,
    wanted: &HashSet<&Key>,
    pending: &Pending,
    reading: &Reading,
) -> SqlResult<(RecordBatch, Vec<i64>)> {
    let every: Vec<usize> = (0..table.columns.len()).collect();
    let (mut batches, mut weights) = (vec![], vec![]);
    for hold in reading.relations.get(&table.id).into_iter().flatten() {
        let found = hold.get(&key_columns(table, new), &every).map_err(|e| storage_error(&e))?;
        weights.extend(std::iter::repeat_n(1, found.num_rows()));
        batches.push(found);
    }
    // Most often none of the keys is the transaction's own, and its writes need not be gone over.
    let is_own = wanted.iter().any(|key| pending.has(key));
    for write in pending.writes().iter().filter(|_| is_own) {
        let keys = change::keys_of(table, write.batch())?;
        let places: Vec<u32> = (0..keys.len()).filter(|row| wanted.contains(&keys[*row])).map(|row| row as u32).collect();
        weights.extend(places.iter().map(|row| write.weight(*row as usize)));
        batches.push(take(write.batch(), places)?);
    }
    let schema = change::unchecked_schema(table);
    let batches = batches.into_iter().map(|batch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()));
    let batches = batches.collect::<Result<Vec<_>, _>>().map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
    Ok((concat_batches(&schema, &batches).map_err(|e| thalweg_planner::errors::arrow_error(&e))?, weights))
}

/// Of each key the row that is there.
fn current_rows(table: &Arc<CatalogObject>, rows: &RecordBatch, weights: &[i64]) -> SqlResult<HashMap<Key, u32>> {
    let fields: Vec<_> = table.arrow_schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    let encoded = RowCodec::new(&fields).and_then(|codec| codec.encode(rows.columns(), rows.num_rows()));
    let encoded = encoded.map_err(|e| storage_error(&e))?;
    let mut net: HashMap<&[u8], (i64, u32)> = HashMap::new();
    for (row, weight) in weights.iter().enumerate() {
        net.entry(encoded.row(row)).or_insert((0, row as u32)).0 += weight;
    }
    let keys = change::keys_of(table, rows)?;
    Ok(net.into_values().filter(|(count, _)| *count > 0).map(|(_, row)| (Arc::clone(&keys[row as usize]), row)).collect())
}

/// Changes the rows whose keys are taken. `exprs` are over the columns of such a row followed by those of the new one: the values of
/// all columns, which are computed where the last says that the row is changed.
///
/// # Errors
/// Those of the expressions, `21000` for a row that would be changed twice, and `23502` for a NULL where none may be.
pub fn replace(
    table: &Arc<CatalogObject>,
    new: &RecordBatch,
    taken: Taken,
    exprs: &[Arc<dyn PhysicalExpr>],
) -> SqlResult<Replaced> {
    let proposed = take(new, taken.places.clone())?;
    let columns: Vec<ArrayRef> = taken.old.columns().iter().chain(proposed.columns()).cloned().collect();
    let fields: Vec<_> = taken.old.schema().fields().iter().chain(proposed.schema().fields()).cloned().collect();
    let both = RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns);
    let both = both.map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
    let (condition, exprs) = exprs.split_last().ok_or_else(|| SqlError::internal("an update of taken keys has no columns"))?;
    let changed = changed_rows(&evaluate(condition, &both)?, &taken.keys)?;
    let both = take(&both, changed.clone())?;
    let values = exprs.iter().map(|expr| evaluate(expr, &both)).collect::<SqlResult<Vec<_>>>()?;
    let updated = RecordBatch::try_new(change::unchecked_schema(table), values);
    let updated = updated.map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
    let all = concat_batches(&updated.schema(), [new, &updated]).map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
    // In which row of `all` is what becomes of each taken new row that changes something.
    let become_of: HashMap<u32, u32> =
        changed.iter().enumerate().map(|(row, at)| (taken.places[*at as usize], (new.num_rows() + row) as u32)).collect();
    let is_taken: HashSet<u32> = taken.places.iter().copied().collect();
    let kept = (0..new.num_rows() as u32).filter_map(|place| match become_of.get(&place) {
        None => Some(place).filter(|place| !is_taken.contains(place)),
        Some(row) => Some(*row),
    });
    let rows = take(&all, kept.collect())?;
    Ok(Replaced { old: change::checked(table, &take(&taken.old, changed)?)?, new: change::checked(table, &rows)? })
}

/// The rows of which a condition holds.
///
/// # Errors
/// `21000` for a row whose key one before it has of which it holds too, whether or not it holds of the second.
fn changed_rows(holds: &ArrayRef, keys: &[Key]) -> SqlResult<Vec<u32>> {
    let holds = holds.as_boolean_opt().ok_or_else(|| SqlError::internal("a condition is not boolean"))?;
    let mut changed = vec![];
    let mut seen: HashSet<&Key> = HashSet::new();
    for (row, key) in keys.iter().enumerate() {
        if seen.contains(key) {
            return Err(twice());
        }
        if holds.is_valid(row) && holds.value(row) {
            seen.insert(key);
            changed.push(row as u32);
        }
    }
    Ok(changed)
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> SqlResult<ArrayRef> {
    let value = expr.evaluate(rows).and_then(|value| value.into_array(rows.num_rows()));
    value.map_err(|e| thalweg_planner::sql_error(&e))
}

fn key_columns(table: &CatalogObject, rows: &RecordBatch) -> Vec<ArrayRef> {
    table.key().iter().map(|place| Arc::clone(rows.column(*place))).collect()
}

fn take(rows: &RecordBatch, places: Vec<u32>) -> SqlResult<RecordBatch> {
    take_record_batch(rows, &UInt32Array::from(places)).map_err(|e| thalweg_planner::errors::arrow_error(&e))
}
