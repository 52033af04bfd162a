//! The records of groups, one for each slot.

use super::arena::{Arena, growth};
use crate::state::huge_pages;
use crate::state::slot_index::SlotIndex;

/// The group is there.
pub(super) const PRESENT: u8 = 1;
/// The database has an entry for the key, perhaps of an older value.
pub(super) const STORED: u8 = 2;
/// The database has something else than memory.
pub(super) const DIRTY: u8 = 4;
/// Asked for since the last eviction.
pub(super) const USED: u8 = 8;
/// Made in this batch.
pub(super) const FRESH: u8 = 16;

/// Keys that differ in length lie in an arena of their own; a record holds where: 40 bits of offset, 24 of length.
const LENGTH_BITS: u32 = 24;
const HASH_BYTES: usize = size_of::<u64>();
const SLOTS_MAX: usize = u32::MAX as usize - 1;

/// Records of `value | hash | flags | key`, by slot. The flags of a slot that is not in use are 0.
pub(super) struct Records {
    pub(super) index: SlotIndex,
    arena: Arena,
    width: usize,
    /// The length of every key, if they have one.
    key_width: Option<usize>,
    keys: Vec<u8>,
    /// Bytes of `keys` that no record points to.
    keys_unused: usize,
    free: Vec<u32>,
}

#[inline]
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Whether two keys are the same. Short ones, an integer above all, are compared as words, without a call.
#[inline]
fn same_bytes(a: &[u8], b: &[u8]) -> bool {
    match a.len() {
        8..=16 if b.len() == a.len() => {
            let last = a.len() - 8;
            read_u64(a, 0) == read_u64(b, 0) && read_u64(a, last) == read_u64(b, last)
        }
        _ => a == b,
    }
}

