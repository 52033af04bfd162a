//! The one state API. An operator registers *state tables* with its [`OperatorState`] and keeps keyed state nowhere else;
//! what is registered is flushed at checkpoints, restored, evicted, counted and readable by SQL.

pub mod cell;
pub mod codec;
mod database;
pub mod directory;
pub mod group;
mod huge_pages;
pub mod inspect;
mod known_keys;
mod slot_index;
pub mod sorted;
pub mod testing;
pub mod view;

pub use cell::{CellTable, StoredCell};
pub use codec::{EncodedRows, RowCodec};
pub use directory::{StoredTable, TableKind};
pub use group::{GroupTable, Slot};
pub use inspect::{StoreReader, TableScan};
pub use sorted::{Entry, SortedTable};
pub use view::{ViewHold, ViewReader, ViewTable};

pub(crate) use database::{
    BatchWriter, COLUMN_FAMILY, Database, PREFIX_BYTES, ROWS, counter_key, counter_value, damaged, directory_key, vnode_of,
};

#[cfg(test)]
pub(crate) use database::ROWS_BIT;

use crate::error::{StorageError, StorageResult};
use arrow::datatypes::{DataType, Field, SchemaRef};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_catalog::hash::hash_columns;
use thalweg_catalog::{ObjectId, VNode};

/// What a state table holds: names and types, so that it can be read by SQL.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// Its name, unique in its operator: `left`, `groups`.
    pub name: String,
    /// The key's columns.
    pub key: Vec<Field>,
    /// The columns that order the entries of a key, for a sorted table; empty otherwise.
    pub sub: Vec<Field>,
    /// Directions for `sub`: (descending, nulls first) for each; empty for all ascending, nulls last.
    pub sub_order: Vec<(bool, bool)>,
    /// The value's columns. For a group table all of fixed width, little-endian, one after another without gaps.
    pub value: Vec<Field>,
}

/// The state of one operator of one job on one worker. Cheap to clone; not `Send`.
///
/// Its methods are called between the calls of the operator, never from inside a table's visitor nor between a group table's
/// `slots` and `end_batch`.
#[derive(Clone)]
pub struct OperatorState {
    inner: Rc<StateTables>,
}

/// How much a flush wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushStats {
    /// Entries written or deleted.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a registered table holds in memory.
#[derive(Clone, Debug)]
pub struct TableStatistics {
    /// Which table.
    pub table: Arc<StoredTable>,
    /// Its entries in memory.
    pub hot_entries: usize,
    /// The memory that they take, in bytes.
    pub memory_bytes: usize,
}

/// What every kind of table does for its operator's state.
pub(crate) trait StateTable {
    fn stored(&self) -> Arc<StoredTable>;
    /// Writes all that has changed since the last time.
    fn flush(&self) -> StorageResult<FlushStats>;
    /// Drops what is clean until about `bytes` are held.
    fn evict(&self, bytes: usize);
    fn memory_bytes(&self) -> usize;
    fn hot_entries(&self) -> usize;
}

/// The tables that one operator has registered.
pub(crate) struct StateTables {
    database: Arc<Database>,
    job: ObjectId,
    operator_path: String,
    /// The worker's database is about to be copied: nothing but flushes for the checkpoint may be written.
    frozen: Rc<Cell<bool>>,
    tables: RefCell<Vec<Rc<dyn StateTable>>>,
}

impl StateTables {
    pub(crate) fn statistics(&self) -> Vec<TableStatistics> {
        let describe = |table: &Rc<dyn StateTable>| TableStatistics {
            table: table.stored(),
            hot_entries: table.hot_entries(),
            memory_bytes: table.memory_bytes(),
        };
        self.tables.borrow().iter().map(describe).collect()
    }

    pub(crate) fn job(&self) -> ObjectId {
        self.job
    }
}

impl OperatorState {
    pub(crate) fn new(database: Arc<Database>, job: ObjectId, operator_path: &str, frozen: Rc<Cell<bool>>) -> OperatorState {
        let operator_path = operator_path.to_string();
        OperatorState { inner: Rc::new(StateTables { database, job, operator_path, frozen, tables: RefCell::default() }) }
    }

    pub(crate) fn tables(&self) -> &Rc<StateTables> {
        &self.inner
    }

    /// A table of fixed-width values by key.
    ///
    /// # Errors
    /// If the table was stored in another shape, or a value column is not of fixed width.
    pub fn group_table(&self, spec: TableSpec) -> StorageResult<GroupTable> {
        let table = self.register(TableKind::Group, None, spec)?;
        let (handle, shared) = GroupTable::open(Arc::clone(&self.inner.database), table)?;
        self.inner.tables.borrow_mut().push(shared);
        Ok(handle)
    }

    /// A table of ordered entries by key.
    ///
    /// # Errors
    /// If the table was stored in another shape.
    pub fn sorted_table(&self, spec: TableSpec) -> StorageResult<SortedTable> {
        let table = self.register(TableKind::Sorted, None, spec)?;
        let (handle, shared) = SortedTable::open(Arc::clone(&self.inner.database), table)?;
        self.inner.tables.borrow_mut().push(shared);
        Ok(handle)
    }

