//! EmitOnClose: the input's rows whose time is below the watermark, each given once, when it has come to be below.
//!
//! State: the rows that wait, under the vnode of their key and their time. Bounded by the watermark. A retraction that comes
//! in time takes its row out of those that wait; a later change for a time that is closed is dropped and counted, since what was
//! given stands (S15). A row without a time can never close and is dropped and counted too.
//!
//! "Below" is strict: a watermark promises that nothing *less* comes (S9), so at a watermark equal to a window's end rows of
//! that window can still come. The index of times is rebuilt from state after a restart.

use super::build::Context;
use super::horizon::{Horizon, micros};
use super::rows::{Errors, KeyHash, batch_of, columns_of, weighted};
use crate::error::OperatorError;
use crate::operator::{Dropped, EpochInput, Operator, Output, PIECE_ROWS, Progress};
use arrow::array::{Array, ArrayRef, Int32Array, TimestampMicrosecondArray};
use arrow::compute::is_not_null;
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_catalog::hash::hash_bytes;
use thalweg_catalog::{Delta, VNode};
use thalweg_plan::{Exchange, PlanNode};
use thalweg_storage::state::{EncodedRows, Entry, RowCodec, SortedTable, TableSpec};

/// A running `EmitOnClose`.
pub struct EmitOnClose {
    schema: SchemaRef,
    column: usize,
    /// The columns that decide where a row's state lies: those by which rows were sent here.
    route: Vec<usize>,
    key_hash: KeyHash,
    key_codec: RowCodec,
    row_codec: RowCodec,
    table: SortedTable,
    /// The vnodes that hold rows of each time.
    times: BTreeMap<i64, BTreeSet<u16>>,
    horizon: Horizon,
    closing: Closing,
    errors: Errors,
}

