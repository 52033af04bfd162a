//! One epoch's changes to a view, row by row, and the net change that they come to.

use super::layer::{Change, Layer};
use super::writer::Writer;
use crate::error::StorageResult;
use crate::state::EncodedRows;
use crate::state::codec::normalise_floats;
use crate::state::database::stored_key;
use crate::state::slot_index::SlotIndex;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use std::sync::Arc;
use thalweg_catalog::hash::hash_columns;
use thalweg_catalog::{Delta, Epoch, VNode};

const END: u32 = u32::MAX;

/// The rows of a delta, by key.
struct Grouped {
    batch: RecordBatch,
    hashes: Vec<u64>,
    keys: EncodedRows,
    groups: Vec<Group>,
    /// For each row the next one with the same key.
    next: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Group {
    first: u32,
    last: u32,
}

impl Grouped {
    fn rows(&self, group: Group) -> impl Iterator<Item = u32> + '_ {
        let after = |row: u32| Some(self.next[row as usize]).filter(|next| *next != END);
        std::iter::successors(Some(group.first), move |row| after(*row))
    }

    /// All rows are of keys of their own.
    fn all_single(&self) -> bool {
        self.groups.len() == self.hashes.len()
    }
}

/// What a key was before.
enum Old {
    Nothing,
    /// Changed since the last flush.
    Current(u32),
    /// Changed in the time before that.
    Previous(u32),
    Stored(Vec<u8>),
}

/// What becomes of a key.
enum New {
    Same,
    Gone,
    /// The row of the delta that it has now.
    Row(u32),
}

impl Writer {
    /// The rows of a delta in the relation's own schema, grouped by key.
    fn group(&self, delta: &Delta) -> StorageResult<Grouped> {
        let columns = delta.batch().columns().iter().map(normalise_floats).collect::<Vec<_>>();
        let batch = RecordBatch::try_new(Arc::clone(self.layout.schema()), columns)?;
        let key_columns = self.columns(&batch, &self.layout.key);
        let rows = batch.num_rows();
        let hashes = hash_columns(&key_columns, rows)?;
        let keys = self.layout.key_codec.encode(&key_columns, rows)?;
        let mut index = SlotIndex::with_capacity(rows);
        let mut groups: Vec<Group> = Vec::with_capacity(rows);
        let mut next = vec![END; rows];
        for (row, hash) in hashes.iter().enumerate() {
            let same = |group: u32| {
                let first = groups[group as usize].first as usize;
                hashes[first] == *hash && keys.row(first) == keys.row(row)
            };
            match index.find(*hash, same) {
                Some(group) => {
                    let group = &mut groups[group as usize];
                    next[group.last as usize] = row as u32;
                    group.last = row as u32;
                }
                None => {
                    index.insert(*hash, groups.len() as u32, |group| hashes[groups[group as usize].first as usize]);
                    groups.push(Group { first: row as u32, last: row as u32 });
                }
            }
        }
        Ok(Grouped { batch, hashes, keys, groups, next })
    }

    fn columns(&self, batch: &RecordBatch, columns: &[usize]) -> Vec<ArrayRef> {
        columns.iter().map(|column| Arc::clone(batch.column(*column))).collect()
    }

    pub(super) fn apply_multiset(&mut self, epoch: Epoch, delta: &Delta) -> StorageResult<Delta> {
        let grouped = self.group(delta)?;
        let mut layer = Layer::new(epoch, false);
        let (mut rows, mut nets) = (Vec::new(), Vec::new());
        for group in &grouped.groups {
            let net = grouped.rows(*group).map(|row| delta.weight(row as usize)).sum::<i64>();
            if net != 0 {
                let first = group.first as usize;
                layer.push(VNode::of_hash(grouped.hashes[first]), grouped.keys.row(first), Change::Count(net));
                self.rows += net;
                rows.push(group.first);
                nets.push(net);
            }
        }
        self.publish(layer);
        let inserts_only = nets.iter().all(|net| *net == 1);
        if inserts_only && rows.len() == grouped.hashes.len() {
            return Ok(Delta::inserts(grouped.batch));
        }
        let batch = take_record_batch(&grouped.batch, &UInt32Array::from(rows))?;
        Ok(Delta::new(batch, (!inserts_only).then(|| Int64Array::from(nets))))
    }

