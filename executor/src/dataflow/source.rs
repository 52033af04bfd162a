//! Reads a source's splits into the dataflow.
//!
//! A thread per worker and source does the blocking reads and decodes; rows meet the worker through a bounded queue. Rows are let
//! in only while few epochs are incomplete, which is all the back-pressure there is. State: for each split the position after
//! the rows that have entered, and its newest time.

use super::adapter::Packets;
use super::context::{NodeContext, Participant};
use super::input::{Entrance, Gate, input};
use super::packet::Mark;
use crate::error::OperatorError;
use crate::feed::{Feed, FeedEvent};
use crate::operator::Watermark;
use crate::row_errors::{ErrorRow, now_ms};
use arrow::array::AsArray;
use arrow::compute::{cast, max};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_catalog::object::WatermarkSpec;
use thalweg_catalog::{Delta, Epoch};
use thalweg_connectors::{Position, SourceBatch, SplitId};
use thalweg_storage::state::CellTable;
use timely::dataflow::Scope;

/// How many epochs may be incomplete while rows are let in.
const INCOMPLETE_MAX: usize = 3;
/// How many rows one epoch may take from one source on one worker.
const EPOCH_ROWS_MAX: usize = 1 << 18;
/// How many batches are let in before others run.
const BATCHES_PER_RUN: usize = 2;

/// What is kept of a split.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SplitState {
    /// The place after the rows that have entered.
    pub position: Position,
    /// The newest time among them, in microseconds since 1970.
    pub newest_us: Option<i64>,
    /// Whether the split has ended.
    pub ended: bool,
    /// How many rows have entered.
    pub rows: u64,
}

struct Source {
    context: NodeContext,
    feed: Feed,
    name: String,
    watermark: Option<WatermarkSpec>,
    participant: Participant,
    saved: CellTable,
    splits: BTreeMap<SplitId, SplitState>,
    /// When each split gave rows last, or was assigned.
    heard: BTreeMap<SplitId, Instant>,
    /// Splits that have moved since they were put where flushes take them from.
    moved: Vec<SplitId>,
    /// Whether the first splits have been assigned.
    assigned: bool,
    /// Whether no more splits will come.
    all_assigned: bool,
    epoch_rows: usize,
    said: Option<Mark>,
}

/// The positions that a checkpoint or a restart finds.
pub fn saved_splits(cells: &CellTable) -> Result<BTreeMap<SplitId, SplitState>, OperatorError> {
    let damaged =
        |e: &dyn std::fmt::Display| OperatorError::Invariant("SOURCE-1", format!("a saved position can't be read: {e}"));
    cells
        .entries()?
        .into_iter()
        .map(|(name, value)| {
            let split = String::from_utf8(name).map_err(|e| damaged(&e))?;
            let state: SplitState = serde_json::from_slice(&value).map_err(|e| damaged(&e))?;
            Ok((SplitId::from(split), state))
        })
        .collect()
}

/// The newest time of a batch that may move the watermark.
pub fn newest_time(spec: &WatermarkSpec, batch: &arrow::array::RecordBatch) -> Result<Option<i64>, OperatorError> {
    let times = batch.column(spec.column);
    let zone = if let DataType::Timestamp(_, zone) = times.data_type() { zone.clone() } else { None };
    let times = cast(times, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let newest = max(times);
    let Some(drift_ms) = spec.max_drift_ms else { return Ok(newest) };
    // S12: a row from too far ahead is kept, but does not move time.
    let limit = (now_ms() as i64).saturating_add(drift_ms as i64).saturating_mul(1000);
    if newest.is_none_or(|newest| newest <= limit) {
        Ok(newest)
    } else {
        Ok(times.iter().flatten().filter(|t| *t <= limit).max())
    }
}

/// Builds the operator. `watermark.column` counts in the columns that are read.
pub fn source<'scope>(
    scope: Scope<'scope, u64>,
    context: NodeContext,
    columns: &[usize],
    watermark: Option<WatermarkSpec>,
) -> Packets<'scope> {
    let columns = columns.to_vec();
    input(scope, context.clone(), move |_, waker| {
        let saved = context.state.cell_table("positions", context.worker().own_vnode())?;
        let splits = saved_splits(&saved)?;
        let shared = Arc::clone(&context.worker().shared);
        let wake = move || {
            // Fails only when the worker has stopped, and then nobody waits.
            let _ = waker.activate();
        };
        let (feed, name) = shared
            .open_feed(&context, &columns, watermark.as_ref().map(|w| w.column), splits.clone(), Box::new(wake))
            .map_err(|e| OperatorError::Connector(e.message))?;
        let participant = context.participate();
        let heard = splits.keys().map(|s| (Arc::clone(s), Instant::now())).collect();
        Ok(Source {
            context,
            feed,
            name,
            watermark,
            participant,
            saved,
            splits,
            heard,
            moved: vec![],
            assigned: false,
            all_assigned: false,
            epoch_rows: 0,
            said: None,
        })
    })
}

impl Entrance for Source {
    fn run(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        let open = self.context.clock().open();
        if gate.epoch().is_some_and(|epoch| epoch < open) {
            self.close_epoch(gate, open)?;
        }
        let completed = self.context.job.shared.completed_downstream();
        if self.context.clock().incomplete_since(completed) > INCOMPLETE_MAX || self.context.job.must_wait_for_memory() {
            // Looked at again at the next tick, which comes soon only if there is something to do.
            self.context.clock().note_activity();
            return Ok(());
        }
        for _ in 0..BATCHES_PER_RUN {
            if self.epoch_rows >= EPOCH_ROWS_MAX {
                self.context.clock().demand();
                return Ok(());
            }
            match self.feed.next() {
                Some(event) => self.take(event, gate)?,
                None => return self.end_if_over(gate),
            }
        }
        gate.again();
        Ok(())
    }
}

