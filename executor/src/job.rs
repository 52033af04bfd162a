//! What all workers and the outside share about a job: its state, progress and figures.

use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use thalweg_catalog::{Epoch, ObjectId};
use thalweg_plan::StreamPlan;
use tokio::sync::watch;

/// What a job is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobState {
    /// It reads what its inputs already hold.
    Backfilling,
    /// It follows its inputs.
    Running,
    /// A source or sink of it is in trouble and is tried again.
    Retrying(String),
    /// All inputs have ended and everything has been delivered.
    Finished,
    /// It has stopped for good.
    Failed(String),
}

impl JobState {
    /// The word for it in system tables.
    pub fn name(&self) -> &'static str {
        match self {
            JobState::Backfilling => "backfilling",
            JobState::Running => "running",
            JobState::Retrying(_) => "retrying",
            JobState::Finished => "finished",
            JobState::Failed(_) => "failed",
        }
    }

    /// Why it is not running.
    pub fn reason(&self) -> Option<&str> {
        match self {
            JobState::Retrying(reason) | JobState::Failed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// The figures of one operator on one worker.
#[derive(Debug, Default)]
pub struct OperatorFigures {
    /// Rows taken.
    pub rows_in: AtomicU64,
    /// Rows given.
    pub rows_out: AtomicU64,
    /// Time spent, in nanoseconds.
    pub busy_ns: AtomicU64,
    /// Memory held by its state, in bytes.
    pub state_bytes: AtomicU64,
    /// Rows dropped because they were late.
    pub late_rows: AtomicU64,
    /// Retractions of rows that were not there, dropped.
    pub dropped_retractions: AtomicU64,
    /// The watermark that it gave last, in microseconds since 1970; `i64::MIN` for none.
    pub watermark: AtomicI64,
}

/// A job as all threads see it.
#[derive(Debug)]
pub struct JobShared {
    /// The object that the job keeps.
    pub id: ObjectId,
    /// Its plan.
    pub plan: Arc<StreamPlan>,
    /// The memory that its state may hold on all workers together, in bytes.
    pub memory_bytes: u64,
    /// The checkpoint that it goes on from, if it does.
    pub restored_at: Option<Epoch>,
    /// Stopped on purpose: dropped, or the engine shuts down. Operators discard, nothing counts as ended.
    cancelled: AtomicBool,
    failed: AtomicBool,
    failure: Mutex<Option<String>>,
    /// Troubles of connectors that are being retried, by who has them.
    troubles: Mutex<Vec<(String, String)>>,
    /// By worker: the epoch through which the root has everything.
    completed: Vec<AtomicU64>,
    /// By worker: the epoch at which what the inputs held had been read; 0 before.
    hydrated: Vec<AtomicU64>,
    /// Rows read of what the inputs held, and how many there are.
    pub backfill_rows: AtomicU64,
    /// How many rows there were to read.
    pub backfill_total: AtomicU64,
    /// Sink writers that have not delivered everything yet.
    pub undelivered: AtomicU64,
    /// By node, then by worker.
    pub figures: Vec<Vec<OperatorFigures>>,
    /// Jobs that read this one.
    pub downstream: RwLock<Vec<Arc<JobShared>>>,
    /// Told whenever progress is made or the state changes.
    changed: watch::Sender<u64>,
}

impl JobShared {
    /// A job that nothing has happened to yet.
    pub fn new(id: ObjectId, plan: Arc<StreamPlan>, workers: usize, memory_bytes: u64, restored_at: Option<Epoch>) -> JobShared {
        let counters = || (0..workers).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let figures = || {
            let empty = || OperatorFigures { watermark: AtomicI64::new(i64::MIN), ..OperatorFigures::default() };
            (0..workers).map(|_| empty()).collect::<Vec<_>>()
        };
        JobShared {
            id,
            figures: plan.nodes.iter().map(|_| figures()).collect(),
            plan,
            memory_bytes,
            restored_at,
            cancelled: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            troubles: Mutex::new(vec![]),
            completed: counters(),
            hydrated: counters(),
            backfill_rows: AtomicU64::new(0),
            backfill_total: AtomicU64::new(0),
            undelivered: AtomicU64::new(0),
            downstream: RwLock::new(vec![]),
            changed: watch::Sender::new(0),
        }
    }

    /// Stops it on purpose.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.note_change();
    }

    /// Whether it was stopped on purpose.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Stops it for good because of `reason`; the first reason stands.
    pub fn fail(&self, reason: String) {
        tracing::error!(job = self.id.0, reason, "job failed");
        self.failure.lock().get_or_insert(reason);
        self.failed.store(true, Ordering::SeqCst);
        self.note_change();
        for job in self.downstream.read().iter() {
            job.fail(format!("a relation that it reads (object {}) has failed", self.id));
        }
    }

    /// Whether its operators should discard what they get.
    pub fn is_stopped(&self) -> bool {
        self.failed.load(Ordering::SeqCst) || self.is_cancelled()
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Notes that a connector is in trouble, or no longer is.
    pub fn set_trouble(&self, who: &str, trouble: Option<String>) {
        let mut troubles = self.troubles.lock();
        if trouble.is_none() && troubles.iter().all(|(name, _)| name != who) {
            return;
        }
        troubles.retain(|(name, _)| name != who);
        if let Some(reason) = trouble {
            troubles.push((who.to_string(), reason));
        }
        drop(troubles);
        self.note_change();
    }

    /// Notes that a worker's root has everything through `epoch`.
    pub fn set_completed(&self, worker: usize, epoch: Epoch) {
        if self.completed[worker].swap(epoch.0, Ordering::SeqCst) != epoch.0 {
            self.note_change();
        }
    }

    /// The epoch through which the roots of all workers have everything.
    pub fn completed(&self) -> Epoch {
        Epoch(self.completed.iter().map(|c| c.load(Ordering::SeqCst)).min().unwrap_or(0))
    }

    /// The least completed epoch of this job and all that read it and still follow: what its sources go by.
    pub fn completed_downstream(&self) -> Epoch {
        let mut least = self.completed();
        for job in self.downstream.read().iter() {
            if !job.is_stopped() && job.since().is_some() {
                least = least.min(job.completed_downstream());
            }
        }
        least
    }

    /// Notes that a worker has read what the inputs held, as of `epoch`.
    pub fn set_hydrated(&self, worker: usize, epoch: Epoch) {
        self.hydrated[worker].fetch_max(epoch.0, Ordering::SeqCst);
        self.note_change();
    }

    /// The first epoch at which the job's result is whole; none while it still reads what its inputs held.
    pub fn since(&self) -> Option<Epoch> {
        let epochs: Vec<u64> = self.hydrated.iter().map(|h| h.load(Ordering::SeqCst)).collect();
        (!epochs.contains(&0)).then(|| Epoch(epochs.into_iter().max().unwrap_or(0)))
    }

    /// What it is doing.
    pub fn state(&self) -> JobState {
        if let Some(reason) = self.failure() {
            return JobState::Failed(reason);
        }
        if let Some((who, trouble)) = self.troubles.lock().first() {
            return JobState::Retrying(format!("{who}: {trouble}"));
        }
        match self.since() {
            None => JobState::Backfilling,
            Some(_) if self.completed() == Epoch::END && self.undelivered.load(Ordering::SeqCst) == 0 => JobState::Finished,
            Some(_) => JobState::Running,
        }
    }

    /// Tells whoever waits that something changed.
    pub fn note_change(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Returns once `condition` holds; looks again whenever something changes.
    pub async fn wait_until(&self, condition: impl Fn(&JobShared) -> bool) {
        let mut changes = self.changed.subscribe();
        while !condition(self) {
            // The sender lives as long as `self`.
            let _ = changes.changed().await;
        }
    }
}
