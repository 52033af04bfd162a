//! The engine as the server sees it: jobs are created and dropped, tables written, relations read and followed.

use crate::checkpoint::{CheckpointRecord, Checkpointer, Cut, Durable, Made};
use crate::clock::Clock;
use crate::dataflow::worker::Flushed;
use crate::dataflow::{Command, Workers};
use crate::error::EngineError;
use crate::job::{JobShared, JobState};
use crate::row_errors::{ErrorLog, now_ms};
use crate::shared::{Shared, SinkShared, SinkStatus, SourceShared, SplitStatus};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_catalog::{CatalogObject, CrashPoint, Epoch, ObjectId};
use thalweg_plan::{Operator, StreamPlan};
use thalweg_storage::state::inspect::StoreReader;
use thalweg_storage::table_log::TableLog;
use tokio::runtime::Handle;

mod moment;
mod reading;
mod writing;

pub use moment::Moment;
pub use reading::Reading;
pub use writing::Unchanged;

/// How long an epoch stays open while nothing happens.
const IDLE_TICK: Duration = Duration::from_secs(1);
/// The shortest time between ticks that were asked for.
const DEMANDED_TICK: Duration = Duration::from_millis(1);

/// How an engine is set up.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// How many worker threads.
    pub workers: usize,
    /// Where the workers' databases are while the engine runs. Emptied at the start.
    pub state_directory: PathBuf,
    /// The memory that a job's state may hold if it does not say itself, in bytes.
    pub job_memory_bytes: u64,
    /// The memory that all databases together may use for blocks and writes, in bytes.
    pub database_memory_bytes: u64,
    /// How often checkpoints are made while something changes.
    pub checkpoint_interval: Duration,
    /// How long an epoch stays open while rows come in.
    pub epoch_interval: Duration,
}

/// A job to be created.
pub struct JobSpec {
    /// The object that it keeps.
    pub object: Arc<CatalogObject>,
    /// Its plan.
    pub plan: Arc<StreamPlan>,
    /// What the plan looks like, to know it again after a restart.
    pub fingerprint: String,
    /// The sources (and tables with connectors) that it reads itself.
    pub sources: Vec<Arc<CatalogObject>>,
    /// The memory that its state may hold, in bytes; the engine's default if none.
    pub memory_bytes: Option<u64>,
}

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    config: EngineConfig,
    shared: Arc<Shared>,
    workers: Mutex<Workers>,
    /// Held while commands are given, so that all workers get them in one order.
    commanding: tokio::sync::Mutex<()>,
    /// Writes to tables that wait for their epoch.
    writing: Mutex<writing::Waiting>,
    table_log: TableLog,
    checkpointer: tokio::sync::Mutex<Checkpointer>,
    fingerprints: Mutex<BTreeMap<ObjectId, String>>,
    checkpoints: Mutex<Vec<CheckpointRecord>>,
    /// Jobs of the checkpoint that the engine started from, with what their plans looked like.
    restored: BTreeMap<ObjectId, String>,
    restored_at: Option<Epoch>,
    stopping: AtomicBool,
    /// The catalog's version, for manifests.
    catalog_version: AtomicU64,
    /// The epoch by which everything that was replayed from the table log has entered.
    replayed: AtomicU64,
}

impl Engine {
    /// Starts an engine on durable storage: restores the newest checkpoint's state, and gets ready to replay what was written
    /// to tables since. Jobs are then created again with [`create_job`](Self::create_job), in order of their ids, and the
    /// engine is let go with [`replay_tables`](Self::replay_tables).
    ///
    /// # Errors
    /// If storage is damaged or can't be read; never starts empty instead.
    pub async fn start(config: EngineConfig, durable: Durable) -> Result<Engine, EngineError> {
        let Durable { checkpoints, table_log } = durable;
        let manifest = checkpoints.newest();
        let restored_at = manifest.as_ref().map(|m| m.epoch);
        let (flushed, flushes) = tokio::sync::mpsc::unbounded_channel::<Flushed>();
        let mut restored = crate::checkpoint::restore(&config, &checkpoints, manifest.as_deref()).await?;
        let clock = Clock::after(restored_at.unwrap_or_default());
        let shared = Arc::new(Shared::new(config.workers, clock, Handle::current()));
        let workers = {
            let (shared, places) = (Arc::clone(&shared), std::mem::take(&mut restored.places));
            tokio::task::spawn_blocking(move || Workers::start(&shared, places, flushed))
                .await
                .map_err(|e| EngineError::Workers(e.to_string()))?
                .map_err(EngineError::Workers)?
        };
        let jobs = manifest.iter().flat_map(|m| m.jobs.iter().map(|j| (j.id, j.fingerprint.clone()))).collect();
        let inner = Arc::new(Inner {
            shared,
            workers: Mutex::new(workers),
            commanding: tokio::sync::Mutex::default(),
            writing: Mutex::default(),
            table_log,
            checkpointer: tokio::sync::Mutex::new(Checkpointer::new(checkpoints, flushes, &mut restored)),
            fingerprints: Mutex::default(),
            checkpoints: Mutex::default(),
            restored: jobs,
            restored_at,
            stopping: AtomicBool::new(false),
            catalog_version: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
            config,
        });
        Ok(Engine { inner })
    }

