//! The net change of one input in an epoch.

use super::side::Side;
use crate::error::OperatorError;
use crate::operators::rows::{columns_of, rows_with_values};
use arrow::array::RecordBatch;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use hashbrown::HashTable;
use thalweg_catalog::Delta;
use thalweg_catalog::hash::{hash_bytes, hash_columns};
use thalweg_storage::state::EncodedRows;

/// Rows with their net weights, encoded for state.
pub(super) struct Change {
    /// All rows as they came.
    pub batch: RecordBatch,
    pub hashes: Vec<u64>,
    pub keys: EncodedRows,
    pub encoded: EncodedRows,
    /// Which rows of the batch remain, once each, and their net weights, none of them 0.
    pub rows: Vec<u32>,
    pub weights: Vec<i64>,
    /// How many partners each remaining row has, as far as they have been met.
    pub degrees: Vec<i64>,
    /// Rows whose key has a NULL and therefore matches nothing, with their net weights.
    pub unmatchable: Vec<(u32, i64)>,
}

impl Change {
    /// Takes up the deltas of an epoch. `null_is_value`: NULL keys are matched like others.
    pub fn new(side: &Side, schema: &SchemaRef, deltas: Vec<Delta>, null_is_value: bool) -> Result<Change, OperatorError> {
        let delta = Delta::concat(schema, &deltas)?;
        let (batch, weights) = delta.into_parts();
        let count = batch.num_rows();
        let key_columns = columns_of(&batch, &side.keys);
        let with_key = if null_is_value { None } else { rows_with_values(&key_columns) };
        let hashes = hash_columns(&key_columns, count)?;
        let keys = side.key_codec.encode(&key_columns, count)?;
        let encoded = side.encode(&batch)?;
        let mut change = Change {
            batch,
            hashes,
            keys,
            encoded,
            rows: Vec::with_capacity(count),
            weights: Vec::with_capacity(count),
            degrees: Vec::new(),
            unmatchable: Vec::new(),
        };
        match weights {
            // Inserts alone: copies do no harm, so there is nothing to net.
            None => (0..count).for_each(|row| change.keep(row, 1, with_key.as_ref())),
            Some(weights) => {
                for (row, weight) in change.net(weights.values()) {
                    change.keep(row, weight, with_key.as_ref());
                }
            }
        }
        change.degrees = vec![0; change.rows.len()];
        Ok(change)
    }

    fn keep(&mut self, row: usize, weight: i64, with_key: Option<&BooleanBuffer>) {
        if with_key.is_none_or(|w| w.value(row)) {
            self.rows.push(row as u32);
            self.weights.push(weight);
        } else {
            self.unmatchable.push((row as u32, weight));
        }
    }

    /// The different rows, each where it came first, with their net weights where not 0.
    fn net(&self, weights: &[i64]) -> Vec<(usize, i64)> {
        let mut index: HashTable<usize> = HashTable::with_capacity(weights.len());
        let mut net: Vec<(usize, i64)> = Vec::with_capacity(weights.len());
        let mut hashes: Vec<u64> = Vec::with_capacity(weights.len());
        for (row, weight) in weights.iter().enumerate() {
            let (key, encoded) = (self.keys.row(row), self.encoded.row(row));
            let hash = row_hash(self.hashes[row], encoded);
            let same = |at: &usize| {
                let (first, _) = net[*at];
                hashes[*at] == hash && self.encoded.row(first) == encoded && self.keys.row(first) == key
            };
            match index.find(hash, same) {
                Some(at) => net[*at].1 += weight,
                None => {
                    let at = net.len();
                    net.push((row, *weight));
                    hashes.push(hash);
                    index.insert_unique(hash, at, |at| hashes[*at]);
                }
            }
        }
        net.retain(|(_, weight)| *weight != 0);
        net
    }

    /// Cuts down retractions of rows that the side does not have. How many that were.
    pub fn drop_unmatched(&mut self, side: &mut Side) -> Result<u64, OperatorError> {
        let mut unmatched = 0;
        if self.weights.iter().all(|w| *w > 0) {
            return Ok(0);
        }
        for at in 0..self.rows.len() {
            if self.weights[at] < 0 {
                let (hash, key, row) = self.at(at);
                let there = side.get(hash, key, row)?.count;
                if there + self.weights[at] < 0 {
                    unmatched += (there + self.weights[at]).unsigned_abs();
                    self.weights[at] = -there;
                }
            }
        }
        if unmatched > 0 {
            let weights = std::mem::take(&mut self.weights);
            let rows = std::mem::take(&mut self.rows);
            (self.rows, self.weights) = rows.into_iter().zip(weights).filter(|(_, w)| *w != 0).unzip();
            self.degrees.truncate(self.rows.len());
        }
        Ok(unmatched)
    }

    /// Hash, key and encoded row of the remaining row number `at`.
    pub fn at(&self, at: usize) -> (u64, &[u8], &[u8]) {
        let row = self.rows[at] as usize;
        (self.hashes[row], self.keys.row(row), self.encoded.row(row))
    }
}

/// A hash of a row with its key.
pub(super) fn row_hash(key_hash: u64, encoded: &[u8]) -> u64 {
    key_hash.rotate_left(17) ^ hash_bytes(encoded)
}
