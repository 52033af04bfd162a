//! Generations: every start of a process on a store claims the next number, and only the newest may publish.
//!
//! GENERATION-1: a publication that is reported as done was made before any newer generation was claimed. It is made sure
//! by looking for a newer claim *after* the put: whoever claims later lists the store after that, and finds what was put.
//! What a stale process puts in between the newer claim and its own look is disowned by the newer one: by a record at the
//! same place of a numbered log (put-if-absent lets one of them win), or by the fence among the checkpoints.
//!
//! In a local directory the claim also holds a lock, so that a second server is told at once and not when it is fenced.

use crate::error::{StorageError, StorageResult};
use crate::object::sealed::seal;
use crate::object::{ObjectInfo, ObjectStore, Put, blocking};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use thalweg_catalog::CrashPoint;
use uuid::Uuid;

const FOLDER: &str = "generation";
const KIND: &str = "generation";
const LOCK: &str = "LOCK";

/// Claims that are kept. More than one, so that processes that start at the same time don't claim a deleted number.
pub(crate) const GENERATIONS_KEPT: u64 = 16;

/// The number of a start: 1 for a store's first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to publish in a store, until a newer generation is claimed. Everything durable is opened with it.
#[derive(Debug)]
pub struct GenerationClaim {
    store: ObjectStore,
    generation: Generation,
    _lock: Option<DirectoryLock>,
}

#[derive(Serialize)]
struct ClaimRecord {
    generation: Generation,
    /// Makes every claim's bytes differ, so that a claim whose answer was lost is recognised when it is tried again.
    claimant: String,
}

impl GenerationClaim {
    /// Claims the next generation of a store.
    ///
    /// # Errors
    /// `InUse` if another server holds the store's directory; `Fenced` if another process claimed at the same time and won.
    pub async fn claim(store: &ObjectStore) -> StorageResult<GenerationClaim> {
        let lock = match store.local_root() {
            Some(root) => {
                let lock = DirectoryLock::acquire(root)?;
                let store = store.clone();
                blocking(move || store.clear_staging()).await?;
                Some(lock)
            }
            None => None,
        };
        GenerationClaim::claim_with(store, lock).await
    }

    async fn claim_with(store: &ObjectStore, lock: Option<DirectoryLock>) -> StorageResult<GenerationClaim> {
        let claimant = Uuid::new_v4().to_string();
        loop {
            let newest = newest_of(&store.list(FOLDER).await?)?;
            let generation = Generation(newest.map_or(1, |g| g.0 + 1));
            let path = path_of(generation);
            let record = seal(KIND, &path, &ClaimRecord { generation, claimant: claimant.clone() })?;
            if store.put_if_absent(&path, record).await? == Put::Taken {
                continue;
            }
            let claim = GenerationClaim { store: store.clone(), generation, _lock: lock };
            claim.check().await?;
            CrashPoint::AfterClaim.pass();
            claim.forget_old().await;
            return Ok(claim);
        }
    }

    /// A claim without the directory's lock, to stand for a process on another machine.
    #[cfg(test)]
    pub(crate) async fn claim_unlocked(store: &ObjectStore) -> StorageResult<GenerationClaim> {
        GenerationClaim::claim_with(store, None).await
    }

    /// The store.
    pub fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// Our generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Finds out whether a newer generation has been claimed.
    ///
    /// # Errors
    /// `Fenced` if so.
    pub async fn check(&self) -> StorageResult<()> {
        self.check_listed(&self.store.list(FOLDER).await?)
    }

    /// [`GenerationClaim::check`] for a thread that may block. None if the store is not local.
    pub(crate) fn check_blocking(&self) -> Option<StorageResult<()>> {
        let listed = self.store.list_blocking(FOLDER)?;
        Some(listed.and_then(|listed| self.check_listed(&listed)))
    }

    fn check_listed(&self, listed: &[ObjectInfo]) -> StorageResult<()> {
        match newest_of(listed)? {
            Some(newest) if newest > self.generation => Err(self.fenced_by(newest)),
            Some(newest) if newest == self.generation => Ok(()),
            // Only a person can have removed it, and then nothing fences us any more.
            _ => Err(StorageError::Missing { path: path_of(self.generation) }),
        }
    }

    /// The error for having met a newer generation.
    pub(crate) fn fenced_by(&self, theirs: Generation) -> StorageError {
        StorageError::Fenced { ours: self.generation.0, theirs: theirs.0 }
    }

    /// Puts an object if absent. `Created` means GENERATION-1: no newer generation had been claimed by then.
    ///
    /// # Errors
    /// `Fenced`; the object may have been put all the same. After another error that is not known either.
    pub(crate) async fn publish(&self, path: &str, bytes: Bytes) -> StorageResult<Put> {
        self.check().await?;
        let put = self.store.put_if_absent(path, bytes).await?;
        self.check().await?;
        Ok(put)
    }

    /// Deletes the claims of long ago. That they are there harms nobody, so a failure is only told.
    async fn forget_old(&self) {
        let old = |generation: u64| generation + GENERATIONS_KEPT <= self.generation.0;
        let deleted = async {
            let listed = self.store.list(FOLDER).await?;
            let paths = listed.into_iter().map(|o| o.path).filter(|p| number_in(p).is_some_and(old)).collect();
            self.store.delete(paths).await
        };
        if let Err(error) = deleted.await {
            tracing::warn!(%error, "could not delete old generation claims");
        }
    }
}

fn path_of(generation: Generation) -> String {
    format!("{FOLDER}/{:020}", generation.0)
}

fn newest_of(listed: &[ObjectInfo]) -> StorageResult<Option<Generation>> {
    let mut newest = None;
    for object in listed {
        let number = number_in(&object.path).ok_or_else(|| StorageError::corrupt(&object.path, "its name is no number"))?;
        newest = newest.max(Some(Generation(number)));
    }
    Ok(newest)
}

/// The number that an object is named by: the last segment of its path, of 20 digits, up to a dot.
pub(crate) fn number_in(path: &str) -> Option<u64> {
    let name = path.rsplit('/').next()?;
    let digits = name.split('.').next()?;
    (digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// An advisory lock on a store's directory. The system gives it up when the process ends, however that happens.
#[derive(Debug)]
struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    fn acquire(root: &Path) -> StorageResult<DirectoryLock> {
        let path = root.join(LOCK);
        let fail = |e| StorageError::file("lock", &path, e);
        let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = options.map_err(fail)?;
        // Safety: a call on a descriptor that `file` keeps open, without pointers.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = std::io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EWOULDBLOCK) {
                return Err(fail(error));
            }
            let mut owner = String::new();
            // Only what the message says hangs on it.
            let _ = file.read_to_string(&mut owner);
            let owner = if owner.is_empty() { "process unknown".to_string() } else { owner };
            return Err(StorageError::InUse { path: root.display().to_string(), owner });
        }
        let written = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "process {}", std::process::id()));
        written.map_err(fail)?;
        Ok(DirectoryLock { _file: file })
    }
}

#[cfg(test)]
mod tests;
