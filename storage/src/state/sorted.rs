//! Ordered entries by key: the sides of a join, the rows of a top-N group, the values under `MIN`, `MAX` and `DISTINCT`.
//!
//! A key is in memory with all its entries or not at all. Bounded by `OperatorState::shrink`, which writes what is dirty and evicts
//! whole keys that were not used lately. A key that may have been evicted costs a read; that it has no entries is remembered too, so
//! that probing in vain costs one read and not many.
//!
//! A stored key is the key and the number of one of its entries (u32, big-endian), in no order of meaning. A stored value is: count, extra
//! (i64 each), the length of the key (u32), all little-endian, and the sub-key. So rows, which are sub-keys, lie where the database need
//! not move them again: see [`ROWS`](super::database::ROWS).

use super::database::{BatchWriter, Database, damaged, stored_key};
use super::directory::StoredTable;
use super::huge_pages;
use super::known_keys::{self, KnownKeys};
use super::slot_index::SlotIndex;
use super::{FlushStats, RowCodec, StateTable};
use crate::error::StorageResult;
use entries::Entries;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_catalog::VNode;

mod entries;

/// What is kept for an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Entry {
    /// How many copies of the row there are. An entry with 0 is removed.
    pub count: i64,
    /// Whatever else the operator counts: how many partners a row has in a join.
    pub extra: i64,
}

/// For each key an ordered map from sub-key bytes to an [`Entry`], write-back over the worker's database. A key's entries
/// are loaded together when the key is first used.
pub struct SortedTable {
    keys: Rc<RefCell<Keys>>,
}

pub(crate) struct Keys {
    database: Arc<Database>,
    table: Arc<StoredTable>,
    codec: RowCodec,
    index: SlotIndex,
    slots: Vec<KeyEntries>,
    free: Vec<u32>,
    /// Slots whose entries must be written.
    dirty: Vec<u32>,
    /// What keys and entries hold on the heap.
    heap_bytes: usize,
    /// What may be stored of what is not in memory. None if the table was restored: anything may.
    evicted: Option<KnownKeys>,
}

#[derive(Default)]
struct KeyEntries {
    hash: u64,
    /// With the key.
    entries: Entries,
    dirty: bool,
    /// Asked for since the last eviction.
    used: bool,
    /// The slot holds a key.
    taken: bool,
}

/// How many keys are brought into the cache in one go.
const WARM_ROWS: usize = 256;

/// The bytes before the sub-key in a stored value.
const HEAD_BYTES: usize = 20;

/// A stored entry.
pub(crate) struct StoredEntry<'a> {
    pub entry: Entry,
    /// The bytes of the key without the number.
    pub key_bytes: usize,
    pub sub: &'a [u8],
}

impl<'a> StoredEntry<'a> {
    /// Reads a stored value.
    pub(crate) fn of(value: &'a [u8]) -> StorageResult<StoredEntry<'a>> {
        let Some((head, sub)) = value.split_first_chunk::<HEAD_BYTES>() else {
            return Err(damaged(format!("an entry of a sorted table has {} bytes, less than {HEAD_BYTES}", value.len())));
        };
        let number = |at: usize| head[at..at + 8].iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b)) as i64;
        let key_bytes = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
        Ok(StoredEntry { entry: Entry { count: number(0), extra: number(8) }, key_bytes, sub })
    }

    /// Puts it at the end of a buffer.
    fn write(&self, value: &mut Vec<u8>) {
        value.extend_from_slice(&self.entry.count.to_le_bytes());
        value.extend_from_slice(&self.entry.extra.to_le_bytes());
        value.extend_from_slice(&(self.key_bytes as u32).to_le_bytes());
        value.extend_from_slice(self.sub);
    }
}

impl SortedTable {
    pub(crate) fn open(database: Arc<Database>, table: Arc<StoredTable>) -> StorageResult<(SortedTable, Rc<RefCell<Keys>>)> {
        let keys = Rc::new(RefCell::new(Keys {
            codec: RowCodec::new(&table.spec.key)?,
            evicted: database.is_empty(table.table_id)?.then(KnownKeys::default),
            database,
            table,
            index: SlotIndex::default(),
            slots: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            heap_bytes: 0,
        }));
        Ok((SortedTable { keys: Rc::clone(&keys) }, keys))
    }

