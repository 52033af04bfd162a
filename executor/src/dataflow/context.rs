//! What an operator's surroundings on one worker are.

use super::hub::Hub;
use crate::clock::Clock;
use crate::error::OperatorError;
use crate::job::{JobShared, OperatorFigures};
use crate::operator::{Dropped, RowErrors};
use crate::row_errors::saved::{SavedBy, SavedErrors};
use crate::row_errors::{ErrorRow, now_ms};
use crate::shared::Shared;
use std::cell::{Cell, RefCell};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_catalog::{CrashPoint, Epoch, ObjectId, VNODES, VNode};
use thalweg_plan::{NodeId, PlanNode};
use thalweg_storage::StorageResult;
use thalweg_storage::state::OperatorState;
use thalweg_storage::worker_store::WorkerStore;

/// One worker thread's own things.
pub struct WorkerContext {
    /// Its place among all workers.
    pub index: usize,
    /// How many there are.
    pub workers: usize,
    /// What all threads share.
    pub shared: Arc<Shared>,
    /// Its database.
    pub store: WorkerStore,
    /// The change logs of kept relations.
    pub hubs: RefCell<HashMap<ObjectId, Rc<RefCell<Hub>>>>,
    /// What to wake at each tick: the operators that rows enter by.
    pub inputs: RefCell<BTreeMap<u64, Rc<dyn Fn()>>>,
    /// How far each operator with state has flushed.
    pub flushed: RefCell<BTreeMap<u64, Epoch>>,
    /// The row errors of jobs that have had any.
    errors: RefCell<HashMap<ObjectId, SavedErrors>>,
    /// The newest checkpoint that was made here.
    pub checkpoint: Cell<Epoch>,
    /// The states of operators that ended while a checkpoint was being made, which must not hold their end; each with that checkpoint.
    ended: RefCell<Vec<(Epoch, OperatorState)>>,
    next_id: Cell<u64>,
    /// Jobs whose dataflow has gone, to be cleaned up after.
    pub gone: RefCell<Vec<ObjectId>>,
}

impl WorkerContext {
    /// The context of worker `index` of `workers`.
    pub fn new(index: usize, workers: usize, shared: Arc<Shared>, store: WorkerStore) -> WorkerContext {
        WorkerContext {
            index,
            workers,
            shared,
            store,
            hubs: RefCell::default(),
            inputs: RefCell::default(),
            flushed: RefCell::default(),
            errors: RefCell::default(),
            checkpoint: Cell::new(Epoch(0)),
            ended: RefCell::default(),
            next_id: Cell::new(0),
            gone: RefCell::default(),
        }
    }

    /// An id for whatever registers here.
    pub fn new_id(&self) -> u64 {
        self.next_id.set(self.next_id.get() + 1);
        self.next_id.get()
    }

    /// The first of this worker's shares of the key space: the owner of state that belongs to the worker as such.
    pub fn own_vnode(&self) -> VNode {
        (0..VNODES).map(VNode).find(|v| v.worker(self.workers).0 == self.index).expect("more vnodes than workers")
    }

    fn saved_by(&self) -> SavedBy {
        SavedBy { worker: self.index as u32, workers: self.workers as u32, vnode: self.own_vnode() }
    }

