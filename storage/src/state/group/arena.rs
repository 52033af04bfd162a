//! Records of one length, by slot, in chunks: growing moves none of them, and what is cut off is given back at once.

use crate::state::huge_pages;

/// About how many bytes a full chunk has: a few large pages.
const CHUNK_BYTES: usize = 8 << 20;

/// Records of `stride` bytes.
pub(super) struct Arena {
    stride: usize,
    /// A chunk has two to this many slots.
    slot_bits: u32,
    /// All are full but the last. The first grows as it is filled, so that a small table stays small; others are made whole.
    chunks: Vec<Vec<u8>>,
    len: usize,
}

impl Arena {
    pub(super) fn new(stride: usize) -> Arena {
        Arena { stride, slot_bits: (CHUNK_BYTES / stride).max(1).ilog2(), chunks: Vec::new(), len: 0 }
    }

    /// The length of a record.
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// How many slots there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn chunk_bytes(&self) -> usize {
        self.stride << self.slot_bits
    }

    #[inline]
    fn place(&self, slot: u32) -> (usize, usize) {
        let chunk = slot >> self.slot_bits;
        (chunk as usize, (slot - (chunk << self.slot_bits)) as usize * self.stride)
    }

    #[inline]
    pub(super) fn record(&self, slot: u32) -> &[u8] {
        let (chunk, at) = self.place(slot);
        &self.chunks[chunk][at..at + self.stride]
    }

    #[inline]
    pub(super) fn record_mut(&mut self, slot: u32) -> &mut [u8] {
        let (chunk, at) = self.place(slot);
        &mut self.chunks[chunk][at..at + self.stride]
    }

    /// Adds a slot with an all-zero record.
    pub(super) fn push(&mut self) {
        let full = self.chunk_bytes();
        if self.chunks.last().is_none_or(|chunk| chunk.len() == full) {
            let mut chunk = Vec::new();
            huge_pages::regrow(&mut chunk, if self.chunks.is_empty() { 0 } else { full });
            self.chunks.push(chunk);
        }
        let chunk = self.chunks.last_mut().expect("one was pushed if there was none");
        if chunk.capacity() - chunk.len() < self.stride {
            let grown = chunk.len() + growth(chunk.len(), self.stride);
            huge_pages::regrow(chunk, grown.min(full));
        }
        chunk.resize(chunk.len() + self.stride, 0);
        self.len += 1;
    }

    /// Copies a record over another.
    pub(super) fn copy(&mut self, from: u32, to: u32) {
        let ((from_chunk, from_at), (to_chunk, to_at)) = (self.place(from), self.place(to));
        if from_chunk == to_chunk {
            self.chunks[to_chunk].copy_within(from_at..from_at + self.stride, to_at);
        } else {
            let [from, to] = self.chunks.get_disjoint_mut([from_chunk, to_chunk]).expect("slots below the number of slots");
            to[to_at..to_at + self.stride].copy_from_slice(&from[from_at..from_at + self.stride]);
        }
    }

    /// Forgets all slots from `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        let slots = 1 << self.slot_bits;
        self.chunks.truncate(len.div_ceil(slots));
        if let Some(last) = self.chunks.last_mut() {
            last.truncate((len - (len - 1) / slots * slots) * self.stride);
            huge_pages::regrow(last, 0);
        }
        self.len = len;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum()
    }
}

/// By how many bytes a vector of `len` grows to take `more`: doubled while small, by a quarter when large, since what is reserved
/// counts against the budget.
pub(super) fn growth(len: usize, more: usize) -> usize {
    if len < 1 << 20 { len.max(more * 4) } else { (len / 4).max(more) }
}