    pub(super) fn apply_keyed(&mut self, epoch: Epoch, delta: &Delta) -> StorageResult<Delta> {
        let grouped = self.group(delta)?;
        if self.trusted {
            return self.apply_trusted(epoch, delta, grouped);
        }
        let rest = self.columns(&grouped.batch, &self.layout.rest);
        let values = self.layout.value_codec.encode(&rest, grouped.hashes.len())?;
        let olds = self.old_values(&grouped)?;
        let mut layer = Layer::new(epoch, true);
        let (mut old_keys, mut old_values, mut new_rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut changed = Vec::new();
        for (group, old) in grouped.groups.iter().zip(&olds) {
            let old_value = self.old_value(old);
            let (new, unmatched) = settle(&grouped, *group, delta, &values, old_value);
            self.unmatched += unmatched;
            let value = match new {
                New::Same => continue,
                New::Gone => None,
                New::Row(row) => {
                    new_rows.push(row);
                    Some(values.row(row as usize))
                }
            };
            let first = group.first as usize;
            let old_value = self.old_value(old);
            if let Some(old_value) = old_value {
                old_keys.push(grouped.keys.row(first));
                old_values.push(old_value.to_vec());
            }
            self.rows += i64::from(value.is_some()) - i64::from(old_value.is_some());
            layer.push(VNode::of_hash(grouped.hashes[first]), grouped.keys.row(first), Change::Row(value));
            changed.push((grouped.hashes[first], old));
        }
        self.touch(&changed);
        self.publish(layer);
        let all_new = old_keys.is_empty() && grouped.all_single() && new_rows.len() == grouped.hashes.len();
        if all_new {
            return Ok(Delta::inserts(grouped.batch));
        }
        self.net_change(&grouped.batch, &old_keys, &old_values, new_rows)
    }

    /// Takes the deletes' word for what was there.
    fn apply_trusted(&mut self, epoch: Epoch, delta: &Delta, grouped: Grouped) -> StorageResult<Delta> {
        let rest = self.columns(&grouped.batch, &self.layout.rest);
        let values = self.layout.value_codec.encode(&rest, grouped.hashes.len())?;
        let mut layer = Layer::new(epoch, true);
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        for group in &grouped.groups {
            let Settled { winner, losers } = consolidate(&grouped, *group, delta, &values);
            if winner.is_none() && losers.is_empty() {
                continue;
            }
            let first = group.first as usize;
            let (hash, key) = (grouped.hashes[first], grouped.keys.row(first));
            self.current.touch(self.current.find(hash, key), hash, layer.len() as u32);
            let value = winner.map(|row| values.row(row as usize));
            layer.push(VNode::of_hash(hash), key, Change::Row(value));
            self.rows += i64::from(winner.is_some()) - losers.len() as i64;
            gone.extend(losers);
            new.extend(winner);
        }
        self.publish(layer);
        if gone.is_empty() && new.len() == grouped.hashes.len() {
            return Ok(Delta::inserts(grouped.batch));
        }
        let weights = std::iter::repeat_n(-1, gone.len()).chain(std::iter::repeat_n(1, new.len()));
        let weights = Int64Array::from_iter_values(weights);
        gone.extend(new);
        Ok(Delta::weighted(take_record_batch(&grouped.batch, &UInt32Array::from(gone))?, weights))
    }

    /// Old rows with −1, then new ones with +1.
    fn net_change(
        &self,
        batch: &RecordBatch,
        old_keys: &[&[u8]],
        old_values: &[Vec<u8>],
        new_rows: Vec<u32>,
    ) -> StorageResult<Delta> {
        let columns = self.layout.all_columns();
        let (keys, values) = (old_keys.iter().copied(), old_values.iter().map(Vec::as_slice));
        let old = self.layout.batch(&columns, old_keys.len(), keys, values)?;
        let new = take_record_batch(batch, &UInt32Array::from(new_rows))?;
        let weights = std::iter::repeat_n(-1, old.num_rows()).chain(std::iter::repeat_n(1, new.num_rows()));
        let weights = Int64Array::from_iter_values(weights);
        Ok(Delta::weighted(concat_batches(self.layout.schema(), [&old, &new])?, weights))
    }

    /// What each key was: from the layers, else from the database.
    fn old_values(&self, grouped: &Grouped) -> StorageResult<Vec<Old>> {
        let mut missing = Vec::new();
        let mut olds = Vec::with_capacity(grouped.groups.len());
        for (place, group) in grouped.groups.iter().enumerate() {
            let (hash, key) = (grouped.hashes[group.first as usize], grouped.keys.row(group.first as usize));
            let old = match self.current.find(hash, key) {
                Some(at) => Old::Current(at),
                None => self.previous.find(hash, key).map_or(Old::Nothing, Old::Previous),
            };
            let may_be_stored = || self.stored_keys.as_ref().is_none_or(|stored| stored.may_contain(hash));
            if matches!(old, Old::Nothing) && !self.blank && may_be_stored() {
                missing.push((place, stored_key(self.layout.table_id, VNode::of_hash(hash), key, &[])));
            }
            olds.push(old);
        }
        let (places, keys): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
        self.database.get_many(&keys, None, |place, value| {
            if let Some(value) = value {
                olds[places[place]] = Old::Stored(value.to_vec());
            }
            Ok(())
        })?;
        Ok(olds)
    }

    fn old_value<'a>(&'a self, old: &'a Old) -> Option<&'a [u8]> {
        match old {
            Old::Nothing => None,
            Old::Stored(value) => Some(value),
            Old::Current(at) => self.current.value(*at),
            Old::Previous(at) => self.previous.value(*at),
        }
    }

    /// Notes that the newest version of these keys is in the layer about to be published, in this order.
    fn touch(&mut self, changed: &[(u64, &Old)]) {
        for (row, (hash, old)) in changed.iter().enumerate() {
            let place = if let Old::Current(at) = old { Some(*at) } else { None };
            self.current.touch(place, *hash, row as u32);
        }
    }
}

/// What is left of a key's rows of one epoch when those that cancel are as if they had not been.
struct Settled {
    /// Of the rows that are added, the last inserted.
    winner: Option<u32>,
    /// The rows that are taken away.
    losers: Vec<u32>,
}

/// The rows come in no order that means anything but the inserts'.
fn consolidate(grouped: &Grouped, group: Group, delta: &Delta, values: &EncodedRows) -> Settled {
    let mut settled = Settled { winner: None, losers: Vec::new() };
    let mut rows = grouped.rows(group).collect::<Vec<_>>();
    rows.sort_by(|a, b| values.row(*a as usize).cmp(values.row(*b as usize)));
    for same in rows.chunk_by(|a, b| values.row(*a as usize) == values.row(*b as usize)) {
        let net = same.iter().map(|row| delta.weight(*row as usize)).sum::<i64>();
        if net > 0 {
            let inserts = same.iter().copied().filter(|row| delta.weight(*row as usize) > 0);
            settled.winner = settled.winner.max(inserts.max());
        } else if net < 0 {
            settled.losers.push(same[0]);
        }
    }
    settled
}

/// What becomes of a key: it has the winner's row, else it is gone if its row was taken away. The number says how many deletes had
/// nothing to delete.
fn settle(grouped: &Grouped, group: Group, delta: &Delta, values: &EncodedRows, old: Option<&[u8]>) -> (New, u64) {
    let is_old = |row: u32| old == Some(values.row(row as usize));
    let becomes = |row: u32| if is_old(row) { New::Same } else { New::Row(row) };
    if group.first == group.last {
        let row = group.first;
        return match delta.weight(row as usize) {
            0 => (New::Same, 0),
            weight if weight > 0 => (becomes(row), 0),
            _ if is_old(row) => (New::Gone, 0),
            _ => (New::Same, 1),
        };
    }
    let Settled { winner, losers } = consolidate(grouped, group, delta, values);
    if let Some(row) = winner {
        return (becomes(row), 0);
    }
    let unmatched = losers.iter().filter(|row| !is_old(**row)).count();
    (if unmatched < losers.len() { New::Gone } else { New::Same }, unmatched as u64)
}
