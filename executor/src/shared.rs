//! What all threads of an engine share: the clock, jobs, readers, sources and sinks by the jobs that have them.

use crate::clock::Clock;
use crate::dataflow::context::NodeContext;
use crate::dataflow::{SplitState, TableQueue};
use crate::delivery;
use crate::delivery::progress::SinkHandle;
use crate::error::OperatorError;
use crate::feed::{Dealer, Feed, Resting, Wake};
use crate::job::JobShared;
use crate::row_errors::ErrorLog;
use crate::subscribe::Subscribers;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_catalog::{CatalogObject, Delta, Epoch, ObjectId};
use thalweg_connectors::{
    ConnectorError, ConnectorResult, Guarantee, SinkConnector, SinkContext, SourceConnector, SourceContext, SplitId,
};
use thalweg_plan::Operator;
use thalweg_storage::state::ViewReader;
use thalweg_storage::state::inspect::StoreReader;
use tokio::runtime::Handle;

/// What all threads of an engine share.
pub struct Shared {
    /// Where epochs come from.
    pub clock: Clock,
    /// Rows at fault.
    pub errors: ErrorLog,
    /// Who follows relations from outside.
    pub subscribers: Subscribers,
    pub(crate) workers: usize,
    runtime: Handle,
    pub(crate) jobs: RwLock<BTreeMap<ObjectId, Arc<JobShared>>>,
    pub(crate) readers: RwLock<HashMap<ObjectId, Vec<Option<ViewReader>>>>,
    pub(crate) queues: Mutex<HashMap<ObjectId, Arc<TableQueue>>>,
    pub(crate) sources: Mutex<BTreeMap<(ObjectId, usize), SourceShared>>,
    pub(crate) sinks: Mutex<BTreeMap<ObjectId, SinkShared>>,
    /// Sources that nothing comes from.
    resting: Arc<Resting>,
    /// By worker: its database, to be read by others.
    pub(crate) stores: Mutex<BTreeMap<usize, StoreReader>>,
    /// Whether anything has changed that the next checkpoint would hold.
    dirty: AtomicBool,
}

/// A source as one job reads it.
pub(crate) struct SourceShared {
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
pub(crate) struct SinkShared {
    object: Arc<CatalogObject>,
    connector: Arc<dyn SinkConnector>,
    writers: Vec<SinkHandle>,
}

impl SourceShared {
    /// A source that nothing has been read of yet.
    pub(crate) fn new(object: Arc<CatalogObject>, connector: Arc<dyn SourceConnector>, workers: usize) -> SourceShared {
        SourceShared {
            object,
            connector,
            dealer: None,
            ended: vec![false; workers],
            splits: vec![BTreeMap::new(); workers],
            noted: BTreeMap::new(),
        }
    }
}

impl SinkShared {
    /// A sink whose writers have not been started yet.
    pub(crate) fn new(object: Arc<CatalogObject>, connector: Arc<dyn SinkConnector>) -> SinkShared {
        SinkShared { object, connector, writers: vec![] }
    }
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
    /// For so many workers, without any job yet.
    pub fn new(workers: usize, clock: Clock, runtime: Handle) -> Shared {
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
            resting: Arc::default(),
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
        time: Option<usize>,
        restored: BTreeMap<SplitId, SplitState>,
        wake: Wake,
    ) -> ConnectorResult<(Feed, String)> {
        let key = (context.job.shared.id, context.node.0);
        let mut sources = self.sources.lock();
        let source = sources.get_mut(&key).ok_or_else(|| ConnectorError::internal("the job was created without its source"))?;
        let name = source.object.name.clone();
        let make = || {
            let job = Arc::clone(&context.job.shared);
            let resting = Arc::clone(&self.resting);
            Arc::new(Dealer::new(Arc::clone(&source.connector), name.clone(), job, resting, self.workers))
        };
        let dealer = Arc::clone(source.dealer.get_or_insert_with(make));
        let at = SourceContext {
            name: name.clone(),
            job: context.job.shared.id.to_string(),
            columns: source.object.columns.clone(),
            projection: columns.to_vec(),
            time,
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

    /// The splits of all sources.
    pub fn splits(&self) -> Vec<SplitStatus> {
        let sources = self.sources.lock();
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
        let sources = self.sources.lock();
        let mut own = sources.iter().filter(|((job, _), _)| *job == id).peekable();
        own.peek().is_none() || own.all(|(_, source)| source.ended.iter().all(|ended| *ended))
    }

    /// All sinks.
    pub fn sinks(&self) -> Vec<SinkStatus> {
        let sinks = self.sinks.lock();
        let status = |(id, sink): (&ObjectId, &SinkShared)| SinkStatus {
            sink: *id,
            guarantee: sink.connector.guarantee(),
            delivered: sink.writers.iter().map(SinkHandle::delivered).min().unwrap_or_default(),
        };
        sinks.iter().map(status).collect()
    }
}
