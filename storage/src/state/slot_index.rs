//! An open-addressing index from hashes to slots. The rows themselves lie in an arena elsewhere; the caller compares keys.
//!
//! A bucket is one word: the upper half of the hash as a tag, and the slot + 1 (0 is an empty bucket). Linear probing from the
//! low bits of the hash, removal by shifting back, at most 7/10 full. One word for a bucket means one cache miss for most
//! probes, and a batch of probes can be started before any of them is needed.

use super::huge_pages;

/// Slots by hash.
#[derive(Debug, Default)]
pub(crate) struct SlotIndex {
    /// A power of two, or none at all.
    buckets: Vec<u64>,
    used: usize,
}

const TAG: u64 = 0xffff_ffff_0000_0000;

impl SlotIndex {
    /// An index that takes `capacity` slots without growing.
    pub(crate) fn with_capacity(capacity: usize) -> SlotIndex {
        let mut index = SlotIndex::default();
        if capacity > 0 {
            index.buckets = empty_buckets(buckets_for(capacity));
        }
        index
    }

    /// How many slots fit into `bytes`, if each takes `each` bytes besides its place in the index.
    pub(crate) fn slots_within(bytes: usize, each: usize) -> usize {
        let sizes =
            std::iter::successors(Some(8), |buckets| Some(buckets * 2)).take_while(|buckets| buckets * size_of::<u64>() <= bytes);
        sizes.map(|buckets| (buckets * 7 / 10).min((bytes - buckets * size_of::<u64>()) / each)).max().unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<u64>()
    }

    #[inline]
    fn mask(&self) -> usize {
        self.buckets.len().wrapping_sub(1)
    }

    /// The slot whose tag is that of this hash, without a look at its key: a guess to be checked, and hardly ever wrong. A loop of
    /// these lets the processor wait for many buckets at once.
    #[inline]
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        self.find(hash, |_| true)
    }

    /// The slot of this hash for which `equal` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut equal: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut place = hash as usize & self.mask();
        loop {
            let bucket = self.buckets[place];
            if bucket as u32 == 0 {
                return None;
            }
            if bucket & TAG == hash & TAG && equal(bucket as u32 - 1) {
                return Some(bucket as u32 - 1);
            }
            place = (place + 1) & self.mask();
        }
    }

    /// Adds a slot that is not yet there. `hash_of` tells the hashes of the others, for growing.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.used + 1) * 10 > self.buckets.len() * 7 {
            self.grow(hash_of);
        }
        self.place(hash, slot);
        self.used += 1;
    }

    #[inline]
    fn place(&mut self, hash: u64, slot: u32) {
        let mask = self.mask();
        let mut place = hash as usize & mask;
        while self.buckets[place] as u32 != 0 {
            place = (place + 1) & mask;
        }
        self.buckets[place] = hash & TAG | u64::from(slot + 1);
    }

    #[cold]
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let old = std::mem::take(&mut self.buckets);
        self.buckets = empty_buckets(buckets_for(self.used + 1).max(old.len() * 2));
        for bucket in old {
            if bucket as u32 != 0 {
                let slot = bucket as u32 - 1;
                self.place(hash_of(slot), slot);
            }
        }
    }

    /// Takes a slot out, if it is there.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32, hash_of: impl Fn(u32) -> u64) {
        if self.buckets.is_empty() {
            return;
        }
        let mask = self.mask();
        let mut hole = hash as usize & mask;
        loop {
            match self.buckets[hole] as u32 {
                0 => return,
                found if found == slot + 1 => break,
                _ => hole = (hole + 1) & mask,
            }
        }
        self.used -= 1;
        // Shift back whatever a probe could no longer reach across the hole.
        let mut place = hole;
        loop {
            place = (place + 1) & mask;
            let bucket = self.buckets[place];
            if bucket as u32 == 0 {
                break;
            }
            let home = hash_of(bucket as u32 - 1) as usize & mask;
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.buckets[hole] = bucket;
                hole = place;
            }
        }
        self.buckets[hole] = 0;
    }

    /// All slots, in no order.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.buckets.iter().filter(|b| **b as u32 != 0).map(|b| *b as u32 - 1)
    }
}

fn empty_buckets(count: usize) -> Vec<u64> {
    let mut buckets = Vec::with_capacity(count);
    huge_pages::advise(&mut buckets);
    buckets.resize(count, 0);
    buckets
}

fn buckets_for(capacity: usize) -> usize {
    (capacity * 10).div_ceil(7).next_power_of_two().max(8)
}

#[cfg(test)]
mod tests;
