//! Reads a table or materialized view of another job: its rows as of one epoch, then its changes.
//!
//! The snapshot is taken on each worker at the worker's own completed epoch; the job's result is whole from the latest of these
//! on. After a restart from a checkpoint no snapshot is read: the job has it.

use super::adapter::Packets;
use super::context::NodeContext;
use super::hub::Follower;
use super::input::{Entrance, Gate, input};
use super::packet::Mark;
use crate::error::OperatorError;
use crate::job::JobShared;
use crate::operator::Watermarks;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_catalog::{Delta, Epoch, ObjectId};
use thalweg_storage::StorageResult;
use timely::dataflow::Scope;

/// Batches of the snapshot that are given in one run.
const BATCHES_PER_RUN: usize = 2;

type Snapshot = Box<dyn Iterator<Item = StorageResult<arrow::array::RecordBatch>> + Send>;

struct Relation {
    context: NodeContext,
    upstream: Arc<JobShared>,
    object: ObjectId,
    columns: Vec<usize>,
    follower: Rc<RefCell<Follower>>,
    phase: Phase,
}

enum Phase {
    /// Until the relation is whole and complete past the job's start.
    Waiting,
    /// Giving the rows as of an epoch.
    Snapshot { rows: Snapshot, epoch: Epoch },
    /// Giving changes.
    Following,
}

/// Builds the operator.
pub fn relation<'scope>(scope: Scope<'scope, u64>, context: NodeContext, object: ObjectId, columns: &[usize]) -> Packets<'scope> {
    let columns = columns.to_vec();
    input(scope, context.clone(), move |activator, _| {
        let missing = || OperatorError::Plan(format!("object {object} has no job to read from"));
        let upstream = context.worker().shared.job(object).ok_or_else(missing)?;
        let hub = context.worker().hubs.borrow().get(&object).cloned().ok_or_else(missing)?;
        let wake = activator.clone();
        let follower = hub.borrow_mut().follow(Box::new(move || wake.activate()));
        let phase = if context.job.restored { Phase::Following } else { Phase::Waiting };
        Ok(Relation { context, upstream, object, columns, follower, phase })
    })
}

impl Entrance for Relation {
    fn run(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        if matches!(self.phase, Phase::Waiting) && !self.take_snapshot(gate)? {
            return Ok(());
        }
        if let Phase::Snapshot { rows, epoch } = &mut self.phase {
            for _ in 0..BATCHES_PER_RUN {
                match rows.next() {
                    Some(batch) => {
                        let batch = batch?;
                        self.context.job.shared.backfill_rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                        gate.give(Delta::inserts(batch));
                    }
                    None => {
                        let hydrated = *epoch;
                        self.phase = Phase::Following;
                        self.context.worker().shared.hydrated(&self.context, hydrated);
                        break;
                    }
                }
            }
        }
        match self.phase {
            Phase::Following => self.follow(gate),
            _ => {
                gate.again();
                Ok(())
            }
        }
    }
}

impl Relation {
    /// Takes the snapshot if the relation is ready for it.
    fn take_snapshot(&mut self, gate: &mut Gate<'_>) -> Result<bool, OperatorError> {
        let hub = self.context.worker().hubs.borrow().get(&self.object).cloned();
        let (Some(hub), Some(since)) = (hub, self.upstream.since()) else { return Ok(false) };
        let hub = hub.borrow();
        if hub.frontier() <= since.max(self.context.job.start) {
            return Ok(false);
        }
        let complete = if hub.frontier() == Epoch::END { Epoch::END } else { hub.frontier().previous() };
        let Some(hold) = hub.reader().hold(complete) else {
            return Err(OperatorError::Invariant(
                "RELATION-1",
                format!("epoch {complete} of object {} is not readable", self.object),
            ));
        };
        // An ended relation has no epoch of its own any more: its rows enter now.
        let epoch = if complete == Epoch::END { self.context.clock().open() } else { complete };
        gate.advance(epoch);
        // What came before is in the snapshot.
        let mut follower = self.follower.borrow_mut();
        follower.changes.clear();
        follower.marks.clear();
        follower.frontier = hub.frontier();
        drop(follower);
        self.context.job.shared.backfill_total.fetch_add(hub.reader().row_count() as u64, Ordering::Relaxed);
        gate.give_marks(self.marks(hub.watermarks()));
        self.phase = Phase::Snapshot { rows: hold.scan(&self.columns), epoch };
        Ok(true)
    }

    fn follow(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        let mut follower = self.follower.borrow_mut();
        let follower = &mut *follower;
        loop {
            let change = follower.changes.front().map(|(epoch, _)| *epoch);
            let mark = follower.marks.front().map(|(epoch, _)| *epoch);
            match (change, mark) {
                (Some(at), other) if other.is_none_or(|other| at <= other) => {
                    let (epoch, delta) = follower.changes.pop_front().expect("looked at just now");
                    gate.advance(epoch);
                    gate.give(delta.project(&self.columns)?);
                }
                (_, Some(_)) => {
                    let (epoch, marks) = follower.marks.pop_front().expect("looked at just now");
                    gate.advance(epoch);
                    gate.give_marks(self.marks(&marks));
                }
                (None, None) => break,
                (Some(_), None) => unreachable!("a change without a mark is taken by the first arm"),
            }
        }
        gate.advance(follower.frontier);
        Ok(())
    }

    /// The relation's watermarks on the columns that are read.
    fn marks(&self, watermarks: &Watermarks) -> Vec<Mark> {
        let place = |(column, own): (usize, &usize)| watermarks.get(own).map(|watermark| Mark { column, watermark: *watermark });
        self.columns.iter().enumerate().filter_map(place).collect()
    }
}
