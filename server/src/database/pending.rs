//! What a transaction has written to a table and not committed.
//!
//! A transaction may write a row at a time, and each time asks what it has written before. So its keys are counted as they come,
//! and its writes are joined to few: of two next to each other the earlier is the greater, as long as there is no savepoint between
//! them. A write of one row costs the same then, whatever came before it, but that each row is copied once for each doubling of their number.

use super::change;
use super::locks::Key;
use arrow::array::ArrayRef;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, Delta, SqlResult};

/// The writes of one transaction to one table. A clone keeps the writes that it was made of; keys are counted in one place for all.
#[derive(Clone)]
pub struct Pending {
    table: Arc<CatalogObject>,
    writes: Vec<Delta>,
    keys: Arc<Mutex<HashMap<Key, Own>>>,
}

/// What is written of one key.
#[derive(Clone, Copy, Default)]
struct Own {
    /// Copies added, less those taken away.
    net: i64,
    /// In how many rows of the writes it is.
    rows: usize,
}

impl Pending {
    /// Nothing written to a table.
    pub fn new(table: &Arc<CatalogObject>) -> Pending {
        Pending { table: Arc::clone(table), writes: vec![], keys: Arc::default() }
    }

    /// The writes, together what was written.
    pub fn writes(&self) -> &[Delta] {
        &self.writes
    }

    /// How many writes there are: what [`Pending::take_back`] goes back to.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Adds a write. The first `kept` writes stay as they are, to be gone back to.
    ///
    /// # Errors
    /// If the write is of other columns than the table.
    pub fn add(&mut self, delta: Delta, kept: usize) -> SqlResult<()> {
        self.count(&delta, 1)?;
        self.writes.push(delta);
        while let [.., before, last] = &self.writes[kept.min(self.writes.len())..]
            && before.num_rows() <= last.num_rows()
        {
            let joined = Delta::concat(&last.schema(), &[before.clone(), last.clone()]);
            let joined = joined.map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
            self.writes.truncate(self.writes.len() - 2);
            self.writes.push(joined);
        }
        Ok(())
    }

    /// Takes back all writes but the first `kept`.
    ///
    /// # Errors
    /// As [`Pending::add`].
    pub fn take_back(&mut self, kept: usize) -> SqlResult<()> {
        let taken: Vec<Delta> = self.writes.drain(kept.min(self.writes.len())..).collect();
        taken.iter().try_for_each(|delta| self.count(delta, -1))
    }

    /// How often a key was added, less how often it was taken away.
    pub fn net_of(&self, key: &[u8]) -> i64 {
        self.keys.lock().get(key).map_or(0, |own| own.net)
    }

    /// Whether a row of this key was written.
    pub fn has(&self, key: &[u8]) -> bool {
        self.keys.lock().contains_key(key)
    }

    /// Counts the keys of a write, or with −1 takes them from the count.
    fn count(&self, delta: &Delta, sign: i64) -> SqlResult<()> {
        if self.table.key().is_empty() {
            return Ok(());
        }
        let columns: Vec<ArrayRef> = self.table.key().iter().map(|place| Arc::clone(delta.batch().column(*place))).collect();
        let mut keys = self.keys.lock();
        for (row, key) in change::encoded_keys(&self.table, &columns)?.into_iter().enumerate() {
            let own = keys.entry(Arc::clone(&key)).or_default();
            own.net += sign * delta.weight(row);
            own.rows = own.rows.saturating_add_signed(sign as isize);
            if own.rows == 0 {
                keys.remove(&key);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
