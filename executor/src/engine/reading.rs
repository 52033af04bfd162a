//! Reading relations: several at one epoch, or one and then its changes.

use super::Engine;
use crate::error::EngineError;
use crate::job::JobShared;
use crate::subscribe::Subscription;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_catalog::{Epoch, ObjectId};
use thalweg_storage::state::{ViewHold, ViewReader};

/// A consistent reading of some relations.
pub struct Reading {
    /// The one epoch of all of them.
    pub epoch: Epoch,
    /// By relation: each worker's share.
    pub relations: BTreeMap<ObjectId, Vec<ViewHold>>,
}

impl Engine {
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
    pub(super) async fn hold(&self, jobs: &[Arc<JobShared>], epoch: Epoch) -> Result<Option<Reading>, EngineError> {
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
}
