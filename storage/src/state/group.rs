//! Fixed-width values by key: the groups of an aggregate.

use super::EncodedRows;
use crate::error::StorageResult;

/// The place of a group in memory. Valid until the next `end_batch`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u32);

/// A hash table of fixed-width values, write-back over the worker's database. Hashes are those of
/// `thalweg_catalog::hash`; a key is always given with its hash.
pub struct GroupTable {}

impl GroupTable {
    /// The slot of each key, made with an all-zero value where there was none. A made group is not stored until its value is
    /// written with [`value_mut`](Self::value_mut). `slots` is cleared first.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn slots(&mut self, _hashes: &[u64], _keys: &EncodedRows, _slots: &mut Vec<Slot>) -> StorageResult<()> {
        todo!()
    }

    /// The value at a slot.
    #[inline]
    pub fn value(&self, _slot: Slot) -> &[u8] {
        todo!()
    }

    /// The value at a slot, to be changed.
    #[inline]
    pub fn value_mut(&mut self, _slot: Slot) -> &mut [u8] {
        todo!()
    }

    /// The key at a slot.
    #[inline]
    pub fn key(&self, _slot: Slot) -> &[u8] {
        todo!()
    }

    /// The hash of the key at a slot.
    pub fn hash(&self, _slot: Slot) -> u64 {
        todo!()
    }

    /// Removes a group. Its slot is not used again before `end_batch`.
    pub fn remove(&mut self, _slot: Slot) {
        todo!()
    }

    /// Says that no slot is held any more, so that groups can be evicted.
    pub fn end_batch(&mut self) {
        todo!()
    }

    /// Visits every stored group, in memory or not, in no order: (hash, key, value). For rebuilding an index after a restore.
    ///
    /// # Errors
    /// If the database can't be read, or what the visitor returns.
    pub fn for_each(&self, _visit: &mut dyn FnMut(u64, &[u8], &[u8]) -> StorageResult<()>) -> StorageResult<()> {
        todo!()
    }

    /// How many groups there are in memory.
    pub fn len_hot(&self) -> usize {
        todo!()
    }
}
