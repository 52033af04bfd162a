//! Following a relation from outside the workers: its rows, then the net change of every epoch.

use crate::engine::Reading;
use crate::error::EngineError;
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_catalog::{Delta, Epoch, ObjectId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What a worker tells a follower.
#[derive(Debug)]
enum Word {
    Change(Epoch, Delta),
    Complete(usize, Epoch),
    Gone,
}

/// All followers.
#[derive(Debug)]
pub struct Subscribers {
    workers: usize,
    /// How many there are, to cost nothing when there are none.
    count: AtomicUsize,
    followers: RwLock<HashMap<ObjectId, Vec<UnboundedSender<Word>>>>,
}

impl Subscribers {
    /// None yet.
    pub fn new(workers: usize) -> Subscribers {
        Subscribers { workers, count: AtomicUsize::new(0), followers: RwLock::default() }
    }

    /// Starts to collect what is published of a relation.
    pub fn follow(&self, relation: ObjectId) -> Follower {
        let (sender, words) = unbounded_channel();
        self.followers.write().entry(relation).or_default().push(sender);
        self.count.fetch_add(1, Ordering::SeqCst);
        Follower { words, complete: vec![Epoch(0); self.workers], pending: BTreeMap::new() }
    }

    /// Passes on an epoch's net change.
    pub fn publish(&self, relation: ObjectId, _worker: usize, epoch: Epoch, delta: &Delta) {
        if !delta.is_empty() {
            self.tell(relation, || Word::Change(epoch, delta.clone()));
        }
    }

    /// Passes on that a worker has everything through `epoch`.
    pub fn complete(&self, relation: ObjectId, worker: usize, epoch: Epoch) {
        self.tell(relation, || Word::Complete(worker, epoch));
    }

    /// The relation is gone: its followers are told, and forgotten.
    pub fn drop_relation(&self, relation: ObjectId) {
        self.tell(relation, || Word::Gone);
        if let Some(gone) = self.followers.write().remove(&relation) {
            self.count.fetch_sub(gone.len(), Ordering::SeqCst);
        }
    }

    fn tell(&self, relation: ObjectId, word: impl Fn() -> Word) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let gone = match self.followers.read().get(&relation) {
            Some(followers) => followers.iter().filter(|f| f.send(word()).is_err()).count(),
            None => 0,
        };
        if gone > 0
            && let Some(followers) = self.followers.write().get_mut(&relation)
        {
            let before = followers.len();
            followers.retain(|f| !f.is_closed());
            self.count.fetch_sub(before - followers.len(), Ordering::SeqCst);
        }
    }
}

/// What one follower has been told.
#[derive(Debug)]
pub struct Follower {
    words: UnboundedReceiver<Word>,
    complete: Vec<Epoch>,
    pending: BTreeMap<Epoch, Vec<Delta>>,
}

/// The changes of one relation, epoch by epoch.
pub struct Subscription {
    follower: Follower,
    /// The rows to begin with.
    snapshot: Option<Reading>,
    since: Epoch,
    ready: VecDeque<(Epoch, Vec<Delta>)>,
    ended: bool,
}

/// What a subscription gives.
pub enum Update {
    /// All rows as of an epoch.
    Snapshot(Arc<Reading>),
    /// The net change of an epoch: every worker's part.
    Changes(Epoch, Vec<Delta>),
    /// Nothing has changed through this epoch.
    Progress(Epoch),
}

impl Subscription {
    /// What follows `reading`, with its rows first if `snapshot`.
    pub fn new(follower: Follower, reading: Reading, snapshot: bool) -> Subscription {
        let since = reading.epoch;
        Subscription {
            follower,
            snapshot: snapshot.then_some(reading),
            since,
            ready: VecDeque::new(),
            ended: since == Epoch::END,
        }
    }

    /// The next update; none once the relation has ended.
    ///
    /// # Errors
    /// If the relation is dropped.
    pub async fn next(&mut self) -> Result<Option<Update>, EngineError> {
        if let Some(reading) = self.snapshot.take() {
            return Ok(Some(Update::Snapshot(Arc::new(reading))));
        }
        loop {
            if let Some((epoch, deltas)) = self.ready.pop_front() {
                return Ok(Some(Update::Changes(epoch, deltas)));
            }
            if self.ended {
                return Ok(None);
            }
            match self.follower.words.recv().await {
                None | Some(Word::Gone) => return Err(EngineError::RelationGone),
                Some(Word::Change(epoch, delta)) => {
                    if epoch > self.since {
                        self.follower.pending.entry(epoch).or_default().push(delta);
                    }
                }
                Some(Word::Complete(worker, epoch)) => {
                    let before = self.completed();
                    self.follower.complete[worker] = epoch;
                    let completed = self.completed();
                    if completed > before {
                        let later = self.follower.pending.split_off(&completed.next());
                        let mut due = std::mem::replace(&mut self.follower.pending, later);
                        if completed == Epoch::END {
                            due.append(&mut self.follower.pending);
                            self.ended = true;
                        }
                        self.ready.extend(due);
                        if self.ready.is_empty() && completed > self.since && completed != Epoch::END {
                            return Ok(Some(Update::Progress(completed)));
                        }
                    }
                }
            }
        }
    }

    fn completed(&self) -> Epoch {
        self.follower.complete.iter().copied().min().unwrap_or_default()
    }
}
