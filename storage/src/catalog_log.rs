//! The catalog on disk: a log of transactions numbered by the catalog's version, and a snapshot now and then.
//!
//! A transaction is committed by putting its record at the next number if absent. Opening the log puts an empty
//! transaction of the new generation there: a stale process that tries the same number finds it and knows that it is
//! fenced. Records up to the snapshot before the newest are deleted, so the newest snapshot can be lost without loss.

use crate::error::{StorageError, StorageResult};
use crate::generation::{Generation, GenerationClaim, number_in};
use crate::object::sealed::{seal, unseal};
use crate::object::{ObjectStore, Put};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_catalog::catalog::CatalogSnapshot;
use thalweg_catalog::{Catalog, CatalogChange, CatalogTransaction, CrashPoint, SqlError, SqlState};

const LOG: &str = "catalog/log";
const SNAPSHOTS: &str = "catalog/snapshot";
const RECORD_KIND: &str = "catalog transaction";
const SNAPSHOT_KIND: &str = "catalog snapshot";

/// Versions between two snapshots: at most twice as many records are read at a start.
pub const SNAPSHOT_EVERY: u64 = 64;

/// Records read at the same time at a start.
const PARALLEL: usize = 16;

/// The log of one process. One at a time commits.
pub struct CatalogLog {
    claim: Arc<GenerationClaim>,
    /// The version that the log is at.
    version: u64,
    /// The newest two snapshots, the older first; 0 stands for the empty catalog.
    snapshots: [u64; 2],
    /// Set while it is not known whether a record was put.
    unsettled: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Record {
    generation: Generation,
    transaction: CatalogTransaction,
}

#[derive(Serialize, Deserialize)]
struct SnapshotRecord {
    generation: Generation,
    catalog: CatalogSnapshot,
}

impl CatalogLog {
    /// Reads the catalog back, and takes the log over from earlier generations. To be opened before the table log and the
    /// checkpoints: where one of those is, a catalog must have been.
    ///
    /// # Errors
    /// `Missing` or `Corrupt`, naming the record; `Fenced` if a newer generation writes already.
    pub async fn open(claim: Arc<GenerationClaim>) -> StorageResult<(CatalogLog, Catalog)> {
        let found = Found::list(claim.store()).await?;
        let mut catalog = found.base(&claim).await?;
        let mut newest = Generation(0);
        let end = found.records.last().copied().unwrap_or(0);
        let store = claim.store();
        let mut records = futures::stream::iter(catalog.version() + 1..=end)
            .map(|version| async move { read_record(store, version).await })
            .buffered(PARALLEL);
        while let Some(record) = records.try_next().await? {
            catalog = replay(&claim, catalog, record, &mut newest)?;
        }
        drop(records);
        let mut log =
            CatalogLog { version: catalog.version(), snapshots: found.newest_two(catalog.version()), unsettled: None, claim };
        loop {
            // The fence. What a stale process put before it still counts.
            let (put, next) = log.put(&catalog, Vec::new()).await?;
            match put {
                Put::Created => catalog = next,
                Put::Taken => {
                    let record = read_record(log.claim.store(), next.version()).await?;
                    catalog = replay(&log.claim, catalog, record, &mut newest)?;
                }
            }
            log.version = catalog.version();
            if put == Put::Created {
                log.snapshot_if_due(&catalog).await;
                return Ok((log, catalog));
            }
        }
    }

