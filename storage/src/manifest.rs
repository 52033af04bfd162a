//! What a checkpoint consists of, as it stands in its manifest, and which manifests of a store count.
//!
//! A checkpoint's number is its generation and a counter, so no number is ever given out twice, and every number of a
//! newer generation is above every one of an older. Counter 0 is no checkpoint but the generation's *fence*: it names the
//! checkpoint that the generation goes on from. Whatever older generations put above that does not count: a stale
//! process may have put it after it was fenced.

use crate::error::{StorageError, StorageResult};
use crate::generation::{Generation, number_in};
use crate::object::sealed::{seal, unseal};
use crate::object::{Content, ObjectInfo, ObjectStore};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use thalweg_catalog::{Catalog, Epoch, ObjectId, WorkerIndex};

pub(crate) const MANIFESTS: &str = "checkpoint/manifest";
const MANIFEST_KIND: &str = "checkpoint manifest";
const FENCE_KIND: &str = "checkpoint fence";

/// Numbers of one generation. At one a second they last thirty years; in decimal, so that people can read them.
const NUMBERS_PER_GENERATION: u64 = 1_000_000_000;

/// The number of a checkpoint, or of an attempt at one. Grows over all generations, never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct CheckpointNumber(pub u64);

impl CheckpointNumber {
    /// The `counter`th number of a generation.
    pub(crate) fn new(generation: Generation, counter: u64) -> CheckpointNumber {
        assert!(counter < NUMBERS_PER_GENERATION, "a generation has no more checkpoint numbers");
        CheckpointNumber(generation.0 * NUMBERS_PER_GENERATION + counter)
    }

    /// The generation that it belongs to.
    pub fn generation(self) -> Generation {
        Generation(self.0 / NUMBERS_PER_GENERATION)
    }

    fn is_fence(self) -> bool {
        self.0.is_multiple_of(NUMBERS_PER_GENERATION)
    }

    pub(crate) fn path(self) -> String {
        format!("{MANIFESTS}/{:020}.json", self.0)
    }
}

impl fmt::Display for CheckpointNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A complete checkpoint: the state of all jobs once every epoch up to `epoch` is done, and nothing later.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CheckpointManifest {
    /// The epoch that the state is of.
    pub epoch: Epoch,
    /// Which start of the server made it.
    pub generation: Generation,
    /// Its number.
    pub number: CheckpointNumber,
    /// The database files of every worker.
    pub workers: Vec<WorkerFiles>,
    /// The jobs whose state is in it.
    pub jobs: Vec<JobEntry>,
    /// When it was committed, in milliseconds since 1970.
    pub created_ms: u64,
    /// The catalog's version at the time: the catalog that it is restored with is at least that new.
    #[serde(default)]
    pub catalog_version: u64,
    /// The table log's newest segment at the time: the log that is replayed on top reaches at least that far.
    #[serde(default)]
    pub table_log_segment: u64,
}

/// The files of one worker's database.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WorkerFiles {
    /// Which worker.
    pub worker: WorkerIndex,
    /// Its files, sorted by name.
    pub files: Vec<FileEntry>,
}

/// A file of a database, kept as an object.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its name as the database knows it.
    pub name: String,
    /// The object that has its bytes.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// The CRC-32 of all of it.
    pub crc32: u32,
    /// The CRC-32 of its last [`TAIL_BYTES`], where the database keeps what makes a file unique. By name, size and this
    /// a file is known again without reading all of it.
    pub tail_crc32: u32,
}

/// How much of a file's end [`FileEntry::tail_crc32`] covers.
pub const TAIL_BYTES: u64 = 8 << 10;

impl FileEntry {
    pub(crate) fn content(&self) -> Content {
        Content { size_bytes: self.size, crc32: self.crc32 }
    }
}

/// A job whose state a checkpoint has.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobEntry {
    /// The object that the job keeps up to date.
    pub id: ObjectId,
    /// What its plan looked like: state is only for a plan that looks the same.
    pub fingerprint: String,
    /// The first epoch that it took part in.
    pub since: Epoch,
}

impl CheckpointManifest {
    /// Checks that the catalog is not from before the checkpoint.
    ///
    /// # Errors
    /// `Missing`, naming the catalog record that got lost.
    pub fn check_catalog(&self, catalog: &Catalog) -> StorageResult<()> {
        if catalog.version() < self.catalog_version {
            return Err(StorageError::Missing { path: format!("catalog/log/{:020}.json", self.catalog_version) });
        }
        Ok(())
    }

    pub(crate) fn seal(&self) -> StorageResult<Bytes> {
        seal(MANIFEST_KIND, &self.number.path(), self)
    }

    pub(crate) async fn read(store: &ObjectStore, number: CheckpointNumber) -> StorageResult<CheckpointManifest> {
        let path = number.path();
        let manifest: CheckpointManifest = unseal(MANIFEST_KIND, &path, &store.get(&path).await?)?;
        if manifest.number != number || manifest.generation != number.generation() {
            return Err(StorageError::corrupt(&path, format!("it is of checkpoint {}", manifest.number)));
        }
        Ok(manifest)
    }
}

/// What a generation goes on from.
#[derive(Serialize, Deserialize)]
pub(crate) struct Fence {
    pub(crate) generation: Generation,
    /// The checkpoint that it restored, none if it began empty.
    pub(crate) basis: Option<CheckpointNumber>,
}

impl Fence {
    pub(crate) fn path(&self) -> String {
        CheckpointNumber::new(self.generation, 0).path()
    }

    pub(crate) fn seal(&self) -> StorageResult<Bytes> {
        seal(FENCE_KIND, &self.path(), self)
    }
}

/// The manifests of a store, told apart by whether they count.
#[derive(Debug, Default)]
pub(crate) struct Lineage {
    /// Checkpoints that count, the newest first.
    pub(crate) checkpoints: Vec<CheckpointNumber>,
    /// Checkpoints that a fence disowns.
    pub(crate) disowned: Vec<CheckpointNumber>,
    /// All fences, the newest first.
    pub(crate) fences: Vec<CheckpointNumber>,
}

impl Lineage {
    pub(crate) async fn read(store: &ObjectStore) -> StorageResult<Lineage> {
        let mut lineage = Lineage::default();
        let mut limit = u64::MAX;
        for number in numbers(&store.list(MANIFESTS).await?)?.into_iter().rev() {
            if number.is_fence() {
                lineage.fences.push(number);
                // A fence above the limit is of a generation that nothing came of.
                if number.0 <= limit {
                    let path = number.path();
                    let fence: Fence = unseal(FENCE_KIND, &path, &store.get(&path).await?)?;
                    limit = fence.basis.map_or(0, |n| n.0);
                }
            } else if number.0 <= limit {
                lineage.checkpoints.push(number);
            } else {
                lineage.disowned.push(number);
            }
        }
        Ok(lineage)
    }
}

fn numbers(listed: &[ObjectInfo]) -> StorageResult<Vec<CheckpointNumber>> {
    let number = |o: &ObjectInfo| {
        let number = number_in(&o.path).ok_or_else(|| StorageError::corrupt(&o.path, "its name is no number"))?;
        Ok(CheckpointNumber(number))
    };
    let mut numbers = listed.iter().map(number).collect::<StorageResult<Vec<_>>>()?;
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests;
