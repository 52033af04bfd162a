//! The rows of a table or materialized view, versioned by epoch, so that reads never block writes.
//!
//! What was written by the last flush is read through a database snapshot; what has changed since is kept as *layers*, one for each
//! call of `apply`, immutable and shared with readers. Snapshot and layers together are a *generation*: it can be read at any epoch
//! from its last stored change to the next generation's, by merging the snapshot with the layers up to that epoch. A flush writes
//! the newest version of each key and begins the next generation; the one before stays until the flush after, and for as long as
//! a hold is on it. Memory is bounded by flushing, which `OperatorState::shrink` does too.
//!
//! Stored are, with a key: the key's columns → the others. Without: all columns → how many copies.

use super::database::{Database, OwnedSnapshot, PREFIX_BYTES};
use super::directory::{StoredTable, TableKind};
use super::{FlushStats, StateTable, TableSpec};
use crate::error::{StorageError, StorageResult};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use layer::Layer;
use layout::Layout;
use parking_lot::RwLock;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use thalweg_catalog::{Delta, Epoch};
use tokio::sync::watch;
use writer::Writer;

mod apply;
mod layer;
mod layout;
mod point;
mod recent;
mod scan;
mod writer;

/// The writing side, held by the `Materialize` operator of one worker. Holds the rows of that worker's share.
pub struct ViewTable {
    writer: Rc<RefCell<Writer>>,
}

/// The reading side: any thread, any number of them. Reads see exactly the state at their epoch, whatever is written
/// meanwhile.
#[derive(Clone)]
pub struct ViewReader {
    shared: Arc<ViewShared>,
    completed: watch::Receiver<Epoch>,
}

/// A relation's rows on one worker at one epoch. Cheap to clone.
#[derive(Clone)]
pub struct ViewHold {
    layout: Arc<Layout>,
    generation: Arc<Generation>,
    /// Those up to the epoch, oldest first.
    layers: Vec<Arc<Layer>>,
    epoch: Epoch,
}

/// What writer and readers share.
struct ViewShared {
    layout: Arc<Layout>,
    generations: RwLock<Generations>,
    /// How many rows there are at the completed epoch.
    rows: AtomicI64,
}

struct Generations {
    current: Arc<Generation>,
    previous: Option<Arc<Generation>>,
    /// Those that only holds keep.
    older: Vec<Weak<Generation>>,
}

/// A span of epochs that can be read from one snapshot.
struct Generation {
    /// The snapshot is the state at the end of this epoch.
    base: Epoch,
    /// The next generation begins with this epoch: what came after is not here. None while there is no next.
    last: OnceLock<Epoch>,
    snapshot: Arc<OwnedSnapshot>,
    /// Nothing is stored: the layers are all there is.
    blank: bool,
    /// What was applied after `base`, oldest first.
    layers: RwLock<Vec<Arc<Layer>>>,
}

/// How a relation's rows are stored.
pub(crate) fn spec(schema: &SchemaRef, key: &[usize]) -> StorageResult<(TableKind, TableSpec)> {
    let shape = |reason: String| StorageError::Shape { table: "rows".to_string(), reason };
    if let Some(wrong) = key.iter().find(|k| **k >= schema.fields().len()) {
        return Err(shape(format!("the key's column {wrong} is not among {}", schema.fields().len())));
    }
    if key.iter().enumerate().any(|(place, column)| key[..place].contains(column)) {
        return Err(shape("a column stands twice in the key".to_string()));
    }
    let field = |column: &usize| schema.field(*column).clone();
    let all = (0..schema.fields().len()).collect::<Vec<_>>();
    let (kind, key, value) = if key.is_empty() {
        (TableKind::Multiset, all.iter().map(field).collect(), vec![Field::new("count", DataType::Int64, false)])
    } else {
        let rest = all.iter().filter(|c| !key.contains(c)).map(field).collect();
        (TableKind::View, key.iter().map(field).collect(), rest)
    };
    Ok((kind, TableSpec { name: "rows".to_string(), key, sub: Vec::new(), sub_order: Vec::new(), value }))
}

impl ViewTable {
    pub(crate) fn open(
        database: Arc<Database>,
        table: Arc<StoredTable>,
        schema: SchemaRef,
        key: &[usize],
    ) -> StorageResult<(ViewTable, Rc<RefCell<Writer>>)> {
        let writer = Rc::new(RefCell::new(Writer::open(database, table, schema, key)?));
        Ok((ViewTable { writer: Rc::clone(&writer) }, writer))
    }

