//! All relations at one epoch, for as long as somebody wants to read them so.

use super::{Engine, Reading};
use crate::error::EngineError;
use futures::FutureExt;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thalweg_catalog::{Epoch, ObjectId};
use thalweg_storage::state::ViewHold;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Relations as they were at one epoch. What was written since takes memory and disk until this is dropped.
pub struct Moment {
    epoch: Epoch,
    relations: HashMap<ObjectId, watch::Receiver<Option<Held>>>,
    /// Those that wait for relations to come to the epoch. They end with this.
    _waiting: JoinSet<()>,
}

/// A relation's rows on each worker, or why there are none.
type Held = Result<Arc<Vec<ViewHold>>, Arc<EngineError>>;

impl Moment {
    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Some of the relations. Waits for those that have not come to the epoch yet.
    ///
    /// # Errors
    /// If a relation's job has failed or is gone, or began after the epoch.
    pub async fn read(&self, relations: &[ObjectId]) -> Result<Reading, EngineError> {
        let mut held = BTreeMap::new();
        for id in relations {
            let mut receiver = self.relations.get(id).ok_or(EngineError::NotAtMoment { id: *id })?.clone();
            // The tasks that send live as long as this does.
            let found = receiver.wait_for(Option::is_some).await.map_err(|_| EngineError::RelationGone)?.clone();
            match found {
                Some(Ok(holds)) => held.insert(*id, Vec::clone(&holds)),
                Some(Err(error)) => return Err(EngineError::Moment(error)),
                None => return Err(EngineError::RelationGone),
            };
        }
        Ok(Reading { epoch: self.epoch, relations: held })
    }
}

impl Engine {
    /// Keeps all relations readable at one epoch, at which `named` can be read at once. That epoch is at least `at_least`, and the first of
    /// every relation that is running. Relations that are behind it are not waited for.
    ///
    /// # Errors
    /// If the job of one of `named` has failed or is gone.
    pub async fn moment(&self, named: &[ObjectId], all: &[ObjectId], at_least: Epoch) -> Result<Moment, EngineError> {
        let first = |id: &ObjectId| self.running_job(*id).ok().and_then(|job| job.since()).filter(|since| *since != Epoch::END);
        let at_least = all.iter().filter_map(first).chain([at_least]).max().unwrap_or_default();
        let reading = self.read(named, at_least).await?;
        // What has ended stays as it is, but others go on.
        let ended = reading.epoch == Epoch::END;
        let epoch = if ended { self.inner.shared.clock.open() } else { reading.epoch };
        let (mut relations, mut waiting) = (HashMap::new(), JoinSet::new());
        for (id, holds) in reading.relations {
            relations.insert(id, watch::channel(Some(Ok(Arc::new(holds)))).1);
        }
        for id in all {
            if relations.contains_key(id) {
                continue;
            }
            let (sender, receiver) = watch::channel(None);
            relations.insert(*id, receiver);
            let (engine, id) = (self.clone(), *id);
            let mut held = Box::pin(async move { engine.held_at(id, epoch).await.map(Arc::new).map_err(Arc::new) });
            // What can be held at once is, before it is gone.
            match held.as_mut().now_or_never() {
                Some(held) => drop(sender.send_replace(Some(held))),
                None => {
                    waiting.spawn(async move { drop(sender.send_replace(Some(held.await))) });
                }
            }
        }
        Ok(Moment { epoch, relations, _waiting: waiting })
    }

    /// A relation at an epoch, as soon as it has come there.
    async fn held_at(&self, id: ObjectId, epoch: Epoch) -> Result<Vec<ViewHold>, EngineError> {
        let job = self.running_job(id)?;
        job.wait_until(|job| job.since().is_some() || job.is_stopped()).await;
        self.running_job(id)?;
        if job.since().is_some_and(|since| since > epoch) {
            return Err(EngineError::NotAtMoment { id });
        }
        let held = self.hold(&[job], epoch).await?;
        held.and_then(|mut reading| reading.relations.remove(&id)).ok_or(EngineError::NotAtMoment { id })
    }
}
