//! Fixed-width values by key: the groups of an aggregate.
//!
//! A group is one record in an arena: value, hash, flags, key (or where the key lies, if keys differ in length). Records of one
//! group lie together, so a group that is not in the processor's cache costs one or two misses: a bucket and a record. Memory is
//! about 45 bytes for a group with an integer key and a 16-byte value.
//!
//! Bounded by `OperatorState::shrink`, which writes what is dirty and evicts what was not used since the last time (the clock
//! algorithm with one bit). A removed group whose old value is still stored stays as a mark until the next flush deletes it.

use super::EncodedRows;
use super::database::{BatchWriter, Database, stored_key};
use super::directory::StoredTable;
use super::known_keys::{self, KnownKeys};
use super::{FlushStats, RowCodec, StateTable};
use crate::error::{StorageError, StorageResult};
use records::{DIRTY, FRESH, PRESENT, Records, STORED, USED};
use std::cell::{Cell, UnsafeCell};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_catalog::VNode;

mod arena;
mod records;

/// How many rows are looked up together.
const PIECE_ROWS: usize = 256;
/// No slot.
const NONE: u32 = u32::MAX;

/// The place of a group in memory. Valid until the next `end_batch`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u32);

/// A hash table of fixed-width values, write-back over the worker's database. Hashes are those of
/// `thalweg_catalog::hash` over the key's columns; a key is always given with its hash.
pub struct GroupTable {
    shared: Rc<SharedGroups>,
}

/// What the operator's handle and its `OperatorState` both reach.
///
/// STATE-1: from `slots` to `end_batch` only the handle touches `groups`, and references into it live only then. `OperatorState`
/// panics if it is called in between.
pub(crate) struct SharedGroups {
    groups: UnsafeCell<Groups>,
    busy: Cell<bool>,
}

struct Groups {
    database: Arc<Database>,
    table: Arc<StoredTable>,
    codec: RowCodec,
    records: Records,
    /// Slots to be written or deleted.
    dirty: Vec<u32>,
    /// Slots made in this batch; those that were not written are dropped at its end.
    fresh: Vec<u32>,
    /// Slots removed in this batch, to be used again after it.
    dead: Vec<u32>,
    /// Groups that are there, in memory.
    present: usize,
    /// What may be stored of what is not in memory. None if the table was restored: anything may.
    evicted: Option<KnownKeys>,
}

impl GroupTable {
    pub(crate) fn open(database: Arc<Database>, table: Arc<StoredTable>) -> StorageResult<(GroupTable, Rc<SharedGroups>)> {
        let spec = &table.spec;
        let width = spec.value.iter().try_fold(0, |sum, field| Some(sum + super::inspect::value_width(field.data_type())?));
        let width = width.ok_or_else(|| StorageError::Shape {
            table: table.path(),
            reason: "a value column is not of fixed width".to_string(),
        })?;
        let codec = RowCodec::new(&spec.key)?;
        let groups = Groups {
            records: Records::new(width, codec.fixed_width()),
            evicted: database.is_empty(table.table_id)?.then(KnownKeys::default),
            codec,
            database,
            table,
            dirty: Vec::new(),
            fresh: Vec::new(),
            dead: Vec::new(),
            present: 0,
        };
        let shared = Rc::new(SharedGroups { groups: UnsafeCell::new(groups), busy: Cell::new(false) });
        Ok((GroupTable { shared: Rc::clone(&shared) }, shared))
    }

    /// For reading while a batch is on.
    #[inline]
    fn groups(&self) -> &Groups {
        assert!(self.shared.busy.get(), "STATE-1: slots are valid only until end_batch");
        // SAFETY: STATE-1: busy, so nothing but this handle reaches the groups, and `&self` lets the handle only read.
        unsafe { &*self.shared.groups.get() }
    }

    /// For changing while a batch is on.
    #[inline]
    fn groups_mut(&mut self) -> &mut Groups {
        assert!(self.shared.busy.get(), "STATE-1: slots are valid only until end_batch");
        // SAFETY: STATE-1: busy, so nothing but this handle reaches the groups, and `&mut self` makes this the only reference.
        unsafe { &mut *self.shared.groups.get() }
    }