    /// Takes an error of a job's row at an epoch: shows it, and saves it with the checkpoints that hold the epoch.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn report(&self, epoch: Epoch, error: ErrorRow) -> Result<(), OperatorError> {
        let later = self.shared.clock.next_checkpoint(self.checkpoint.get()).is_some_and(|checkpoint| epoch > checkpoint);
        let mut errors = self.errors.borrow_mut();
        let saved = match errors.entry(error.job) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(SavedErrors::new(&self.store, error.job, self.saved_by())?),
        };
        saved.report(error.clone(), later);
        self.shared.errors.report(error);
        Ok(())
    }

    /// Takes up the errors that a job had at the checkpoint that it goes on from.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn restore_errors(&self, job: ObjectId) -> Result<(), OperatorError> {
        if let Some(saved) = SavedErrors::restore(&self.store, job, self.saved_by(), &self.shared.errors)? {
            self.errors.borrow_mut().insert(job, saved);
        }
        Ok(())
    }

    /// Writes all jobs' errors of everything through a checkpoint, which all operators have flushed at.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn flush_errors(&self) -> StorageResult<()> {
        self.errors.borrow_mut().values_mut().try_for_each(SavedErrors::flush)
    }

    /// Writes the state of an operator that has ended: now, or when the checkpoint that is being made has been copied. Its epoch is an
    /// earlier one, and what the operator has done since is not to be in it.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn flush_ended(&self, state: &OperatorState) -> StorageResult<()> {
        match self.shared.clock.next_checkpoint(Epoch(0)) {
            Some(checkpoint) => self.ended.borrow_mut().push((checkpoint, state.clone())),
            None => drop(state.flush()?),
        }
        Ok(())
    }

    /// Writes what waited for the end of another checkpoint than this one; with none, all that waited. A job whose state can't be written
    /// fails.
    pub fn flush_waiting(&self, checkpoint: Option<Epoch>) {
        self.ended.borrow_mut().retain(|(during, state)| {
            if Some(*during) == checkpoint {
                return true;
            }
            if let (Err(error), Some(job)) = (state.flush(), self.shared.job(state.job())) {
                job.fail(super::adapter::chain(&error));
            }
            false
        });
    }

    /// Deletes all that a job has stored.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn drop_job(&self, job: ObjectId) -> StorageResult<()> {
        self.errors.borrow_mut().remove(&job);
        self.ended.borrow_mut().retain(|(_, state)| state.job() != job);
        self.store.drop_job(job)
    }

    /// The epoch through which every operator with state has flushed; `END` with none.
    pub fn flushed_all(&self) -> Epoch {
        self.flushed.borrow().values().copied().min().unwrap_or(Epoch::END)
    }
}

/// A job on one worker. Dropped with the last of its operators, which tells the worker that its dataflow has gone.
pub struct JobLocal {
    /// The job.
    pub shared: Arc<JobShared>,
    /// The worker.
    pub worker: Rc<WorkerContext>,
    /// The epoch that was open when the job was built: it sees nothing earlier.
    pub start: Epoch,
    /// Whether its state stands at a checkpoint that it goes on from.
    pub restored: bool,
    /// The memory that its operators hold on this worker, by registration.
    memory: RefCell<HashMap<u64, usize>>,
    /// How many relations have given what they held, and the latest epoch of that.
    hydrated: Cell<(usize, Epoch)>,
}

impl JobLocal {
    /// A job about to be built.
    pub fn new(shared: Arc<JobShared>, worker: Rc<WorkerContext>, restored: bool) -> JobLocal {
        let start = worker.shared.clock.open();
        JobLocal { shared, worker, start, restored, memory: RefCell::default(), hydrated: Cell::new((0, start)) }
    }

    /// The memory that its operators may hold on this worker, in bytes.
    fn budget(&self) -> usize {
        (self.shared.memory_bytes as usize / self.worker.workers).max(1 << 20)
    }

    /// Whether its operators hold more than they may and can't give it up now, since a checkpoint is being made.
    pub fn must_wait_for_memory(&self) -> bool {
        self.worker.shared.clock.checkpoint_running() && self.memory.borrow().values().sum::<usize>() > self.budget()
    }

    fn forget_memory(&self, id: u64) {
        self.memory.borrow_mut().remove(&id);
    }

    /// One more relation has given what it held as of `epoch`: how many have, and the latest epoch.
    pub fn note_hydrated(&self, epoch: Epoch) -> (usize, Epoch) {
        let (count, latest) = self.hydrated.get();
        self.hydrated.set((count + 1, latest.max(epoch)));
        self.hydrated.get()
    }
}

impl Drop for JobLocal {
    fn drop(&mut self) {
        self.worker.gone.borrow_mut().push(self.shared.id);
    }
}

/// One node of a job on one worker.
#[derive(Clone)]
pub struct NodeContext {
    /// The job.
    pub job: Rc<JobLocal>,
    /// Which node.
    pub node: NodeId,
    /// The node's state.
    pub state: OperatorState,
    /// The epoch of the rows that it works on.
    epoch: Rc<Cell<Epoch>>,
}

