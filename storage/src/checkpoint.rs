//! Checkpoints: every worker's database files and a manifest that names them, put when all of them are durable.
//!
//! Incremental: a table file that an earlier checkpoint of the same lineage has is named again and not uploaded again.
//! Verified: the manifest is sealed, and every file is read back against its checksum: as it is fetched at a restore, or, where it
//! is only linked, soon after. What is damaged or missing is an error that names it. Older checkpoints are restored only when asked for
//! by number.

use crate::error::{StorageError, StorageResult};
use crate::generation::GenerationClaim;
use crate::manifest::{CheckpointManifest, CheckpointNumber, Fence, FileEntry, Lineage, TAIL_BYTES, WorkerFiles};
use crate::object::{Fetched, FileKind, ObjectStore, Put, Upload, blocking};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_catalog::{CrashPoint, WorkerIndex};

pub(crate) const DATA: &str = "checkpoint/data";

/// Files fetched at the same time at a restore, per worker.
const PARALLEL: usize = 4;

/// The checkpoints of a store.
pub struct CheckpointStore {
    claim: Arc<GenerationClaim>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
pub(crate) struct State {
    /// The newest committed checkpoint of our lineage.
    newest: Option<Arc<CheckpointManifest>>,
    /// The counter of the next number.
    next: u64,
    /// Attempts that may be uploading.
    attempts: BTreeSet<CheckpointNumber>,
    /// Manifests that were read or written, by number: they never change.
    pub(crate) read: BTreeMap<CheckpointNumber, Arc<CheckpointManifest>>,
}

/// An attempt at a checkpoint. Its number is its own, whether it comes to anything or not; when it is dropped without a
/// commit, its files are garbage.
pub struct CheckpointAttempt {
    number: CheckpointNumber,
    state: Arc<Mutex<State>>,
}

impl CheckpointAttempt {
    /// The number that the checkpoint will have.
    pub fn number(&self) -> CheckpointNumber {
        self.number
    }
}

impl Drop for CheckpointAttempt {
    fn drop(&mut self) {
        self.state.lock().attempts.remove(&self.number);
    }
}

impl CheckpointStore {
    /// Opens the checkpoints to go on from the newest.
    ///
    /// # Errors
    /// `Corrupt` or `Missing` if the newest can't be read, naming it; nothing has been changed then.
    pub async fn open(claim: Arc<GenerationClaim>) -> StorageResult<CheckpointStore> {
        let newest = Lineage::read(claim.store()).await?.checkpoints.first().copied();
        CheckpointStore::open_from(claim, newest).await
    }

    /// Opens the checkpoints to go on from this one. Newer ones no longer count.
    ///
    /// # Errors
    /// `Corrupt` or `Missing` if it can't be read, naming it; nothing has been changed then.
    pub async fn open_at(claim: Arc<GenerationClaim>, number: CheckpointNumber) -> StorageResult<CheckpointStore> {
        if !Lineage::read(claim.store()).await?.checkpoints.contains(&number) {
            return Err(StorageError::Missing { path: number.path() });
        }
        CheckpointStore::open_from(claim, Some(number)).await
    }

    async fn open_from(claim: Arc<GenerationClaim>, basis: Option<CheckpointNumber>) -> StorageResult<CheckpointStore> {
        let newest = match basis {
            Some(number) => Some(Arc::new(CheckpointManifest::read(claim.store(), number).await?)),
            None => None,
        };
        let fence = Fence { generation: claim.generation(), basis };
        let path = fence.path();
        if claim.publish(&path, fence.seal()?).await? == Put::Taken {
            return Err(StorageError::corrupt(&path, "it goes on from another checkpoint in the same generation"));
        }
        let read = newest.iter().map(|m| (m.number, Arc::clone(m))).collect();
        let state = State { newest, next: 1, attempts: BTreeSet::new(), read };
        Ok(CheckpointStore { claim, state: Arc::new(Mutex::new(state)) })
    }

    /// The newest committed checkpoint: at first the one to restore, none in a new store.
    pub fn newest(&self) -> Option<Arc<CheckpointManifest>> {
        self.state.lock().newest.clone()
    }

