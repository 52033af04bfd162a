//! Delivery of a sink's rows to its target, off the worker threads: one task for each writer.

use crate::error::OperatorError;
use crate::job::JobShared;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg_catalog::Epoch;
use thalweg_connectors::{ConnectorError, ConnectorResult, Delivery, SinkBatch, SinkConnector, SinkContext, SinkWriter};
use tokio::sync::mpsc;

/// The longest wait between two tries.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// The first wait.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Tries a step of a [`Writer`] until it succeeds; gives up with none.
macro_rules! retrying {
    ($writer:expr, $what:literal, $step:expr) => {{
        let mut wait = BACKOFF_MIN;
        loop {
            let outcome = $step.await;
            match $writer.judge($what, outcome, &mut wait).await {
                Judged::Done(value) => break Some(value),
                Judged::Again => {}
                Judged::GiveUp => break None,
            }
        }
    }};
}

/// A change in a sink log, with the writer that it is to be delivered by.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// The change.
    pub batch: SinkBatch,
    /// Which writer.
    pub writer: usize,
    /// Of how many.
    pub writers: usize,
}

impl LogEntry {
    /// As a cell: the name orders by epoch, the value is an Arrow stream with the weights as a last column.
    pub fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let mut name = self.batch.epoch.0.to_be_bytes().to_vec();
        name.extend((self.writer as u32).to_be_bytes());
        name.extend((self.writers as u32).to_be_bytes());
        let batch = &self.batch.batch;
        let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("weight", DataType::Int64, false)));
        let mut columns = batch.columns().to_vec();
        let weights = self.batch.weights.clone().unwrap_or_else(|| Int64Array::from(vec![1; batch.num_rows()]));
        columns.push(Arc::new(weights) as ArrayRef);
        let schema = Arc::new(Schema::new(fields));
        let mut value = vec![];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a weight for every row");
        let mut writer = StreamWriter::try_new(&mut value, &schema).expect("a batch's schema can be written");
        writer.write(&batch).expect("a batch can be written to memory");
        writer.finish().expect("a stream can be ended in memory");
        (name, value)
    }

    /// The epoch in a cell's name.
    pub fn epoch_of(name: &[u8]) -> Option<Epoch> {
        Some(Epoch(u64::from_be_bytes(name.get(..8)?.try_into().ok()?)))
    }

    /// From a cell.
    ///
    /// # Errors
    /// SINKLOG-1: if it is not as it was written.
    pub fn decode(name: &[u8], value: &[u8]) -> Result<LogEntry, OperatorError> {
        let damaged = |what: &str| OperatorError::Invariant("SINKLOG-1", format!("a logged change has no {what}"));
        let epoch = LogEntry::epoch_of(name).ok_or_else(|| damaged("epoch"))?;
        let number = |at: usize| name.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
        let (writer, writers) = number(8).zip(number(12)).ok_or_else(|| damaged("writer"))?;
        let batch = StreamReader::try_new(value, None)?.next().ok_or_else(|| damaged("rows"))??;
        let last = batch.num_columns() - 1;
        let weights: Int64Array = batch.column(last).as_primitive::<Int64Type>().clone();
        let weights = weights.values().iter().any(|w| *w != 1).then_some(weights);
        let batch = batch.project(&(0..last).collect::<Vec<_>>())?;
        let batch = SinkBatch { epoch, batch, weights };
        Ok(LogEntry { batch, writer: writer as usize, writers: writers as usize })
    }
}

/// What the operator tells the writer's task.
enum Order {
    Restore(Vec<LogEntry>),
    Batch(SinkBatch),
    Complete(Epoch),
    Durable(Epoch),
}

/// The operator's side of a writer.
#[derive(Clone)]
pub struct SinkHandle {
    orders: mpsc::UnboundedSender<Order>,
    progress: Arc<SinkProgress>,
}

/// How far a writer is.
#[derive(Debug)]
struct SinkProgress {
    job: Arc<JobShared>,
    worker: usize,
    immediate: bool,
    /// The epoch through which the target has everything.
    delivered: AtomicU64,
    state: Mutex<(Epoch, VecDeque<Epoch>)>,
}

