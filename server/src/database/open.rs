//! Opens a database: claims its store, reads the catalog, restores the newest checkpoint, runs every job again.

use super::definition::Runnable;
use super::{Database, chain, now_ms, storage_error};
use crate::access::audit::AuditLog;
use crate::access::gate::Gate;
use crate::access::vault::Vault;
use crate::config::Settings;
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use thalweg_executor::checkpoint::Durable;
use thalweg_executor::{Engine, EngineConfig};
use thalweg_planner::LogicalPlanner;
use thalweg_storage::{CatalogLog, CheckpointStore, GenerationClaim, ObjectStore, TableLog};

impl Database {
    /// Opens the database that the settings name, or makes an empty one where there is nothing yet.
    ///
    /// # Errors
    /// If the store can't be reached, is held by another process, or is damaged; never starts empty instead.
    pub async fn open(settings: Settings) -> SqlResult<Arc<Database>> {
        let file = |e: std::io::Error| {
            SqlError::new(SqlState::IoError, format!("could not create directory \"{}\": {e}", settings.data_dir.display()))
        };
        std::fs::create_dir_all(&settings.data_dir).map_err(file)?;
        let (gate, vault) = (Arc::new(Gate::open(&settings)?), Vault::new(settings.secrets_key_file.clone()));
        let stored = |e: thalweg_storage::StorageError| storage_error(&e);
        let store = ObjectStore::open(&settings.store, &settings.s3).await.map_err(stored)?;
        let claim = Arc::new(GenerationClaim::claim(&store).await.map_err(stored)?);
        let (log, catalog) = CatalogLog::open(Arc::clone(&claim)).await.map_err(stored)?;
        let checkpoints = CheckpointStore::open(Arc::clone(&claim)).await.map_err(stored)?;
        let newest = checkpoints.newest();
        if let Some(manifest) = &newest {
            manifest.check_catalog(&catalog).map_err(stored)?;
        }
        let reaches = newest.as_ref().map_or(0, |m| m.table_log_segment);
        let table_log = TableLog::open(claim, reaches).await.map_err(stored)?;
        let config = EngineConfig {
            workers: settings.workers,
            state_directory: settings.data_dir.join("state"),
            job_memory_bytes: settings.job_memory_bytes,
            database_memory_bytes: settings.database_memory_bytes,
            checkpoint_interval: settings.checkpoint_interval,
            epoch_interval: settings.epoch_interval,
        };
        let engine = Engine::start(config, Durable { checkpoints, table_log })
            .await
            .map_err(|e| SqlError::new(SqlState::DataCorrupted, chain(&e)))?;
        engine.set_catalog_version(catalog.version());
        let database = Arc::new(Database {
            settings,
            engine,
            planner: LogicalPlanner::new(),
            catalog: RwLock::new(Arc::new(catalog)),
            ddl: tokio::sync::Mutex::new(log),
            plans: RwLock::default(),
            lineage: RwLock::default(),
            locks: Arc::default(),
            written: Mutex::default(),
            events: Mutex::default(),
            gate,
            audit: AuditLog::default(),
            vault,
            started_ms: now_ms(),
        });
        database.run_jobs().await?;
        database.drop_temporary_leftovers().await?;
        Ok(database)
    }

    /// Runs the jobs of all objects, those that are read before those that read them.
    async fn run_jobs(&self) -> SqlResult<()> {
        let catalog = self.catalog();
        for object in catalog.objects() {
            if let Some(runnable) = Runnable::of(self, object, &catalog)? {
                self.run(runnable).await?;
            }
        }
        self.engine.replay_tables().await.map_err(|e| super::engine_error(&e, &catalog))?;
        let jobs = catalog.objects().filter(|o| o.is_job()).count();
        self.note("start", None, format!("started with {jobs} jobs on {} workers", self.settings.workers));
        Ok(())
    }

    /// Stops: makes a last checkpoint and ends all threads.
    ///
    /// # Errors
    /// If the last checkpoint could not be made. Nothing acknowledged is lost then either.
    pub async fn close(&self) -> SqlResult<()> {
        self.engine.shut_down().await.map_err(|e| super::engine_error(&e, &self.catalog()))
    }
}
