//! Brings a source's splits to the workers: finds them, deals them out, and reads each worker's on a thread of its own, for as long as
//! there is something to read.
//!
//! A split stays with the worker whose state has its position; a new one goes to the worker with the fewest.

mod reading;
mod resting;

pub(crate) use resting::Resting;

use self::reading::Reading;
use crate::dataflow::SplitState;
use crate::job::JobShared;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::time::Duration;
use thalweg_connectors::{Position, SourceBatch, SourceConnector, SourceContext, SplitId};

/// How many batches may wait for a worker.
const QUEUE_BATCHES: usize = 4;
/// The longest wait between two tries.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// The first wait.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Wakes the worker that a feed belongs to.
pub type Wake = Box<dyn Fn() + Send>;

/// What a feed gives.
pub enum FeedEvent {
    /// These splits are read too from now on.
    Assigned(Vec<SplitId>),
    /// No further split will come.
    AllAssigned,
    /// Rows.
    Rows(SourceBatch),
    /// A split has ended; the place at its end.
    SplitEnd(SplitId, Position),
    /// Reading has failed for good.
    Failed(String),
}

/// A worker's end: rows of its splits.
pub struct Feed {
    events: Receiver<FeedEvent>,
}

impl Feed {
    /// The next event, if one is there.
    pub fn next(&mut self) -> Option<FeedEvent> {
        // Nothing yet, or nothing any more: reading ends when nothing is left to read.
        self.events.try_recv().ok()
    }
}

/// Splits for who reads.
enum Order {
    Assign(Vec<(SplitId, Option<Position>)>),
    AllAssigned,
}

/// The splits of one source in one job, as they are dealt out.
pub struct Dealer {
    connector: Arc<dyn SourceConnector>,
    name: String,
    job: Arc<JobShared>,
    resting: Arc<Resting>,
    hands: Mutex<Vec<Option<Hand>>>,
}

/// What a worker brought with it.
struct Hand {
    orders: Sender<Order>,
    restored: BTreeMap<SplitId, SplitState>,
}

impl Dealer {
    /// For so many workers; deals once all have joined.
    pub fn new(
        connector: Arc<dyn SourceConnector>,
        name: String,
        job: Arc<JobShared>,
        resting: Arc<Resting>,
        workers: usize,
    ) -> Dealer {
        Dealer { connector, name, job, resting, hands: Mutex::new((0..workers).map(|_| None).collect()) }
    }

    /// A worker joins, with the splits that its state has. The last to join starts the dealing.
    ///
    /// # Errors
    /// If the connector refuses the context.
    pub fn join(
        self: &Arc<Self>,
        worker: usize,
        context: SourceContext,
        restored: BTreeMap<SplitId, SplitState>,
        wake: Wake,
    ) -> thalweg_connectors::ConnectorResult<Feed> {
        let (orders, inbox) = channel();
        let (events, outbox) = sync_channel(QUEUE_BATCHES);
        let runtime = context.runtime.clone();
        // Made once here so that a context that does not fit is refused now.
        self.connector.reader(context.clone())?;
        let (job, resting) = (Arc::clone(&self.job), Arc::clone(&self.resting));
        Reading::new(Arc::clone(&self.connector), context, job, (inbox, events), wake, worker)
            .begin(resting)
            .map_err(|e| thalweg_connectors::ConnectorError::internal(format!("could not start a thread: {e}")))?;
        let mut hands = self.hands.lock();
        hands[worker] = Some(Hand { orders, restored });
        if hands.iter().all(Option::is_some) {
            let hands = hands.drain(..).flatten().collect();
            runtime.spawn(Arc::clone(self).deal(hands));
        }
        Ok(Feed { events: outbox })
    }

    async fn deal(self: Arc<Self>, hands: Vec<Hand>) {
        let mut dealt: BTreeMap<SplitId, usize> = BTreeMap::new();
        for (worker, hand) in hands.iter().enumerate() {
            for split in hand.restored.keys() {
                dealt.entry(Arc::clone(split)).or_insert(worker);
            }
        }
        for (worker, hand) in hands.iter().enumerate() {
            let mine = hand.restored.iter().filter(|(split, _)| dealt.get(*split) == Some(&worker));
            let splits: Vec<_> = mine.map(|(split, state)| (Arc::clone(split), Some(state.position.clone()))).collect();
            if !splits.is_empty() {
                // Who reads no more has failed its job, or the job has gone.
                let _ = hand.orders.send(Order::Assign(splits));
            }
        }
        let who = format!("source \"{}\"", self.name);
        let (mut wait, mut is_first) = (BACKOFF_MIN, true);
        while !self.job.is_stopped() {
            let pause = match self.connector.splits().await {
                Ok(splits) => {
                    self.job.set_trouble(&who, None);
                    wait = BACKOFF_MIN;
                    let interval = self.connector.discovery_interval(&splits);
                    deal_new(splits, &mut dealt, &hands, std::mem::take(&mut is_first));
                    let Some(interval) = interval else { break };
                    interval
                }
                Err(error) if !error.retry => {
                    self.job.fail(format!("{who}: {}", error.message));
                    return;
                }
                Err(error) => {
                    self.job.set_trouble(&who, Some(error.message));
                    wait = (wait * 2).min(BACKOFF_MAX);
                    wait
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.job.wait_until(JobShared::is_stopped) => {}
            }
        }
        for hand in &hands {
            let _ = hand.orders.send(Order::AllAssigned);
        }
    }
}

fn deal_new(splits: Vec<SplitId>, dealt: &mut BTreeMap<SplitId, usize>, hands: &[Hand], is_first: bool) {
    let mut new: Vec<Vec<(SplitId, Option<Position>)>> = vec![vec![]; hands.len()];
    let mut counts: Vec<usize> = (0..hands.len()).map(|w| dealt.values().filter(|v| **v == w).count()).collect();
    for split in splits {
        if !dealt.contains_key(&split) {
            let fewest = (0..hands.len()).min_by_key(|w| counts[*w]).expect("at least one worker");
            counts[fewest] += 1;
            dealt.insert(Arc::clone(&split), fewest);
            new[fewest].push((split, None));
        }
    }
    for (hand, splits) in hands.iter().zip(new) {
        // At first workers without any are told too, so that they know that they hold nobody up.
        if is_first || !splits.is_empty() {
            let _ = hand.orders.send(Order::Assign(splits));
        }
    }
}
