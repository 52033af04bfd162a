//! One piece of changes to a view: immutable, shared with readers, sorted only when one needs it.

use std::sync::{Arc, OnceLock};
use thalweg_catalog::{Epoch, VNode};

/// Byte strings, one after another.
#[derive(Debug, Default)]
pub(super) struct ByteRows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl ByteRows {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..self.ends[row]]
    }

    #[inline]
    pub(super) fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// What a layer says of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change<'a> {
    /// The key has this value now, or is gone.
    Row(Option<&'a [u8]>),
    /// There are so many more copies of the row.
    Count(i64),
}

#[derive(Debug)]
enum Values {
    Rows { values: ByteRows, present: Vec<bool> },
    Counts(Vec<i64>),
}

/// The changes that one call of `apply` has made, each key once.
#[derive(Debug)]
pub(super) struct Layer {
    epoch: Epoch,
    /// Vnode (u16, big-endian) and the key's bytes: what follows the table's id in a stored key.
    keys: ByteRows,
    values: Values,
    /// Rows in order of their keys.
    order: OnceLock<Vec<u32>>,
}

impl Layer {
    pub(super) fn new(epoch: Epoch, keyed: bool) -> Layer {
        let values =
            if keyed { Values::Rows { values: ByteRows::default(), present: Vec::new() } } else { Values::Counts(Vec::new()) };
        Layer { epoch, keys: ByteRows::default(), values, order: OnceLock::new() }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Vnode and key of a row.
    #[inline]
    pub(super) fn key(&self, row: usize) -> &[u8] {
        self.keys.get(row)
    }

    /// The key of a row without the vnode.
    #[inline]
    pub(super) fn bare_key(&self, row: usize) -> &[u8] {
        &self.keys.get(row)[size_of::<VNode>()..]
    }

    #[inline]
    pub(super) fn change(&self, row: usize) -> Change<'_> {
        match &self.values {
            Values::Rows { values, present } => Change::Row(present[row].then(|| values.get(row))),
            Values::Counts(counts) => Change::Count(counts[row]),
        }
    }

    /// Adds a key that the layer does not have yet.
    pub(super) fn push(&mut self, vnode: VNode, key: &[u8], change: Change<'_>) {
        self.keys.bytes.extend_from_slice(&vnode.0.to_be_bytes());
        self.keys.push(key);
        match (&mut self.values, change) {
            (Values::Rows { values, present }, Change::Row(value)) => {
                values.push(value.unwrap_or_default());
                present.push(value.is_some());
            }
            (Values::Counts(counts), Change::Count(count)) => counts.push(count),
            _ => unreachable!("a view is either keyed or a multiset"),
        }
    }

    /// Gives back what was reserved in vain, and shares the layer.
    pub(super) fn finish(mut self) -> Arc<Layer> {
        self.keys.shrink();
        match &mut self.values {
            Values::Rows { values, present } => {
                values.shrink();
                present.shrink_to_fit();
            }
            Values::Counts(counts) => counts.shrink_to_fit(),
        }
        Arc::new(self)
    }

    /// The rows in order of their keys. The first reader pays for the sort.
    pub(super) fn order(&self) -> &[u32] {
        self.order.get_or_init(|| {
            let mut order = (0..self.len() as u32).collect::<Vec<_>>();
            order.sort_unstable_by_key(|row| self.key(*row as usize));
            order
        })
    }

    /// The row of a key (with its vnode).
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        let order = self.order();
        order.binary_search_by_key(&key, |row| self.key(*row as usize)).ok().map(|at| order[at] as usize)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Rows { values, present } => values.memory_bytes() + present.capacity(),
            Values::Counts(counts) => counts.capacity() * size_of::<i64>(),
        };
        let order = self.order.get().map_or(0, |order| order.capacity() * size_of::<u32>());
        size_of::<Layer>() + self.keys.memory_bytes() + values + order
    }
}
