//! Which keys the database may have: a filter in memory, for tables that began empty.
//!
//! What a table writes out on eviction and at flushes it also notes here, at ten bits a key. A key that is new to a table is then
//! known to be new without a read, which is most of the reads of a stream of ever new keys. A table that was restored knows nothing
//! and asks the database. A blocked Bloom filter (Putze, Sanders, Singler 2007), in levels that grow, as in scalable Bloom filters.

/// Bits of a block: one cache line.
const BLOCK_WORDS: usize = 8;
const BITS_A_KEY: usize = 10;
/// Bits that are set for a key: the best for ten bits a key, about 1.5 % of new keys are then taken for known.
const PROBES: u32 = 6;
const FIRST_LEVEL_KEYS: usize = 1 << 12;
const LEVEL_GROWTH: usize = 4;

/// A set of hashes that can say "perhaps" or "no".
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    blocks: Vec<[u64; BLOCK_WORDS]>,
    keys: usize,
    keys_max: usize,
}

impl Level {
    fn new(keys_max: usize) -> Level {
        let blocks = (keys_max * BITS_A_KEY).div_ceil(BLOCK_WORDS * 64);
        Level { blocks: vec![[0; BLOCK_WORDS]; blocks], keys: 0, keys_max }
    }

    /// The block of a hash, and the bits in it.
    #[inline]
    fn bits(&self, hash: u64) -> (usize, u64) {
        // Stretched over the blocks by its upper half; the bits come from all of it, mixed once more.
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let block = ((mixed >> 32) * self.blocks.len() as u64) >> 32;
        (block as usize, (mixed ^ hash.rotate_left(32)).wrapping_mul(0xc2b2_ae3d_27d4_eb4f))
    }

    #[inline]
    fn contains(&self, hash: u64) -> bool {
        let (block, mut bits) = self.bits(hash);
        let block = &self.blocks[block];
        (0..PROBES).all(|_| {
            let set = block[bits as usize >> 6 & (BLOCK_WORDS - 1)] >> (bits & 63) & 1 == 1;
            bits >>= 10;
            set
        })
    }

    #[inline]
    fn insert(&mut self, hash: u64) {
        let (block, mut bits) = self.bits(hash);
        let block = &mut self.blocks[block];
        for _ in 0..PROBES {
            block[bits as usize >> 6 & (BLOCK_WORDS - 1)] |= 1 << (bits & 63);
            bits >>= 10;
        }
        self.keys += 1;
    }
}

impl KnownKeys {
    /// Whether this hash may have been inserted.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.levels.iter().rev().any(|level| level.contains(hash))
    }

    /// Notes a hash.
    pub(crate) fn insert(&mut self, hash: u64) {
        if self.may_contain(hash) {
            return;
        }
        let keys_max = match self.levels.last_mut() {
            Some(level) if level.keys < level.keys_max => {
                level.insert(hash);
                return;
            }
            Some(level) => level.keys_max * LEVEL_GROWTH,
            None => FIRST_LEVEL_KEYS,
        };
        let mut level = Level::new(keys_max);
        level.insert(hash);
        self.levels.push(level);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.levels.iter().map(|level| level.blocks.capacity() * size_of::<[u64; BLOCK_WORDS]>()).sum()
    }
}

/// The memory of a table's filter, which is given up if it would take more than a quarter of what the table may hold.
pub(crate) fn within(known: &mut Option<KnownKeys>, bytes: usize) -> usize {
    let memory = known.as_ref().map_or(0, KnownKeys::memory_bytes);
    // The first level always stays: giving it up frees next to nothing.
    if memory > bytes / 4 && memory > FIRST_LEVEL_KEYS * 2 {
        *known = None;
        return 0;
    }
    memory
}

#[cfg(test)]
mod tests;
