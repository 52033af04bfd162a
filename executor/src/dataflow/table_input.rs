//! Rows that SQL writes to a table. The engine puts them in the table's queue once they are in the table log; they enter at
//! the epoch that the log has them at.
//!
//! The rows of each write move the watermark of a table that declares one, at the end of the write's epoch. What they moved it
//! to is kept by the operator that filters by it.

use super::adapter::Packets;
use super::context::NodeContext;
use super::input::{Entrance, Gate, input};
use super::packet::Mark;
use super::source::newest_time;
use crate::error::OperatorError;
use crate::operator::Watermark;
use arrow::array::BooleanArray;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_catalog::object::WatermarkSpec;
use thalweg_catalog::{Delta, Epoch, ObjectId};
use timely::dataflow::Scope;

/// What has been written to a table and not entered its dataflow.
#[derive(Debug, Default)]
pub struct TableQueue {
    rows: Mutex<BTreeMap<Epoch, Vec<Delta>>>,
    closed: AtomicBool,
}

impl TableQueue {
    /// Adds a write, at an epoch that the clock's table frontier has not passed.
    pub fn push(&self, epoch: Epoch, delta: Delta) {
        self.rows.lock().entry(epoch).or_default().push(delta);
    }

    /// Says that nothing more will be written: the table ends.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

struct TableInput {
    context: NodeContext,
    queue: Arc<TableQueue>,
    /// Whether this worker is the one that takes from the queue.
    mine: bool,
    watermark: Option<WatermarkSpec>,
    /// The newest time of a row so far.
    newest_us: Option<i64>,
    /// Whether the worker, not being the one, has said that it holds no watermark up.
    said_idle: bool,
}

/// Builds the operator. `watermark.column` counts in the table's columns.
pub fn table_input<'scope>(
    scope: Scope<'scope, u64>,
    context: NodeContext,
    object: ObjectId,
    watermark: Option<WatermarkSpec>,
) -> Packets<'scope> {
    let queue = context.worker().shared.table_queue(object);
    let mine = object.0 as usize % context.worker().workers == context.worker().index;
    input(scope, context.clone(), move |_, _| {
        Ok(TableInput { context, queue, mine, watermark, newest_us: None, said_idle: false })
    })
}

impl TableInput {
    /// Gives the changes of one write.
    fn give(&mut self, deltas: Vec<Delta>, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        let before = self.newest_us;
        for delta in deltas {
            if let Some(spec) = &self.watermark {
                let inserted = BooleanArray::from_iter((0..delta.num_rows()).map(|row| Some(delta.weight(row) > 0)));
                self.newest_us = self.newest_us.max(newest_time(spec, delta.filter(&inserted)?.batch())?);
            }
            gate.give(delta);
        }
        if let (Some(spec), Some(newest)) = (&self.watermark, self.newest_us.filter(|_| self.newest_us != before)) {
            let watermark = Watermark { value: newest.saturating_sub(spec.delay_us), idle: false };
            gate.give_marks(vec![Mark { column: spec.column, watermark }]);
        }
        Ok(())
    }

    /// Says of the watermark what holds whatever is written: nothing that counts comes by this worker, or nothing more at all.
    fn give_standing_mark(&mut self, watermark: Watermark, gate: &mut Gate<'_>) {
        if let Some(spec) = &self.watermark {
            gate.give_marks(vec![Mark { column: spec.column, watermark }]);
        }
    }
}

impl Entrance for TableInput {
    fn run(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        if !self.mine && !self.said_idle {
            self.said_idle = true;
            self.give_standing_mark(Watermark { value: i64::MIN, idle: true }, gate);
        }
        // In this order: what is delivered before the frontier passes is in the queue when the frontier is seen to have passed.
        let closed = self.queue.closed.load(Ordering::SeqCst);
        let frontier = self.context.clock().table_frontier();
        while self.mine {
            let next = {
                let mut rows = self.queue.rows.lock();
                if rows.first_key_value().is_some_and(|(epoch, _)| *epoch < frontier) { rows.pop_first() } else { None }
            };
            let Some((epoch, deltas)) = next else { break };
            // A write that is replayed after a restart is older than the job's start, where it enters.
            gate.advance(epoch);
            self.give(deltas, gate)?;
        }
        let empty = !self.mine || self.queue.rows.lock().is_empty();
        if closed && empty {
            self.give_standing_mark(Watermark::END, gate);
            gate.end();
        } else {
            gate.advance(frontier);
        }
        Ok(())
    }
}