    /// The slot of each key, made with an all-zero value where there was none. A made group is not stored until its value is
    /// written with [`value_mut`](Self::value_mut). `slots` is cleared first.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn slots(&mut self, hashes: &[u64], keys: &EncodedRows, slots: &mut Vec<Slot>) -> StorageResult<()> {
        self.shared.busy.set(true);
        slots.clear();
        self.groups_mut().slots(hashes, keys, slots)
    }

    /// The value at a slot.
    #[inline]
    pub fn value(&self, slot: Slot) -> &[u8] {
        self.groups().records.value(slot.0)
    }

    /// The value at a slot, to be changed.
    #[inline]
    pub fn value_mut(&mut self, slot: Slot) -> &mut [u8] {
        let groups = self.groups_mut();
        let flags = groups.records.flags_mut(slot.0);
        if *flags & (PRESENT | DIRTY) != PRESENT | DIRTY {
            groups.present += usize::from(*flags & PRESENT == 0);
            if *flags & DIRTY == 0 {
                groups.dirty.push(slot.0);
            }
            *flags |= PRESENT | DIRTY;
        }
        groups.records.value_mut(slot.0)
    }

    /// The key at a slot.
    #[inline]
    pub fn key(&self, slot: Slot) -> &[u8] {
        self.groups().records.key(slot.0)
    }

    /// The hash of the key at a slot.
    pub fn hash(&self, slot: Slot) -> u64 {
        self.groups().records.hash(slot.0)
    }

    /// Removes a group. Its slot is not used again before `end_batch`.
    pub fn remove(&mut self, slot: Slot) {
        self.groups_mut().remove(slot.0);
    }

    /// Says that no slot is held any more, so that groups can be evicted.
    pub fn end_batch(&mut self) {
        if self.shared.busy.get() {
            self.groups_mut().end_batch();
            self.shared.busy.set(false);
        }
    }

    /// Visits every stored group, in memory or not, in no order: (hash, key, value). For rebuilding an index after a restore.
    ///
    /// # Errors
    /// If the database can't be read, or what the visitor returns.
    pub fn for_each(&self, visit: &mut dyn FnMut(u64, &[u8], &[u8]) -> StorageResult<()>) -> StorageResult<()> {
        let was_busy = self.shared.busy.replace(true);
        let visited = self.groups().for_each(visit);
        self.shared.busy.set(was_busy);
        visited
    }

    /// How many groups there are in memory.
    pub fn len_hot(&self) -> usize {
        // SAFETY: a read of one number; no reference outlives the expression, and no other thread has the cell.
        unsafe { (*self.shared.groups.get()).present }
    }
}

impl Groups {
    fn slots(&mut self, hashes: &[u64], keys: &EncodedRows, slots: &mut Vec<Slot>) -> StorageResult<()> {
        if hashes.len() != keys.len() {
            return Err(self.shape(format!("{} keys come with {} hashes", keys.len(), hashes.len())));
        }
        slots.reserve(hashes.len());
        let mut missing = Vec::new();
        for (piece, hashes) in hashes.chunks(PIECE_ROWS).enumerate() {
            let first = slots.len();
            // First all buckets, then all records, then what is different: so the processor waits for many cache lines at once.
            slots.extend(hashes.iter().map(|hash| Slot(self.records.index.guess(*hash).unwrap_or(NONE))));
            let slots = &mut slots[first..];
            for (slot, hash) in slots.iter_mut().zip(hashes) {
                if slot.0 != NONE && self.records.hash(slot.0) != *hash {
                    slot.0 = NONE;
                }
            }
            for (row, (slot, hash)) in slots.iter_mut().zip(hashes).enumerate() {
                slot.0 = self.slot(slot.0, *hash, keys.row(piece * PIECE_ROWS + row), &mut missing)?;
            }
        }
        self.load(&missing)
    }