impl Source {
    fn close_epoch(&mut self, gate: &mut Gate<'_>, open: Epoch) -> Result<(), OperatorError> {
        if let Some(mark) = self.mark().filter(|mark| self.said != Some(*mark)) {
            self.said = Some(mark);
            gate.give_marks(vec![mark]);
        }
        self.save();
        self.flush_below(open)?;
        gate.advance(open);
        self.epoch_rows = 0;
        Ok(())
    }

    fn take(&mut self, event: FeedEvent, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        match event {
            FeedEvent::Assigned(splits) => {
                self.assigned = true;
                for split in splits {
                    self.heard.entry(split).or_insert_with(Instant::now);
                }
            }
            FeedEvent::AllAssigned => {
                self.assigned = true;
                self.all_assigned = true;
            }
            FeedEvent::Rows(batch) => self.take_rows(batch, gate)?,
            FeedEvent::SplitEnd(split, position) => {
                let state = self.split(&split);
                state.position = position;
                state.ended = true;
                self.moved.push(split);
                self.context.clock().note_activity();
            }
            FeedEvent::Failed(reason) => return Err(OperatorError::Connector(reason)),
        }
        Ok(())
    }

    fn split(&mut self, split: &SplitId) -> &mut SplitState {
        let empty = || SplitState { position: Position::new(), newest_us: None, ended: false, rows: 0 };
        self.splits.entry(Arc::clone(split)).or_insert_with(empty)
    }

    fn take_rows(&mut self, taken: SourceBatch, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        let rows = taken.batch.num_rows();
        let epoch = gate.epoch().unwrap_or(self.context.clock().open());
        for error in taken.errors {
            let error = ErrorRow {
                job: self.context.job.shared.id,
                operator: self.name.clone(),
                split: Some(taken.split.to_string()),
                position: Some(error.position),
                reason: error.reason,
                row: error.excerpt,
                count: 1,
                first_seen_ms: now_ms(),
            };
            self.context.worker().report(epoch, error)?;
        }
        let newest = match &self.watermark {
            Some(spec) => newest_time(spec, &taken.batch)?,
            None => None,
        };
        let state = self.split(&taken.split);
        state.position = taken.position;
        state.rows += rows as u64;
        state.newest_us = state.newest_us.max(newest);
        self.heard.insert(Arc::clone(&taken.split), Instant::now());
        self.moved.push(taken.split);
        self.epoch_rows += rows;
        self.context.clock().note_activity();
        self.context.worker().shared.note_dirty();
        gate.give(Delta::inserts(taken.batch));
        Ok(())
    }

    /// The watermark of this worker's splits; none while one of them has had no row and is not idle.
    fn mark(&self) -> Option<Mark> {
        let spec = self.watermark.as_ref()?;
        if !self.assigned {
            return None;
        }
        let is_idle = |since: &Instant| spec.idle_timeout_ms.is_some_and(|ms| since.elapsed().as_millis() as u64 >= ms);
        let open = self.heard.iter().filter(|(split, _)| self.splits.get(*split).is_none_or(|state| !state.ended));
        let mut splits = open.map(|(split, since)| {
            let newest = self.splits.get(split).and_then(|state| state.newest_us);
            let value = newest.map(|newest| newest.saturating_sub(spec.delay_us));
            let idle = is_idle(since);
            if idle {
                Some(Watermark { value: value.unwrap_or(i64::MIN), idle })
            } else {
                value.map(|value| Watermark { value, idle })
            }
        });
        let watermark = match splits.next() {
            Some(first) => Watermark::combined(std::iter::once(first).chain(splits))?,
            None if self.all_assigned => Watermark::END,
            None => Watermark { value: i64::MIN, idle: true },
        };
        Some(Mark { column: spec.column, watermark })
    }

    /// Puts what has moved where the next flush takes it from.
    fn save(&mut self) {
        let mut moved = std::mem::take(&mut self.moved);
        moved.sort();
        moved.dedup();
        for split in moved {
            if let Some(state) = self.splits.get(&split) {
                let value = serde_json::to_vec(state).expect("a split's state is plain data");
                self.saved.put(split.as_bytes(), &value);
            }
        }
        let worker = self.context.worker();
        if let Some(mark) = self.said {
            self.context.figures().watermark.store(mark.watermark.value, Ordering::Relaxed);
        }
        worker.shared.show_splits(&self.context, &self.splits);
    }

    /// Flushes at every announced checkpoint below `limit`: all rows up to it have entered, and none later.
    fn flush_below(&mut self, limit: Epoch) -> Result<(), OperatorError> {
        while let Some(checkpoint) = self.participant.due(limit) {
            self.context.worker().shared.note_positions(&self.context, checkpoint, &self.splits);
            self.participant.flush(checkpoint)?;
        }
        Ok(())
    }

    /// Ends the source once all of its splits have.
    fn end_if_over(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        let over = self.all_assigned && self.heard.keys().all(|split| self.splits.get(split).is_some_and(|s| s.ended));
        if !over {
            return Ok(());
        }
        if let Some(spec) = &self.watermark {
            gate.give_marks(vec![Mark { column: spec.column, watermark: Watermark::END }]);
        }
        self.save();
        self.flush_below(Epoch::END)?;
        self.context.worker().flush_ended(&self.context.state)?;
        self.context.worker().shared.source_ended(&self.context);
        gate.end();
        Ok(())
    }
}
