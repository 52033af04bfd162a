//! Brings a source's splits to the workers: finds them, deals them out, and reads each worker's on a thread of its own.
//!
//! A split stays with the worker whose state has its position; a new one goes to the worker with the fewest.

use crate::dataflow::SplitState;
use crate::job::JobShared;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};
use thalweg_connectors::{Position, SourceBatch, SourceConnector, SourceContext, SourceEvent, SplitId};

/// How many batches may wait for a worker.
const QUEUE_BATCHES: usize = 4;
/// How long a read waits for rows before it looks for new splits.
const READ_WAIT: Duration = Duration::from_secs(1);
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

/// A worker's end: rows of its splits. Dropping it ends the thread.
pub struct Feed {
    events: Receiver<FeedEvent>,
}

impl Feed {
    /// The next event, if one is there.
    pub fn next(&mut self) -> Option<FeedEvent> {
        // Nothing yet, or nothing any more: the thread ends when it has nothing left to read.
        self.events.try_recv().ok()
    }
}

/// Splits for a reading thread.
enum Order {
    Assign(Vec<(SplitId, Option<Position>)>),
    AllAssigned,
}

/// The splits of one source in one job, as they are dealt out.
pub struct Dealer {
    connector: Arc<dyn SourceConnector>,
    name: String,
    job: Arc<JobShared>,
    hands: Mutex<Vec<Option<Hand>>>,
}

/// What a worker brought with it.
struct Hand {
    orders: Sender<Order>,
    restored: BTreeMap<SplitId, SplitState>,
}

impl Dealer {
    /// For so many workers; deals once all have joined.
    pub fn new(connector: Arc<dyn SourceConnector>, name: String, job: Arc<JobShared>, workers: usize) -> Dealer {
        Dealer { connector, name, job, hands: Mutex::new((0..workers).map(|_| None).collect()) }
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
        let reading = Reading {
            connector: Arc::clone(&self.connector),
            context,
            job: Arc::clone(&self.job),
            events,
            wake,
            positions: BTreeMap::new(),
            worker,
        };
        std::thread::Builder::new()
            .name(format!("read:{}", self.name))
            .spawn(move || reading.run(inbox))
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
                // A reading thread that has ended has failed its job, or the job has gone.
                let _ = hand.orders.send(Order::Assign(splits));
            }
        }
        let who = format!("source \"{}\"", self.name);
        let mut wait = BACKOFF_MIN;
        while !self.job.is_stopped() {
            let pause = match self.connector.splits().await {
                Ok(splits) => {
                    self.job.set_trouble(&who, None);
                    wait = BACKOFF_MIN;
                    let interval = self.connector.discovery_interval(&splits);
                    deal_new(splits, &mut dealt, &hands);
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

fn deal_new(splits: Vec<SplitId>, dealt: &mut BTreeMap<SplitId, usize>, hands: &[Hand]) {
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
    // Workers without any are told too, so that they know that they hold nobody up.
    for (hand, splits) in hands.iter().zip(new) {
        let _ = hand.orders.send(Order::Assign(splits));
    }
}

/// A reading thread.
struct Reading {
    connector: Arc<dyn SourceConnector>,
    context: SourceContext,
    job: Arc<JobShared>,
    events: SyncSender<FeedEvent>,
    wake: Wake,
    /// The splits that are read, each from after what was given last.
    positions: BTreeMap<SplitId, Option<Position>>,
    worker: usize,
}

/// Why a thread stops.
enum Stop {
    /// The worker's end has gone.
    Gone,
    /// The connector failed.
    Failed(thalweg_connectors::ConnectorError),
    /// All splits have ended and no more will come.
    Over,
}

impl Reading {
    fn run(mut self, inbox: Receiver<Order>) {
        let who = format!("reader {} of source \"{}\"", self.worker, self.context.name);
        let mut wait = BACKOFF_MIN;
        let mut all_assigned = false;
        loop {
            let began = Instant::now();
            match self.read(&inbox, &mut all_assigned, &who) {
                Stop::Gone | Stop::Over => return,
                Stop::Failed(error) if error.retry => {
                    self.job.set_trouble(&who, Some(error.message));
                    // A reader that worked for a while starts over with a short wait.
                    wait = if began.elapsed() > BACKOFF_MAX { BACKOFF_MIN } else { (wait * 2).min(BACKOFF_MAX) };
                    match inbox.recv_timeout(wait) {
                        Ok(order) => self.accept(order, &mut all_assigned),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
                    }
                }
                Stop::Failed(error) => {
                    let _ = self.give(FeedEvent::Failed(error.message));
                    return;
                }
            }
            if self.job.is_stopped() {
                return;
            }
        }
    }

    fn accept(&mut self, order: Order, all_assigned: &mut bool) {
        match order {
            Order::Assign(splits) => {
                let ids = splits.iter().map(|(split, _)| Arc::clone(split)).collect();
                self.positions.extend(splits);
                let _ = self.give(FeedEvent::Assigned(ids));
            }
            Order::AllAssigned => {
                *all_assigned = true;
                let _ = self.give(FeedEvent::AllAssigned);
            }
        }
    }

    /// Reads with a new reader until something ends it.
    fn read(&mut self, inbox: &Receiver<Order>, all_assigned: &mut bool, who: &str) -> Stop {
        let mut reader = match self.connector.reader(self.context.clone()) {
            Ok(reader) => reader,
            Err(error) => return Stop::Failed(error),
        };
        let splits: Vec<_> = self.positions.iter().map(|(split, position)| (Arc::clone(split), position.clone())).collect();
        if !splits.is_empty()
            && let Err(error) = reader.assign(splits)
        {
            return Stop::Failed(error);
        }
        let mut healthy = false;
        loop {
            loop {
                let order = if self.positions.is_empty() && !*all_assigned {
                    // The dealer goes when the job is stopped.
                    inbox.recv().map_err(|_| true)
                } else {
                    inbox.try_recv().map_err(|e| e == TryRecvError::Disconnected)
                };
                match order {
                    Ok(order) => {
                        if let Order::Assign(splits) = &order
                            && !splits.is_empty()
                            && let Err(error) = reader.assign(splits.clone())
                        {
                            self.accept(order, all_assigned);
                            return Stop::Failed(error);
                        }
                        self.accept(order, all_assigned);
                    }
                    // The dealer has gone: with all splits dealt that is its end, else the job's.
                    Err(true) if !*all_assigned => return Stop::Gone,
                    Err(_) => break,
                }
            }
            if self.job.is_stopped() {
                return Stop::Gone;
            }
            if self.positions.is_empty() {
                if *all_assigned {
                    return Stop::Over;
                }
                continue;
            }
            let event = match reader.next(READ_WAIT) {
                Ok(event) => event,
                Err(error) => return Stop::Failed(error),
            };
            if !healthy {
                healthy = true;
                self.job.set_trouble(who, None);
            }
            let given = match event {
                SourceEvent::Rows(batch) => {
                    self.positions.insert(Arc::clone(&batch.split), Some(batch.position.clone()));
                    self.give(FeedEvent::Rows(batch))
                }
                SourceEvent::SplitEnd { split, position } => {
                    self.positions.remove(&split);
                    self.give(FeedEvent::SplitEnd(split, position))
                }
                SourceEvent::Idle => true,
            };
            if !given {
                return Stop::Gone;
            }
        }
    }

    /// Hands an event to the worker, waiting while it has enough; false once the worker's end has gone.
    fn give(&self, event: FeedEvent) -> bool {
        let given = self.events.send(event).is_ok();
        (self.wake)();
        given
    }
}