impl SinkProgress {
    /// What the job's sources go by: a sink that delivers at once holds them up until the target has taken the rows.
    fn update(&self, change: impl FnOnce(&mut Epoch, &mut VecDeque<Epoch>)) {
        let mut state = self.state.lock();
        let (complete, pending) = &mut *state;
        change(complete, pending);
        let through = pending.front().map_or(*complete, |oldest| oldest.previous().min(*complete));
        let shown = if self.immediate { through } else { *complete };
        drop(state);
        self.job.set_completed(self.worker, shown);
    }
}

impl SinkHandle {
    /// Hands over what the log held after a restart.
    pub fn restore(&self, entries: Vec<LogEntry>) {
        if !entries.is_empty() {
            // The task lives until the handle goes, or has failed its job.
            let _ = self.orders.send(Order::Restore(entries));
        }
    }

    /// Hands over a change.
    pub fn send(&self, batch: SinkBatch) {
        let epoch = batch.epoch;
        self.progress.update(|_, pending| pending.push_back(epoch));
        let _ = self.orders.send(Order::Batch(batch));
    }

    /// Says that there is nothing more through `epoch`.
    pub fn complete(&self, epoch: Epoch) {
        self.progress.update(|complete, _| *complete = epoch);
        let _ = self.orders.send(Order::Complete(epoch));
    }

    /// Says that a checkpoint is durable.
    pub fn durable(&self, checkpoint: Epoch) {
        let _ = self.orders.send(Order::Durable(checkpoint));
    }

    /// The epoch through which the target has everything that was handed over.
    pub fn delivered(&self) -> Epoch {
        Epoch(self.progress.delivered.load(Ordering::SeqCst))
    }
}

/// Starts a writer's task.
pub fn start(
    runtime: &tokio::runtime::Handle,
    connector: Arc<dyn SinkConnector>,
    context: SinkContext,
    job: Arc<JobShared>,
) -> SinkHandle {
    let (orders, inbox) = mpsc::unbounded_channel();
    let progress = Arc::new(SinkProgress {
        worker: context.writer,
        immediate: connector.delivery() == Delivery::OnEpoch,
        delivered: AtomicU64::new(0),
        state: Mutex::new((Epoch(0), VecDeque::new())),
        job: Arc::clone(&job),
    });
    job.undelivered.fetch_add(1, Ordering::SeqCst);
    let task = Writer {
        connector,
        context,
        job,
        progress: Arc::clone(&progress),
        waiting: VecDeque::new(),
        durable: Epoch(0),
        complete: Epoch(0),
    };
    runtime.spawn(task.run(inbox));
    SinkHandle { orders, progress }
}

struct Writer {
    connector: Arc<dyn SinkConnector>,
    context: SinkContext,
    job: Arc<JobShared>,
    progress: Arc<SinkProgress>,
    /// Changes that the target does not have, oldest first.
    waiting: VecDeque<SinkBatch>,
    durable: Epoch,
    complete: Epoch,
}

