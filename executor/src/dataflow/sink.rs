//! Sends rows out of the dataflow to a sink's writer. The root of its job.
//!
//! State: the sink log, which holds at each checkpoint every change up to it that the target is not known to have. A sink
//! that delivers at checkpoints is given a checkpoint's changes once its manifest is durable; one that delivers at once is
//! given each epoch's, and after a restart gets again what the log holds.

use super::adapter::Stage;
use super::context::NodeContext;
use crate::delivery::{LogEntry, SinkHandle};
use crate::error::OperatorError;
use crate::operator::{EpochInput, Output, Progress, Watermarks};
use arrow::array::{Int64Array, UInt32Array};
use std::collections::HashMap;
use std::collections::VecDeque;
use thalweg_catalog::object::SinkMode;
use thalweg_catalog::{Delta, Epoch};
use thalweg_connectors::SinkBatch;
use thalweg_storage::state::{CellTable, RowCodec};

/// The operator.
pub struct Sink {
    context: NodeContext,
    mode: SinkMode,
    key: Vec<usize>,
    log: CellTable,
    handle: SinkHandle,
    /// Changes that are not in the log yet, oldest first.
    unlogged: VecDeque<SinkBatch>,
}

impl Sink {
    /// Opens the log and hands what it holds to the writer.
    ///
    /// # Errors
    /// If the log can't be read.
    pub fn new(context: NodeContext, mode: SinkMode, key: &[usize], handle: SinkHandle) -> Result<Sink, OperatorError> {
        let log = context.state.cell_table("log", context.worker().own_vnode())?;
        let entries = log.entries().iter().map(|(name, value)| LogEntry::decode(name, value)).collect::<Result<_, _>>()?;
        handle.restore(entries);
        Ok(Sink { context, mode, key: key.to_vec(), log, handle, unlogged: VecDeque::new() })
    }

    /// An epoch's net change as the sink's mode wants it.
    fn shape(&self, deltas: &[Delta]) -> Result<Delta, OperatorError> {
        let all = Delta::concat(&self.context.plan().schema, deltas)?;
        match self.mode {
            SinkMode::AppendOnly => {
                let net = consolidate(&all, None)?;
                if net.weights().is_some_and(|w| w.values().iter().any(|w| *w < 0)) {
                    let text = "an append-only sink was given a row to take back".into();
                    return Err(OperatorError::Invariant("SINK-1", text));
                }
                Ok(net)
            }
            SinkMode::Upsert => consolidate(&all, Some(&self.key)),
        }
    }

    /// Drops what the target has.
    fn forget_delivered(&mut self) {
        let delivered = self.handle.delivered();
        while self.unlogged.front().is_some_and(|batch| batch.epoch <= delivered) {
            self.unlogged.pop_front();
        }
    }
}

impl Stage for Sink {
    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        let deltas: Vec<_> = input.ports.into_iter().flatten().collect();
        if deltas.is_empty() {
            return Ok(());
        }
        let net = self.shape(&deltas)?;
        if !net.is_empty() {
            let (batch, weights) = net.into_parts();
            let batch = SinkBatch { epoch: input.epoch, batch, weights };
            self.forget_delivered();
            self.unlogged.push_back(batch.clone());
            self.handle.send(batch);
        }
        Ok(())
    }

    fn step(&mut self, _output: &mut Output) -> Result<Progress, OperatorError> {
        Ok(Progress::Done)
    }

    fn completed(&mut self, epoch: Epoch, _watermarks: &Watermarks) {
        self.handle.complete(epoch);
    }

    fn before_flush(&mut self, checkpoint: Epoch) {
        self.forget_delivered();
        let delivered = self.handle.delivered();
        for (name, _) in self.log.entries() {
            if LogEntry::epoch_of(&name).is_some_and(|epoch| epoch <= delivered) {
                self.log.remove(&name);
            }
        }
        let (own, all) = (self.context.worker().index, self.context.worker().workers);
        while self.unlogged.front().is_some_and(|batch| batch.epoch <= checkpoint) {
            let Some(batch) = self.unlogged.pop_front() else { break };
            let (name, value) = LogEntry { batch, writer: own, writers: all }.encode();
            self.log.put(&name, &value);
        }
    }
}

/// The net change: without a key rows with their summed weights; with one the new row of each key (+1), or the row that it has
/// lost (−1).
fn consolidate(delta: &Delta, key: Option<&[usize]>) -> Result<Delta, OperatorError> {
    if key.is_none() && delta.weights().is_none() {
        return Ok(delta.clone());
    }
    let fields: Vec<_> = delta.schema().fields().iter().map(|f| f.as_ref().clone()).collect();
    let rows = RowCodec::new(&fields)?.encode(delta.batch().columns(), delta.num_rows())?;
    // By whole row first: copies that cancel are no change at all.
    let mut net: HashMap<&[u8], (usize, i64)> = HashMap::new();
    for row in 0..delta.num_rows() {
        net.entry(rows.row(row)).or_insert((row, 0)).1 += delta.weight(row);
    }
    let mut changes: Vec<(usize, i64)> = net.into_values().filter(|(_, weight)| *weight != 0).collect();
    changes.sort_unstable();
    if let Some(key) = key {
        let fields: Vec<_> = key.iter().map(|c| fields[*c].clone()).collect();
        let columns: Vec<_> = key.iter().map(|c| delta.batch().column(*c).clone()).collect();
        let keys = RowCodec::new(&fields)?.encode(&columns, delta.num_rows())?;
        let mut last: HashMap<&[u8], (usize, i64)> = HashMap::new();
        for (row, weight) in &changes {
            let entry = last.entry(keys.row(*row)).or_insert((*row, *weight));
            // A new row of the key stands above the row that it lost, and a later new row above an earlier one.
            if *weight > 0 {
                *entry = (*row, 1);
            }
        }
        changes = last.into_values().map(|(row, weight)| (row, weight.signum())).collect();
        changes.sort_unstable();
    }
    let places = UInt32Array::from_iter_values(changes.iter().map(|(row, _)| *row as u32));
    let weights = Int64Array::from_iter_values(changes.iter().map(|(_, weight)| *weight));
    let batch = arrow::compute::take_record_batch(delta.batch(), &places)?;
    Ok(Delta::weighted(batch, weights))
}