    /// Brings the keys with these hashes, of those in memory, into the processor's cache: to be called for some hundreds of rows before
    /// they are gone through one by one, when the waits for memory would come one after another. Changes nothing.
    pub fn warm(&self, hashes: &[u64]) {
        let keys = self.keys.borrow();
        let mut slots = [None; WARM_ROWS];
        for hashes in hashes.chunks(WARM_ROWS) {
            for (slot, hash) in slots.iter_mut().zip(hashes) {
                *slot = keys.index.guess(*hash);
            }
            // Loops of reads that don't depend on each other: the processor has many of them under way at once.
            let first_bytes = slots[..hashes.len()].iter().flatten().map(|slot| {
                let key = keys.slots[*slot as usize].entries.key();
                u32::from(key.first().copied().unwrap_or(0))
            });
            std::hint::black_box(first_bytes.sum::<u32>());
        }
    }

    /// Adds to an entry's count; gives the entry before and after. An entry whose count becomes 0 is removed.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn add(&mut self, hash: u64, key: &[u8], sub: &[u8], count: i64) -> StorageResult<(Entry, Entry)> {
        let keys = &mut *self.keys.borrow_mut();
        let slot = keys.fetch_or_make(hash, key)?;
        Ok(keys.change(slot, |entries| entries.update(sub, |entry| entry.count += count)))
    }

    /// The entry, all zero if there is none.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn get(&mut self, hash: u64, key: &[u8], sub: &[u8]) -> StorageResult<Entry> {
        let keys = &mut *self.keys.borrow_mut();
        Ok(keys.fetch(hash, key)?.map_or_else(Entry::default, |entries| entries.get(sub)))
    }

    /// Makes an entry if there is none, with a count of 1, and sets these bits of its `extra`; gives those that were set before.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn mark(&mut self, hash: u64, key: &[u8], sub: &[u8], bits: i64) -> StorageResult<i64> {
        let keys = &mut *self.keys.borrow_mut();
        let slot = keys.fetch_or_make(hash, key)?;
        let (before, _) =
            keys.change(slot, |entries| entries.update(sub, |entry| *entry = Entry { count: 1, extra: entry.extra | bits }));
        Ok(before.extra)
    }

    /// Sets an entry's `extra`. Does nothing if there is no such entry.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn set_extra(&mut self, hash: u64, key: &[u8], sub: &[u8], extra: i64) -> StorageResult<()> {
        let keys = &mut *self.keys.borrow_mut();
        if let Some(slot) = keys.fetch_slot(hash, key)? {
            keys.change(slot, |entries| {
                entries.update(sub, |entry| {
                    if entry.count != 0 {
                        entry.extra = extra;
                    }
                })
            });
        }
        Ok(())
    }

    /// Visits a key's entries in order of their sub-keys until the visitor returns false.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn scan(&mut self, hash: u64, key: &[u8], visit: impl FnMut(&[u8], Entry) -> bool) -> StorageResult<()> {
        if let Some(entries) = self.keys.borrow_mut().fetch(hash, key)? {
            entries.scan(None, visit);
        }
        Ok(())
    }

    /// Like `scan`, from the first sub-key that is greater than `after` on.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn scan_after(
        &mut self,
        hash: u64,
        key: &[u8],
        after: &[u8],
        visit: impl FnMut(&[u8], Entry) -> bool,
    ) -> StorageResult<()> {
        if let Some(entries) = self.keys.borrow_mut().fetch(hash, key)? {
            entries.scan(Some(after), visit);
        }
        Ok(())
    }

    /// The last entry of a key.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn last(&mut self, hash: u64, key: &[u8]) -> StorageResult<Option<(Vec<u8>, Entry)>> {
        let keys = &mut *self.keys.borrow_mut();
        Ok(keys.fetch(hash, key)?.and_then(|entries| entries.last().map(|(sub, entry)| (sub.to_vec(), entry))))
    }

    /// How many entries a key has.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn entries(&mut self, hash: u64, key: &[u8]) -> StorageResult<usize> {
        Ok(self.keys.borrow_mut().fetch(hash, key)?.map_or(0, |entries| entries.live()))
    }

    /// Removes a key with all its entries.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn remove_key(&mut self, hash: u64, key: &[u8]) -> StorageResult<()> {
        let keys = &mut *self.keys.borrow_mut();
        if let Some(slot) = keys.fetch_slot(hash, key)? {
            keys.change(slot, Entries::clear);
        }
        Ok(())
    }

    /// Removes a key's entries whose sub-keys are below `bound`. The sub-key of the first that is left.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn remove_below(&mut self, hash: u64, key: &[u8], bound: &[u8]) -> StorageResult<Option<Vec<u8>>> {
        let keys = &mut *self.keys.borrow_mut();
        let Some(slot) = keys.fetch_slot(hash, key)? else { return Ok(None) };
        Ok(keys.change(slot, |entries| {
            entries.remove_below(bound);
            entries.first().map(<[u8]>::to_vec)
        }))
    }

    /// Visits every stored key once, in memory or not, in no order. For rebuilding an index after a restore.
    ///
    /// # Errors
    /// If the database can't be read, or what the visitor returns.
    pub fn for_each_key(&self, visit: &mut dyn FnMut(u64, &[u8]) -> StorageResult<()>) -> StorageResult<()> {
        let keys = self.keys.borrow();
        for slot in keys.slots.iter().filter(|s| s.entries.live() > 0) {
            visit(slot.hash, slot.entries.key())?;
        }
        let key_bytes = |value: &[u8], _: &[u8]| Ok(StoredEntry::of(value)?.key_bytes);
        super::scan_hashed(&keys.database, &keys.table, &keys.codec, key_bytes, |hash, key, _| {
            if keys.find(hash, key).is_none() { visit(hash, key) } else { Ok(()) }
        })
    }
}