/// The keys that are being given.
#[derive(Default)]
struct Closing {
    vnodes: Vec<u16>,
    keys: EncodedRows,
    next: usize,
    /// The last row of the key at hand that was given.
    after: Option<Vec<u8>>,
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
            Exchange::Local | Exchange::Broadcast => (0..input.fields().len()).collect(),
        };
        let key = vec![
            Field::new("vnode", DataType::Int32, false),
            Field::new("time", DataType::Timestamp(TimeUnit::Microsecond, None), false),
        ];
        let fields: Vec<Field> = input.fields().iter().map(|f| f.as_ref().clone()).collect();
        let mut operator = EmitOnClose {
            schema: Arc::clone(&node.schema),
            column,
            route,
            key_hash: KeyHash::of(node, 0),
            key_codec: RowCodec::new(&key)?,
            row_codec: RowCodec::new(&fields)?,
            table: context.state.sorted_table(TableSpec {
                name: "waiting".into(),
                key,
                sub: fields,
                sub_order: Vec::new(),
                value: Vec::new(),
            })?,
            times: BTreeMap::new(),
            horizon: Horizon::open(&context.state)?,
            closing: Closing::default(),
            errors: context.errors,
        };
        operator.index_times()?;
        Ok(operator)
    }

    fn index_times(&mut self) -> Result<(), OperatorError> {
        let (codec, times) = (&self.key_codec, &mut self.times);
        let mut fault = None;
        self.table.for_each_key(&mut |_, key| {
            let columns = codec.decode([key])?;
            match (columns[0].as_any().downcast_ref::<Int32Array>(), micros(&columns[1])) {
                (Some(vnodes), Ok(at)) => {
                    times.entry(at.value(0)).or_default().insert(vnodes.value(0) as u16);
                }
                (_, Err(error)) => fault = Some(error),
                (None, _) => fault = Some(OperatorError::Invariant("CLOSE-1", "a stored key has no vnode".into())),
            }
            Ok(())
        })?;
        fault.map_or(Ok(()), Err)
    }

    fn drop_rows(&self, why: Dropped, rows: u64) {
        if rows > 0 {
            self.errors.borrow_mut().dropped(why, rows);
        }
    }

    /// The rows that can still wait for their time.
    fn on_time(&self, delta: Delta) -> Result<Delta, OperatorError> {
        let times = delta.batch().column(self.column);
        let timeless = times.null_count();
        let delta = if timeless > 0 { delta.filter(&is_not_null(times)?)? } else { delta };
        let (delta, late) = self.horizon.on_time(delta, self.column)?;
        self.drop_rows(Dropped::Late, timeless as u64 + late);
        Ok(delta)
    }

    fn take_in(&mut self, delta: &Delta) -> Result<(), OperatorError> {
        let (batch, rows) = (delta.batch(), delta.num_rows());
        let hashes = self.key_hash.hashes(&columns_of(batch, &self.route), rows)?;
        let vnodes: Vec<u16> = hashes.iter().map(|h| VNode::of_hash(*h).0).collect();
        let times = micros(batch.column(self.column))?;
        let keys = self.keys(vnodes.iter().copied(), times.values().iter().copied())?;
        let encoded = self.row_codec.encode(batch.columns(), rows)?;
        for row in 0..rows {
            let key = keys.row(row);
            self.table.add(key_hash(vnodes[row], key), key, encoded.row(row), delta.weight(row))?;
            self.times.entry(times.value(row)).or_default().insert(vnodes[row]);
        }
        Ok(())
    }

    fn keys(&self, vnodes: impl Iterator<Item = u16>, times: impl Iterator<Item = i64>) -> Result<EncodedRows, OperatorError> {
        let vnodes = Int32Array::from_iter_values(vnodes.map(i32::from));
        let rows = vnodes.len();
        let times = TimestampMicrosecondArray::from_iter_values(times);
        let columns: [ArrayRef; 2] = [Arc::new(vnodes), Arc::new(times)];
        Ok(self.key_codec.encode(&columns, rows)?)
    }

    /// Takes out of the index what the watermark has closed.
    fn close(&mut self, watermark: Option<i64>) -> Result<(), OperatorError> {
        self.closing = Closing::default();
        if !self.horizon.advance(watermark) {
            return Ok(());
        }
        let open = self.times.split_off(&self.horizon.value());
        let closed = std::mem::replace(&mut self.times, open);
        let pairs: Vec<(u16, i64)> = closed.iter().flat_map(|(time, nodes)| nodes.iter().map(|n| (*n, *time))).collect();
        self.closing.vnodes = pairs.iter().map(|p| p.0).collect();
        self.closing.keys = self.keys(pairs.iter().map(|p| p.0), pairs.iter().map(|p| p.1))?;
        Ok(())
    }

    /// Gives at most a piece of what is closing. Whether there is more.
    fn give_piece(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        let mut rows: Vec<Vec<u8>> = Vec::new();
        let mut weights = Vec::new();
        let mut unmatched = 0;
        while self.closing.next < self.closing.vnodes.len() && rows.len() < PIECE_ROWS {
            let key = self.closing.keys.row(self.closing.next);
            let hash = key_hash(self.closing.vnodes[self.closing.next], key);
            let mut visit = |row: &[u8], entry: Entry| {
                if entry.count > 0 {
                    rows.push(row.to_vec());
                    weights.push(entry.count);
                } else {
                    unmatched += entry.count.unsigned_abs();
                }
                rows.len() < PIECE_ROWS
            };
            match self.closing.after.take() {
                None => self.table.scan(hash, key, &mut visit)?,
                Some(after) => self.table.scan_after(hash, key, &after, &mut visit)?,
            }
            if rows.len() < PIECE_ROWS {
                self.table.remove_key(hash, key)?;
                self.closing.next += 1;
            } else {
                self.closing.after = rows.last().cloned();
            }
        }
        self.drop_rows(Dropped::Unmatched, unmatched);
        if !rows.is_empty() {
            let columns = self.row_codec.decode(rows.iter().map(Vec::as_slice))?;
            output.give(weighted(batch_of(&self.schema, columns, rows.len())?, weights));
        }
        Ok(if self.closing.next < self.closing.vnodes.len() { Progress::More } else { Progress::Done })
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
        self.close(input.watermarks.first().and_then(|w| w.get(&self.column).copied()))
    }

    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        self.give_piece(output)
    }
}

/// The hash of a key: its vnode is the one in the key, the rest is of the whole key.
fn key_hash(vnode: u16, key: &[u8]) -> u64 {
    u64::from(vnode) << 54 | hash_bytes(key) >> 10
}
