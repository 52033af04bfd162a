//! A job's row errors on one worker, as state: part of every checkpoint, restored with it, dropped with the job.
//!
//! They are written once for the whole job, when all of its operators on the worker have flushed at a checkpoint and the database is
//! about to be copied. Operators that are ahead of it report errors of later epochs before that; those wait, so that a checkpoint
//! holds the errors of its epochs and no others, and replaying what came after it doubles none.

use super::{ErrorCounts, ErrorLog, ErrorRow, JobErrors};
use crate::error::OperatorError;
use thalweg_catalog::{ObjectId, VNode};
use thalweg_storage::StorageResult;
use thalweg_storage::state::{CellTable, OperatorState};
use thalweg_storage::worker_store::WorkerStore;

/// What stands in for an operator's path.
const PATH: &str = "row_errors";
/// The place under which the counts are saved.
const COUNTS: u64 = u64::MAX;

/// Which worker saves, of how many. Part of each cell's name, so that the errors of former workers don't clash after a rescale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedBy {
    /// Its place among all.
    pub worker: u32,
    /// How many there are.
    pub workers: u32,
    /// Its own share of the key space.
    pub vnode: VNode,
}

impl SavedBy {
    fn name(&self, place: u64) -> Vec<u8> {
        [&self.worker.to_be_bytes()[..], &self.workers.to_be_bytes(), &place.to_be_bytes()].concat()
    }

    /// The place in a name, if this worker gave it.
    fn place(&self, name: &[u8]) -> Option<u64> {
        let (own, place) = name.split_at_checked(8)?;
        (own == &self.name(0)[..8]).then(|| place.try_into().ok().map(u64::from_be_bytes))?
    }
}

/// The errors of one job on one worker.
pub struct SavedErrors {
    state: OperatorState,
    table: CellTable,
    by: SavedBy,
    errors: JobErrors,
    /// Errors of epochs after the checkpoint that is being made.
    later: JobErrors,
}

impl SavedErrors {
    /// For a job that has saved none yet.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn new(store: &WorkerStore, job: ObjectId, by: SavedBy) -> StorageResult<SavedErrors> {
        let state = store.operator_state(job, PATH);
        let table = state.cell_table("errors", by.vnode)?;
        Ok(SavedErrors { state, table, by, errors: JobErrors::default(), later: JobErrors::default() })
    }

    /// What a restored job has saved, which is shown again; none if it has saved none.
    ///
    /// # Errors
    /// ERRORS-1: if a saved error is not as it was written; if state can't be read.
    pub fn restore(
        store: &WorkerStore,
        job: ObjectId,
        by: SavedBy,
        shown: &ErrorLog,
    ) -> Result<Option<SavedErrors>, OperatorError> {
        if !store.tables().iter().any(|table| table.job == job && table.operator_path == PATH) {
            return Ok(None);
        }
        let mut saved = SavedErrors::new(store, job, by)?;
        saved.load()?;
        shown.restore(job, &saved.errors);
        Ok(Some(saved))
    }

    fn load(&mut self) -> Result<(), OperatorError> {
        let mut foreign = vec![];
        for (name, value) in self.table.entries()? {
            let own = self.by.place(&name);
            if name.ends_with(&COUNTS.to_be_bytes()) {
                let counts: ErrorCounts = parsed(&value)?;
                self.errors.counts.total += counts.total;
                self.errors.counts.cut += counts.cut;
            } else if let Some(place) = own {
                self.errors.put(place, parsed(&value)?);
            } else {
                foreign.push(parsed(&value)?);
            }
            if own.is_none() {
                self.table.remove(&name);
            }
        }
        for error in foreign {
            let changed = self.errors.merge(error);
            self.save(changed);
        }
        Ok(())
    }

    /// Takes an error. With `later` it is of an epoch after the checkpoint that is being made.
    pub fn report(&mut self, error: ErrorRow, later: bool) {
        if later {
            self.later.add(error);
        } else {
            self.add_later();
            let changed = self.errors.add(error);
            self.save(changed);
        }
    }

    fn add_later(&mut self) {
        let JobErrors { rows, counts, .. } = std::mem::take(&mut self.later);
        self.errors.counts.total += counts.total;
        self.errors.counts.cut += counts.cut;
        for error in rows.into_values() {
            let changed = self.errors.merge(error);
            self.save(changed);
        }
    }

    /// Puts what has changed where the next flush takes it from.
    fn save(&mut self, changed: [Option<u64>; 2]) {
        for place in changed.into_iter().flatten() {
            let name = self.by.name(place);
            match self.errors.rows.get(&place) {
                Some(error) => self.table.put(&name, &json(error)),
                None => self.table.remove(&name),
            }
        }
    }

    /// Writes the errors of everything through a checkpoint to the worker's database, and goes on to what is after it.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn flush(&mut self) -> StorageResult<()> {
        self.table.put(&self.by.name(COUNTS), &json(&self.errors.counts));
        self.state.flush()?;
        self.add_later();
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("it is plain data")
}

fn parsed<T: serde::de::DeserializeOwned>(value: &[u8]) -> Result<T, OperatorError> {
    serde_json::from_slice(value)
        .map_err(|e| OperatorError::Invariant("ERRORS-1", format!("a saved row error can't be read: {e}")))
}

#[cfg(test)]
mod tests;