impl Keys {
    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.index.find(hash, |slot| {
            let found = &self.slots[slot as usize];
            found.hash == hash && found.entries.key() == key
        })
    }

    /// The entries of a key, from memory or the database.
    fn fetch(&mut self, hash: u64, key: &[u8]) -> StorageResult<Option<&Entries>> {
        let slot = self.fetch_slot(hash, key)?;
        Ok(slot.map(|slot| &self.slots[slot as usize].entries))
    }

    /// The slot of a key; none only if it has no entries.
    fn fetch_slot(&mut self, hash: u64, key: &[u8]) -> StorageResult<Option<u32>> {
        match self.find(hash, key) {
            Some(slot) => {
                self.slots[slot as usize].used = true;
                Ok(Some(slot))
            }
            None if self.evicted.as_ref().is_some_and(|evicted| !evicted.may_contain(hash)) => Ok(None),
            None => {
                let entries = self.load(hash, key)?;
                Ok(Some(self.insert(hash, entries)))
            }
        }
    }

    fn fetch_or_make(&mut self, hash: u64, key: &[u8]) -> StorageResult<u32> {
        Ok(match self.fetch_slot(hash, key)? {
            Some(slot) => slot,
            None => self.insert(hash, Entries::new(key)),
        })
    }

    fn load(&self, hash: u64, key: &[u8]) -> StorageResult<Entries> {
        let mut entries = Vec::new();
        let prefix = stored_key(self.table.table_id, VNode::of_hash(hash), key, &[]);
        self.database.scan_prefix(&prefix, |stored, value| {
            let found = StoredEntry::of(value)?;
            // Encoded keys are never the start of another, but nothing here depends on it.
            if found.key_bytes == key.len() {
                let number = <[u8; 4]>::try_from(&stored[prefix.len()..]);
                let number = number.map_err(|_| damaged("the number of an entry of a sorted table does not have 4 bytes"))?;
                entries.push((found.sub.to_vec(), u32::from_be_bytes(number), found.entry));
            }
            Ok(true)
        })?;
        Ok(Entries::load(key, entries))
    }

    fn insert(&mut self, hash: u64, entries: Entries) -> u32 {
        self.heap_bytes += entries.memory_bytes();
        let new = KeyEntries { hash, entries, dirty: false, used: true, taken: true };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                if self.slots.len() == self.slots.capacity() {
                    let capacity = self.slots.len() + (self.slots.len() / 2).max(4);
                    huge_pages::regrow(&mut self.slots, capacity);
                }
                self.slots.push(new);
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(hash, slot, |slot| self.slots[slot as usize].hash);
        slot
    }

    /// Changes a key's entries, and keeps account of what that needs.
    fn change<T>(&mut self, slot: u32, change: impl FnOnce(&mut Entries) -> T) -> T {
        let found = &mut self.slots[slot as usize];
        let before = found.entries.memory_bytes();
        let result = change(&mut found.entries);
        self.heap_bytes = self.heap_bytes - before + found.entries.memory_bytes();
        if found.entries.is_blank() && self.evicted.is_some() {
            self.release(slot);
        } else if !found.dirty {
            found.dirty = true;
            self.dirty.push(slot);
        }
        result
    }

    /// Forgets a key whose entries are all stored.
    fn release(&mut self, slot: u32) {
        let hash = self.slots[slot as usize].hash;
        self.index.remove(hash, slot, |slot| self.slots[slot as usize].hash);
        let gone = std::mem::take(&mut self.slots[slot as usize]);
        self.heap_bytes -= gone.entries.memory_bytes();
        self.free.push(slot);
    }

    /// Keeps only the keys that `keep` picks; slots change.
    fn retain(&mut self, mut keep: impl FnMut(&mut KeyEntries) -> bool) {
        self.index = SlotIndex::default();
        self.free = Vec::new();
        self.dirty = Vec::new();
        // In place: this is called when there is no memory to spare.
        self.slots.retain_mut(|found| found.taken && keep(found));
        huge_pages::regrow(&mut self.slots, 0);
        self.heap_bytes = self.slots.iter().map(|found| found.entries.memory_bytes()).sum();
        self.index = SlotIndex::with_capacity(self.slots.len());
        for (slot, found) in self.slots.iter().enumerate() {
            if found.dirty {
                self.dirty.push(slot as u32);
            }
            self.index.insert(found.hash, slot as u32, |slot| self.slots[slot as usize].hash);
        }
    }

    fn memory_bytes(&self) -> usize {
        self.heap_bytes
            + self.slots.capacity() * size_of::<KeyEntries>()
            + self.index.memory_bytes()
            + self.evicted.as_ref().map_or(0, KnownKeys::memory_bytes)
            + (self.free.capacity() + self.dirty.capacity()) * size_of::<u32>()
    }
}

