//! Checkpoints of the engine: a consistent cut of all workers' state, made durable; and the way back.

use crate::dataflow::adapter::chain;
use crate::dataflow::worker::{Flushed, WorkerPlace};
use crate::engine::EngineConfig;
use crate::error::EngineError;
use crate::row_errors::now_ms;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{CrashPoint, Epoch, VNode, WorkerIndex};
use thalweg_storage::checkpoint::{CheckpointAttempt, CheckpointStore};
use thalweg_storage::manifest::{CheckpointManifest, FileEntry, JobEntry, WorkerFiles};
use thalweg_storage::table_log::TableLog;
use thalweg_storage::worker_store::{WorkerStore, WorkerStoreOptions};
use thalweg_storage::{StorageError, StorageResult};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

/// How many manifests pass between collections of garbage.
const GARBAGE_EVERY: u64 = 8;

/// The durable storage that an engine stands on.
pub struct Durable {
    /// Checkpoints of state.
    pub checkpoints: CheckpointStore,
    /// What was written to tables.
    pub table_log: TableLog,
}

/// One checkpoint as system tables show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointRecord {
    /// The epoch that it is of.
    pub epoch: Epoch,
    /// Whether it is durable; why not.
    pub outcome: Result<u64, String>,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// When it ended, in milliseconds since 1970.
    pub ended_ms: u64,
    /// The size of all files of its state, in bytes.
    pub size_bytes: u64,
    /// The bytes of it that had to be uploaded.
    pub uploaded_bytes: u64,
}

/// What a made checkpoint is.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    number: u64,
    size_bytes: u64,
    uploaded_bytes: u64,
}

impl CheckpointRecord {
    /// The record of what was made, or was not.
    pub fn of(epoch: Epoch, made: &Result<Made, EngineError>, took: Duration) -> CheckpointRecord {
        let figures = made.as_ref().ok();
        CheckpointRecord {
            epoch,
            outcome: made.as_ref().map(|m| m.number).map_err(|e| chain(e)),
            took_ms: took.as_millis() as u64,
            ended_ms: now_ms(),
            size_bytes: figures.map_or(0, |m| m.size_bytes),
            uploaded_bytes: figures.map_or(0, |m| m.uploaded_bytes),
        }
    }
}

/// What a checkpoint is to be of.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// The announced epoch.
    pub epoch: Epoch,
    /// The catalog's version.
    pub catalog_version: u64,
    /// The table log's newest segment.
    pub table_log_segment: u64,
}

/// Makes checkpoints, one at a time.
pub struct Checkpointer {
    store: CheckpointStore,
    flushes: UnboundedReceiver<Flushed>,
    /// Whether the databases were built anew, so that no file is known from an earlier checkpoint.
    rebuilt: bool,
    basis: Basis,
    made: u64,
}

/// The files that the state was restored from.
enum Basis {
    /// They are being read.
    Checking(JoinHandle<StorageResult<()>>),
    Whole,
    Damaged(Arc<StorageError>),
}

impl Checkpointer {
    /// For workers that tell `flushes` of their parts. Reads the files that `restored` took unread in the background: should one be
    /// damaged, no checkpoint is made on top of it.
    pub fn new(store: CheckpointStore, flushes: UnboundedReceiver<Flushed>, restored: &mut Restored) -> Checkpointer {
        let linked = std::mem::take(&mut restored.linked);
        let basis = if linked.is_empty() { Basis::Whole } else { Basis::Checking(tokio::spawn(store.check(linked))) };
        Checkpointer { store, flushes, rebuilt: restored.rebuilt, basis, made: 0 }
    }

    /// Looks at how far the check of the files is that the state was restored from.
    async fn look_at_basis(&mut self) -> Result<(), EngineError> {
        if let Basis::Checking(check) = &mut self.basis
            && check.is_finished()
        {
            self.basis = match check.await {
                Ok(Ok(())) => Basis::Whole,
                Ok(Err(error)) => Basis::Damaged(Arc::new(error)),
                // Nobody knows whether they are whole.
                Err(error) => Basis::Damaged(Arc::new(StorageError::File {
                    action: "check",
                    path: "the restored files".to_string(),
                    source: std::io::Error::other(error),
                })),
            };
        }
        match &self.basis {
            Basis::Damaged(error) => Err(EngineError::Damaged(Arc::clone(error))),
            Basis::Checking(_) | Basis::Whole => Ok(()),
        }
    }