impl Writer {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        let mut writer = match self.open(&self.context.clone()).await {
            Some(writer) => writer,
            None => return,
        };
        let mut ended = false;
        while let Some(order) = inbox.recv().await {
            let mut orders = vec![order];
            while let Ok(more) = inbox.try_recv() {
                orders.push(more);
            }
            for order in orders {
                match order {
                    Order::Restore(entries) => {
                        if self.restore(entries, &mut writer).await.is_none() {
                            return;
                        }
                    }
                    Order::Batch(batch) => self.waiting.push_back(batch),
                    Order::Complete(epoch) => self.complete = epoch,
                    Order::Durable(checkpoint) => self.durable = checkpoint,
                }
            }
            if self.deliver_due(&mut writer).await.is_none() {
                return;
            }
            if self.complete == Epoch::END && self.waiting.is_empty() && !ended {
                ended = true;
                if retrying!(self, "finish", writer.finish()).is_none() {
                    return;
                }
                self.job.undelivered.fetch_sub(1, Ordering::SeqCst);
                self.job.note_change();
            }
        }
    }

    /// Opens a writer, however long it takes; none if that can't succeed or the job has gone.
    async fn open(&self, context: &SinkContext) -> Option<Box<dyn SinkWriter>> {
        let connector = Arc::clone(&self.connector);
        retrying!(self, "open", connector.writer(context.clone()))
    }

    /// Sends again what the log held and the target lacks. What other writers logged, when there was another number of them, is
    /// delivered in their name, since the target knows it by that.
    async fn restore(&mut self, entries: Vec<LogEntry>, writer: &mut Box<dyn SinkWriter>) -> Option<()> {
        let mut by_writer: BTreeMap<(usize, usize), Vec<SinkBatch>> = BTreeMap::new();
        for entry in entries {
            by_writer.entry((entry.writer, entry.writers)).or_default().push(entry.batch);
        }
        for ((of, all), batches) in by_writer {
            if (of, all) == (self.context.writer, self.context.writers) {
                self.send_lacking(batches, writer).await?;
            } else {
                let context = SinkContext { writer: of, writers: all, ..self.context.clone() };
                let mut other = self.open(&context).await?;
                self.send_lacking(batches, &mut other).await?;
            }
        }
        Some(())
    }

    async fn send_lacking(&mut self, mut batches: Vec<SinkBatch>, writer: &mut Box<dyn SinkWriter>) -> Option<()> {
        if self.connector.delivery() == Delivery::OnCheckpoint {
            let has = retrying!(self, "ask", writer.delivered())?;
            batches.retain(|batch| has.is_none_or(|has| batch.epoch > has));
        }
        let Some(through) = batches.last().map(|b| b.epoch) else { return Some(()) };
        // A checkpoint's changes are known to the target by the checkpoint's name, which is the one that the job goes on from.
        let through = match self.connector.delivery() {
            Delivery::OnCheckpoint => self.job.restored_at.unwrap_or(through),
            Delivery::OnEpoch => through,
        };
        self.deliver(through, batches, writer).await
    }

    async fn deliver_due(&mut self, writer: &mut Box<dyn SinkWriter>) -> Option<()> {
        let due = match self.connector.delivery() {
            Delivery::OnEpoch => self.waiting.len(),
            Delivery::OnCheckpoint => self.waiting.iter().take_while(|batch| batch.epoch <= self.durable).count(),
        };
        if due == 0 {
            return Some(());
        }
        let batches: Vec<SinkBatch> = self.waiting.drain(..due).collect();
        let last = batches.last().map_or(Epoch(0), |b| b.epoch);
        let through = if self.connector.delivery() == Delivery::OnCheckpoint { self.durable } else { last };
        self.deliver(through, batches, writer).await
    }

    async fn deliver(&mut self, through: Epoch, batches: Vec<SinkBatch>, writer: &mut Box<dyn SinkWriter>) -> Option<()> {
        retrying!(self, "deliver to", writer.deliver(through, batches.clone()))?;
        self.progress.delivered.fetch_max(through.0, Ordering::SeqCst);
        self.progress.update(|_, pending| {
            while pending.front().is_some_and(|epoch| *epoch <= through) {
                pending.pop_front();
            }
        });
        Some(())
    }

    /// What follows from the outcome of one try: waits before the next, ever longer.
    async fn judge<T>(&self, what: &str, outcome: ConnectorResult<T>, wait: &mut Duration) -> Judged<T> {
        let who = format!("sink writer {}", self.context.writer);
        match outcome {
            _ if self.job.is_stopped() => Judged::GiveUp,
            Ok(value) => {
                self.job.set_trouble(&who, None);
                Judged::Done(value)
            }
            Err(ConnectorError { message, retry: false, .. }) => {
                self.job.fail(format!("could not {what} sink \"{}\": {message}", self.context.name));
                Judged::GiveUp
            }
            Err(ConnectorError { message, .. }) => {
                self.job.set_trouble(&who, Some(format!("could not {what} the target: {message}")));
                tokio::time::sleep(*wait).await;
                *wait = (*wait * 2).min(BACKOFF_MAX);
                Judged::Again
            }
        }
    }
}

/// What follows from the outcome of a try.
enum Judged<T> {
    Done(T),
    Again,
    /// It can't succeed, or the job has gone.
    GiveUp,
}
