//! Delivery of a sink's rows to its target, off the worker threads: one task for each writer.
//!
//! A writer is handed changes as they come while it keeps up. What it has no room for stays in the sink log, which is state, and is
//! read back from there once a checkpoint that holds it is durable: a target that is stuck takes disk and no memory.

pub mod progress;
pub mod segment;

use crate::error::OperatorError;
use crate::job::JobShared;
use progress::{Postponed, SinkHandle, SinkProgress};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use thalweg_catalog::{CrashPoint, Epoch};
use thalweg_connectors::{ConnectorError, ConnectorResult, Delivery, SinkBatch, SinkConnector, SinkContext, SinkWriter};
use tokio::sync::mpsc;

/// The longest wait between two tries.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// The first wait.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Tries a step of a [`Writer`] until it succeeds; gives up with none.
macro_rules! retrying {
    ($writer:expr, $what:literal, $step:expr) => {{
        let mut wait = BACKOFF_MIN;
        loop {
            let outcome = $step.await;
            match judge(&$writer.job, &$writer.context, $what, outcome, &mut wait).await {
                Judged::Done(value) => break Some(value),
                Judged::Again => {}
                Judged::GiveUp => break None,
            }
        }
    }};
}

/// Starts a writer's task.
pub fn start(
    runtime: &tokio::runtime::Handle,
    connector: Arc<dyn SinkConnector>,
    context: SinkContext,
    job: Arc<JobShared>,
) -> SinkHandle {
    let immediate = connector.delivery() == Delivery::OnEpoch;
    let progress = Arc::new(SinkProgress::new(Arc::clone(&job), context.writer, immediate));
    let (handle, inbox) = SinkHandle::new(Arc::clone(&progress));
    job.undelivered.fetch_add(1, Ordering::SeqCst);
    let task = Writer { connector, context, job, progress, waiting: VecDeque::new(), targets: BTreeMap::new() };
    runtime.spawn(async move {
        // None once the job has failed or gone: nobody waits for the task.
        let _ = task.run(inbox).await;
    });
    handle
}

struct Writer {
    connector: Arc<dyn SinkConnector>,
    context: SinkContext,
    job: Arc<JobShared>,
    progress: Arc<SinkProgress>,
    /// Changes that were handed over and that the target does not have, oldest first.
    waiting: VecDeque<SinkBatch>,
    /// By writer and how many there are: its own, and those in whose name it delivers what they logged when there was another
    /// number of them. The target knows it by that.
    targets: BTreeMap<(u32, u32), Target>,
}

struct Target {
    writer: Box<dyn SinkWriter>,
    /// The epoch through which the target had everything when it was asked.
    has: Option<Epoch>,
}