    /// The numbers of all checkpoints that can be restored, the newest first.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn numbers(claim: &GenerationClaim) -> StorageResult<Vec<CheckpointNumber>> {
        Ok(Lineage::read(claim.store()).await?.checkpoints)
    }

    /// Begins an attempt, with a number that was never used before.
    pub fn begin(&self) -> CheckpointAttempt {
        let mut state = self.state.lock();
        let number = CheckpointNumber::new(self.claim.generation(), state.next);
        state.next += 1;
        state.attempts.insert(number);
        CheckpointAttempt { number, state: Arc::clone(&self.state) }
    }

    /// Makes a worker's database checkpoint durable: uploads the files in `directory` that `previous` does not have.
    /// `previous` is the last committed checkpoint of the same database, none if the database was built anew since.
    /// The directory may be removed afterwards.
    ///
    /// # Errors
    /// If a file can't be read, or the store refuses. May be tried again with the same attempt.
    pub async fn upload_worker(
        &self,
        attempt: &CheckpointAttempt,
        worker: WorkerIndex,
        directory: &Path,
        previous: Option<&CheckpointManifest>,
    ) -> StorageResult<WorkerFiles> {
        let had = previous.and_then(|m| m.workers.iter().find(|w| w.worker == worker));
        let had: HashMap<String, FileEntry> =
            had.map(|w| w.files.iter().map(|f| (f.name.clone(), f.clone())).collect()).unwrap_or_default();
        let found = {
            let directory = directory.to_path_buf();
            blocking(move || files_in(&directory)).await?
        };
        let folder = format!("{DATA}/{:020}/{:05}", attempt.number.generation().0, worker.0);
        let (mut files, mut uploads, mut new) = (Vec::new(), Vec::new(), Vec::new());
        for file in found {
            match had.get(&file.name) {
                Some(entry) if file.is(entry) => files.push(entry.clone()),
                _ => {
                    let path = format!("{folder}/{:020}-{}", attempt.number.0, file.name);
                    uploads.push(Upload { file: file.path.clone(), path, kind: kind_of(&file.name) });
                    new.push(file);
                }
            }
        }
        let contents = self.store().put_files(uploads.clone()).await?;
        for ((file, upload), content) in new.into_iter().zip(uploads).zip(contents) {
            let (size, crc32) = (content.size_bytes, content.crc32);
            files.push(FileEntry { name: file.name, path: upload.path, size, crc32, tail_crc32: file.tail_crc32 });
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        CrashPoint::AfterUpload.pass();
        Ok(WorkerFiles { worker, files })
    }

    /// Commits an attempt: from now on a restart goes on from here. All files must have been uploaded.
    ///
    /// # Errors
    /// `Fenced` if another process has taken over: then nothing that hangs on this checkpoint may be done. After another
    /// error the checkpoint may be there or not; the next attempt settles it.
    ///
    /// # Panics
    /// If the manifest is not of this attempt, or is of an epoch before the last one's.
    pub async fn commit(
        &self,
        attempt: CheckpointAttempt,
        manifest: CheckpointManifest,
    ) -> StorageResult<Arc<CheckpointManifest>> {
        assert_eq!(manifest.number, attempt.number, "CHECKPOINT-1: a manifest has its attempt's number");
        assert_eq!(manifest.generation, self.claim.generation(), "CHECKPOINT-1: a manifest is of its process's generation");
        if let Some(newest) = self.newest() {
            assert!(manifest.number > newest.number, "CHECKPOINT-2: checkpoints are committed in the order of their numbers");
            assert!(manifest.epoch >= newest.epoch, "CHECKPOINT-2: checkpoints never go back in time");
        }
        let path = manifest.number.path();
        CrashPoint::BeforeManifest.pass();
        if self.claim.publish(&path, manifest.seal()?).await? == Put::Taken {
            return Err(StorageError::corrupt(&path, "it was put by someone else in our generation"));
        }
        CrashPoint::AfterManifest.pass();
        let manifest = Arc::new(manifest);
        let mut state = self.state.lock();
        state.newest = Some(Arc::clone(&manifest));
        state.read.insert(manifest.number, Arc::clone(&manifest));
        Ok(manifest)
    }

    /// Brings a worker's database files into `directory`, which must be empty or not exist, each checked against the
    /// manifest. A worker without files gets an empty directory. Gives the files that were linked and not read: only their size
    /// is known to be right until they are [checked](Self::check).
    ///
    /// # Errors
    /// `Missing` or `Corrupt`, naming the object.
    pub async fn restore_worker(
        &self,
        manifest: &CheckpointManifest,
        worker: WorkerIndex,
        directory: &Path,
    ) -> StorageResult<Vec<FileEntry>> {
        let target = directory.to_path_buf();
        blocking(move || empty_directory(&target)).await?;
        let files = manifest.workers.iter().filter(|w| w.worker == worker).flat_map(|w| &w.files);
        let fetches = files.map(|file| async move {
            if Path::new(&file.name).components().count() != 1 || file.name.starts_with('.') {
                return Err(StorageError::corrupt(&manifest.number.path(), format!("\"{}\" is no file's name", file.name)));
            }
            let to = directory.join(&file.name);
            let fetched = self.store().fetch_file(&file.path, file.content(), &to, kind_of(&file.name)).await?;
            Ok((fetched == Fetched::Linked).then(|| file.clone()))
        });
        let linked: Vec<_> = futures::stream::iter(fetches).buffer_unordered(PARALLEL).try_collect().await?;
        CrashPoint::InRestore.pass();
        Ok(linked.into_iter().flatten().collect())
    }

    /// Reads files of a checkpoint to their ends, one after another, and checks each against its manifest's word. None of them may be
    /// deleted meanwhile.
    ///
    /// # Errors
    /// `Missing` or `Corrupt`, naming the first object that is not what was put.
    pub fn check(&self, files: Vec<FileEntry>) -> impl Future<Output = StorageResult<()>> + Send + 'static {
        let claim = Arc::clone(&self.claim);
        async move {
            for file in &files {
                claim.store().check(&file.path, file.content()).await?;
            }
            Ok(())
        }
    }

