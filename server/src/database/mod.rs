//! The database: catalog, durable storage and engine together, and what can be done to them. Sessions, `thalweg run` and the
//! HTTP server all stand on it.

pub mod change;
pub mod connectors;
pub mod definition;
pub mod drop;
pub mod locks;
pub mod moment;
pub mod open;
pub mod pending;
pub(crate) mod producer;
pub mod query;
pub mod replace;
pub mod scan;
mod schemas;
pub mod source_scan;
mod types;

use crate::access::audit::AuditLog;
use crate::access::gate::Gate;
use crate::access::vault::Vault;
use crate::config::Settings;
use locks::Holder;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_catalog::{Catalog, CatalogObject, Epoch, ObjectId, SqlError, SqlResult, SqlState};
use thalweg_executor::{Engine, EngineError, Unchanged};
use thalweg_plan::StreamPlan;
use thalweg_planner::LogicalPlanner;
use thalweg_planner::lineage::ColumnLineage;
use thalweg_storage::{CatalogLog, StorageError};

/// What happened, for `thalweg.events`.
#[derive(Clone, Debug)]
pub struct Event {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What kind of thing happened: `create`, `drop`, `start`, ….
    pub kind: &'static str,
    /// To which object, if to one.
    pub object: Option<ObjectId>,
    /// In words.
    pub message: String,
}

/// How many events are kept.
const EVENTS_MAX: usize = 1000;

/// A running database.
pub struct Database {
    settings: Settings,
    engine: Engine,
    /// What plans the queries of views and sinks.
    planner: LogicalPlanner,
    catalog: RwLock<Arc<Catalog>>,
    /// Held while the catalog is changed.
    ddl: tokio::sync::Mutex<CatalogLog>,
    plans: RwLock<HashMap<ObjectId, Arc<StreamPlan>>>,
    lineage: RwLock<HashMap<ObjectId, Arc<Vec<ColumnLineage>>>>,
    /// What is being changed, and by whom.
    locks: Arc<locks::Locks>,
    /// By table: the epoch of its newest write.
    written: Mutex<HashMap<ObjectId, Epoch>>,
    events: Mutex<std::collections::VecDeque<Event>>,
    gate: Arc<Gate>,
    audit: AuditLog,
    vault: Vault,
    started_ms: u64,
}

impl Database {
    /// The settings of the process.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Who is let in.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// What is kept of who came in and what they changed.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// Where secrets are kept.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What plans the queries of views and sinks.
    pub fn planner(&self) -> &LogicalPlanner {
        &self.planner
    }

    /// The catalog as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    /// The streaming plan of an object's job.
    pub fn plan(&self, id: ObjectId) -> Option<Arc<StreamPlan>> {
        self.plans.read().get(&id).cloned()
    }

    /// From which columns an object's columns are made.
    pub fn lineage(&self, id: ObjectId) -> Option<Arc<Vec<ColumnLineage>>> {
        self.lineage.read().get(&id).cloned()
    }

    /// When the process started, in milliseconds since 1970.
    pub fn started_ms(&self) -> u64 {
        self.started_ms
    }

