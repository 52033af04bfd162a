//! What an epoch brings to a TopN over an append-only input: sorted out by partition first, so that each partition's state is met once.

use super::Span;
use super::pending::Pending;
use crate::error::OperatorError;
use crate::operators::rows::batch_of;
use arrow::array::RecordBatch;
use hashbrown::HashTable;
use std::cmp::Ordering;
use std::ops::Range;
use thalweg_catalog::Delta;
use thalweg_storage::state::codec::normalise_floats;
use thalweg_storage::state::{EncodedRows, SortedTable};

/// The end of a chain of rows.
const NONE: u32 = u32::MAX;

/// The rows of an epoch by partition.
#[derive(Default)]
pub(super) struct Arrivals {
    batches: Vec<RecordBatch>,
    encoded: Vec<EncodedRows>,
    rows: Vec<Row>,
    keys: Vec<u8>,
    partitions: Vec<Partition>,
    index: HashTable<u32>,
    next: usize,
    merge: Merge,
}

struct Row {
    batch: u32,
    row: u32,
    copies: u64,
    /// The row of the same partition that came before, or [`NONE`].
    before: u32,
}

struct Partition {
    hash: u64,
    key: Range<usize>,
    /// The row that came last.
    last: u32,
}

/// The rows that a partition kept and the new ones that come among them, used for one partition after another.
#[derive(Default)]
struct Merge {
    bytes: Vec<u8>,
    /// Where the kept rows lie in `bytes`, and how many copies of each there are, in order.
    kept: Vec<(Range<usize>, u64)>,
    /// New rows, by their place in the arrivals, and copies, in order.
    new: Vec<(u32, u64)>,
    /// Both, in order, as far as there is room.
    items: Vec<Item>,
}

struct Item {
    kept: Option<usize>,
    new: Option<u32>,
    /// Copies before and after.
    copies: [u64; 2],
}