    /// Makes changes durable, all or none, and gives the catalog that has them. `catalog` is the one they were made for.
    ///
    /// Run it to its end (in a task of its own, if the caller can be cancelled): when it is dropped half way, the log takes
    /// nothing more until it is opened again.
    ///
    /// # Errors
    /// `Refused` if the catalog does not allow the changes, or was changed at the same time (`40001`): nothing has happened.
    /// `Fenced` if another process has taken over. After any other error it is not known whether they are durable, and
    /// every later commit is `Poisoned`.
    pub async fn commit(&mut self, catalog: &Catalog, changes: Vec<CatalogChange>) -> StorageResult<Catalog> {
        if let Some(reason) = &self.unsettled {
            return Err(StorageError::Poisoned { path: LOG.to_string(), reason: reason.clone() });
        }
        if catalog.version() != self.version {
            return Err(conflict().into());
        }
        CrashPoint::BeforeCatalogCommit.pass();
        let (put, next) = self.put(catalog, changes).await?;
        CrashPoint::AfterCatalogCommit.pass();
        if put == Put::Taken {
            let theirs = read_record(self.claim.store(), next.version()).await?.generation;
            return Err(if theirs > self.claim.generation() { self.claim.fenced_by(theirs) } else { conflict().into() });
        }
        self.version = next.version();
        self.snapshot_if_due(&next).await;
        Ok(next)
    }

    async fn put(&mut self, catalog: &Catalog, changes: Vec<CatalogChange>) -> StorageResult<(Put, Catalog)> {
        let transaction = CatalogTransaction { version: catalog.version() + 1, changes };
        let next = catalog.apply(&transaction)?;
        let path = record_path(transaction.version);
        let record = seal(RECORD_KIND, &path, &Record { generation: self.claim.generation(), transaction })?;
        self.unsettled = Some("a commit was abandoned half way".to_string());
        match self.claim.publish(&path, record).await {
            Ok(put) => {
                self.unsettled = None;
                Ok((put, next))
            }
            Err(error) => {
                // In a local store nothing is under way any more once the call has returned: a disk was full, say.
                let store = self.claim.store();
                let nothing = store.local_root().is_some() && matches!(store.get(&path).await, Err(StorageError::Missing { .. }));
                self.unsettled = (!nothing).then(|| error.to_string());
                Err(error)
            }
        }
    }

    /// Writes a snapshot if it is time. The log has everything, so a failure is told and made good after the next commit.
    async fn snapshot_if_due(&mut self, catalog: &Catalog) {
        if self.version < self.snapshots[1] + SNAPSHOT_EVERY {
            return;
        }
        if let Err(error) = self.snapshot(catalog).await {
            tracing::warn!(%error, version = self.version, "could not write a catalog snapshot");
        }
    }

    async fn snapshot(&mut self, catalog: &Catalog) -> StorageResult<()> {
        let path = snapshot_path(self.version);
        let record = SnapshotRecord { generation: self.claim.generation(), catalog: catalog.snapshot() };
        self.claim.publish(&path, seal(SNAPSHOT_KIND, &path, &record)?).await?;
        CrashPoint::InCatalogSnapshot.pass();
        self.snapshots = [self.snapshots[1], self.version];
        let store = self.claim.store();
        let kept_from = self.snapshots[0];
        let old_record = |path: &String| number_in(path).is_some_and(|n| n <= kept_from);
        let old_snapshot = |path: &String| number_in(path).is_some_and(|n| n < kept_from);
        let mut old: Vec<_> = store.list(LOG).await?.into_iter().map(|o| o.path).filter(old_record).collect();
        old.extend(store.list(SNAPSHOTS).await?.into_iter().map(|o| o.path).filter(old_snapshot));
        store.delete(old).await
    }
}

/// What the store has of a catalog.
struct Found {
    records: BTreeSet<u64>,
    snapshots: BTreeSet<u64>,
}

impl Found {
    async fn list(store: &ObjectStore) -> StorageResult<Found> {
        let mut found = Found { records: BTreeSet::new(), snapshots: BTreeSet::new() };
        for (folder, numbers) in [(LOG, &mut found.records), (SNAPSHOTS, &mut found.snapshots)] {
            for object in store.list(folder).await? {
                let number = number_in(&object.path);
                numbers.insert(number.ok_or_else(|| StorageError::corrupt(&object.path, "its name is no number"))?);
            }
        }
        if found.records.is_empty() && found.snapshots.is_empty() {
            // Each start leaves a record here, so a store with anything else in it has lost its catalog.
            for folder in ["checkpoint", "table_log"] {
                if !store.list(folder).await?.is_empty() {
                    return Err(StorageError::Missing { path: record_path(1) });
                }
            }
        }
        Ok(found)
    }

