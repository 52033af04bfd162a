//! Sends rows out of the dataflow to a sink's writer. The root of its job.
//!
//! State: the sink log, which holds at each checkpoint every change up to it that the target is not known to have. A sink
//! that delivers at checkpoints is given a checkpoint's changes once its manifest is durable; one that delivers at once is
//! given each epoch's, and after a restart gets again what the log holds. Bounded in memory: changes that the writer has no
//! room for are in the log only, and a segment of the log leaves memory when it is stored.

use super::adapter::Stage;
use super::context::NodeContext;
use crate::delivery::progress::{SinkHandle, WAITING_BYTES_MAX, bytes_of};
use crate::delivery::segment::{self, SegmentName};
use crate::error::OperatorError;
use crate::operator::{EpochInput, Output, Progress, Watermarks};
use arrow::array::{Int64Array, UInt32Array};
use std::collections::HashMap;
use std::collections::VecDeque;
use thalweg_catalog::object::SinkMode;
use thalweg_catalog::{Delta, Epoch};
use thalweg_connectors::SinkBatch;
use thalweg_storage::state::{CellTable, RowCodec};

/// A segment of the log takes no further changes once it is this large, in bytes.
const SEGMENT_BYTES: usize = 1 << 20;

/// The operator.
pub struct Sink {
    context: NodeContext,
    mode: SinkMode,
    key: Vec<usize>,
    log: CellTable,
    handle: SinkHandle,
    /// Changes that are not in the log yet, oldest first.
    unlogged: VecDeque<SinkBatch>,
    unlogged_bytes: usize,
    /// The epoch through which the writer has been handed all changes, or they have been postponed.
    handed: Epoch,
}

impl Sink {
    /// Opens the log and leaves what it holds to the writer.
    ///
    /// # Errors
    /// If the log can't be read.
    pub fn new(context: NodeContext, mode: SinkMode, key: &[usize], handle: SinkHandle) -> Result<Sink, OperatorError> {
        let log = context.state.cell_table("log", context.worker().own_vnode())?;
        for name in log.names() {
            handle.postpone(SegmentName::from_bytes(&name)?, log.stored(&name));
        }
        let (unlogged, unlogged_bytes, handed) = (VecDeque::new(), 0, Epoch(0));
        Ok(Sink { context, mode, key: key.to_vec(), log, handle, unlogged, unlogged_bytes, handed })
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
            SinkMode::Changelog => consolidate(&all, None),
        }
    }

    /// Drops what the target has.
    fn forget_delivered(&mut self) {
        let delivered = self.handle.delivered().min(self.handed);
        while self.take_unlogged(|batch| batch.epoch <= delivered).is_some() {}
    }

    /// Hands over what has not been, as far as the writer has room for it.
    fn hand_over(&mut self) {
        let next = self.unlogged.partition_point(|batch| batch.epoch <= self.handed);
        for batch in self.unlogged.range(next..) {
            if !self.handle.has_room() {
                return;
            }
            self.handed = batch.epoch;
            self.handle.send(batch.clone());
        }
    }

    /// Puts changes up to an epoch into the log, and leaves to the writer those that it has not been handed.
    fn log_through(&mut self, epoch: Epoch) -> Result<(), OperatorError> {
        while let Some(first) = self.unlogged.front().filter(|batch| batch.epoch <= epoch) {
            let limit = if first.epoch <= self.handed { epoch.min(self.handed) } else { epoch };
            let (mut batches, mut bytes, mut through) = (vec![], 0, first.epoch);
            while bytes < SEGMENT_BYTES
                && let Some(batch) = self.take_unlogged(|batch| batch.epoch <= limit)
            {
                bytes += bytes_of(&batch);
                through = batch.epoch;
                batches.push(batch);
            }
            let worker = self.context.worker();
            let name = SegmentName { through, writer: worker.index as u32, writers: worker.workers as u32 };
            self.log.put(&name.to_bytes(), &segment::encode(&batches)?);
            if through > self.handed {
                self.handed = through;
                self.handle.postpone(name, self.log.stored(&name.to_bytes()));
            }
        }
        Ok(())
    }

    fn take_unlogged(&mut self, wanted: impl Fn(&SinkBatch) -> bool) -> Option<SinkBatch> {
        self.unlogged.front().filter(|batch| wanted(batch))?;
        let batch = self.unlogged.pop_front()?;
        self.unlogged_bytes -= bytes_of(&batch);
        Some(batch)
    }

    /// Fails the job if the log can't be written.
    fn log_or_fail(&mut self, epoch: Epoch) {
        if let Err(error) = self.log_through(epoch) {
            self.context.job.shared.fail(super::adapter::chain(&error));
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
            self.handle.note_rows(input.epoch);
            self.forget_delivered();
            self.unlogged_bytes += bytes_of(&batch);
            self.unlogged.push_back(batch);
            self.hand_over();
            if self.unlogged_bytes > WAITING_BYTES_MAX {
                self.log_through(input.epoch)?;
            }
        }
        Ok(())
    }

    fn step(&mut self, _output: &mut Output) -> Result<Progress, OperatorError> {
        Ok(Progress::Done)
    }

    fn completed(&mut self, epoch: Epoch, _watermarks: &Watermarks) {
        self.hand_over();
        if epoch == Epoch::END {
            // The operator goes now, and the writer still has to know of everything.
            self.log_or_fail(epoch);
        }
        self.handle.complete(epoch);
    }

    fn before_flush(&mut self, checkpoint: Epoch) {
        self.forget_delivered();
        for name in self.log.names() {
            if SegmentName::from_bytes(&name).is_ok_and(|segment| self.handle.has_delivered(segment)) {
                self.log.remove(&name);
            }
        }
        self.log_or_fail(checkpoint);
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