impl Records {
    pub(super) fn new(width: usize, key_width: Option<usize>) -> Records {
        let stride = width + HASH_BYTES + 1 + key_width.unwrap_or(size_of::<u64>());
        Records {
            index: SlotIndex::default(),
            arena: Arena::new(stride),
            width,
            key_width,
            keys: Vec::new(),
            keys_unused: 0,
            free: Vec::new(),
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    #[inline]
    pub(super) fn value(&self, slot: u32) -> &[u8] {
        &self.arena.record(slot)[..self.width]
    }

    #[inline]
    pub(super) fn value_mut(&mut self, slot: u32) -> &mut [u8] {
        &mut self.arena.record_mut(slot)[..self.width]
    }

    #[inline]
    pub(super) fn hash(&self, slot: u32) -> u64 {
        read_u64(self.arena.record(slot), self.width)
    }

    #[inline]
    pub(super) fn flags(&self, slot: u32) -> u8 {
        self.arena.record(slot)[self.width + HASH_BYTES]
    }

    #[inline]
    pub(super) fn flags_mut(&mut self, slot: u32) -> &mut u8 {
        &mut self.arena.record_mut(slot)[self.width + HASH_BYTES]
    }

    /// Where the key starts in a record, or the place of one that lies elsewhere.
    #[inline]
    fn key_at(&self) -> usize {
        self.width + HASH_BYTES + 1
    }

    #[inline]
    pub(super) fn key(&self, slot: u32) -> &[u8] {
        let record = self.arena.record(slot);
        match self.key_width {
            Some(_) => &record[self.key_at()..],
            None => {
                let place = read_u64(record, self.key_at());
                let start = (place >> LENGTH_BITS) as usize;
                &self.keys[start..start + (place & ((1 << LENGTH_BITS) - 1)) as usize]
            }
        }
    }

    /// Whether the record of a slot is this key's.
    #[inline]
    pub(super) fn is(&self, slot: u32, hash: u64, key: &[u8]) -> bool {
        self.hash(slot) == hash && same_bytes(self.key(slot), key)
    }

    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.index.find(hash, |slot| self.is(slot, hash, key))
    }

    /// A record with an all-zero value and no flags, for a key that has none.
    pub(super) fn insert(&mut self, hash: u64, key: &[u8]) -> Result<u32, String> {
        match self.key_width {
            Some(width) if key.len() != width => return Err(format!("a key has {} bytes instead of {width}", key.len())),
            None if key.len() >> LENGTH_BITS != 0 => return Err(format!("a key of {} bytes is too long", key.len())),
            _ => {}
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.extend()?,
        };
        let (width, key_at) = (self.width, self.key_at());
        let record = self.arena.record_mut(slot);
        record[..width].fill(0);
        record[width..width + HASH_BYTES].copy_from_slice(&hash.to_le_bytes());
        record[width + HASH_BYTES] = 0;
        let place = &mut record[key_at..];
        if self.key_width.is_some() {
            place.copy_from_slice(key);
        } else {
            place.copy_from_slice(&packed(self.keys.len(), key.len()));
            reserve(&mut self.keys, key.len());
            self.keys.extend_from_slice(key);
        }
        self.enter(hash, slot);
        Ok(slot)
    }

    /// Makes a record findable.
    #[inline]
    fn enter(&mut self, hash: u64, slot: u32) {
        let (arena, width) = (&self.arena, self.width);
        self.index.insert(hash, slot, |slot| read_u64(arena.record(slot), width));
    }

    fn extend(&mut self) -> Result<u32, String> {
        let slot = self.arena.len();
        if slot >= SLOTS_MAX {
            return Err("there are more groups in memory than slots".to_string());
        }
        self.arena.push();
        Ok(slot as u32)
    }

    /// Makes a record unfindable. It can still be read until it is freed.
    pub(super) fn detach(&mut self, slot: u32) {
        let (arena, width) = (&self.arena, self.width);
        let hash_of = |slot: u32| read_u64(arena.record(slot), width);
        self.index.remove(hash_of(slot), slot, hash_of);
    }

    /// Gives a detached record's slot to the next insert.
    pub(super) fn free(&mut self, slot: u32) {
        if self.key_width.is_none() {
            self.keys_unused += self.key(slot).len();
        }
        self.free.push(slot);
    }

    /// Packs keys of differing lengths once most of their bytes are unused.
    pub(super) fn tidy(&mut self) {
        if self.keys_unused >= 1 << 16 && self.keys_unused * 2 >= self.keys.len() {
            self.pack_keys();
        }
    }

    fn pack_keys(&mut self) {
        let mut keys = Vec::with_capacity(self.keys.len() - self.keys_unused);
        let key_at = self.key_at();
        for slot in self.index.slots().collect::<Vec<_>>() {
            let key = self.key(slot);
            let place = packed(keys.len(), key.len());
            keys.extend_from_slice(key);
            self.arena.record_mut(slot)[key_at..].copy_from_slice(&place);
        }
        self.keys = keys;
        self.keys_unused = 0;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.arena.memory_bytes() + self.keys.capacity() + self.free.capacity() * size_of::<u32>()
    }

    /// Drops clean records until about `bytes` are held, those first that were not used since the last time. Gives
    /// `note` the hashes of those that went, and says whether any did; then all slots are others. Takes no memory for records on
    /// the way: it is called when there is none to spare.
    pub(super) fn evict(&mut self, bytes: usize, mut note: impl FnMut(u64)) -> bool {
        let count = self.index.len();
        let clean = self.index.slots().map(|slot| self.flags(slot)).filter(|flags| flags & DIRTY == 0);
        let (idle, used) =
            clean.fold((0, 0), |(idle, used), flags| if flags & USED == 0 { (idle + 1, used) } else { (idle, used + 1) });
        let each = self.arena.stride() + self.keys.len() / count.max(1);
        let keep = SlotIndex::slots_within(bytes, each);
        // How many go of those that were not used, and of those that were.
        let mut drop_idle = count.saturating_sub(keep).min(idle);
        let mut drop_used = (count.saturating_sub(keep) - drop_idle).min(used);
        if drop_idle + drop_used == 0 {
            return false;
        }
        self.index = SlotIndex::default();
        self.free = Vec::new();
        let mut kept = 0;
        for slot in 0..self.arena.len() as u32 {
            let flags = self.flags(slot);
            let quota = if flags & USED == 0 { &mut drop_idle } else { &mut drop_used };
            if flags & DIRTY == 0 && *quota > 0 && flags != 0 {
                *quota -= 1;
                note(self.hash(slot));
            } else if flags != 0 {
                self.arena.copy(slot, kept);
                *self.flags_mut(kept) &= !USED;
                kept += 1;
            }
        }
        self.arena.truncate(kept as usize);
        self.index = SlotIndex::with_capacity(kept as usize);
        (0..kept).for_each(|slot| self.enter(self.hash(slot), slot));
        if self.key_width.is_none() {
            self.keys_unused = self.keys.len() - self.index.slots().map(|slot| self.key(slot).len()).sum::<usize>();
            self.pack_keys();
        }
        true
    }
}

/// The place of a key, as a record holds it.
fn packed(start: usize, length: usize) -> [u8; 8] {
    ((start as u64) << LENGTH_BITS | length as u64).to_le_bytes()
}

/// Makes room for `more` bytes.
#[inline]
fn reserve(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() < more {
        let len = bytes.len();
        huge_pages::regrow(bytes, len + growth(len, more));
    }
}
