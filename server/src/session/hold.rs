//! What a change keeps others from changing until it is written: see `database::locks`.

use super::{ClientSession, lookup};
use crate::database::change::{self, Kind};
use crate::database::locks::{Holder, Key};
use arrow::array::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{CatalogObject, Epoch, SqlError, SqlResult, SqlState};

/// Of how many new rows the keys are locked one by one; with more, the table is.
const KEYS_MAX: usize = 10_000;

impl ClientSession {
    /// What the transaction holds, or the statement if it is one by itself.
    pub(super) fn holder(&mut self) -> Arc<Holder> {
        let locks = self.database.locks();
        match &mut self.transaction {
            Some(transaction) => Arc::clone(transaction.holder(locks)),
            None => locks.holder(),
        }
    }

    /// Locks what a change reads of its table: the row of one key, if that is all that it can be about, else the table. Returns
    /// the epoch from which on that is read as it was written last.
    pub(super) async fn hold_read(
        &self,
        holder: &Holder,
        table: &CatalogObject,
        plan: &LogicalPlan,
        params: &[ScalarValue],
        (kind, columns): (&Kind, &BTreeSet<usize>),
    ) -> SqlResult<Epoch> {
        let moves = *kind == Kind::Insert || table.key().iter().any(|place| columns.contains(place));
        let key = if moves { None } else { lookup::point_of(plan, table, params) };
        let timeout = self.settings.lock_timeout();
        match key {
            Some(key) => {
                let keys = change::encoded_keys(table, &key)?;
                within(timeout, table, holder.keys(table.id, keys.clone())).await?;
                Ok(holder.settled(table.id, &keys))
            }
            None => {
                within(timeout, table, holder.whole(table.id)).await?;
                Ok(self.database.written(table.id))
            }
        }
    }
}

/// A lock, if it can be had in time.
async fn within(timeout: Duration, table: &CatalogObject, lock: impl Future<Output = SqlResult<()>>) -> SqlResult<()> {
    match tokio::time::timeout(timeout, lock).await {
        Ok(held) => held,
        Err(_) => Err(SqlError::new(SqlState::LockNotAvailable, "canceling statement due to lock timeout")
            .with_detail(format!("Another transaction has changed table \"{}\" and not ended.", table.name))
            .with_hint("Set lock_timeout to wait longer.")),
    }
}

/// Locks the keys of new rows. Returns the epoch from which on it can be seen whether they are there already.
pub(super) async fn hold_new(holder: &Holder, table: &CatalogObject, rows: &RecordBatch, timeout: Duration) -> SqlResult<Epoch> {
    let keys: Vec<Key> = change::keys_of(table, rows)?;
    if keys.is_empty() {
        return Ok(Epoch::default());
    }
    if keys.len() > KEYS_MAX {
        within(timeout, table, holder.whole(table.id)).await?;
    } else {
        within(timeout, table, holder.keys(table.id, keys.clone())).await?;
    }
    Ok(holder.settled(table.id, &keys))
}
