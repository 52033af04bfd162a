//! The arena of groups: one record for each slot.

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
    bytes: Vec<u8>,
    width: usize,
    /// The length of every key, if they have one.
    key_width: Option<usize>,
    stride: usize,
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
            bytes: Vec::new(),
            width,
            key_width,
            stride,
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
        let at = slot as usize * self.stride;
        &self.bytes[at..at + self.width]
    }

    #[inline]
    pub(super) fn value_mut(&mut self, slot: u32) -> &mut [u8] {
        let at = slot as usize * self.stride;
        &mut self.bytes[at..at + self.width]
    }

    #[inline]
    pub(super) fn hash(&self, slot: u32) -> u64 {
        read_u64(&self.bytes, slot as usize * self.stride + self.width)
    }

    #[inline]
    pub(super) fn flags(&self, slot: u32) -> u8 {
        self.bytes[slot as usize * self.stride + self.width + HASH_BYTES]
    }

    #[inline]
    pub(super) fn flags_mut(&mut self, slot: u32) -> &mut u8 {
        &mut self.bytes[slot as usize * self.stride + self.width + HASH_BYTES]
    }

    #[inline]
    pub(super) fn key(&self, slot: u32) -> &[u8] {
        let at = slot as usize * self.stride + self.width + HASH_BYTES + 1;
        match self.key_width {
            Some(width) => &self.bytes[at..at + width],
            None => {
                let place = read_u64(&self.bytes, at);
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
        let at = slot as usize * self.stride;
        let record = &mut self.bytes[at..at + self.stride];
        record[..self.width].fill(0);
        record[self.width..self.width + HASH_BYTES].copy_from_slice(&hash.to_le_bytes());
        record[self.width + HASH_BYTES] = 0;
        let place = &mut record[self.width + HASH_BYTES + 1..];
        if self.key_width.is_some() {
            place.copy_from_slice(key);
        } else {
            let packed = (self.keys.len() as u64) << LENGTH_BITS | key.len() as u64;
            place.copy_from_slice(&packed.to_le_bytes());
            reserve(&mut self.keys, key.len());
            self.keys.extend_from_slice(key);
        }
        let (bytes, stride, width) = (&self.bytes, self.stride, self.width);
        self.index.insert(hash, slot, |slot| read_u64(bytes, slot as usize * stride + width));
        Ok(slot)
    }

    fn extend(&mut self) -> Result<u32, String> {
        let slot = self.slots();
        if slot >= SLOTS_MAX {
            return Err("there are more groups in memory than slots".to_string());
        }
        reserve(&mut self.bytes, self.stride);
        self.bytes.resize(self.bytes.len() + self.stride, 0);
        Ok(slot as u32)
    }

    /// Slots in use or free.
    fn slots(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Makes a record unfindable. It can still be read until it is freed.
    pub(super) fn detach(&mut self, slot: u32) {
        let (bytes, stride, width) = (&self.bytes, self.stride, self.width);
        let hash_of = |slot: u32| read_u64(bytes, slot as usize * stride + width);
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
        if self.keys_unused < 1 << 16 || self.keys_unused * 2 < self.keys.len() {
            return;
        }
        let mut packed = Vec::with_capacity(self.keys.len() - self.keys_unused);
        let slots = self.index.slots().collect::<Vec<_>>();
        for slot in slots {
            let start = packed.len() as u64;
            let key = self.key(slot);
            let place = start << LENGTH_BITS | key.len() as u64;
            packed.extend_from_slice(key);
            let at = slot as usize * self.stride + self.width + HASH_BYTES + 1;
            self.bytes[at..at + 8].copy_from_slice(&place.to_le_bytes());
        }
        self.keys = packed;
        self.keys_unused = 0;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.index.memory_bytes() + self.bytes.capacity() + self.keys.capacity() + self.free.capacity() * size_of::<u32>()
    }

    /// Drops clean records until about `bytes` are held, those first that were not used since the last time. Gives
    /// `note` the hashes of those that went, and says whether any did; then all slots are others.
    pub(super) fn evict(&mut self, bytes: usize, mut note: impl FnMut(u64)) -> bool {
        let (count, memory) = (self.index.len(), self.memory_bytes());
        let clean = self.index.slots().map(|slot| self.flags(slot)).filter(|flags| flags & DIRTY == 0);
        let (idle, used) =
            clean.fold((0, 0), |(idle, used), flags| if flags & USED == 0 { (idle + 1, used) } else { (idle, used + 1) });
        let keep = (bytes as u128 * count as u128 / memory.max(1) as u128) as usize;
        // How many go of those that were not used, and of those that were.
        let mut drop_idle = count.saturating_sub(keep).min(idle);
        let mut drop_used = (count.saturating_sub(keep) - drop_idle).min(used);
        if drop_idle + drop_used == 0 {
            return false;
        }
        let mut kept = Records::new(self.width, self.key_width);
        kept.index = SlotIndex::with_capacity(count - drop_idle - drop_used);
        huge_pages::regrow(&mut kept.bytes, (count - drop_idle - drop_used) * self.stride);
        for slot in 0..self.slots() as u32 {
            let flags = self.flags(slot);
            let quota = if flags & USED == 0 { &mut drop_idle } else { &mut drop_used };
            if flags & DIRTY == 0 && *quota > 0 && flags != 0 {
                *quota -= 1;
                note(self.hash(slot));
            } else if flags != 0 {
                kept.adopt(self, slot);
            }
        }
        *self = kept;
        true
    }

    /// Copies a record of another arena.
    fn adopt(&mut self, from: &Records, slot: u32) {
        let at = slot as usize * self.stride;
        let own = self.slots() as u32;
        reserve(&mut self.bytes, self.stride);
        self.bytes.extend_from_slice(&from.bytes[at..at + self.stride]);
        *self.flags_mut(own) &= !USED;
        if self.key_width.is_none() {
            let key = from.key(slot);
            let place = (self.keys.len() as u64) << LENGTH_BITS | key.len() as u64;
            let at = own as usize * self.stride + self.width + HASH_BYTES + 1;
            self.bytes[at..at + 8].copy_from_slice(&place.to_le_bytes());
            reserve(&mut self.keys, key.len());
            self.keys.extend_from_slice(key);
        }
        let (bytes, stride, width) = (&self.bytes, self.stride, self.width);
        let hash_of = |slot: u32| read_u64(bytes, slot as usize * stride + width);
        self.index.insert(hash_of(own), own, hash_of);
    }
}

/// Makes room for `more` bytes, by doubling while small and by a quarter when large: what is reserved counts against the budget.
#[inline]
fn reserve(bytes: &mut Vec<u8>, more: usize) {
    if bytes.capacity() - bytes.len() < more {
        let len = bytes.len();
        let room = if len < 1 << 20 { len.max(more * 4) } else { (len / 4).max(more) };
        huge_pages::regrow(bytes, len + room);
    }
}