impl Writer {
    /// Runs until the operator's side goes; none if the job fails or goes before.
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<SinkBatch>) -> Option<()> {
        let own = (self.context.writer as u32, self.context.writers as u32);
        self.open_target(own).await?;
        let mut ended = false;
        loop {
            // In this order: what was postponed was so before the end, and whatever was handed over before that is older.
            let complete = self.progress.complete();
            let postponed = self.progress.postponed();
            while let Ok(batch) = inbox.try_recv() {
                self.waiting.push_back(batch);
            }
            self.deliver_waiting(own).await?;
            match postponed {
                Some(segment) if self.waiting.is_empty() && segment.name.through <= self.progress.durable() => {
                    self.deliver_segment(&segment).await?;
                    continue;
                }
                None if complete == Epoch::END && self.waiting.is_empty() && !ended => {
                    ended = true;
                    self.finish(own).await?;
                }
                _ => {}
            }
            tokio::select! {
                batch = inbox.recv() => self.waiting.push_back(batch?),
                () = self.progress.changed() => {}
            }
        }
    }

    async fn finish(&mut self, own: (u32, u32)) -> Option<()> {
        let mut target = self.targets.remove(&own)?;
        retrying!(self, "finish", target.writer.finish())?;
        self.targets.insert(own, target);
        self.job.undelivered.fetch_sub(1, Ordering::SeqCst);
        self.job.note_change();
        Some(())
    }

    /// Opens a writer, however long it takes, and asks what the target has; none if that can't succeed or the job has gone.
    async fn open_target(&mut self, of: (u32, u32)) -> Option<()> {
        if self.targets.contains_key(&of) {
            return Some(());
        }
        let context = SinkContext { writer: of.0 as usize, writers: of.1 as usize, ..self.context.clone() };
        let mut writer = retrying!(self, "open", self.connector.writer(context.clone()))?;
        let has = match self.connector.delivery() {
            Delivery::OnCheckpoint => retrying!(self, "ask", writer.delivered())?,
            Delivery::OnEpoch => None,
        };
        self.targets.insert(of, Target { writer, has });
        Some(())
    }

    async fn deliver_waiting(&mut self, own: (u32, u32)) -> Option<()> {
        let due = match self.connector.delivery() {
            Delivery::OnEpoch => self.waiting.len(),
            Delivery::OnCheckpoint => {
                let durable = self.progress.durable();
                self.waiting.iter().take_while(|batch| batch.epoch <= durable).count()
            }
        };
        if due == 0 {
            return Some(());
        }
        let batches: Vec<SinkBatch> = self.waiting.drain(..due).collect();
        self.deliver(own, &batches).await?;
        self.progress.note_delivered(&batches);
        CrashPoint::AfterDeliveryRecord.pass();
        Some(())
    }

    /// Delivers what a segment of the log holds and the target lacks.
    async fn deliver_segment(&mut self, segment: &Postponed) -> Option<()> {
        let of = (segment.name.writer, segment.name.writers);
        self.open_target(of).await?;
        let has = self.targets.get(&of)?.has;
        if has.is_none_or(|has| has < segment.name.through) {
            let mut batches = match read(segment.clone()).await {
                Ok(batches) => batches,
                Err(error) => {
                    self.job.fail(format!("sink \"{}\": {}", self.context.name, crate::dataflow::adapter::chain(&error)));
                    return None;
                }
            };
            batches.retain(|batch| has.is_none_or(|has| has < batch.epoch));
            self.deliver(of, &batches).await?;
        }
        self.progress.note_segment_delivered(segment.name);
        Some(())
    }

    async fn deliver(&mut self, of: (u32, u32), batches: &[SinkBatch]) -> Option<()> {
        let through = batches.last()?.epoch;
        let mut target = self.targets.remove(&of)?;
        CrashPoint::BeforeDelivery.pass();
        retrying!(self, "deliver to", target.writer.deliver(through, batches.to_vec()))?;
        CrashPoint::AfterDelivery.pass();
        self.targets.insert(of, target);
        Some(())
    }
}

/// What follows from the outcome of one try: waits before the next, ever longer.
async fn judge<T>(
    job: &JobShared,
    context: &SinkContext,
    what: &str,
    outcome: ConnectorResult<T>,
    wait: &mut Duration,
) -> Judged<T> {
    let who = format!("sink writer {}", context.writer);
    match outcome {
        _ if job.is_stopped() => Judged::GiveUp,
        Ok(value) => {
            job.set_trouble(&who, None);
            Judged::Done(value)
        }
        Err(ConnectorError { message, retry: false, .. }) => {
            job.fail(format!("could not {what} sink \"{}\": {message}", context.name));
            Judged::GiveUp
        }
        Err(ConnectorError { message, .. }) => {
            job.set_trouble(&who, Some(format!("could not {what} the target: {message}")));
            tokio::time::sleep(*wait).await;
            *wait = (*wait * 2).min(BACKOFF_MAX);
            Judged::Again
        }
    }
}

/// What follows from the outcome of a try.
enum Judged<T> {
    Done(T),
    Again,
    /// It can't succeed, or the job has gone.
    GiveUp,
}

/// The changes in a segment that a durable checkpoint holds.
async fn read(segment: Postponed) -> Result<Vec<SinkBatch>, OperatorError> {
    let read = move || match segment.stored.read()? {
        Some(value) => segment::decode(&value),
        None => Err(OperatorError::Invariant("SINKLOG-1", format!("segment {:?} is gone", segment.name))),
    };
    tokio::task::spawn_blocking(read).await.map_err(|e| OperatorError::Panic(e.to_string()))?
}