    /// Gives tables what was written since the checkpoint that the engine started from, and lets time run. To be called once,
    /// after all jobs have been created and before anything is written.
    ///
    /// # Errors
    /// If the table log is damaged.
    pub async fn replay_tables(&self) -> Result<(), EngineError> {
        CrashPoint::BeforeReplay.pass();
        self.sweep().await;
        let after = self.inner.restored_at.unwrap_or_default();
        let mut records = self.inner.table_log.replay(after);
        while let Some(record) = records.next().await? {
            for (table, delta) in record.writes {
                if self.inner.shared.job(table).is_some() {
                    self.inner.shared.table_queue(table).push(record.epoch, delta);
                    self.inner.shared.note_dirty();
                }
            }
        }
        // From here on time runs. Each write enters at the epoch that it had: what was late then is late again.
        let last = self.inner.table_log.last_epoch().unwrap_or_default();
        let (_, open) = self.inner.shared.clock.tick(now_ms().max(last.next().0), false);
        self.inner.replayed.store(open.0, Ordering::SeqCst);
        self.inner.workers.lock().wake();
        tokio::spawn(self.clone().tick());
        tokio::spawn(self.clone().checkpoint_regularly());
        self.inner.shared.clock.demand();
        Ok(())
    }

    /// Deletes the state of jobs that the catalog no longer has: a crash came between their end there and their clean-up.
    async fn sweep(&self) {
        let jobs = Arc::new(self.inner.shared.jobs.read().keys().copied().collect());
        let (done, mut swept) = tokio::sync::mpsc::unbounded_channel();
        self.inner.workers.lock().tell(|| Command::Sweep { jobs: Arc::clone(&jobs), done: done.clone() });
        drop(done);
        while swept.recv().await.is_some() {}
    }

