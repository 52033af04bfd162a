//! EmitOnClose: the input's rows whose time is below the watermark, each given once, when it has come to be below.
//!
//! State: the rows that wait, earliest first under each key. The key is what rows were sent here by: the columns of a hash
//! exchange, or else the time itself. Bounded by the watermark. A retraction that comes in time takes its row out of those that
//! wait; a later change for a time that is closed is dropped and counted, since what was given stands (S15). A row without a time
//! can never close and is dropped and counted too.
//!
//! "Below" is strict: a watermark promises that nothing *less* comes (S9), so at a watermark equal to a window's end rows of
//! that window can still come. The index of keys by time is rebuilt from state after a restart.

use super::build::Context;
use super::horizon::{Horizon, TimeIndex, least_not_below, micros};
use super::rows::{Errors, batch_of, columns_of, fields_of, weighted};
use crate::error::OperatorError;
use crate::operator::{Dropped, EpochInput, Operator, Output, PIECE_ROWS, Progress};
use arrow::array::Array;
use arrow::compute::is_not_null;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use thalweg_catalog::Delta;
use thalweg_catalog::hash::hash_columns;
use thalweg_plan::{Exchange, PlanNode};
use thalweg_storage::state::{RowCodec, SortedTable, TableSpec};

/// A running `EmitOnClose`.
pub struct EmitOnClose {
    schema: SchemaRef,
    column: usize,
    route: Vec<usize>,
    key_codec: RowCodec,
    time_codec: RowCodec,
    row_codec: RowCodec,
    /// The input's column at each place of an encoded row: the time, then the others.
    layout: Vec<usize>,
    table: SortedTable,
    index: TimeIndex,
    horizon: Horizon,
    closing: Closing,
    errors: Errors,
}

/// The keys with rows that are being given.
#[derive(Default)]
struct Closing {
    /// The encoded watermark: rows before it close.
    bound: Vec<u8>,
    keys: Vec<(u64, Box<[u8]>)>,
}

impl EmitOnClose {
    /// The operator of an `EmitOnClose` node.
    ///
    /// # Errors
    /// `Plan` if the node is another or does not fit its input; `State` if state can't be opened.
    pub fn new(node: &PlanNode, input: &SchemaRef, context: Context) -> Result<EmitOnClose, OperatorError> {
        let thalweg_plan::Operator::EmitOnClose { column } = node.operator else {
            return Err(OperatorError::Plan("not an EmitOnClose".into()));
        };
        if column >= input.fields().len() || node.schema.fields().len() != input.fields().len() {
            return Err(OperatorError::Plan("an EmitOnClose gives the columns of its input".into()));
        }
        let route = match &node.inputs[0].exchange {
            Exchange::Hash(columns) => columns.clone(),
            Exchange::Single => Vec::new(),
            Exchange::Local | Exchange::Broadcast => vec![column],
        };
        let others = (0..input.fields().len()).filter(|c| *c != column);
        let layout: Vec<usize> = std::iter::once(column).chain(others).collect();
        let (key_fields, row_fields) = (fields_of(input, &route)?, fields_of(input, &layout)?);
        let mut operator = EmitOnClose {
            schema: Arc::clone(&node.schema),
            column,
            route,
            key_codec: RowCodec::new(&key_fields)?,
            time_codec: RowCodec::new(&fields_of(input, &[column])?)?,
            row_codec: RowCodec::new(&row_fields)?,
            layout,
            table: context.state.sorted_table(TableSpec {
                name: "waiting".into(),
                key: key_fields,
                sub: row_fields,
                sub_order: Vec::new(),
                value: Vec::new(),
            })?,
            index: TimeIndex::default(),
            horizon: Horizon::open(&context.state)?,
            closing: Closing::default(),
            errors: context.errors,
        };
        operator.index_keys()?;
        Ok(operator)
    }

    /// Rebuilds the index: a key stands under each of its times.
    fn index_keys(&mut self) -> Result<(), OperatorError> {
        let mut keys: Vec<(u64, Box<[u8]>)> = Vec::new();
        self.table.for_each_key(&mut |hash, key| {
            keys.push((hash, key.into()));
            Ok(())
        })?;
        for (hash, key) in keys {
            let mut rows = Vec::new();
            self.table.scan(hash, &key, |row, _| {
                rows.push(row.to_vec());
                true
            })?;
            if !rows.is_empty() {
                let columns = self.row_codec.decode(rows.iter().map(Vec::as_slice))?;
                micros(&columns[0])?.iter().flatten().for_each(|time| self.index.insert(time, hash, &key));
            }
        }
        Ok(())
    }