    /// A small table of bytes by name. Its entries belong to `owner`, by which they move on a rescale.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn cell_table(&self, name: &str, owner: VNode) -> StorageResult<CellTable> {
        let spec = TableSpec {
            name: name.to_string(),
            key: vec![Field::new("name", DataType::Binary, false)],
            sub: Vec::new(),
            sub_order: Vec::new(),
            value: vec![Field::new("value", DataType::Binary, false)],
        };
        let table = self.register(TableKind::Cell, None, spec)?;
        let (handle, shared) = CellTable::open(Arc::clone(&self.inner.database), table, owner)?;
        self.inner.tables.borrow_mut().push(shared);
        Ok(handle)
    }

    /// The rows of a relation by key, readable at an epoch from other threads. An empty key keeps a multiset of rows.
    ///
    /// # Errors
    /// If the table was stored in another shape.
    pub fn view_table(&self, relation: ObjectId, schema: SchemaRef, key: &[usize]) -> StorageResult<ViewTable> {
        let (kind, spec) = view::spec(&schema, key)?;
        let table = self.register(kind, Some(relation), spec)?;
        let (handle, shared) = ViewTable::open(Arc::clone(&self.inner.database), table, schema, key)?;
        self.inner.tables.borrow_mut().push(shared);
        Ok(handle)
    }

    /// Gives a table its place in the directory.
    fn register(&self, kind: TableKind, relation: Option<ObjectId>, spec: TableSpec) -> StorageResult<Arc<StoredTable>> {
        let inner = &self.inner;
        let operator_path = inner.operator_path.clone();
        let wanted = StoredTable { table_id: 0, job: inner.job, operator_path, kind, relation, spec };
        let shape = |reason: &str| StorageError::Shape { table: wanted.path(), reason: reason.to_string() };
        if inner.tables.borrow().iter().any(|t| t.stored().spec.name == wanted.spec.name) {
            return Err(shape("the operator has registered it already"));
        }
        if !wanted.spec.sub_order.is_empty() && wanted.spec.sub_order.len() != wanted.spec.sub.len() {
            return Err(shape("there is not a direction for each sub-key column"));
        }
        inner.database.register(wanted)
    }

    /// Whose state it is.
    pub fn job(&self) -> ObjectId {
        self.inner.job
    }

    /// Writes all that has changed since the last flush to the worker's database.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn flush(&self) -> StorageResult<FlushStats> {
        let mut total = FlushStats::default();
        for table in self.inner.tables.borrow().iter() {
            let written = table.flush()?;
            total.entries += written.entries;
            total.bytes += written.bytes;
        }
        Ok(total)
    }

    /// Flushes, then drops from memory what was not used lately, until no more than `bytes` are held (about a fifth less, so that
    /// it need not be called again at once). While the worker's database is frozen for a checkpoint nothing is written, and only what
    /// has not changed is dropped.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn shrink(&self, bytes: usize) -> StorageResult<()> {
        if self.memory_bytes() <= bytes {
            return Ok(());
        }
        if !self.inner.frozen.get() {
            self.flush()?;
        }
        let total = self.memory_bytes();
        let target = bytes / 5 * 4;
        if total > target {
            for table in self.inner.tables.borrow().iter() {
                let share = target as u128 * table.memory_bytes() as u128 / total as u128;
                table.evict(share as usize);
            }
        }
        Ok(())
    }

    /// The memory that the operator's tables hold, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.inner.tables.borrow().iter().map(|table| table.memory_bytes()).sum()
    }

    /// What each registered table holds.
    pub fn statistics(&self) -> Vec<TableStatistics> {
        self.inner.statistics()
    }
}

/// How many stored keys are decoded at once.
const HASHED_ROWS: usize = 1024;

/// Visits each stored key of a table once, with its hash, and the value of its first entry. `key_bytes` tells how long the key is,
/// from an entry's value and the bytes of its key and sub-key.
///
/// The hash is computed again from the key's columns, since only ten bits of it are stored. That these are the same ten guards
/// against an operator that has used another hash.
pub(crate) fn scan_hashed(
    database: &Database,
    table: &StoredTable,
    codec: &RowCodec,
    key_bytes: impl Fn(&[u8], &[u8]) -> StorageResult<usize>,
    mut visit: impl FnMut(u64, &[u8], &[u8]) -> StorageResult<()>,
) -> StorageResult<()> {
    struct Found {
        vnode: VNode,
        key: Vec<u8>,
        value: Vec<u8>,
    }
    let mut piece: Vec<Found> = Vec::new();
    let mut emit = |piece: &mut Vec<Found>| {
        let columns = codec.decode(piece.iter().map(|f| f.key.as_slice()))?;
        let hashes = hash_columns(&columns, piece.len())?;
        for (found, hash) in piece.drain(..).zip(hashes) {
            if VNode::of_hash(hash) != found.vnode {
                let reason = "a key was stored under a hash that is not its columns' hash".to_string();
                return Err(StorageError::Shape { table: table.path(), reason });
            }
            visit(hash, &found.key, &found.value)?;
        }
        Ok(())
    };
    database.scan_prefix(&table.table_id.to_be_bytes(), |stored, value| {
        let vnode = vnode_of(stored)?;
        let rest = &stored[database::PREFIX_BYTES..];
        let length = key_bytes(value, rest)?;
        let key = rest.get(..length).ok_or_else(|| damaged("a stored key is shorter than its entry says"))?;
        if piece.last().is_none_or(|last| last.key != key || last.vnode != vnode) {
            if piece.len() >= HASHED_ROWS {
                emit(&mut piece)?;
            }
            piece.push(Found { vnode, key: key.to_vec(), value: value.to_vec() });
        }
        Ok(true)
    })?;
    emit(&mut piece)
}