    /// Waits for every worker's part of the checkpoint that has been announced at `epoch`: directories with their files, to be
    /// published or discarded.
    ///
    /// # Errors
    /// If a worker's part fails (D7: then there is no checkpoint).
    pub async fn gather(&mut self, epoch: Epoch, workers: usize) -> Result<Vec<PathBuf>, EngineError> {
        let mut directories: Vec<Option<PathBuf>> = vec![None; workers];
        let mut failed = None;
        let mut count = 0;
        while count < workers {
            let Some(flushed) = self.flushes.recv().await else {
                return Err(EngineError::Workers("the workers have stopped".into()));
            };
            // What an earlier, failed attempt still brings is not of this one.
            if flushed.epoch != epoch {
                continue;
            }
            count += 1;
            match flushed.directory {
                Ok(directory) => directories[flushed.worker] = Some(directory),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            None => Ok(directories.into_iter().flatten().collect()),
            Some(error) => {
                for directory in directories.iter().flatten() {
                    remove(directory).await;
                }
                Err(error.into())
            }
        }
    }

    /// Makes a gathered checkpoint durable, and removes the directories.
    ///
    /// # Errors
    /// If the store refuses, or what the state was restored from is damaged; then there is no checkpoint.
    pub async fn publish(&mut self, cut: Cut, directories: &[PathBuf], jobs: Vec<JobEntry>) -> Result<Made, EngineError> {
        let made = match self.look_at_basis().await {
            Ok(()) => self.upload(cut, directories, jobs).await,
            Err(damage) => Err(damage),
        };
        for directory in directories {
            remove(directory).await;
        }
        made
    }

    async fn upload(&mut self, cut: Cut, directories: &[PathBuf], jobs: Vec<JobEntry>) -> Result<Made, EngineError> {
        let attempt: CheckpointAttempt = self.store.begin();
        let previous = self.store.newest().filter(|_| !self.rebuilt);
        let mut workers: Vec<WorkerFiles> = vec![];
        CrashPoint::BeforeUpload.pass();
        for (worker, directory) in directories.iter().enumerate() {
            workers.push(self.store.upload_worker(&attempt, WorkerIndex(worker), directory, previous.as_deref()).await?);
        }
        let had: std::collections::BTreeSet<&str> =
            previous.iter().flat_map(|m| &m.workers).flat_map(|w| &w.files).map(|f| f.path.as_str()).collect();
        let files = || workers.iter().flat_map(|w| &w.files);
        let size_bytes = files().map(|f| f.size).sum();
        let uploaded_bytes = files().filter(|f| !had.contains(f.path.as_str())).map(|f| f.size).sum();
        let number = attempt.number();
        let manifest = CheckpointManifest {
            epoch: cut.epoch,
            generation: number.generation(),
            number,
            workers,
            jobs,
            created_ms: now_ms(),
            catalog_version: cut.catalog_version,
            table_log_segment: cut.table_log_segment,
        };
        self.store.commit(attempt, manifest).await?;
        self.rebuilt = false;
        self.made += 1;
        Ok(Made { number: number.0, size_bytes, uploaded_bytes })
    }

    /// Deletes what no checkpoint needs any more, now and then; nothing before the files that the state was restored from are known
    /// to be whole, for an older checkpoint may be wanted if they are not.
    ///
    /// # Errors
    /// If the store refuses.
    pub async fn collect_garbage(&self) -> Result<(), EngineError> {
        if matches!(self.basis, Basis::Whole) && self.made.is_multiple_of(GARBAGE_EVERY) {
            self.store.collect_garbage().await?;
        }
        Ok(())
    }
}

async fn remove(directory: &Path) {
    if let Err(error) = tokio::fs::remove_dir_all(directory).await {
        tracing::warn!(directory = %directory.display(), %error, "could not remove a checkpoint's directory");
    }
}

/// What an engine starts from.
pub struct Restored {
    /// Each worker's database.
    pub places: Vec<WorkerPlace>,
    /// Whether the databases were built anew, because the number of workers is another one than the checkpoint's.
    rebuilt: bool,
    /// Files that were linked and not read.
    linked: Vec<FileEntry>,
}

/// Readies a database for each worker from a checkpoint, or an empty one.
///
/// # Errors
/// If a file of the checkpoint is damaged or missing, or the disk refuses.
pub async fn restore(
    config: &EngineConfig,
    checkpoints: &CheckpointStore,
    manifest: Option<&CheckpointManifest>,
) -> Result<Restored, EngineError> {
    let root = &config.state_directory;
    let file = |action: &'static str, path: &Path| {
        let path = path.display().to_string();
        move |source| EngineError::from(StorageError::File { action, path, source })
    };
    if root.exists() {
        std::fs::remove_dir_all(root).map_err(file("empty", root))?;
    }
    let memory_bytes = (config.database_memory_bytes / config.workers as u64) as usize;
    let options = WorkerStoreOptions { memory_bytes, ..WorkerStoreOptions::default() };
    let place = |worker: usize| WorkerPlace {
        database: root.join(format!("worker-{worker}")),
        checkpoints: root.join(format!("checkpoints-{worker}")),
        options,
    };
    let places: Vec<WorkerPlace> = (0..config.workers).map(place).collect();
    for place in &places {
        std::fs::create_dir_all(&place.checkpoints).map_err(file("create", &place.checkpoints))?;
    }
    let mut linked = vec![];
    let Some(manifest) = manifest else {
        return Ok(Restored { places, rebuilt: false, linked });
    };
    if manifest.workers.len() == config.workers {
        for (worker, place) in places.iter().enumerate() {
            linked.extend(checkpoints.restore_worker(manifest, WorkerIndex(worker), &place.database).await?);
        }
        return Ok(Restored { places, rebuilt: false, linked });
    }
    let mut former = vec![];
    for worker in 0..manifest.workers.len() {
        let directory = root.join(format!("former-{worker}"));
        linked.extend(checkpoints.restore_worker(manifest, WorkerIndex(worker), &directory).await?);
        former.push(directory);
    }
    let (moved, count) = (places.clone(), config.workers);
    let rebuilding = tokio::task::spawn_blocking(move || rescale(&former, &moved, count));
    rebuilding.await.map_err(|e| EngineError::Workers(e.to_string()))??;
    Ok(Restored { places, rebuilt: true, linked })
}

/// Deals the entries of the former workers' databases out to the new ones.
fn rescale(former: &[PathBuf], places: &[WorkerPlace], workers: usize) -> Result<(), EngineError> {
    for (worker, place) in places.iter().enumerate() {
        let store = WorkerStore::open(&place.database, place.options)?;
        for directory in former {
            store.import_from(directory, |vnode: VNode| vnode.is_kept_by(worker, workers))?;
        }
        CrashPoint::InRescale.pass();
    }
    for directory in former {
        std::fs::remove_dir_all(directory).map_err(|source| {
            let path = directory.display().to_string();
            EngineError::from(StorageError::File { action: "remove", path, source })
        })?;
    }
    Ok(())
}