    /// The catalog that the log goes on from: the newest snapshot, or an earlier one if that leads to the same.
    async fn base(&self, claim: &GenerationClaim) -> StorageResult<Catalog> {
        let mut damage = None;
        for version in self.snapshots.iter().rev().copied() {
            match read_snapshot(claim, version).await {
                Ok(catalog) => {
                    self.check_whole_after(version, damage)?;
                    return Ok(catalog);
                }
                Err(error @ (StorageError::Corrupt { .. } | StorageError::Missing { .. })) => {
                    tracing::warn!(%error, "a catalog snapshot can't be read; trying the one before and the log");
                    damage = damage.or(Some(error));
                }
                Err(error) => return Err(error),
            }
        }
        self.check_whole_after(0, damage)?;
        Ok(Catalog::new())
    }

    /// Checks that every record after `base` is there, as far as anything is known to have been. If not, the damage
    /// that made us need them is the error.
    fn check_whole_after(&self, base: u64, damage: Option<StorageError>) -> StorageResult<()> {
        let end = self.records.last().max(self.snapshots.last()).copied().unwrap_or(0);
        // A snapshot that is whole stands for its own records, which may be in the middle of being deleted.
        match (base + 1..=end).find(|version| !self.records.contains(version)) {
            None => Ok(()),
            Some(gap) => Err(damage.unwrap_or(StorageError::Missing { path: record_path(gap) })),
        }
    }

    fn newest_two(&self, version: u64) -> [u64; 2] {
        let mut newest = self.snapshots.iter().rev().copied().filter(|v| *v <= version);
        let last = newest.next().unwrap_or(0);
        [newest.next().unwrap_or(0), last]
    }
}

async fn read_record(store: &ObjectStore, version: u64) -> StorageResult<Record> {
    let path = record_path(version);
    let record: Record = unseal(RECORD_KIND, &path, &store.get(&path).await?)?;
    if record.transaction.version != version {
        return Err(StorageError::corrupt(&path, format!("it is of version {}", record.transaction.version)));
    }
    Ok(record)
}

async fn read_snapshot(claim: &GenerationClaim, version: u64) -> StorageResult<Catalog> {
    let path = snapshot_path(version);
    let record: SnapshotRecord = unseal(SNAPSHOT_KIND, &path, &claim.store().get(&path).await?)?;
    if record.generation > claim.generation() {
        return Err(claim.fenced_by(record.generation));
    }
    if record.catalog.version != version {
        return Err(StorageError::corrupt(&path, format!("it is of version {}", record.catalog.version)));
    }
    Ok(Catalog::from_snapshot(record.catalog))
}

fn replay(claim: &GenerationClaim, catalog: Catalog, record: Record, newest: &mut Generation) -> StorageResult<Catalog> {
    let path = record_path(record.transaction.version);
    if record.generation > claim.generation() {
        return Err(claim.fenced_by(record.generation));
    }
    if record.generation < *newest {
        let reason = format!("it is of generation {}, after one of {newest}", record.generation);
        return Err(StorageError::corrupt(&path, reason));
    }
    *newest = record.generation;
    catalog.apply(&record.transaction).map_err(|e| StorageError::corrupt(&path, format!("it does not apply: {e}")))
}

fn conflict() -> SqlError {
    SqlError::new(SqlState::SerializationFailure, "the catalog was changed at the same time")
        .with_hint("Try the statement again.")
}

fn record_path(version: u64) -> String {
    format!("{LOG}/{version:020}.json")
}

fn snapshot_path(version: u64) -> String {
    format!("{SNAPSHOTS}/{version:020}.json")
}

#[cfg(test)]
mod tests;