    /// What happened lately, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().iter().cloned().collect()
    }

    /// Notes that something happened.
    pub fn note(&self, kind: &'static str, object: Option<ObjectId>, message: impl Into<String>) {
        let message = message.into();
        tracing::info!(kind, object = object.map(|o| o.0), message);
        let mut events = self.events.lock();
        events.push_back(Event { at_ms: now_ms(), kind, object, message });
        if events.len() > EVENTS_MAX {
            events.pop_front();
        }
    }

    /// The locks of tables and their rows.
    pub fn locks(&self) -> &Arc<locks::Locks> {
        &self.locks
    }

    /// The epoch of the newest write to a table by this process.
    pub fn written(&self, table: ObjectId) -> Epoch {
        self.written.lock().get(&table).copied().unwrap_or_default()
    }

    /// Writes to tables, all together, once, and gives up what was held for it.
    ///
    /// # Errors
    /// If the table log refuses, or `40001` if what the write depends on was changed; then nothing has been written.
    pub async fn write(
        self: &Arc<Self>,
        writes: Vec<(ObjectId, thalweg_catalog::Delta)>,
        holder: Arc<Holder>,
        unless: Option<Unchanged>,
    ) -> SqlResult<Epoch> {
        let database = Arc::clone(self);
        // In a task of its own: the write of a statement that is cancelled goes on, and until it has ended nobody else may
        // change these rows.
        let task = tokio::spawn(async move {
            let ids: Vec<ObjectId> = writes.iter().map(|(id, _)| *id).collect();
            let epoch = database.engine.write(writes, unless).await.map_err(|e| engine_error(&e, &database.catalog()))?;
            {
                let mut written = database.written.lock();
                for id in ids {
                    let newest = written.entry(id).or_default();
                    *newest = epoch.max(*newest);
                }
            }
            holder.written(epoch, |table| database.engine.job(table).map_or(epoch, |job| job.completed()));
            Ok(epoch)
        });
        task.await.map_err(|e| SqlError::internal(format!("a write panicked: {e}")))?
    }
}

/// Now, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Now, in microseconds since 1970.
pub fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}

/// An error with all its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// What a user is told of a fault of storage.
pub fn storage_error(error: &StorageError) -> SqlError {
    let state = match error {
        StorageError::Refused(refused) => return refused.clone(),
        StorageError::InUse { .. } => SqlState::ObjectInUse,
        StorageError::Place { .. } => SqlState::InvalidParameterValue,
        StorageError::Shape { .. } => SqlState::InternalError,
        StorageError::Fenced { .. } => SqlState::AdminShutdown,
        StorageError::Corrupt { .. } | StorageError::Missing { .. } => SqlState::DataCorrupted,
        full if full.is_disk_full() => SqlState::DiskFull,
        _ => SqlState::IoError,
    };
    SqlError::new(state, chain(error))
}

/// What a user is told of a fault of the engine.
pub fn engine_error(error: &EngineError, catalog: &Catalog) -> SqlError {
    let shown = |id: &ObjectId| {
        catalog.get(*id).map_or_else(|| format!("object {id}"), |o: &Arc<CatalogObject>| format!("{} \"{}\"", o.kind(), o.name))
    };
    match error {
        EngineError::Storage(error) => storage_error(error),
        EngineError::TableLog(error) => storage_error(error),
        EngineError::Damaged(error) => storage_error(error),
        EngineError::Refused(error) => error.clone(),
        EngineError::Workers(reason) => SqlError::new(SqlState::SystemError, format!("worker threads failed: {reason}")),
        EngineError::PlanChanged { name } => SqlError::new(
            SqlState::ObjectNotInPrerequisiteState,
            format!("the stored state of \"{name}\" is of another plan than this release makes of its query"),
        )
        .with_hint("Start the release that wrote it, or drop and create it again."),
        EngineError::NoJob { id } => {
            SqlError::new(SqlState::ObjectNotInPrerequisiteState, format!("{} is not running", shown(id)))
        }
        EngineError::JobFailed { id, reason } => {
            SqlError::new(SqlState::ObjectNotInPrerequisiteState, format!("the job of {} has failed", shown(id)))
                .with_detail(reason.clone())
                .with_hint("See thalweg.jobs. Drop it and create it again once the cause is gone.")
        }
        EngineError::Changed { id } => moment::conflict("read/write dependencies among transactions")
            .with_detail(format!("{} was changed since the transaction read it.", shown(id))),
        EngineError::NotAtMoment { id } => SqlError::new(
            SqlState::ObjectNotInPrerequisiteState,
            format!("{} was not there at the moment that the transaction sees", shown(id)),
        )
        .with_hint("End the transaction and begin another."),
        EngineError::Moment(error) => engine_error(error, catalog),
        EngineError::RelationGone => SqlError::new(SqlState::UndefinedTable, "the relation was dropped while it was being read"),
        EngineError::Internal(reason) => SqlError::internal(reason.clone()),
    }
}