impl StateTable for RefCell<Keys> {
    fn stored(&self) -> Arc<StoredTable> {
        Arc::clone(&self.borrow().table)
    }

    fn flush(&self) -> StorageResult<FlushStats> {
        let keys = &mut *self.borrow_mut();
        let database = Arc::clone(&keys.database);
        let mut writer = BatchWriter::new(&database);
        let table = keys.table.table_id;
        let mut value = Vec::new();
        for slot in std::mem::take(&mut keys.dirty) {
            let found = &mut keys.slots[slot as usize];
            // A slot that was released since stays in the list, and can stand there twice.
            if !std::mem::take(&mut found.dirty) {
                continue;
            }
            let (vnode, before) = (VNode::of_hash(found.hash), found.entries.memory_bytes());
            let key = found.entries.key().to_vec();
            found.entries.flush(|number, entry| match entry {
                Some((sub, entry)) => {
                    value.clear();
                    StoredEntry { entry, key_bytes: key.len(), sub }.write(&mut value);
                    writer.put(table, vnode, &key, &number.to_be_bytes(), &value)
                }
                None => writer.delete(table, vnode, &key, &number.to_be_bytes()),
            })?;
            keys.heap_bytes = keys.heap_bytes - before + found.entries.memory_bytes();
            if found.entries.is_blank() {
                keys.release(slot);
            }
        }
        writer.finish()
    }

    fn evict(&self, bytes: usize) {
        let keys = &mut *self.borrow_mut();
        known_keys::within(&mut keys.evicted, bytes);
        let memory = keys.memory_bytes();
        let mut surplus = memory.saturating_sub(bytes);
        if surplus == 0 {
            return;
        }
        let size = |found: &KeyEntries| size_of::<KeyEntries>() + 12 + found.entries.memory_bytes();
        let idle = keys.slots.iter().filter(|f| f.taken && !f.dirty && !f.used).map(size).sum::<usize>();
        let mut surplus_used = surplus.saturating_sub(idle);
        let mut evicted = keys.evicted.take();
        keys.retain(|found| {
            let quota = if found.used { &mut surplus_used } else { &mut surplus };
            found.used = false;
            if found.dirty || *quota == 0 {
                return true;
            }
            *quota = quota.saturating_sub(size(found));
            if let Some(evicted) = evicted.as_mut().filter(|_| found.entries.live() > 0) {
                evicted.insert(found.hash);
            }
            false
        });
        keys.evicted = evicted;
    }

    fn memory_bytes(&self) -> usize {
        self.borrow().memory_bytes()
    }

    fn hot_entries(&self) -> usize {
        self.borrow().slots.iter().map(|s| s.entries.live()).sum()
    }
}

#[cfg(test)]
mod tests;
