//! TopN: of each partition of the input, the rows from place `offset + 1` to `offset + limit` in an order.
//!
//! Ties are broken by the whole row, so the result does not depend on the order of arrival. Copies of a row take a place each.
//!
//! State: the partitions' rows, in the order itself: the columns of the order come first in the encoded row, with their
//! directions. An input that retracts keeps all rows, since any may rise (S20); an append-only one only as many as can be shown.
//! Nothing expires by watermark.
//!
//! For each partition that an epoch touches, the rows shown before it and after it are compared and the difference is given,
//! which costs O(log n) for each change and O(offset + limit) for each partition. A retraction of a row that is not there is dropped
//! and counted (S19). Nothing is outside state between epochs.

use super::build::Context;
use super::rows::{Errors, batch_of, check_append, columns_of, fields_of, weighted};
use crate::error::OperatorError;
use crate::operator::{Dropped, EpochInput, Operator, Output, PIECE_ROWS, Progress};
use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::SchemaRef;
use hashbrown::HashTable;
use std::ops::Range;
use std::sync::Arc;
use thalweg_catalog::Delta;
use thalweg_catalog::hash::hash_columns;
use thalweg_plan::{PlanNode, SortKey};
use thalweg_storage::state::{RowCodec, SortedTable, TableSpec};

/// A running `TopN`.
pub struct TopN {
    schema: SchemaRef,
    partition: Vec<usize>,
    key_codec: RowCodec,
    row_codec: RowCodec,
    /// The input's column at each place of an encoded row: the order's columns, then the others.
    layout: Vec<usize>,
    table: SortedTable,
    span: Span,
    with_rank: bool,
    append: bool,
    epoch: TouchedPartitions,
    pending: Pending,
    errors: Errors,
}

/// Which places are shown.
#[derive(Clone, Copy)]
struct Span {
    offset: u64,
    limit: Option<u64>,
}

/// The rows of a partition that are shown, in order: where their bytes are and how many copies are shown.
#[derive(Default)]
struct Window {
    rows: Vec<(Range<usize>, u64)>,
    /// No place is free: a row behind the last one is not shown.
    full: bool,
}

struct Partition {
    hash: u64,
    key: Range<usize>,
    before: Window,
}

/// The partitions touched in this epoch.
#[derive(Default)]
struct TouchedPartitions {
    bytes: Vec<u8>,
    partitions: Vec<Partition>,
    index: HashTable<usize>,
    /// Rows that were below zero: see `settle`.
    below_zero: Vec<(u64, Vec<u8>, Vec<u8>)>,
    next: usize,
}

/// Rows that were found to have changed and are yet to be given.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
    rows: Vec<Range<usize>>,
    weights: Vec<i64>,
    ranks: Vec<i64>,
    given: usize,
}

impl TopN {
    /// The operator of a `TopN` node.
    ///
    /// # Errors
    /// `Plan` if the node is another or does not fit its input; `State` if state can't be opened.
    pub fn new(node: &PlanNode, input: &SchemaRef, append: bool, context: Context) -> Result<TopN, OperatorError> {
        let thalweg_plan::Operator::TopN { partition, order, offset, limit, with_rank } = &node.operator else {
            return Err(OperatorError::Plan("not a TopN".into()));
        };
        if node.schema.fields().len() != input.fields().len() + usize::from(*with_rank) {
            return Err(OperatorError::Plan("a TopN gives its input's columns, and the rank if asked for".into()));
        }
        let (layout, directions) = layout(order, input.fields().len());
        let (key_fields, row_fields) = (fields_of(input, partition)?, fields_of(input, &layout)?);
        Ok(TopN {
            schema: Arc::clone(&node.schema),
            partition: partition.clone(),
            key_codec: RowCodec::new(&key_fields)?,
            row_codec: RowCodec::ordered(&row_fields, &directions)?,
            layout,
            table: context.state.sorted_table(TableSpec {
                name: "rows".into(),
                key: key_fields,
                sub: row_fields,
                sub_order: directions,
                value: Vec::new(),
            })?,
            span: Span { offset: *offset, limit: *limit },
            with_rank: *with_rank,
            append,
            epoch: TouchedPartitions::default(),
            pending: Pending::default(),
            errors: context.errors,
        })
    }

