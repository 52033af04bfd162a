//! Reads a worker's splits of a source: on a thread of its own while rows come, and [at rest](Resting) when none have for long.

use super::{BACKOFF_MAX, BACKOFF_MIN, FeedEvent, Order, Resting, Wake};
use crate::job::JobShared;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::time::{Duration, Instant};
use thalweg_connectors::{
    ConnectorError, ConnectorResult, Position, SourceConnector, SourceContext, SourceEvent, SourceReader, SplitId,
};

/// How long a read waits for rows before it looks for new splits.
const READ_WAIT: Duration = Duration::from_secs(1);

/// The splits that a worker reads of a source, and how far.
pub(super) struct Reading {
    connector: Arc<dyn SourceConnector>,
    context: SourceContext,
    job: Arc<JobShared>,
    inbox: Receiver<Order>,
    events: SyncSender<FeedEvent>,
    wake: Wake,
    /// The splits that are read, each from after what was given last.
    positions: BTreeMap<SplitId, Option<Position>>,
    /// No further split will come.
    all_assigned: bool,
    /// None before the first read, and after a fault.
    reader: Option<Box<dyn SourceReader>>,
    /// Who reads, for messages.
    who: String,
    /// Whether a read has gone well since the last fault.
    healthy: bool,
    /// How long to wait after the next fault, and since when there was none.
    wait: Duration,
    well_since: Instant,
    /// When something came last.
    came_at: Instant,
}

/// What there is to do for one who reads.
pub(super) enum Task {
    Order(Order),
    Event(SourceEvent),
    /// Reading has failed.
    Fault(ConnectorError),
    /// Nothing for now.
    Wait,
    /// Nothing any more: the worker's end or the job has gone, or all splits have ended and no more will come.
    End,
}

impl Reading {
    pub(super) fn new(
        connector: Arc<dyn SourceConnector>,
        context: SourceContext,
        job: Arc<JobShared>,
        (inbox, events): (Receiver<Order>, SyncSender<FeedEvent>),
        wake: Wake,
        worker: usize,
    ) -> Reading {
        Reading {
            who: format!("reader {worker} of source \"{}\"", context.name),
            connector,
            context,
            job,
            inbox,
            events,
            wake,
            positions: BTreeMap::new(),
            all_assigned: false,
            reader: None,
            healthy: false,
            wait: BACKOFF_MIN,
            well_since: Instant::now(),
            came_at: Instant::now(),
        }
    }

    /// Goes on reading on a thread of its own.
    ///
    /// # Errors
    /// If the system has no thread to give.
    pub(super) fn begin(self, resting: Arc<Resting>) -> io::Result<()> {
        self.go_on(Task::Wait, resting)
    }

    /// Like `begin`, with what there is to do first.
    pub(super) fn go_on(mut self, first: Task, resting: Arc<Resting>) -> io::Result<()> {
        let name = format!("read:{}", self.context.name);
        let run = move || {
            self.came_at = Instant::now();
            let mut task = first;
            while self.carry_out(task) {
                if self.came_at.elapsed() >= resting.after {
                    return resting.take(self);
                }
                task = self.next(READ_WAIT);
            }
        };
        std::thread::Builder::new().name(name).spawn(run).map(drop)
    }

    pub(super) fn job(&self) -> Arc<JobShared> {
        Arc::clone(&self.job)
    }

    /// What there is to do; waits for it at most about so long.
    pub(super) fn next(&mut self, patience: Duration) -> Task {
        if self.job.is_stopped() {
            return Task::End;
        }
        let waits_for_splits = self.positions.is_empty() && !self.all_assigned;
        let order = if waits_for_splits && !patience.is_zero() {
            self.inbox.recv_timeout(patience).map_err(|e| e == RecvTimeoutError::Disconnected)
        } else {
            self.inbox.try_recv().map_err(|e| e == TryRecvError::Disconnected)
        };
        match order {
            Ok(order) => return Task::Order(order),
            // The dealer has gone: with all splits dealt that is its end, else the job's.
            Err(true) if !self.all_assigned => return Task::End,
            Err(_) if waits_for_splits => return Task::Wait,
            Err(_) if self.positions.is_empty() => return Task::End,
            Err(_) => {}
        }
        match self.read(patience) {
            Ok(SourceEvent::Idle) => Task::Wait,
            Ok(event) => Task::Event(event),
            Err(error) => Task::Fault(error),
        }
    }

    fn read(&mut self, patience: Duration) -> ConnectorResult<SourceEvent> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                let mut reader = self.connector.reader(self.context.clone())?;
                let splits = self.positions.iter().map(|(split, position)| (Arc::clone(split), position.clone()));
                reader.assign(splits.collect())?;
                self.reader.insert(reader)
            }
        };
        let event = reader.next(patience)?;
        if !self.healthy {
            self.healthy = true;
            self.job.set_trouble(&self.who, None);
        }
        Ok(event)
    }

    /// Does what there is to do. False when that was the last.
    fn carry_out(&mut self, task: Task) -> bool {
        if !matches!(task, Task::Wait) {
            self.came_at = Instant::now();
        }
        match task {
            Task::Order(order) => self.accept(order),
            Task::Event(event) => self.hand_over(event),
            Task::Fault(error) => self.recover(error),
            Task::Wait => true,
            Task::End => false,
        }
    }

    fn accept(&mut self, order: Order) -> bool {
        match order {
            Order::Assign(splits) => {
                let ids = splits.iter().map(|(split, _)| Arc::clone(split)).collect();
                let assigned = match &mut self.reader {
                    Some(reader) if !splits.is_empty() => reader.assign(splits.clone()),
                    _ => Ok(()),
                };
                self.positions.extend(splits);
                self.give(FeedEvent::Assigned(ids)) && assigned.map_or_else(|error| self.recover(error), |()| true)
            }
            Order::AllAssigned => {
                self.all_assigned = true;
                self.give(FeedEvent::AllAssigned)
            }
        }
    }

    fn hand_over(&mut self, event: SourceEvent) -> bool {
        match event {
            SourceEvent::Rows(batch) => {
                self.positions.insert(Arc::clone(&batch.split), Some(batch.position.clone()));
                self.give(FeedEvent::Rows(batch))
            }
            SourceEvent::SplitEnd { split, position } => {
                self.positions.remove(&split);
                self.give(FeedEvent::SplitEnd(split, position))
            }
            SourceEvent::Idle => true,
        }
    }

    /// Waits for another try with a new reader, if there is to be one.
    fn recover(&mut self, error: ConnectorError) -> bool {
        (self.reader, self.healthy) = (None, false);
        if !error.retry {
            self.give(FeedEvent::Failed(error.message));
            return false;
        }
        self.job.set_trouble(&self.who, Some(error.message));
        // A reader that worked for a while starts over with a short wait.
        self.wait = if self.well_since.elapsed() > BACKOFF_MAX { BACKOFF_MIN } else { (self.wait * 2).min(BACKOFF_MAX) };
        let goes_on = match self.inbox.recv_timeout(self.wait) {
            Ok(order) => self.accept(order),
            Err(RecvTimeoutError::Timeout) => true,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(self.wait);
                true
            }
        };
        self.well_since = Instant::now();
        goes_on
    }

    /// Hands an event to the worker, waiting while it has enough; false once the worker's end has gone.
    fn give(&self, event: FeedEvent) -> bool {
        let given = self.events.send(event).is_ok();
        (self.wake)();
        given
    }
}