    /// The slot of a key, which may be the guessed one.
    #[inline]
    fn slot(&mut self, guess: u32, hash: u64, key: &[u8], missing: &mut Vec<u32>) -> StorageResult<u32> {
        let right = guess != NONE && self.is_in_use(guess) && self.records.is(guess, hash, key);
        let found = if right { Some(guess) } else { self.records.find(hash, key) };
        let Some(slot) = found else {
            let made = self.make(hash, key)?;
            if self.evicted.as_ref().is_none_or(|evicted| evicted.may_contain(hash)) {
                missing.push(made);
            }
            return Ok(made);
        };
        let flags = self.records.flags_mut(slot);
        *flags |= USED;
        if *flags & (PRESENT | STORED) == STORED { self.make_again(slot) } else { Ok(slot) }
    }

    /// Whether a slot that was guessed at the start is still that of its key: it may have got another since.
    #[inline]
    fn is_in_use(&self, slot: u32) -> bool {
        self.records.flags(slot) & (PRESENT | STORED | FRESH) != 0
    }

    /// A new group with an all-zero value.
    fn make(&mut self, hash: u64, key: &[u8]) -> StorageResult<u32> {
        let slot = self.records.insert(hash, key).map_err(|reason| self.shape(reason))?;
        *self.records.flags_mut(slot) = FRESH | USED;
        self.fresh.push(slot);
        Ok(slot)
    }

    /// A group in the place of one that was removed and whose old value is still stored. If it was removed in this batch its slot
    /// may still be held, so it gets another.
    fn make_again(&mut self, removed: u32) -> StorageResult<u32> {
        if *self.records.flags_mut(removed) & FRESH != 0 {
            return Ok(removed);
        }
        let (hash, key) = (self.records.hash(removed), self.records.key(removed).to_vec());
        self.records.detach(removed);
        *self.records.flags_mut(removed) = 0;
        self.dead.push(removed);
        let slot = self.make(hash, &key)?;
        *self.records.flags_mut(slot) |= STORED | DIRTY;
        self.dirty.push(slot);
        Ok(slot)
    }

    /// Reads the values of groups that were not in memory.
    fn load(&mut self, missing: &[u32]) -> StorageResult<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let keys = missing.iter().map(|slot| self.stored_key(*slot)).collect::<Vec<_>>();
        let database = Arc::clone(&self.database);
        database.get_many(&keys, None, |place, value| {
            if let Some(value) = value {
                let slot = missing[place];
                self.check_width(value)?;
                self.records.value_mut(slot).copy_from_slice(value);
                *self.records.flags_mut(slot) |= PRESENT | STORED;
                self.present += 1;
            }
            Ok(())
        })
    }

    fn stored_key(&self, slot: u32) -> Vec<u8> {
        stored_key(self.table.table_id, VNode::of_hash(self.records.hash(slot)), self.records.key(slot), &[])
    }

    fn check_width(&self, value: &[u8]) -> StorageResult<()> {
        if value.len() == self.records.width() {
            return Ok(());
        }
        Err(self.shape(format!("a stored value has {} bytes instead of {}", value.len(), self.records.width())))
    }

    fn shape(&self, reason: String) -> StorageError {
        StorageError::Shape { table: self.table.path(), reason }
    }

    fn remove(&mut self, slot: u32) {
        let flags = self.records.flags_mut(slot);
        let before = *flags;
        self.present -= usize::from(before & PRESENT != 0);
        *flags &= !(PRESENT | FRESH);
        if before & STORED == 0 {
            self.records.detach(slot);
            *self.records.flags_mut(slot) = 0;
            self.dead.push(slot);
        } else if before & DIRTY == 0 {
            *flags |= DIRTY;
            self.dirty.push(slot);
        }
    }

    fn end_batch(&mut self) {
        for slot in std::mem::take(&mut self.fresh) {
            let flags = self.records.flags_mut(slot);
            let made = *flags & FRESH != 0;
            *flags &= !FRESH;
            if made && *flags & (PRESENT | STORED) == 0 {
                *flags = 0;
                self.records.detach(slot);
                self.dead.push(slot);
            }
        }
        for slot in self.dead.drain(..) {
            self.records.free(slot);
        }
        self.records.tidy();
        // Slots that die stay in the dirty list, where their flags tell that there is nothing to do.
        if self.dirty.len() > 4096 + 2 * self.records.index.len() {
            self.list_dirty();
        }
    }

    fn list_dirty(&mut self) {
        let dirty = self.records.index.slots().filter(|slot| self.records.flags(*slot) & DIRTY != 0);
        self.dirty = dirty.collect();
    }

    fn for_each(&self, visit: &mut dyn FnMut(u64, &[u8], &[u8]) -> StorageResult<()>) -> StorageResult<()> {
        for slot in self.records.index.slots() {
            if self.records.flags(slot) & PRESENT != 0 {
                visit(self.records.hash(slot), self.records.key(slot), self.records.value(slot))?;
            }
        }
        super::scan_hashed(
            &self.database,
            &self.table,
            &self.codec,
            |_, rest| Ok(rest.len()),
            |hash, key, value| {
                if self.records.find(hash, key).is_some() {
                    return Ok(());
                }
                self.check_width(value)?;
                visit(hash, key, value)
            },
        )
    }
}