    fn take_in(&mut self, delta: &Delta) -> Result<(), OperatorError> {
        if self.append {
            check_append(delta)?;
        }
        let (batch, rows) = (delta.batch(), delta.num_rows());
        let key_columns = columns_of(batch, &self.partition);
        let hashes = hash_columns(&key_columns, rows)?;
        let keys = self.key_codec.encode(&key_columns, rows)?;
        let encoded = self.row_codec.encode(&columns_of(batch, &self.layout), rows)?;
        for (row, hash) in hashes.into_iter().enumerate() {
            let (key, bytes) = (keys.row(row), encoded.row(row));
            let place = self.epoch.touch(hash, key, &mut self.table, self.span)?;
            if self.append && self.epoch.partitions[place].before.hides(bytes, &self.epoch.bytes) {
                continue;
            }
            let (_, after) = self.table.add(hash, key, bytes, delta.weight(row))?;
            if after.count < 0 {
                self.epoch.below_zero.push((hash, key.to_vec(), bytes.to_vec()));
            }
        }
        Ok(())
    }

    /// Drops retractions of rows that are not there. A retraction may come before its insert, so only the end of an epoch tells.
    fn settle(&mut self) -> Result<(), OperatorError> {
        let mut unmatched = 0;
        for (hash, key, row) in std::mem::take(&mut self.epoch.below_zero) {
            let count = self.table.get(hash, &key, &row)?.count;
            if count < 0 {
                self.table.add(hash, &key, &row, -count)?;
                unmatched += count.unsigned_abs();
            }
        }
        if unmatched > 0 {
            self.errors.borrow_mut().dropped(Dropped::Unmatched, unmatched);
        }
        Ok(())
    }

    /// Finds what has changed in the partition touched as number `place`.
    fn compare(&mut self, place: usize) -> Result<(), OperatorError> {
        let TouchedPartitions { bytes, partitions, .. } = &self.epoch;
        let Partition { hash, key, before } = &partitions[place];
        let key = &bytes[key.clone()];
        let mut new_bytes = Vec::new();
        let after = self.span.window(*hash, key, &mut self.table, &mut new_bytes)?;
        if self.with_rank {
            self.pending.differ_by_rank(self.span.offset, (before, bytes), (&after, &new_bytes));
        } else {
            self.pending.differ((before, bytes), (&after, &new_bytes));
        }
        if self.append && after.full {
            self.span.prune(*hash, key, &mut self.table)?;
        }
        Ok(())
    }

    /// Gives the next piece of what is pending.
    fn give_piece(&mut self, output: &mut Output) -> Result<(), OperatorError> {
        let pending = &mut self.pending;
        let piece = pending.given..pending.rows.len().min(pending.given + PIECE_ROWS);
        let rows = piece.len();
        if rows == 0 {
            return Ok(());
        }
        let decoded = self.row_codec.decode(pending.rows[piece.clone()].iter().map(|r| &pending.bytes[r.clone()]))?;
        let mut columns: Vec<Option<ArrayRef>> = vec![None; decoded.len()];
        for (column, at) in decoded.into_iter().zip(&self.layout) {
            columns[*at] = Some(column);
        }
        let mut columns: Vec<ArrayRef> = columns.into_iter().flatten().collect();
        if self.with_rank {
            columns.push(Arc::new(Int64Array::from(pending.ranks[piece.clone()].to_vec())));
        }
        let weights = pending.weights[piece.clone()].to_vec();
        output.give(weighted(batch_of(&self.schema, columns, rows)?, weights));
        pending.given = piece.end;
        if pending.given == pending.rows.len() {
            *pending = Pending::default();
        }
        Ok(())
    }
}

impl Operator for TopN {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        for delta in input.ports.iter().flatten() {
            self.take_in(delta)?;
        }
        self.settle()
    }

    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        while self.pending.rows.len() < PIECE_ROWS && self.epoch.next < self.epoch.partitions.len() {
            self.compare(self.epoch.next)?;
            self.epoch.next += 1;
        }
        self.give_piece(output)?;
        if !self.pending.rows.is_empty() || self.epoch.next < self.epoch.partitions.len() {
            return Ok(Progress::More);
        }
        self.epoch = TouchedPartitions::default();
        Ok(Progress::Done)
    }
}

