//! What a sink's operator and its writer's task know together, and the operator's side of it.

use super::segment::SegmentName;
use crate::job::JobShared;
use arrow::array::Array;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use thalweg_catalog::Epoch;
use thalweg_connectors::SinkBatch;
use thalweg_storage::state::StoredCell;
use tokio::sync::{Notify, mpsc};

/// How much a writer may have been handed over and not delivered, in bytes. What comes on top stays in the sink log.
pub const WAITING_BYTES_MAX: usize = 16 << 20;

/// A segment of the log that the writer reads back itself.
#[derive(Clone)]
pub struct Postponed {
    /// Which one.
    pub name: SegmentName,
    /// Where it is once it has been flushed.
    pub stored: StoredCell,
}

/// How far a writer is.
pub struct SinkProgress {
    job: Arc<JobShared>,
    worker: usize,
    /// Rows go to the target as soon as their epoch is complete.
    immediate: bool,
    /// The epoch through which the target has everything.
    delivered: AtomicU64,
    /// The newest durable checkpoint.
    durable: AtomicU64,
    /// What was handed over and not delivered, in bytes.
    waiting_bytes: AtomicUsize,
    /// What was not handed over: in the log only, oldest first, all newer than what was.
    postponed: Mutex<VecDeque<Postponed>>,
    shown: Mutex<Shown>,
    /// Wakes the writer's task.
    wake: Notify,
}

/// What the job's sources go by: a sink that delivers at once holds them up until the target has taken the rows.
struct Shown {
    complete: Epoch,
    /// The newest epoch with rows.
    newest: Epoch,
    through: Epoch,
}

impl SinkProgress {
    /// For the writer of a worker.
    pub fn new(job: Arc<JobShared>, worker: usize, immediate: bool) -> SinkProgress {
        SinkProgress {
            worker,
            immediate,
            delivered: AtomicU64::new(0),
            durable: AtomicU64::new(job.restored_at.unwrap_or_default().0),
            waiting_bytes: AtomicUsize::new(0),
            postponed: Mutex::default(),
            shown: Mutex::new(Shown { complete: Epoch(0), newest: Epoch(0), through: Epoch(0) }),
            wake: Notify::new(),
            job,
        }
    }

    /// The newest durable checkpoint.
    pub fn durable(&self) -> Epoch {
        Epoch(self.durable.load(Ordering::SeqCst))
    }

    /// The epoch through which all has been handed over or postponed.
    pub fn complete(&self) -> Epoch {
        self.shown.lock().complete
    }

    /// The oldest segment that was postponed.
    pub fn postponed(&self) -> Option<Postponed> {
        self.postponed.lock().front().cloned()
    }

    /// Notes that the target has these changes, which had been handed over.
    pub fn note_delivered(&self, batches: &[SinkBatch]) {
        let bytes: usize = batches.iter().map(bytes_of).sum();
        self.waiting_bytes.fetch_sub(bytes, Ordering::SeqCst);
        if let Some(last) = batches.last() {
            self.note_through(last.epoch);
        }
    }

    /// Notes that the target has the oldest postponed segment.
    pub fn note_segment_delivered(&self, name: SegmentName) {
        self.postponed.lock().pop_front();
        self.note_through(name.through);
    }

    fn note_through(&self, through: Epoch) {
        self.delivered.fetch_max(through.0, Ordering::SeqCst);
        self.show(|_| {});
    }

    /// Returns when something has changed for the writer.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }

    fn show(&self, change: impl FnOnce(&mut Shown)) {
        let mut shown = self.shown.lock();
        change(&mut shown);
        let delivered = Epoch(self.delivered.load(Ordering::SeqCst));
        let through = if !self.immediate || delivered >= shown.newest { shown.complete } else { delivered };
        shown.through = through.max(shown.through);
        self.job.set_completed(self.worker, shown.through);
    }
}

/// The operator's side of a writer.
#[derive(Clone)]
pub struct SinkHandle {
    batches: mpsc::UnboundedSender<SinkBatch>,
    progress: Arc<SinkProgress>,
}

impl SinkHandle {
    /// The two ends: for the operator and, to take changes from, for the writer.
    pub fn new(progress: Arc<SinkProgress>) -> (SinkHandle, mpsc::UnboundedReceiver<SinkBatch>) {
        // Bounded by `has_room`, which counts bytes.
        let (batches, inbox) = mpsc::unbounded_channel();
        (SinkHandle { batches, progress }, inbox)
    }

    /// Whether the writer can be handed more: it has worked off what was postponed, and not too much waits.
    pub fn has_room(&self) -> bool {
        self.progress.waiting_bytes.load(Ordering::SeqCst) < WAITING_BYTES_MAX && self.progress.postponed.lock().is_empty()
    }

    /// Notes that there are rows of an epoch, whether they are handed over or not.
    pub fn note_rows(&self, epoch: Epoch) {
        self.progress.show(|shown| shown.newest = epoch);
    }

    /// Hands over a change.
    pub fn send(&self, batch: SinkBatch) {
        self.progress.waiting_bytes.fetch_add(bytes_of(&batch), Ordering::SeqCst);
        // The task lives until the handle goes, or has failed its job.
        let _ = self.batches.send(batch);
    }

    /// Leaves it to the writer to read a segment of the log, once a checkpoint that holds it is durable.
    pub fn postpone(&self, name: SegmentName, stored: StoredCell) {
        self.progress.postponed.lock().push_back(Postponed { name, stored });
        self.progress.wake.notify_one();
    }

    /// Says that there is nothing more through `epoch`.
    pub fn complete(&self, epoch: Epoch) {
        self.progress.show(|shown| shown.complete = epoch);
        if epoch == Epoch::END {
            self.progress.wake.notify_one();
        }
    }

    /// Says that a checkpoint is durable.
    pub fn durable(&self, checkpoint: Epoch) {
        self.progress.durable.fetch_max(checkpoint.0, Ordering::SeqCst);
        self.progress.wake.notify_one();
    }

    /// The epoch through which the target has everything that was handed over.
    pub fn delivered(&self) -> Epoch {
        Epoch(self.progress.delivered.load(Ordering::SeqCst))
    }

    /// Whether the target has a segment of the log.
    pub fn has_delivered(&self, name: SegmentName) -> bool {
        name.through <= self.delivered() && self.progress.postponed.lock().front().is_none_or(|oldest| name < oldest.name)
    }
}

/// The memory that a change takes.
pub fn bytes_of(batch: &SinkBatch) -> usize {
    let columns = batch.batch.columns().iter();
    // A column that can't tell is taken as it is held: never too little.
    columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())).sum()
}