impl Arrivals {
    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }

    /// Takes in a delta whose weights are all positive, with the hashes and keys of its rows' partitions.
    ///
    /// # Errors
    /// If the delta's columns don't fit its schema.
    pub fn take_in(
        &mut self,
        delta: &Delta,
        hashes: &[u64],
        keys: &EncodedRows,
        encoded: EncodedRows,
    ) -> Result<(), OperatorError> {
        let batch = self.batches.len() as u32;
        for (row, hash) in hashes.iter().enumerate() {
            let copies = delta.weight(row).unsigned_abs();
            if copies == 0 {
                continue;
            }
            let place = self.partition(*hash, keys.row(row));
            let last = &mut self.partitions[place as usize].last;
            self.rows.push(Row { batch, row: row as u32, copies, before: *last });
            *last = (self.rows.len() - 1) as u32;
        }
        // As it will be taken back.
        let columns = delta.batch().columns().iter().map(normalise_floats).collect();
        self.batches.push(batch_of(&delta.schema(), columns, delta.num_rows())?);
        self.encoded.push(encoded);
        Ok(())
    }

    fn partition(&mut self, hash: u64, key: &[u8]) -> u32 {
        let Arrivals { keys, partitions, index, .. } = self;
        let same = |place: &u32| {
            let there = &partitions[*place as usize];
            there.hash == hash && &keys[there.key.clone()] == key
        };
        if let Some(place) = index.find(hash, same) {
            return *place;
        }
        let start = keys.len();
        keys.extend_from_slice(key);
        partitions.push(Partition { hash, key: start..keys.len(), last: NONE });
        let place = (partitions.len() - 1) as u32;
        index.insert_unique(hash, place, |p| partitions[*p as usize].hash);
        place
    }

    /// Whether partitions are left to be merged.
    pub fn is_left(&self) -> bool {
        self.next < self.partitions.len()
    }

    /// Brings the new rows of the next partition into its state, which keeps no more than can be shown, and notes what that changes.
    pub fn merge_next(
        &mut self,
        span: Span,
        with_rank: bool,
        table: &mut SortedTable,
        pending: &mut Pending,
    ) -> Result<(), OperatorError> {
        let partition = &self.partitions[self.next];
        let (hash, key, last) = (partition.hash, partition.key.clone(), partition.last);
        self.next += 1;
        let key = &self.keys[key];
        let places = if span.limit == Some(0) { 0 } else { span.end() };
        let mut merge = std::mem::take(&mut self.merge);
        let there = merge.keep(hash, key, table)?;
        let hidden = if there >= places { merge.kept.last().map(|(range, _)| &merge.bytes[range.clone()]) } else { None };
        merge.new.clear();
        let mut at = last;
        while at != NONE {
            let row = &self.rows[at as usize];
            if hidden.is_none_or(|hidden| self.bytes(at) < hidden) && places > 0 {
                merge.new.push((at, row.copies));
            }
            at = row.before;
        }
        if !merge.new.is_empty() {
            self.order(&mut merge.new);
            self.fill(&mut merge, places);
            self.write(&merge, (hash, key), table)?;
            if with_rank {
                self.note_places(&merge, span, pending);
            } else {
                self.note_copies(&merge, span, pending);
            }
        }
        self.merge = merge;
        Ok(())
    }

    fn bytes(&self, at: u32) -> &[u8] {
        let row = &self.rows[at as usize];
        self.encoded[row.batch as usize].row(row.row as usize)
    }

    fn item_bytes<'a>(&'a self, merge: &'a Merge, item: &Item) -> &'a [u8] {
        match (item.kept, item.new) {
            (Some(kept), _) => &merge.bytes[merge.kept[kept].0.clone()],
            (None, Some(new)) => self.bytes(new),
            (None, None) => &[],
        }
    }

    /// Brings new rows in order, each once with all its copies.
    fn order(&self, new: &mut Vec<(u32, u64)>) {
        new.sort_unstable_by(|(a, _), (b, _)| self.bytes(*a).cmp(self.bytes(*b)).then(a.cmp(b)));
        new.dedup_by(|(later, copies), (first, all)| {
            let same = self.bytes(*later) == self.bytes(*first);
            if same {
                *all += *copies;
            }
            same
        });
    }

    /// Merges kept and new rows; copies that are behind the last place are gone.
    fn fill(&self, merge: &mut Merge, places: u64) {
        let mut items = std::mem::take(&mut merge.items);
        items.clear();
        let (mut kept, mut new, mut free) = (0, 0, places);
        while kept < merge.kept.len() || new < merge.new.len() {
            let order = match (merge.kept.get(kept), merge.new.get(new)) {
                (Some((range, _)), Some((at, _))) => merge.bytes[range.clone()].cmp(self.bytes(*at)),
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
            };
            let mut item = Item { kept: None, new: None, copies: [0, 0] };
            if order.is_le() {
                item.kept = Some(kept);
                item.copies[0] = merge.kept[kept].1;
                kept += 1;
            }
            if order.is_ge() {
                item.new = Some(merge.new[new].0);
                item.copies[1] = merge.new[new].1;
                new += 1;
            }
            item.copies[1] = (item.copies[0] + item.copies[1]).min(free);
            free -= item.copies[1];
            if item.copies != [0, 0] {
                items.push(item);
            } else if kept == merge.kept.len() {
                break;
            }
        }
        merge.items = items;
    }

    fn write(&self, merge: &Merge, (hash, key): (u64, &[u8]), table: &mut SortedTable) -> Result<(), OperatorError> {
        for item in merge.items.iter().filter(|item| item.copies[0] != item.copies[1]) {
            let [before, after] = item.copies.map(|copies| copies as i64);
            table.add(hash, key, self.item_bytes(merge, item), after - before)?;
        }
        Ok(())
    }

    fn push(&self, merge: &Merge, item: &Item, weight: i64, rank: i64, pending: &mut Pending) {
        match item.new.map(|new| &self.rows[new as usize]) {
            // Its columns are at hand: they need not be decoded.
            Some(row) => pending.push_arrived(row.batch, row.row, weight, rank),
            None => pending.push(self.item_bytes(merge, item), weight, rank),
        }
    }

    /// Notes rows of which more or fewer copies are shown.
    fn note_copies(&self, merge: &Merge, span: Span, pending: &mut Pending) {
        let mut places = [0, 0];
        for item in &merge.items {
            let shown = [0, 1].map(|when| {
                let start: u64 = places[when];
                places[when] += item.copies[when];
                let (from, to) = (start.max(span.offset), places[when].min(span.end()));
                to.saturating_sub(from) as i64
            });
            if shown[0] != shown[1] {
                self.push(merge, item, shown[1] - shown[0], 0, pending);
            }
        }
    }

    /// Notes places whose row is another.
    fn note_places(&self, merge: &Merge, span: Span, pending: &mut Pending) {
        let each_place = |when: usize| {
            let copies = merge.items.iter().flat_map(move |item| std::iter::repeat_n(item, item.copies[when] as usize));
            copies.skip(span.offset as usize)
        };
        let (mut before, mut after) = (each_place(0), each_place(1));
        for rank in span.offset + 1..=span.end() {
            let (old, new) = (before.next(), after.next());
            if old.is_none() && new.is_none() {
                break;
            }
            if old.zip(new).is_some_and(|(old, new)| std::ptr::eq(old, new)) {
                continue;
            }
            if let Some(item) = old {
                self.push(merge, item, -1, rank as i64, pending);
            }
            if let Some(item) = new {
                self.push(merge, item, 1, rank as i64, pending);
            }
        }
    }
}

impl Merge {
    /// Reads what a partition keeps; how many copies in all.
    fn keep(&mut self, hash: u64, key: &[u8], table: &mut SortedTable) -> Result<u64, OperatorError> {
        let Merge { bytes, kept, .. } = self;
        bytes.clear();
        kept.clear();
        let mut there = 0;
        table.scan(hash, key, |row, entry| {
            let start = bytes.len();
            bytes.extend_from_slice(row);
            let copies = entry.count.max(0) as u64;
            kept.push((start..bytes.len(), copies));
            there += copies;
            true
        })?;
        Ok(there)
    }
}