impl SharedGroups {
    /// For the `OperatorState`.
    fn with<T>(&self, call: impl FnOnce(&mut Groups) -> T) -> T {
        assert!(!self.busy.get(), "STATE-1: an operator's state is flushed only after end_batch");
        // SAFETY: STATE-1: not busy, so the handle has lent no reference, and being busy keeps the handle from lending one (`call` does
        // not reach the operator anyway).
        self.busy.set(true);
        let result = call(unsafe { &mut *self.groups.get() });
        self.busy.set(false);
        result
    }
}

impl StateTable for SharedGroups {
    fn stored(&self) -> Arc<StoredTable> {
        self.with(|groups| Arc::clone(&groups.table))
    }

    fn flush(&self) -> StorageResult<FlushStats> {
        self.with(|groups| {
            let mut writer = BatchWriter::new(&groups.database);
            let table = groups.table.table_id;
            let mut deleted = Vec::new();
            for &slot in &groups.dirty {
                if groups.records.flags(slot) & DIRTY == 0 {
                    continue;
                }
                let (vnode, key) = (VNode::of_hash(groups.records.hash(slot)), groups.records.key(slot));
                if groups.records.flags(slot) & PRESENT != 0 {
                    writer.put(table, vnode, key, &[], groups.records.value(slot))?;
                    let flags = groups.records.flags_mut(slot);
                    *flags = *flags & !DIRTY | STORED;
                } else {
                    writer.delete(table, vnode, key, &[])?;
                    *groups.records.flags_mut(slot) = 0;
                    deleted.push(slot);
                }
            }
            groups.dirty = Vec::new();
            for slot in deleted {
                groups.records.detach(slot);
                groups.records.free(slot);
            }
            writer.finish()
        })
    }

    fn evict(&self, bytes: usize) {
        self.with(|groups| {
            let known = known_keys::within(&mut groups.evicted, bytes);
            let evicted = &mut groups.evicted;
            let note = |hash| {
                if let Some(evicted) = evicted {
                    evicted.insert(hash);
                }
            };
            if groups.records.evict(bytes.saturating_sub(known), note) {
                groups.present = groups.records.index.slots().filter(|s| groups.records.flags(*s) & PRESENT != 0).count();
                groups.list_dirty();
            }
        });
    }

    fn memory_bytes(&self) -> usize {
        // SAFETY: reads lengths and capacities only, which no lent reference covers; no other thread has the cell.
        let groups = unsafe { &*self.groups.get() };
        groups.records.memory_bytes()
            + groups.evicted.as_ref().map_or(0, KnownKeys::memory_bytes)
            + (groups.dirty.capacity() + groups.fresh.capacity()) * size_of::<u32>()
    }

    fn hot_entries(&self) -> usize {
        // SAFETY: as for `memory_bytes`.
        unsafe { (*self.groups.get()).present }
    }
}

#[cfg(test)]
mod tests;