impl NodeContext {
    /// The context of a node.
    pub fn new(job: &Rc<JobLocal>, node: &PlanNode) -> NodeContext {
        let state = job.worker.store.operator_state(job.shared.id, &node.path);
        NodeContext { job: Rc::clone(job), node: node.id, state, epoch: Rc::new(Cell::new(job.start)) }
    }

    /// Says of which epoch the rows are that come next.
    pub fn enter(&self, epoch: Epoch) {
        self.epoch.set(epoch);
    }

    /// The plan's node.
    pub fn plan(&self) -> &PlanNode {
        self.job.shared.plan.node(self.node)
    }

    /// The worker.
    pub fn worker(&self) -> &WorkerContext {
        &self.job.worker
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.job.worker.shared.clock
    }

    /// The node's figures on this worker.
    pub fn figures(&self) -> &OperatorFigures {
        &self.job.shared.figures[self.node.0][self.job.worker.index]
    }

    /// Takes part in checkpoints; what it is given back leaves when dropped.
    pub fn participate(&self) -> Participant {
        let id = self.worker().new_id();
        // State that is built now holds nothing below the open epoch, so earlier checkpoints need nothing of it.
        let flushed = self.job.start.previous();
        self.worker().flushed.borrow_mut().insert(id, flushed);
        Participant { context: self.clone(), id, flushed }
    }
}

impl RowErrors for NodeContext {
    fn report(&mut self, row: &str, reason: &str, weight: i64) {
        let error = ErrorRow {
            job: self.job.shared.id,
            operator: self.plan().path.clone(),
            split: None,
            position: None,
            reason: reason.to_string(),
            row: row.to_string(),
            count: weight,
            first_seen_ms: now_ms(),
        };
        if let Err(error) = self.worker().report(self.epoch.get(), error) {
            self.job.shared.fail(super::adapter::chain(&error));
        }
    }

    fn dropped(&mut self, why: Dropped, rows: u64) {
        let counter = match why {
            Dropped::Late => &self.figures().late_rows,
            Dropped::Unmatched => &self.figures().dropped_retractions,
        };
        counter.fetch_add(rows, std::sync::atomic::Ordering::Relaxed);
    }
}

/// An operator's part in checkpoints and in its job's memory.
pub struct Participant {
    context: NodeContext,
    id: u64,
    flushed: Epoch,
}

impl Participant {
    /// The next announced checkpoint below `limit` that has not been flushed at.
    pub fn due(&self, limit: Epoch) -> Option<Epoch> {
        self.context.clock().next_checkpoint(self.flushed).filter(|checkpoint| *checkpoint < limit)
    }

    /// Flushes at a checkpoint: everything through it has been applied, and nothing later.
    ///
    /// # Errors
    /// If state can't be written.
    pub fn flush(&mut self, checkpoint: Epoch) -> StorageResult<()> {
        CrashPoint::BeforeFlush.pass();
        self.context.state.flush()?;
        CrashPoint::AfterFlush.pass();
        self.flushed = checkpoint;
        self.context.worker().flushed.borrow_mut().insert(self.id, checkpoint);
        Ok(())
    }

    /// Takes part in nothing any more: all is flushed and no more will come, or it no longer matters.
    pub fn leave(&self) {
        self.context.worker().flushed.borrow_mut().remove(&self.id);
        self.context.job.forget_memory(self.id);
    }

    /// Keeps the job within its memory: if all of its operators on this worker together hold more than their share, this one
    /// gives up its part of the excess.
    ///
    /// # Errors
    /// If state can't be written.
    pub fn keep_within_budget(&self) -> StorageResult<()> {
        let job = &self.context.job;
        let held = self.context.state.memory_bytes();
        self.context.figures().state_bytes.store(held as u64, std::sync::atomic::Ordering::Relaxed);
        let total: usize = {
            let mut memory = job.memory.borrow_mut();
            memory.insert(self.id, held);
            memory.values().sum()
        };
        let budget = job.budget();
        if total > budget && !self.context.clock().checkpoint_running() {
            // Down to three quarters, so that it does not have to happen again at once.
            let target = (held as u128 * budget as u128 * 3 / 4 / total as u128) as usize;
            self.context.state.shrink(target)?;
            job.memory.borrow_mut().insert(self.id, self.context.state.memory_bytes());
        }
        Ok(())
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
