//! The rows of a table or materialized view, versioned by epoch, so that reads never block writes.

use crate::error::StorageResult;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use thalweg_catalog::{Delta, Epoch};

/// The writing side, held by the `Materialize` operator of one worker. Holds the rows of that worker's share.
pub struct ViewTable {}

impl ViewTable {
    /// Applies an epoch's changes and gives back the net change: each key's old row with −1 and new row with +1, nothing for
    /// rows that stay the same. With a key, the last insert of a key wins and a delete must match the row it deletes (a delete of
    /// another row of the key is ignored when the key has been given a new row in the same epoch). Without one, rows count.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn apply(&mut self, _epoch: Epoch, _deltas: &[Delta]) -> StorageResult<Delta> {
        todo!()
    }

    /// Says that all changes up to `epoch` have been applied: readers may read at it. Never goes back.
    pub fn complete(&mut self, _epoch: Epoch) {
        todo!()
    }

    /// The reading side.
    pub fn reader(&self) -> ViewReader {
        todo!()
    }
}

/// The reading side: any thread, any number of them. Reads see exactly the state at their epoch, whatever is written
/// meanwhile.
#[derive(Clone)]
pub struct ViewReader {}

impl ViewReader {
    /// All columns of the relation.
    pub fn schema(&self) -> SchemaRef {
        todo!()
    }

    /// The newest epoch that can be read.
    pub fn completed(&self) -> Epoch {
        todo!()
    }

    /// Returns once `epoch` can be read.
    pub async fn wait(&self, _epoch: Epoch) {
        todo!()
    }

    /// Keeps `epoch` readable until the hold is dropped. None if it is no longer readable, or not yet.
    pub fn hold(&self, _epoch: Epoch) -> Option<ViewHold> {
        todo!()
    }
}

/// A relation's rows on one worker at one epoch.
pub struct ViewHold {}

impl ViewHold {
    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        todo!()
    }

    /// All rows, with these columns, in batches of about 8,192 rows. Blocks on disk: call it off the async threads.
    pub fn scan(&self, _columns: &[usize]) -> Box<dyn Iterator<Item = StorageResult<RecordBatch>> + Send> {
        todo!()
    }

    /// The rows with these keys (one array for each key column, in the key's order), with these columns; keys that are not
    /// there give nothing.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn get(&self, _keys: &[ArrayRef], _columns: &[usize]) -> StorageResult<RecordBatch> {
        todo!()
    }
}