    fn dropped(&self, why: Dropped, rows: u64) {
        if rows > 0 {
            self.errors.borrow_mut().dropped(why, rows);
        }
    }

    /// The rows that can still wait for their time.
    fn on_time(&self, delta: Delta) -> Result<Delta, OperatorError> {
        let times = Arc::clone(delta.batch().column(self.column));
        let timeless = times.null_count();
        let delta = if timeless > 0 { delta.filter(&is_not_null(&times)?)? } else { delta };
        let (delta, late) = self.horizon.on_time(delta, self.column)?;
        self.dropped(Dropped::Late, timeless as u64 + late);
        Ok(delta)
    }

    fn take_in(&mut self, delta: &Delta) -> Result<(), OperatorError> {
        let (batch, rows) = (delta.batch(), delta.num_rows());
        let key_columns = columns_of(batch, &self.route);
        let hashes = hash_columns(&key_columns, rows)?;
        let keys = self.key_codec.encode(&key_columns, rows)?;
        let times = micros(batch.column(self.column))?;
        let encoded = self.row_codec.encode(&columns_of(batch, &self.layout), rows)?;
        for (row, hash) in hashes.into_iter().enumerate() {
            let key = keys.row(row);
            self.table.add(hash, key, encoded.row(row), delta.weight(row))?;
            self.index.insert(times.value(row), hash, key);
        }
        Ok(())
    }

    /// Takes up the watermark.
    fn close(&mut self, watermark: Option<i64>) -> Result<(), OperatorError> {
        if self.horizon.advance(watermark) {
            let time = least_not_below(self.horizon.value(), self.schema.field(self.column).data_type())?;
            self.closing.bound = self.time_codec.encode(&[time], 1)?.row(0).to_vec();
        }
        Ok(())
    }

    /// Gives at most about a piece of what is closing.
    fn give_piece(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        let mut rows: Vec<Vec<u8>> = Vec::new();
        let mut weights: Vec<i64> = Vec::new();
        let mut unmatched = 0;
        while rows.len() < PIECE_ROWS {
            if self.closing.keys.is_empty() {
                self.closing.keys = self.index.take_below(self.horizon.value(), PIECE_ROWS);
            }
            let Some((hash, key)) = self.closing.keys.last() else { break };
            let first = rows.len();
            let (bound, mut left) = (self.closing.bound.as_slice(), false);
            self.table.scan(*hash, key, |row, entry| {
                left = row >= bound || rows.len() >= PIECE_ROWS;
                if !left {
                    rows.push(row.to_vec());
                    weights.push(entry.count);
                }
                !left
            })?;
            if left {
                for (row, count) in rows[first..].iter().zip(&weights[first..]) {
                    self.table.add(*hash, key, row, -count)?;
                }
            } else {
                self.table.remove_key(*hash, key)?;
            }
            if rows.len() < PIECE_ROWS || !left {
                self.closing.keys.pop();
            }
        }
        weights.iter_mut().filter(|w| **w < 0).for_each(|w| {
            unmatched += w.unsigned_abs();
            *w = 0;
        });
        self.dropped(Dropped::Unmatched, unmatched);
        let more = rows.len() >= PIECE_ROWS;
        if unmatched > 0 {
            (rows, weights) = rows.into_iter().zip(weights).filter(|(_, w)| *w != 0).unzip();
        }
        if !rows.is_empty() {
            output.give(self.delta(&rows, weights)?);
        }
        Ok(if more { Progress::More } else { Progress::Done })
    }

    fn delta(&self, rows: &[Vec<u8>], weights: Vec<i64>) -> Result<Delta, OperatorError> {
        let decoded = self.row_codec.decode(rows.iter().map(Vec::as_slice))?;
        let mut places: Vec<usize> = (0..self.layout.len()).collect();
        places.sort_unstable_by_key(|place| self.layout[*place]);
        let columns = places.into_iter().map(|place| Arc::clone(&decoded[place])).collect();
        Ok(weighted(batch_of(&self.schema, columns, rows.len())?, weights))
    }
}

impl Operator for EmitOnClose {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        for delta in input.ports.into_iter().flatten() {
            let delta = self.on_time(delta)?;
            if !delta.is_empty() {
                self.take_in(&delta)?;
            }
        }
        self.close(input.watermarks.first().and_then(|w| w.get(&self.column)).map(|w| w.value))
    }

    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        self.give_piece(output)
    }
}

#[cfg(test)]
mod tests;