    /// Applies an epoch's changes and gives back the net change: each key's old row with −1 and new row with +1, nothing for
    /// rows that stay the same. With a key, the last insert of a key wins and a delete must match the row it deletes (a delete of
    /// another row of the key is ignored when the key has been given a new row in the same epoch). Without one, rows count.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn apply(&mut self, epoch: Epoch, deltas: &[Delta]) -> StorageResult<Delta> {
        self.writer.borrow_mut().apply(epoch, deltas)
    }

    /// Says that what is applied is already the net change of a relation with this key: each row that a key had is deleted when
    /// another takes its place, and no key has two rows at the end of an epoch. Then nothing needs to be read to apply it. True of what
    /// a view's query gives; not of rows that come from outside, where the last of a key wins.
    pub fn trust_input(&mut self) {
        self.writer.borrow_mut().trusted = true;
    }

    /// Says that all changes up to `epoch` have been applied: readers may read at it. Never goes back.
    pub fn complete(&mut self, epoch: Epoch) {
        self.writer.borrow_mut().complete(epoch);
    }

    /// The reading side.
    pub fn reader(&self) -> ViewReader {
        self.writer.borrow().reader()
    }

    /// How many deletes have been dropped because the row that they delete was not there.
    pub fn unmatched_deletes(&self) -> u64 {
        self.writer.borrow().unmatched_deletes()
    }
}

impl ViewReader {
    /// All columns of the relation.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.shared.layout.schema())
    }

    /// The newest epoch that can be read.
    pub fn completed(&self) -> Epoch {
        *self.completed.borrow()
    }

    /// How many rows this worker's share has at the completed epoch.
    pub fn row_count(&self) -> usize {
        usize::try_from(self.shared.rows.load(Ordering::Acquire)).unwrap_or(0)
    }

    /// Returns once `epoch` can be read, or never will be because the view is gone.
    pub async fn wait(&self, epoch: Epoch) {
        // An error says that the writer is gone: the reader then learns from `hold` that there is nothing to read.
        let _ = self.completed.clone().wait_for(|completed| *completed >= epoch).await;
    }

    /// Keeps `epoch` readable until the hold is dropped. None if it is no longer readable, or not yet.
    pub fn hold(&self, epoch: Epoch) -> Option<ViewHold> {
        if epoch > self.completed() {
            return None;
        }
        let generation = self.shared.generations.read().at(epoch)?;
        let layers = generation.layers.read().iter().filter(|layer| layer.epoch() <= epoch).cloned().collect();
        Some(ViewHold { layout: Arc::clone(&self.shared.layout), generation, layers, epoch })
    }
}

impl Generations {
    /// The newest generation that can be read at `epoch`.
    fn at(&self, epoch: Epoch) -> Option<Arc<Generation>> {
        let older = self.older.iter().rev().filter_map(Weak::upgrade);
        let all = [&self.current].into_iter().chain(&self.previous).cloned().chain(older);
        all.into_iter().find(|generation| generation.covers(epoch))
    }
}

impl Generation {
    fn new(base: Epoch, snapshot: Arc<OwnedSnapshot>, blank: bool) -> Arc<Generation> {
        Arc::new(Generation { base, last: OnceLock::new(), snapshot, blank, layers: RwLock::default() })
    }

    fn covers(&self, epoch: Epoch) -> bool {
        self.base <= epoch && self.last.get().is_none_or(|last| epoch <= *last)
    }
}

impl ViewHold {
    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// All rows, with these columns, in batches of about 8,192 rows. Blocks on disk: call it off the async threads.
    pub fn scan(&self, columns: &[usize]) -> Box<dyn Iterator<Item = StorageResult<RecordBatch>> + Send> {
        Box::new(scan::ViewScan::new(
            Arc::clone(&self.layout),
            Arc::clone(&self.generation),
            self.layers.clone(),
            columns.to_vec(),
        ))
    }

    /// The rows with these keys (one array for each key column, in the key's order), with these columns; keys that are not
    /// there give nothing, keys that are given twice give their row once, and a NULL finds the row whose key is NULL. Keys are cast
    /// to the key's types; those that can't be cast without loss are not there.
    ///
    /// # Errors
    /// If state can't be read, or the relation has no key.
    pub fn get(&self, keys: &[ArrayRef], columns: &[usize]) -> StorageResult<RecordBatch> {
        point::get(self, keys, columns)
    }
}

impl StateTable for RefCell<Writer> {
    fn stored(&self) -> Arc<StoredTable> {
        self.borrow().stored()
    }

    fn flush(&self) -> StorageResult<FlushStats> {
        self.borrow_mut().flush()
    }

    /// Layers go by flushing, which comes before this.
    fn evict(&self, bytes: usize) {
        self.borrow_mut().evict(bytes);
    }

    fn memory_bytes(&self) -> usize {
        self.borrow().memory_bytes()
    }

    fn hot_entries(&self) -> usize {
        self.borrow().hot_entries()
    }
}

#[cfg(test)]
mod tests;
