//! Ordered entries by key: the sides of a join, the rows of a top-N group, the values under `MIN`, `MAX` and `DISTINCT`.

use crate::error::StorageResult;

/// What is kept for an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// How many copies of the row there are. An entry with 0 is removed.
    pub count: i64,
    /// Whatever else the operator counts: how many partners a row has in a join.
    pub extra: i64,
}

/// For each key an ordered map from sub-key bytes to an [`Entry`], write-back over the worker's database. A key's entries
/// are loaded together when the key is first used.
pub struct SortedTable {}

impl SortedTable {
    /// Adds to an entry's count; gives the entry before and after. An entry whose count becomes 0 is removed.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn add(&mut self, _hash: u64, _key: &[u8], _sub: &[u8], _count: i64) -> StorageResult<(Entry, Entry)> {
        todo!()
    }

    /// The entry, all zero if there is none.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn get(&mut self, _hash: u64, _key: &[u8], _sub: &[u8]) -> StorageResult<Entry> {
        todo!()
    }

    /// Sets an entry's `extra`. Does nothing if there is no such entry.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn set_extra(&mut self, _hash: u64, _key: &[u8], _sub: &[u8], _extra: i64) -> StorageResult<()> {
        todo!()
    }

    /// Visits a key's entries in order of their sub-keys until the visitor returns false.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn scan(&mut self, _hash: u64, _key: &[u8], _visit: impl FnMut(&[u8], Entry) -> bool) -> StorageResult<()> {
        todo!()
    }

    /// Like `scan`, from the first sub-key that is greater than `after` on.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn scan_after(
        &mut self,
        _hash: u64,
        _key: &[u8],
        _after: &[u8],
        _visit: impl FnMut(&[u8], Entry) -> bool,
    ) -> StorageResult<()> {
        todo!()
    }

    /// The last entry of a key.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn last(&mut self, _hash: u64, _key: &[u8]) -> StorageResult<Option<(Vec<u8>, Entry)>> {
        todo!()
    }

    /// How many entries a key has.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn entries(&mut self, _hash: u64, _key: &[u8]) -> StorageResult<usize> {
        todo!()
    }

    /// Removes a key with all its entries.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn remove_key(&mut self, _hash: u64, _key: &[u8]) -> StorageResult<()> {
        todo!()
    }

    /// Visits every stored key once, in memory or not, in no order. For rebuilding an index after a restore.
    ///
    /// # Errors
    /// If the database can't be read, or what the visitor returns.
    pub fn for_each_key(&self, _visit: &mut dyn FnMut(u64, &[u8]) -> StorageResult<()>) -> StorageResult<()> {
        todo!()
    }
}
