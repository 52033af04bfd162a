//! Deletes what no checkpoint needs any more.
//!
//! GARBAGE-1: an object that a kept checkpoint names is never deleted, nor one of an attempt that may still be committed.
//! Kept are the newest [`CHECKPOINTS_KEPT`]. Their files stay, whichever attempt uploaded them; other files go once a
//! newer checkpoint is committed, which shows that their own attempt came to nothing or was let go.
//!
//! Safe against a stale process too: it deletes only below the newest checkpoint that it sees and nothing that this or the
//! two before it name, and a newer generation goes on from one of those.

use crate::checkpoint::{CheckpointStore, DATA};
use crate::error::{StorageError, StorageResult};
use crate::generation::Generation;
use crate::manifest::{CheckpointManifest, CheckpointNumber, Lineage};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use thalweg_catalog::CrashPoint;

/// How many checkpoints can be restored: the newest, and what to fall back to when asked.
pub const CHECKPOINTS_KEPT: usize = 3;

/// What a collection found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GarbageStats {
    /// Checkpoints that are kept.
    pub checkpoints_kept: usize,
    /// Data objects that are kept.
    pub objects_kept: usize,
    /// Their bytes.
    pub bytes_kept: u64,
    /// Manifests deleted.
    pub manifests_deleted: usize,
    /// Data objects deleted.
    pub objects_deleted: usize,
}

impl CheckpointStore {
    /// Deletes manifests, and data objects of finished attempts, that the kept checkpoints do not need. Lists all data
    /// objects, so not for after every checkpoint where listing costs. One at a time.
    ///
    /// # Errors
    /// If a kept manifest can't be read (nothing has been deleted then), or the store refuses.
    pub async fn collect_garbage(&self) -> StorageResult<GarbageStats> {
        let store = self.claim().store();
        // Before all else: an attempt that ends while we look is of no harm, one that begins has a number above.
        let oldest_attempt = self.state().lock().oldest_attempt();
        let lineage = Lineage::read(store).await?;
        let Some(newest) = lineage.checkpoints.first().copied() else { return Ok(GarbageStats::default()) };
        let (kept, old) = lineage.checkpoints.split_at(lineage.checkpoints.len().min(CHECKPOINTS_KEPT));
        // One by one: a stream of futures that borrow would keep callers from being spawned as tasks.
        let mut manifests_kept = Vec::with_capacity(kept.len());
        for number in kept {
            manifests_kept.push(self.manifest(*number).await?);
        }
        let kept = manifests_kept;
        let needed: HashSet<&str> =
            kept.iter().flat_map(|m| &m.workers).flat_map(|w| &w.files).map(|f| f.path.as_str()).collect();
        let mut stats = GarbageStats { checkpoints_kept: kept.len(), ..GarbageStats::default() };
        let mut garbage = Vec::new();
        for object in store.list(DATA).await? {
            let number = attempt_in(&object.path)?;
            let finished = number < newest && oldest_attempt.is_none_or(|oldest| number < oldest);
            if finished && !needed.contains(object.path.as_str()) {
                garbage.push(object.path);
            } else {
                stats.objects_kept += 1;
                stats.bytes_kept += object.size_bytes;
            }
        }
        let mut manifests: Vec<_> = old.iter().chain(lineage.disowned.iter().filter(|n| **n < newest)).copied().collect();
        manifests.extend(self.useless_fences(&lineage, &kept));
        stats.manifests_deleted = manifests.len();
        stats.objects_deleted = garbage.len();
        self.claim().check().await?;
        CrashPoint::BeforeGarbage.pass();
        // Manifests first, the oldest first: at no moment is there one whose files are gone.
        manifests.sort_unstable();
        store.delete(manifests.iter().map(|n| n.path()).collect()).await?;
        CrashPoint::InGarbage.pass();
        store.delete(garbage).await?;
        CrashPoint::AfterGarbage.pass();
        let kept: BTreeSet<_> = kept.iter().map(|m| m.number).collect();
        self.state().lock().read.retain(|number, _| kept.contains(number) || *number > newest);
        Ok(stats)
    }

    /// Fences that no kept checkpoint stands above, but for our own, which fences everyone before us.
    fn useless_fences(&self, lineage: &Lineage, kept: &[Arc<CheckpointManifest>]) -> Vec<CheckpointNumber> {
        let generations: BTreeSet<Generation> = kept.iter().map(|m| m.generation).collect();
        let ours = self.claim().generation();
        let useless = |n: &CheckpointNumber| n.generation() < ours && !generations.contains(&n.generation());
        lineage.fences.iter().filter(|n| useless(n)).copied().collect()
    }

    async fn manifest(&self, number: CheckpointNumber) -> StorageResult<Arc<CheckpointManifest>> {
        if let Some(manifest) = self.state().lock().read.get(&number) {
            return Ok(Arc::clone(manifest));
        }
        let manifest = Arc::new(CheckpointManifest::read(self.claim().store(), number).await?);
        self.state().lock().read.insert(number, Arc::clone(&manifest));
        Ok(manifest)
    }
}

/// The attempt that uploaded a data object: its name begins with that number.
fn attempt_in(path: &str) -> StorageResult<CheckpointNumber> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let number = name.split_once('-').and_then(|(digits, _)| digits.parse().ok());
    number.map(CheckpointNumber).ok_or_else(|| StorageError::corrupt(path, "its name has no checkpoint number"))
}

#[cfg(test)]
mod tests;