    async fn tick(self) {
        let clock = &self.inner.shared.clock;
        loop {
            let wait = if clock.is_demanded() {
                DEMANDED_TICK
            } else if clock.is_active() {
                self.inner.config.epoch_interval
            } else {
                IDLE_TICK
            };
            // While idle, the first row starts the interval, and a demand the 1 ms.
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = clock.woken() => continue,
            }
            if self.inner.stopping.load(Ordering::SeqCst) {
                return;
            }
            clock.tick(now_ms(), false);
            self.inner.workers.lock().wake();
        }
    }

    async fn checkpoint_regularly(self) {
        loop {
            tokio::time::sleep(self.inner.config.checkpoint_interval).await;
            if self.inner.stopping.load(Ordering::SeqCst) {
                return;
            }
            if self.inner.shared.take_dirty()
                && let Err(error) = self.checkpoint().await
            {
                self.inner.shared.note_dirty();
                // Workers that were told to stop may do so before their part of it.
                if self.inner.stopping.load(Ordering::SeqCst) {
                    return;
                }
                tracing::error!(error = crate::dataflow::adapter::chain(&error), "a checkpoint failed; the next one tries again");
            }
        }
    }

    /// Makes a checkpoint of everything as of now. Returns its epoch once it is durable.
    ///
    /// # Errors
    /// If it could not be made; the last one stands.
    pub async fn checkpoint(&self) -> Result<Epoch, EngineError> {
        let mut checkpointer = self.inner.checkpointer.lock().await;
        let inner = &self.inner;
        let started = std::time::Instant::now();
        let (announced, _) = inner.shared.clock.tick(now_ms(), true);
        inner.workers.lock().wake();
        let made = self.make_checkpoint(&mut checkpointer, announced).await;
        let record = CheckpointRecord::of(announced, &made, started.elapsed());
        {
            let mut records = inner.checkpoints.lock();
            records.push(record);
            if records.len() > 100 {
                records.remove(0);
            }
        }
        made?;
        inner.shared.checkpoint_durable(announced).await;
        inner.table_log.truncate(announced).await?;
        checkpointer.collect_garbage().await?;
        Ok(announced)
    }

    async fn make_checkpoint(&self, checkpointer: &mut Checkpointer, announced: Epoch) -> Result<Made, EngineError> {
        let inner = &self.inner;
        let parts = checkpointer.gather(announced, inner.config.workers).await;
        let jobs = self.job_entries(announced);
        // From here on the databases may change again.
        inner.shared.clock.end_checkpoint(announced);
        // What waited for that: state of jobs that were dropped or have ended.
        inner.workers.lock().wake();
        let cut = Cut {
            epoch: announced,
            catalog_version: inner.catalog_version.load(Ordering::SeqCst),
            table_log_segment: inner.table_log.newest_segment(),
        };
        checkpointer.publish(cut, &parts?, jobs).await
    }

    /// The jobs whose state a checkpoint at `epoch` holds whole: with everything that they read.
    fn job_entries(&self, epoch: Epoch) -> Vec<thalweg_storage::manifest::JobEntry> {
        let jobs = self.inner.shared.jobs.read();
        let fingerprints = self.inner.fingerprints.lock();
        let mut entries: BTreeMap<ObjectId, thalweg_storage::manifest::JobEntry> = BTreeMap::new();
        for (id, job) in jobs.iter() {
            let (Some(since), false, Some(fingerprint)) = (job.since(), job.is_stopped(), fingerprints.get(id)) else { continue };
            let read_are_in = job.plan.nodes.iter().all(|node| match node.operator {
                Operator::Relation { object, .. } => entries.contains_key(&object),
                _ => true,
            });
            if since <= epoch && read_are_in {
                entries.insert(*id, thalweg_storage::manifest::JobEntry { id: *id, fingerprint: fingerprint.clone(), since });
            }
        }
        entries.into_values().collect()
    }

    /// Creates a job; returns once every worker runs it. It goes on from the checkpoint that the engine started from, if that
    /// has it.
    ///
    /// # Errors
    /// If a connector refuses its options, or the plan is not the one that the checkpoint's state is of.
    pub async fn create_job(&self, spec: JobSpec) -> Result<(), EngineError> {
        let inner = &self.inner;
        let id = spec.object.id;
        let restored = match inner.restored.get(&id) {
            Some(fingerprint) if *fingerprint == spec.fingerprint => true,
            Some(_) => return Err(EngineError::PlanChanged { name: spec.object.name.clone() }),
            None => false,
        };
        let memory = spec.memory_bytes.unwrap_or(inner.config.job_memory_bytes);
        let restored_at = if restored { inner.restored_at } else { None };
        let job = Arc::new(JobShared::new(id, Arc::clone(&spec.plan), inner.config.workers, memory, restored_at));
        self.register_connectors(&spec, &job)?;
        let _order = inner.commanding.lock().await;
        inner.fingerprints.lock().insert(id, spec.fingerprint);
        if let Operator::TableInput { .. } = spec.plan.nodes[0].operator {
            inner.shared.table_queue(id);
        }
        {
            let mut jobs = inner.shared.jobs.write();
            jobs.insert(id, Arc::clone(&job));
            if spec.object.is_kept() {
                // A table that a connector fills names itself as what is read.
                for read in spec.plan.reads().into_iter().filter(|read| *read != id) {
                    if let Some(upstream) = jobs.get(&read) {
                        upstream.downstream.write().push(Arc::clone(&job));
                    }
                }
            }
        }
        let (done, mut built) = tokio::sync::mpsc::unbounded_channel();
        inner.workers.lock().tell(|| Command::Build { job: Arc::clone(&job), restored, done: done.clone() });
        drop(done);
        while built.recv().await.is_some() {}
        inner.shared.note_dirty();
        inner.shared.clock.demand();
        Ok(())
    }

    fn register_connectors(&self, spec: &JobSpec, job: &JobShared) -> Result<(), EngineError> {
        let shared = &self.inner.shared;
        for (place, node) in spec.plan.nodes.iter().enumerate() {
            match &node.operator {
                Operator::Source { object, .. } => {
                    let object = std::iter::once(&spec.object)
                        .chain(&spec.sources)
                        .find(|o| o.id == *object)
                        .ok_or_else(|| EngineError::Internal("a job's source was not given".into()))?;
                    let connector =
                        object.connector().ok_or_else(|| EngineError::Internal("a source has no connector".into()))?;
                    let connector =
                        thalweg_connectors::registry::source(connector, &object.columns).map_err(EngineError::Refused)?;
                    let source = SourceShared::new(Arc::clone(object), connector, shared.workers);
                    shared.sources.lock().insert((job.id, place), source);
                }
                Operator::Sink { mode, key, .. } => {
                    let connector =
                        spec.object.connector().ok_or_else(|| EngineError::Internal("a sink has no connector".into()))?;
                    let connector =
                        thalweg_connectors::registry::sink(connector, &spec.object.columns, *mode, key, &spec.object.name)
                            .map_err(EngineError::Refused)?;
                    let sink = SinkShared::new(Arc::clone(&spec.object), connector);
                    shared.sinks.lock().insert(job.id, sink);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Drops jobs with all of their state, in this order: those that read before those that are read. Returns once nothing is
    /// left of them.
    pub async fn drop_jobs(&self, ids: &[ObjectId]) {
        let inner = &self.inner;
        let _order = inner.commanding.lock().await;
        for id in ids {
            let job = inner.shared.jobs.write().remove(id);
            let Some(job) = job else { continue };
            CrashPoint::BeforeJobDrop.pass();
            job.cancel();
            for other in inner.shared.jobs.read().values() {
                other.downstream.write().retain(|j| j.id != *id);
            }
            inner.shared.readers.write().remove(id);
            inner.shared.subscribers.drop_relation(*id);
            let (done, mut dropped) = tokio::sync::mpsc::unbounded_channel();
            inner.workers.lock().tell(|| Command::Drop { id: *id, done: done.clone() });
            drop(done);
            // Workers may be asleep until their operators have something to do.
            inner.shared.clock.demand();
            while dropped.recv().await.is_some() {}
            CrashPoint::AfterJobDrop.pass();
            inner.shared.queues.lock().remove(id);
            inner.shared.sources.lock().retain(|(job, _), _| job != id);
            inner.shared.sinks.lock().remove(id);
            inner.shared.errors.drop_job(*id);
            inner.fingerprints.lock().remove(id);
        }
        inner.shared.note_dirty();
    }

    /// Says that tables will not be written any more: they end, and so does what only reads what has ended.
    pub fn close_tables(&self) {
        self.inner.shared.queues.lock().values().for_each(|queue| queue.close());
        self.inner.shared.clock.demand();
    }

    fn running_job(&self, id: ObjectId) -> Result<Arc<JobShared>, EngineError> {
        let job = self.inner.shared.job(id).ok_or(EngineError::NoJob { id })?;
        match job.failure() {
            Some(reason) => Err(EngineError::JobFailed { id, reason }),
            None => Ok(job),
        }
    }

    /// Stops everything: makes a last checkpoint, ends the worker threads.
    ///
    /// # Errors
    /// If the last checkpoint could not be made; the threads have ended all the same.
    pub async fn shut_down(&self) -> Result<(), EngineError> {
        let last = self.checkpoint().await;
        self.abandon().await;
        last.map(drop)
    }

    /// Stops everything at once, as a crash would.
    pub async fn abandon(&self) {
        let inner = Arc::clone(&self.inner);
        if inner.stopping.swap(true, Ordering::SeqCst) {
            return;
        }
        for job in inner.shared.jobs.read().values() {
            job.cancel();
        }
        // Joining blocks.
        let _ = tokio::task::spawn_blocking(move || inner.workers.lock().stop()).await;
    }

    /// Says which catalog the jobs are of: a checkpoint is never restored with an older one.
    pub fn set_catalog_version(&self, version: u64) {
        self.inner.catalog_version.fetch_max(version, Ordering::SeqCst);
    }

    /// All jobs by their objects' ids.
    pub fn jobs(&self) -> Vec<Arc<JobShared>> {
        self.inner.shared.jobs.read().values().cloned().collect()
    }

    /// The job that keeps an object.
    pub fn job(&self, id: ObjectId) -> Option<Arc<JobShared>> {
        self.inner.shared.job(id)
    }

    /// The state of a job.
    pub fn job_state(&self, id: ObjectId) -> Option<JobState> {
        self.inner.shared.job(id).map(|job| job.state())
    }

    /// The splits of all sources.
    pub fn splits(&self) -> Vec<SplitStatus> {
        self.inner.shared.splits()
    }

    /// Whether every source that a job reads itself has been read to its end.
    pub fn job_sources_ended(&self, id: ObjectId) -> bool {
        self.inner.shared.job_sources_ended(id)
    }

    /// All sinks.
    pub fn sinks(&self) -> Vec<SinkStatus> {
        self.inner.shared.sinks()
    }

    /// Rows at fault.
    pub fn errors(&self) -> &ErrorLog {
        &self.inner.shared.errors
    }

    /// The last checkpoints, oldest first.
    pub fn checkpoints(&self) -> Vec<CheckpointRecord> {
        self.inner.checkpoints.lock().clone()
    }

    /// The workers' databases, by worker.
    pub fn stores(&self) -> Vec<StoreReader> {
        self.inner.shared.stores.lock().values().cloned().collect()
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.inner.shared.clock
    }

    /// How many worker threads there are.
    pub fn worker_count(&self) -> usize {
        self.inner.config.workers
    }
}
