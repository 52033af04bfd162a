//! The engine as the server sees it: jobs are created and dropped, tables written, relations read and followed.

use crate::checkpoint::{CheckpointRecord, Checkpointer, Cut, Durable, Made};
use crate::clock::Clock;
use crate::dataflow::context::NodeContext;
use crate::dataflow::worker::Flushed;
use crate::dataflow::{Command, SplitState, TableQueue, Workers};
use crate::delivery::{self, SinkHandle};
use crate::error::{EngineError, OperatorError};
use crate::feed::{Dealer, Feed, Wake};
use crate::job::{JobShared, JobState};
use crate::row_errors::{ErrorLog, now_ms};
use crate::subscribe::{Subscribers, Subscription};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_catalog::{CatalogObject, Delta, Epoch, ObjectId};
use thalweg_connectors::{
    ConnectorError, ConnectorResult, Guarantee, SinkConnector, SinkContext, SourceConnector, SourceContext, SplitId,
};
use thalweg_plan::{Operator, StreamPlan};
use thalweg_storage::state::inspect::StoreReader;
use thalweg_storage::state::{ViewHold, ViewReader};
use thalweg_storage::table_log::TableLog;
use tokio::runtime::Handle;

/// How long an epoch stays open while rows come in.
const TICK: Duration = Duration::from_millis(20);
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
}

/// What all threads of an engine share.
pub struct Shared {
    /// Where epochs come from.
    pub clock: Clock,
    /// Rows at fault.
    pub errors: ErrorLog,
    /// Who follows relations from outside.
    pub subscribers: Subscribers,
    workers: usize,
    runtime: Handle,
    jobs: RwLock<BTreeMap<ObjectId, Arc<JobShared>>>,
    readers: RwLock<HashMap<ObjectId, Vec<Option<ViewReader>>>>,
    queues: Mutex<HashMap<ObjectId, Arc<TableQueue>>>,
    sources: Mutex<BTreeMap<(ObjectId, usize), SourceShared>>,
    sinks: Mutex<BTreeMap<ObjectId, SinkShared>>,
    /// By worker: its database, to be read by others.
    stores: Mutex<BTreeMap<usize, StoreReader>>,
    /// Whether anything has changed that the next checkpoint would hold.
    dirty: AtomicBool,
}

/// A source as one job reads it.
struct SourceShared {
    object: Arc<CatalogObject>,
    connector: Arc<dyn SourceConnector>,
    dealer: Option<Arc<Dealer>>,
    /// By worker: whether all of its splits have ended.
    ended: Vec<bool>,
    /// By worker: the splits as of now.
    splits: Vec<BTreeMap<SplitId, SplitState>>,
    /// By checkpoint that is being made: the splits as of then.
    noted: BTreeMap<Epoch, BTreeMap<SplitId, SplitState>>,
}

/// A sink with its writers.
struct SinkShared {
    object: Arc<CatalogObject>,
    connector: Arc<dyn SinkConnector>,
    writers: Vec<SinkHandle>,
}

/// A source's split as system tables show it.
#[derive(Clone, Debug)]
pub struct SplitStatus {
    /// The job that reads it.
    pub job: ObjectId,
    /// The source.
    pub source: ObjectId,
    /// The worker.
    pub worker: usize,
    /// The split.
    pub split: String,
    /// Where it stands.
    pub state: SplitState,
}

/// A sink as system tables show it.
#[derive(Clone, Debug)]
pub struct SinkStatus {
    /// The sink.
    pub sink: ObjectId,
    /// What readers of the target see.
    pub guarantee: Guarantee,
    /// The epoch through which the target has everything that was handed over.
    pub delivered: Epoch,
}

impl Shared {
    /// For an engine of so many workers that has no jobs yet. Connectors run on `runtime`.
    pub fn new(workers: usize, runtime: Handle, clock: Clock) -> Shared {
        Shared {
            clock,
            errors: ErrorLog::default(),
            subscribers: Subscribers::new(workers),
            workers,
            runtime,
            jobs: RwLock::default(),
            readers: RwLock::default(),
            queues: Mutex::default(),
            sources: Mutex::default(),
            sinks: Mutex::default(),
            stores: Mutex::default(),
            dirty: AtomicBool::new(false),
        }
    }

    /// A job by the object that it keeps.
    pub fn job(&self, id: ObjectId) -> Option<Arc<JobShared>> {
        self.jobs.read().get(&id).cloned()
    }

    /// Says that the next checkpoint would hold something new.
    pub fn note_dirty(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }

    /// Whether something has changed since this was asked last.
    pub fn take_dirty(&self) -> bool {
        self.dirty.swap(false, Ordering::SeqCst)
    }