    pub(crate) fn claim(&self) -> &GenerationClaim {
        &self.claim
    }

    fn store(&self) -> &ObjectStore {
        self.claim.store()
    }

    pub(crate) fn state(&self) -> &Mutex<State> {
        &self.state
    }
}

impl State {
    /// The lowest number that an upload may still be going on for.
    pub(crate) fn oldest_attempt(&self) -> Option<CheckpointNumber> {
        self.attempts.first().copied()
    }
}

/// A file of a database checkpoint.
struct Found {
    name: String,
    path: PathBuf,
    size: u64,
    tail_crc32: u32,
}

impl Found {
    /// Whether it is what `entry` is of. Never so for files that are rewritten under one name.
    fn is(&self, entry: &FileEntry) -> bool {
        kind_of(&self.name) == FileKind::Immutable && self.size == entry.size && self.tail_crc32 == entry.tail_crc32
    }
}

/// Table and blob files of a RocksDB database never change; all else (`CURRENT`, `MANIFEST-…`, `OPTIONS-…`) can.
fn kind_of(name: &str) -> FileKind {
    if name.ends_with(".sst") || name.ends_with(".blob") { FileKind::Immutable } else { FileKind::Mutable }
}

fn files_in(directory: &Path) -> StorageResult<Vec<Found>> {
    let fail = |e| StorageError::file("list", directory, e);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()).map(str::to_string) else {
            return Err(StorageError::corrupt(&path.display().to_string(), "its name is not UTF-8"));
        };
        let (size, tail_crc32) = size_and_tail(&path).map_err(|e| StorageError::file("read", &path, e))?;
        found.push(Found { name, path, size, tail_crc32 });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn size_and_tail(path: &Path) -> io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::with_capacity(TAIL_BYTES as usize);
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok((size, crc32fast::hash(&tail)))
}

fn empty_directory(directory: &Path) -> StorageResult<()> {
    let fail = |e| StorageError::file("restore into", directory, e);
    fs::create_dir_all(directory).map_err(fail)?;
    if fs::read_dir(directory).map_err(fail)?.next().is_some() {
        return Err(fail(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "it is not empty")));
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