impl TouchedPartitions {
    /// The number of this key's partition, which is noted with the rows that it shows if this is its first touch.
    fn touch(&mut self, hash: u64, key: &[u8], table: &mut SortedTable, span: Span) -> Result<usize, OperatorError> {
        let TouchedPartitions { bytes, partitions, index, .. } = self;
        let same = |place: &usize| partitions[*place].hash == hash && &bytes[partitions[*place].key.clone()] == key;
        let place = match index.find(hash, same) {
            Some(place) => *place,
            None => {
                let start = bytes.len();
                bytes.extend_from_slice(key);
                let key_range = start..bytes.len();
                let before = span.window(hash, key, table, bytes)?;
                partitions.push(Partition { hash, key: key_range, before });
                let place = partitions.len() - 1;
                index.insert_unique(hash, place, |p| partitions[*p].hash);
                place
            }
        };
        Ok(place)
    }
}

impl Window {
    /// Whether a row can't be shown because every place is taken by rows before it.
    fn hides(&self, row: &[u8], bytes: &[u8]) -> bool {
        self.full && self.rows.last().is_none_or(|(last, _)| row >= &bytes[last.clone()])
    }
}

impl Span {
    /// The rows of a partition that are shown. Their bytes are added to `bytes`.
    fn window(self, hash: u64, key: &[u8], table: &mut SortedTable, bytes: &mut Vec<u8>) -> Result<Window, OperatorError> {
        let mut window = Window::default();
        let (mut skip, mut free) = (self.offset, self.limit.unwrap_or(u64::MAX));
        if free > 0 {
            table.scan(hash, key, |row, entry| {
                let copies = entry.count.max(0) as u64;
                let skipped = copies.min(skip);
                skip -= skipped;
                let shown = (copies - skipped).min(free);
                if shown > 0 {
                    let start = bytes.len();
                    bytes.extend_from_slice(row);
                    window.rows.push((start..bytes.len(), shown));
                    free -= shown;
                }
                free > 0
            })?;
        }
        window.full = free == 0;
        Ok(window)
    }

    /// Removes the rows that no insert can ever bring into the window.
    fn prune(self, hash: u64, key: &[u8], table: &mut SortedTable) -> Result<(), OperatorError> {
        let Some(limit) = self.limit else { return Ok(()) };
        let mut free = self.offset.saturating_add(limit);
        let mut behind = Vec::new();
        table.scan(hash, key, |row, entry| {
            let copies = entry.count.max(0) as u64;
            let kept = copies.min(free);
            free -= kept;
            if kept < copies {
                behind.push((row.to_vec(), (copies - kept) as i64));
            }
            true
        })?;
        for (row, copies) in behind {
            table.add(hash, key, &row, -copies)?;
        }
        Ok(())
    }
}

/// A window with the bytes that it refers to.
type Shown<'a> = (&'a Window, &'a [u8]);

impl Pending {
    fn push(&mut self, row: &[u8], weight: i64, rank: i64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.rows.push(start..self.bytes.len());
        self.weights.push(weight);
        self.ranks.push(rank);
    }

    /// Adds the difference of two windows: both are in order, so they are merged.
    fn differ(&mut self, (before, before_bytes): Shown<'_>, (after, after_bytes): Shown<'_>) {
        let (mut old, mut new) = (before.rows.iter().peekable(), after.rows.iter().peekable());
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
                (Some((row, _)), _) => self.push(&before_bytes[row.clone()], weight, 0),
                (None, Some((row, _))) => self.push(&after_bytes[row.clone()], weight, 0),
                (None, None) => {}
            }
        }
    }

    /// Adds the places whose row is another.
    fn differ_by_rank(&mut self, offset: u64, before: Shown<'_>, after: Shown<'_>) {
        let each_place = |window: &Window| -> Vec<Range<usize>> {
            window.rows.iter().flat_map(|(row, copies)| std::iter::repeat_n(row.clone(), *copies as usize)).collect()
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
                self.push(row, -1, rank);
            }
            if let Some(row) = new {
                self.push(row, 1, rank);
            }
        }
    }
}

/// The columns of an encoded row and their directions: the order's columns, once each, then the others.
fn layout(order: &[SortKey], columns: usize) -> (Vec<usize>, Vec<(bool, bool)>) {
    let mut layout = Vec::with_capacity(columns);
    let mut directions = Vec::with_capacity(columns);
    for key in order {
        if !layout.contains(&key.column) {
            layout.push(key.column);
            directions.push((key.descending, key.nulls_first));
        }
    }
    for column in 0..columns {
        if !layout.contains(&column) {
            layout.push(column);
            directions.push((false, false));
        }
    }
    (layout, directions)
}

#[cfg(test)]
mod tests;