    /// Makes a worker's database known to those who read state tables.
    pub fn add_store(&self, worker: usize, store: StoreReader) {
        self.stores.lock().insert(worker, store);
    }

    /// The queue of writes to a table, made if there is none.
    pub fn table_queue(&self, table: ObjectId) -> Arc<TableQueue> {
        Arc::clone(self.queues.lock().entry(table).or_default())
    }

    /// Makes a worker's share of a relation known to readers.
    pub fn add_reader(&self, relation: ObjectId, worker: usize, reader: ViewReader) {
        let mut readers = self.readers.write();
        readers.entry(relation).or_insert_with(|| vec![None; self.workers])[worker] = Some(reader);
    }

    /// Notes that a worker has read what a job's inputs held. A job with several inputs has when the last of them has.
    pub fn hydrated(&self, context: &NodeContext, epoch: Epoch) {
        let job = &context.job.shared;
        let relations = job.plan.nodes.iter().filter(|n| matches!(n.operator, Operator::Relation { .. })).count();
        let (done, latest) = context.job.note_hydrated(epoch);
        if done == relations {
            job.set_hydrated(context.worker().index, latest);
            self.note_dirty();
        }
    }

    /// Passes an epoch's net change on a worker to those who follow the relation from outside.
    pub fn publish(&self, relation: ObjectId, worker: usize, epoch: Epoch, delta: &Delta) {
        self.subscribers.publish(relation, worker, epoch, delta);
    }

    /// Passes on that a worker has everything of a relation through `epoch`.
    pub fn complete(&self, relation: ObjectId, worker: usize, epoch: Epoch) {
        self.subscribers.complete(relation, worker, epoch);
    }

    /// Joins a worker to the reading of a source. Also gives the source's name.
    ///
    /// # Errors
    /// If the connector refuses.
    pub fn open_feed(
        &self,
        context: &NodeContext,
        columns: &[usize],
        restored: BTreeMap<SplitId, SplitState>,
        wake: Wake,
    ) -> ConnectorResult<(Feed, String)> {
        let key = (context.job.shared.id, context.node.0);
        let mut sources = self.sources.lock();
        let source = sources.get_mut(&key).ok_or_else(|| ConnectorError::internal("the job was created without its source"))?;
        let name = source.object.name.clone();
        let make = || {
            let job = Arc::clone(&context.job.shared);
            Arc::new(Dealer::new(Arc::clone(&source.connector), name.clone(), job, self.workers))
        };
        let dealer = Arc::clone(source.dealer.get_or_insert_with(make));
        let at = SourceContext {
            name: name.clone(),
            job: context.job.shared.id.to_string(),
            columns: source.object.columns.clone(),
            projection: columns.to_vec(),
            runtime: self.runtime.clone(),
        };
        source.splits[context.worker().index] = restored.clone();
        drop(sources);
        Ok((dealer.join(context.worker().index, at, restored, wake)?, name))
    }

    /// Shows a worker's splits as of now.
    pub fn show_splits(&self, context: &NodeContext, splits: &BTreeMap<SplitId, SplitState>) {
        if let Some(source) = self.sources.lock().get_mut(&(context.job.shared.id, context.node.0)) {
            let shown = &mut source.splits[context.worker().index];
            if shown != splits {
                shown.clone_from(splits);
            }
        }
    }

    /// Notes that a worker has read a source to its end.
    pub fn source_ended(&self, context: &NodeContext) {
        if let Some(source) = self.sources.lock().get_mut(&(context.job.shared.id, context.node.0)) {
            source.ended[context.worker().index] = true;
        }
        context.job.shared.note_change();
    }

    /// Notes a worker's splits as a checkpoint holds them.
    pub fn note_positions(&self, context: &NodeContext, checkpoint: Epoch, splits: &BTreeMap<SplitId, SplitState>) {
        if let Some(source) = self.sources.lock().get_mut(&(context.job.shared.id, context.node.0)) {
            source.noted.entry(checkpoint).or_default().extend(splits.iter().map(|(k, v)| (Arc::clone(k), v.clone())));
        }
    }

    /// Starts the sink writer of a worker.
    ///
    /// # Errors
    /// If the job was created without its sink.
    pub fn start_sink(&self, context: &NodeContext, sink: ObjectId) -> Result<SinkHandle, OperatorError> {
        let mut sinks = self.sinks.lock();
        let shared = sinks.get_mut(&sink).ok_or_else(|| OperatorError::Plan("the job was created without its sink".into()))?;
        let Operator::Sink { mode, key, .. } = &context.plan().operator else {
            return Err(OperatorError::Plan("a sink's root is no sink".into()));
        };
        let at = SinkContext {
            name: shared.object.name.clone(),
            columns: shared.object.columns.clone(),
            mode: *mode,
            key: key.clone(),
            writer: context.worker().index,
            writers: self.workers,
        };
        let handle = delivery::start(&self.runtime, Arc::clone(&shared.connector), at, Arc::clone(&context.job.shared));
        shared.writers.push(handle.clone());
        Ok(handle)
    }

