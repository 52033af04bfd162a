//! The partitions that an epoch touches, of an input that retracts: the rows shown before it, to be compared with those after it.

use super::Span;
use super::pending::Pending;
use crate::error::OperatorError;
use hashbrown::HashTable;
use std::ops::Range;
use thalweg_storage::state::SortedTable;

/// The rows of a partition that are shown, in order: where their bytes are and how many copies are shown.
type Window = Vec<(Range<usize>, u64)>;

/// A window with the bytes that it refers to.
type Shown<'a> = (&'a Window, &'a [u8]);

struct Partition {
    hash: u64,
    key: Range<usize>,
    before: Window,
}

/// The partitions touched in this epoch.
#[derive(Default)]
pub(super) struct Touched {
    bytes: Vec<u8>,
    partitions: Vec<Partition>,
    index: HashTable<usize>,
    /// Rows that were below zero: see `settle`.
    below_zero: Vec<(u64, Vec<u8>, Vec<u8>)>,
    next: usize,
}

impl Touched {
    /// Brings a row into the state of the partition with this hash and key.
    pub fn take_in(
        &mut self,
        (hash, key): (u64, &[u8]),
        row: &[u8],
        weight: i64,
        span: Span,
        table: &mut SortedTable,
    ) -> Result<(), OperatorError> {
        self.touch(hash, key, table, span)?;
        let (_, after) = table.add(hash, key, row, weight)?;
        if after.count < 0 {
            self.below_zero.push((hash, key.to_vec(), row.to_vec()));
        }
        Ok(())
    }

    /// Notes the rows that a partition shows if this is its first touch.
    fn touch(&mut self, hash: u64, key: &[u8], table: &mut SortedTable, span: Span) -> Result<(), OperatorError> {
        let Touched { bytes, partitions, index, .. } = self;
        let same = |place: &usize| partitions[*place].hash == hash && &bytes[partitions[*place].key.clone()] == key;
        if index.find(hash, same).is_none() {
            let start = bytes.len();
            bytes.extend_from_slice(key);
            let key_range = start..bytes.len();
            let before = window(span, (hash, key), table, bytes)?;
            partitions.push(Partition { hash, key: key_range, before });
            index.insert_unique(hash, partitions.len() - 1, |p| partitions[*p].hash);
        }
        Ok(())
    }

    /// Drops retractions of rows that are not there; how many. A retraction may come before its insert, so only the end of an epoch tells.
    pub fn settle(&mut self, table: &mut SortedTable) -> Result<u64, OperatorError> {
        let mut unmatched = 0;
        for (hash, key, row) in std::mem::take(&mut self.below_zero) {
            let count = table.get(hash, &key, &row)?.count;
            if count < 0 {
                table.add(hash, &key, &row, -count)?;
                unmatched += count.unsigned_abs();
            }
        }
        Ok(unmatched)
    }

    /// Whether partitions are left to be compared.
    pub fn is_left(&self) -> bool {
        self.next < self.partitions.len()
    }

    /// Notes what has changed in the next partition.
    pub fn compare_next(
        &mut self,
        span: Span,
        with_rank: bool,
        table: &mut SortedTable,
        pending: &mut Pending,
    ) -> Result<(), OperatorError> {
        let Partition { hash, key, before } = &self.partitions[self.next];
        self.next += 1;
        let mut new_bytes = Vec::new();
        let after = window(span, (*hash, &self.bytes[key.clone()]), table, &mut new_bytes)?;
        let (before, after) = ((before, self.bytes.as_slice()), (&after, new_bytes.as_slice()));
        if with_rank {
            differ_by_rank(span.offset, before, after, pending);
        } else {
            differ(before, after, pending);
        }
        Ok(())
    }
}

/// The rows of a partition that are shown. Their bytes are added to `bytes`.
fn window(span: Span, (hash, key): (u64, &[u8]), table: &mut SortedTable, bytes: &mut Vec<u8>) -> Result<Window, OperatorError> {
    let mut window = Window::new();
    let (mut skip, mut free) = (span.offset, span.limit.unwrap_or(u64::MAX));
    if free > 0 {
        table.scan(hash, key, |row, entry| {
            let copies = entry.count.max(0) as u64;
            let skipped = copies.min(skip);
            skip -= skipped;
            let shown = (copies - skipped).min(free);
            if shown > 0 {
                let start = bytes.len();
                bytes.extend_from_slice(row);
                window.push((start..bytes.len(), shown));
                free -= shown;
            }
            free > 0
        })?;
    }
    Ok(window)
}

/// Notes the difference of two windows: both are in order, so they are merged.
fn differ((before, before_bytes): Shown<'_>, (after, after_bytes): Shown<'_>, pending: &mut Pending) {
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((o, _)), Some((n, _))) => before_bytes[o.clone()].cmp(&after_bytes[n.clone()]),
        };
        let taken_old = if order.is_le() { old.next() } else { None };
        let taken_new = if order.is_ge() { new.next() } else { None };
        let weight = taken_new.map_or(0, |n| n.1 as i64) - taken_old.map_or(0, |o| o.1 as i64);
        if weight == 0 {
            continue;
        }
        match (taken_old, taken_new) {
            (Some((row, _)), _) => pending.push(&before_bytes[row.clone()], weight, 0),
            (None, Some((row, _))) => pending.push(&after_bytes[row.clone()], weight, 0),
            (None, None) => {}
        }
    }
}

/// Notes the places whose row is another.
fn differ_by_rank(offset: u64, before: Shown<'_>, after: Shown<'_>, pending: &mut Pending) {
    let each_place = |window: &Window| -> Vec<Range<usize>> {
        window.iter().flat_map(|(row, copies)| std::iter::repeat_n(row.clone(), *copies as usize)).collect()
    };
    let (old, new) = (each_place(before.0), each_place(after.0));
    for place in 0..old.len().max(new.len()) {
        let old = old.get(place).map(|row| &before.1[row.clone()]);
        let new = new.get(place).map(|row| &after.1[row.clone()]);
        if old == new {
            continue;
        }
        let rank = (offset + place as u64 + 1) as i64;
        if let Some(row) = old {
            pending.push(row, -1, rank);
        }
        if let Some(row) = new {
            pending.push(row, 1, rank);
        }
    }
}
