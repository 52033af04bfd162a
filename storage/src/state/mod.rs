//! The one state API. An operator registers *state tables* with its [`OperatorState`] and keeps keyed state nowhere else;
//! what is registered is flushed at checkpoints, restored, evicted, counted and readable by SQL.

pub mod cell;
pub mod codec;
pub mod group;
pub mod sorted;
pub mod view;

pub use cell::CellTable;
pub use codec::{EncodedRows, RowCodec};
pub use group::{GroupTable, Slot};
pub use sorted::{Entry, SortedTable};
pub use view::{ViewReader, ViewTable};

use crate::error::StorageResult;
use arrow::datatypes::{Field, SchemaRef};
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
#[derive(Clone)]
pub struct OperatorState {}

/// How much a flush wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushStats {
    /// Entries written or deleted.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl OperatorState {
    /// A table of fixed-width values by key.
    ///
    /// # Errors
    /// If the table was stored in another shape, or a value column is not of fixed width.
    pub fn group_table(&self, _spec: TableSpec) -> StorageResult<GroupTable> {
        todo!()
    }

    /// A table of ordered entries by key.
    ///
    /// # Errors
    /// If the table was stored in another shape.
    pub fn sorted_table(&self, _spec: TableSpec) -> StorageResult<SortedTable> {
        todo!()
    }

    /// A small table of bytes by name, all in memory. Its entries belong to `owner`, by which they move on a rescale.
    ///
    /// # Errors
    /// If it can't be read.
    pub fn cell_table(&self, _name: &str, _owner: VNode) -> StorageResult<CellTable> {
        todo!()
    }

    /// The rows of a relation by key, readable at an epoch from other threads. An empty key keeps a multiset of rows.
    ///
    /// # Errors
    /// If the table was stored in another shape.
    pub fn view_table(&self, _relation: ObjectId, _schema: SchemaRef, _key: &[usize]) -> StorageResult<ViewTable> {
        todo!()
    }

    /// Writes all that has changed since the last flush to the worker's database.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn flush(&self) -> StorageResult<FlushStats> {
        todo!()
    }

    /// Flushes, then drops from memory what was not used lately, until about `bytes` are held. Does nothing while the worker's
    /// database is frozen for a checkpoint.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn shrink(&self, _bytes: usize) -> StorageResult<()> {
        todo!()
    }

    /// The memory that the operator's tables hold, in bytes.
    pub fn memory_bytes(&self) -> usize {
        todo!()
    }
}