    /// Tells sources and sinks that a checkpoint is durable.
    pub async fn checkpoint_durable(&self, checkpoint: Epoch) {
        for sink in self.sinks.lock().values() {
            sink.writers.iter().for_each(|writer| writer.durable(checkpoint));
        }
        let acknowledged: Vec<_> = {
            let mut sources = self.sources.lock();
            let take = |source: &mut SourceShared| {
                let noted = source.noted.remove(&checkpoint)?;
                source.noted.retain(|epoch, _| *epoch > checkpoint);
                let positions: BTreeMap<_, _> = noted.into_iter().map(|(split, state)| (split, state.position)).collect();
                Some((Arc::clone(&source.connector), source.object.name.clone(), positions))
            };
            sources.values_mut().filter_map(take).collect()
        };
        for (connector, name, positions) in acknowledged {
            if let Err(error) = connector.checkpointed(&positions).await {
                tracing::warn!(
                    source = name,
                    error = error.message,
                    "positions could not be acknowledged; the next checkpoint tries again"
                );
            }
        }
    }
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
    /// Held while a write takes its epoch and its place in the log, so that both have one order.
    writing: Mutex<()>,
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

/// A consistent reading of some relations.
pub struct Reading {
    /// The one epoch of all of them.
    pub epoch: Epoch,
    /// By relation: each worker's share.
    pub relations: BTreeMap<ObjectId, Vec<ViewHold>>,
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
        let (places, rebuilt) = crate::checkpoint::restore(&config, &checkpoints, manifest.as_deref()).await?;
        let clock = Clock::after(restored_at.unwrap_or_default());
        let shared = Arc::new(Shared::new(config.workers, Handle::current(), clock));
        let workers = {
            let shared = Arc::clone(&shared);
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
            checkpointer: tokio::sync::Mutex::new(Checkpointer::new(checkpoints, flushes, rebuilt)),
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

    async fn tick(self) {
        let clock = &self.inner.shared.clock;
        loop {
            let wait = if clock.is_demanded() {
                DEMANDED_TICK
            } else if clock.is_active() {
                TICK
            } else {
                IDLE_TICK
            };
            // While idle, the first row starts the 20 ms, and a demand the 1 ms.
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
                    let splits = vec![BTreeMap::new(); shared.workers];
                    let source = SourceShared {
                        object: Arc::clone(object),
                        connector,
                        dealer: None,
                        ended: vec![false; shared.workers],
                        splits,
                        noted: BTreeMap::new(),
                    };
                    shared.sources.lock().insert((job.id, place), source);
                }
                Operator::Sink { mode, key, .. } => {
                    let connector =
                        spec.object.connector().ok_or_else(|| EngineError::Internal("a sink has no connector".into()))?;
                    let connector =
                        thalweg_connectors::registry::sink(connector, &spec.object.columns, *mode, key, &spec.object.name)
                            .map_err(EngineError::Refused)?;
                    let sink = SinkShared { object: Arc::clone(&spec.object), connector, writers: vec![] };
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
            inner.shared.queues.lock().remove(id);
            inner.shared.sources.lock().retain(|(job, _), _| job != id);
            inner.shared.sinks.lock().remove(id);
            inner.shared.errors.drop_job(*id);
            inner.fingerprints.lock().remove(id);
        }
        inner.shared.note_dirty();
    }

    /// Writes to tables: durable when this returns, and visible to whoever reads at the returned epoch or later. All the writes
    /// become visible together.
    ///
    /// # Errors
    /// If the table log refuses; then nothing has been written.
    pub async fn write(&self, writes: Vec<(ObjectId, Delta)>) -> Result<Epoch, EngineError> {
        for (table, _) in &writes {
            self.running_job(*table)?;
        }
        // In a task of its own: a statement that is cancelled must not leave a write half-way.
        let inner = Arc::clone(&self.inner);
        let task = tokio::spawn(async move {
            let (reservation, logged) = {
                let _order = inner.writing.lock();
                let reservation = inner.shared.clock.reserve(now_ms());
                let logged = inner.table_log.append(reservation.epoch(), writes.clone());
                (reservation, logged)
            };
            let epoch = reservation.epoch();
            logged.await?;
            for (table, delta) in writes {
                inner.shared.table_queue(table).push(epoch, delta);
            }
            inner.shared.note_dirty();
            drop(reservation);
            inner.shared.clock.demand();
            Ok(epoch)
        });
        task.await.map_err(|e| EngineError::Internal(format!("a write panicked: {e}")))?
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

    /// Reads relations at one epoch, which is at least `at_least` and no older than what any of them has shown. Waits until
    /// all have it.
    ///
    /// # Errors
    /// If a relation's job has failed or is gone.
    pub async fn read(&self, relations: &[ObjectId], at_least: Epoch) -> Result<Reading, EngineError> {
        if relations.is_empty() {
            return Ok(Reading { epoch: at_least, relations: BTreeMap::new() });
        }
        // What was acknowledged before a restart is seen after it, however early someone looks.
        let at_least = at_least.max(Epoch(self.inner.replayed.load(Ordering::SeqCst)));
        loop {
            let mut jobs = vec![];
            for id in relations {
                let job = self.running_job(*id)?;
                job.wait_until(|job| job.since().is_some() || job.is_stopped()).await;
                jobs.push(self.running_job(*id)?);
            }
            let newest = |job: &Arc<JobShared>| job.completed().max(job.since().unwrap_or_default());
            let finite = |epoch: &Epoch| *epoch != Epoch::END;
            let epoch = jobs.iter().map(newest).filter(finite).chain([at_least]).max().unwrap_or_default();
            let epoch = if jobs.iter().all(|job| job.completed() == Epoch::END) { Epoch::END } else { epoch };
            if let Some(reading) = self.hold(&jobs, epoch).await? {
                return Ok(reading);
            }
        }
    }

    /// Waits for `epoch` on every relation and holds it; none if one has gone past what it still keeps.
    async fn hold(&self, jobs: &[Arc<JobShared>], epoch: Epoch) -> Result<Option<Reading>, EngineError> {
        let mut relations = BTreeMap::new();
        // Those that have it already are held first, so that they keep it while the others are waited for.
        let mut order: Vec<_> = jobs.iter().collect();
        order.sort_by_key(|job| std::cmp::Reverse(job.completed()));
        for job in order {
            if job.completed() < epoch {
                self.inner.shared.clock.demand();
                job.wait_until(|job| job.completed() >= epoch || job.is_stopped()).await;
                self.running_job(job.id)?;
            }
            let readers: Vec<ViewReader> = {
                let readers = self.inner.shared.readers.read();
                readers.get(&job.id).map(|r| r.iter().flatten().cloned().collect()).unwrap_or_default()
            };
            if readers.len() < self.inner.config.workers {
                return Err(EngineError::NoJob { id: job.id });
            }
            let held: Option<Vec<ViewHold>> = readers.iter().map(|reader| reader.hold(epoch)).collect();
            let Some(held) = held else { return Ok(None) };
            relations.insert(job.id, held);
        }
        Ok(Some(Reading { epoch, relations }))
    }

    /// Follows a relation: its rows as of now if `snapshot`, then the net change of every later epoch.
    ///
    /// # Errors
    /// If the relation's job has failed or is gone.
    pub async fn subscribe(&self, relation: ObjectId, snapshot: bool) -> Result<Subscription, EngineError> {
        self.running_job(relation)?;
        let follower = self.inner.shared.subscribers.follow(relation);
        // What was published before this was at an epoch that is not later than the open one, so it is in the snapshot.
        let open = self.inner.shared.clock.open();
        let reading = self.read(&[relation], open).await?;
        Ok(Subscription::new(follower, reading, snapshot))
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
        let sources = self.inner.shared.sources.lock();
        let mut rows = vec![];
        for ((job, _), source) in sources.iter() {
            for (worker, splits) in source.splits.iter().enumerate() {
                rows.extend(splits.iter().map(|(split, state)| SplitStatus {
                    job: *job,
                    source: source.object.id,
                    worker,
                    split: split.to_string(),
                    state: state.clone(),
                }));
            }
        }
        rows
    }

    /// Whether every source that a job reads itself has been read to its end.
    pub fn job_sources_ended(&self, id: ObjectId) -> bool {
        let sources = self.inner.shared.sources.lock();
        let mut own = sources.iter().filter(|((job, _), _)| *job == id).peekable();
        own.peek().is_none() || own.all(|(_, source)| source.ended.iter().all(|ended| *ended))
    }

    /// All sinks.
    pub fn sinks(&self) -> Vec<SinkStatus> {
        let sinks = self.inner.shared.sinks.lock();
        let status = |(id, sink): (&ObjectId, &SinkShared)| SinkStatus {
            sink: *id,
            guarantee: sink.connector.guarantee(),
            delivered: sink.writers.iter().map(SinkHandle::delivered).min().unwrap_or_default(),
        };
        sinks.iter().map(status).collect()
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
