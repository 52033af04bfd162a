//! The log of all tables: every `INSERT`, `UPDATE` and `DELETE` is durable here before it is acknowledged, and is replayed
//! from here on top of the checkpoint that is restored.
//!
//! Group commit: all writes that wait become one frame, with one checksum and one sync, so a write is never half there and
//! the cost of a sync is shared. Frames follow each other in numbered segments: files that are appended to in a local
//! store, in a bucket an object for each frame. A process only ever adds segments of its own; taking the next number is
//! also how it fences those before it.
//!
//! Bounded: [`TableLog::truncate`] drops the segments that a durable checkpoint covers.
//!
//! TABLELOG-1: epochs grow strictly over the whole log. TABLELOG-2: nothing is acknowledged after a failed sync, ever.

mod format;
mod local;
mod remote;

use crate::error::{StorageError, StorageResult};
use crate::generation::{Generation, GenerationClaim, number_in};
use crate::object::{ObjectStore, Put};
use format::{Scan, Tail};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_catalog::{CrashPoint, Delta, Epoch, ObjectId};
use tokio::sync::oneshot;

const SEGMENTS: &str = "table_log/segment";
/// Empty objects whose names say which segment is the first that counts. Put before older ones are deleted.
const STARTS: &str = "table_log/start";

/// A group takes no further writes once it is this large, to bound what a frame needs in memory.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// The log of one process.
pub struct TableLog {
    shared: Arc<Shared>,
    order: Mutex<Order>,
    writer: Option<Writer>,
}

/// What a write in the log is.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Its epoch.
    pub epoch: Epoch,
    /// The change to each table.
    pub writes: Vec<(ObjectId, Delta)>,
}

/// What the log has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLogStats {
    /// Writes that were acknowledged.
    pub appends: u64,
    /// Frames that they shared, each with one sync.
    pub groups: u64,
    /// Segments that there are.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// What the callers and the writer know together.
struct Shared {
    claim: Arc<GenerationClaim>,
    segments: Mutex<BTreeMap<u64, Segment>>,
    /// Why nothing more is written.
    broken: Mutex<Option<Failure>>,
    appends: AtomicU64,
    groups: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    generation: Generation,
    /// Of its last write, none if it has none.
    last_epoch: Option<Epoch>,
    /// How much of it is durable.
    bytes: u64,
}

struct Order {
    last_epoch: Option<Epoch>,
    sender: Option<Sender>,
}

enum Sender {
    Thread(std::sync::mpsc::Sender<Append>),
    Task(tokio::sync::mpsc::UnboundedSender<Append>),
}

enum Writer {
    Thread(std::thread::JoinHandle<()>),
    /// Ends by itself when the sender is gone.
    Task,
}

/// A write that waits to be durable.
struct Append {
    epoch: Epoch,
    record: Vec<u8>,
    done: oneshot::Sender<StorageResult<()>>,
}

/// A failure that can be told to everyone whom it concerns.
#[derive(Clone, Debug)]
enum Failure {
    Fenced {
        ours: u64,
        theirs: u64,
    },
    /// Of one write: the next may find room.
    DiskFull,
    Other(String),
}

impl Failure {
    fn of(error: &StorageError) -> Failure {
        match error {
            StorageError::Fenced { ours, theirs } => Failure::Fenced { ours: *ours, theirs: *theirs },
            other => {
                let cause = std::error::Error::source(other).map(|s| format!(": {s}")).unwrap_or_default();
                Failure::Other(format!("{other}{cause}"))
            }
        }
    }

    /// What those are told whose write has failed as if it had not been tried.
    fn of_one_write(error: &StorageError) -> Failure {
        if error.is_disk_full() { Failure::DiskFull } else { Failure::of(error) }
    }

    fn error(&self) -> StorageError {
        match self {
            Failure::Fenced { ours, theirs } => StorageError::Fenced { ours: *ours, theirs: *theirs },
            Failure::DiskFull => StorageError::DiskFull { path: SEGMENTS.to_string() },
            Failure::Other(reason) => StorageError::Poisoned { path: SEGMENTS.to_string(), reason: reason.clone() },
        }
    }
}

impl TableLog {
    /// Opens the log: reads and checks all of it, cuts off a write that a crash interrupted, and begins a segment of our
    /// own. `reaches` is the segment that the restored checkpoint says there is.
    ///
    /// # Errors
    /// `Missing` or `Corrupt`, naming the segment and the place in it; `Fenced` if a newer generation writes already.
    pub async fn open(claim: Arc<GenerationClaim>, reaches: u64) -> StorageResult<TableLog> {
        TableLog::open_with(claim, reaches, local::Files::default()).await
    }

    async fn open_with(claim: Arc<GenerationClaim>, reaches: u64, files: local::Files) -> StorageResult<TableLog> {
        let store = claim.store();
        let (first, numbers) = list_segments(store, reaches).await?;
        forget_before(&claim, first).await?;
        let newest = numbers.last().copied();
        let mut segments = BTreeMap::new();
        let mut last_epoch = None;
        let mut scans = futures::stream::iter(numbers)
            .map(|number| {
                let tail = if Some(number) == newest { Tail::MayBeTorn } else { Tail::Marked };
                async move { Ok::<_, StorageError>((number, scan_segment(store, number, tail).await?)) }
            })
            .buffered(if store.local_root().is_some() { 1 } else { remote::PARALLEL });
        while let Some((number, scan)) = scans.try_next().await? {
            admit(&claim, number, &scan, &mut last_epoch, &mut segments)?;
            if let Some(root) = store.local_root().filter(|_| Some(number) == newest) {
                local::settle_tail(&root.join(segment_path(number)), &scan)?;
            }
        }
        drop(scans);
        let mut number = newest.map_or(first, |n| n + 1);
        loop {
            let header = format::header(claim.generation(), number);
            if claim.store().put_if_absent(&segment_path(number), header.clone().into()).await? == Put::Created {
                break;
            }
            // A stale process got in before us. What it wrote there was acknowledged, so it counts.
            let scan = scan_segment(claim.store(), number, Tail::Marked).await?;
            admit(&claim, number, &scan, &mut last_epoch, &mut segments)?;
            number += 1;
        }
        claim.check().await?;
        let bytes = format::HEADER_BYTES as u64;
        segments.insert(number, Segment { generation: claim.generation(), last_epoch: None, bytes });
        let shared = Arc::new(Shared {
            claim,
            segments: Mutex::new(segments),
            broken: Mutex::new(None),
            appends: AtomicU64::new(0),
            groups: AtomicU64::new(0),
        });
        let (sender, writer) = match shared.claim.store().local_root() {
            Some(_) => local::start(Arc::clone(&shared), number, files)?,
            None => remote::start(Arc::clone(&shared), number),
        };
        Ok(TableLog { shared, order: Mutex::new(Order { last_epoch, sender: Some(sender) }), writer: Some(writer) })
    }

    /// Appends a write to all these tables together. The place in the log is taken when this is called; the future gives
    /// the answer when the write is durable, and may be dropped without taking the write back.
    ///
    /// # Errors
    /// If the write could not be made durable. It may be there after a restart all the same, unless the disk was full.
    ///
    /// # Panics
    /// TABLELOG-1: if `epoch` is not above that of every earlier call, and of everything in the log.
    pub fn append(
        &self,
        epoch: Epoch,
        writes: Vec<(ObjectId, Delta)>,
    ) -> impl Future<Output = StorageResult<()>> + Send + 'static + use<> {
        let answer = self.enqueue(epoch, &writes);
        async move {
            match answer?.await {
                Ok(result) => result,
                Err(_) => Err(Failure::Other("the log was closed".to_string()).error()),
            }
        }
    }

    fn enqueue(&self, epoch: Epoch, writes: &[(ObjectId, Delta)]) -> StorageResult<oneshot::Receiver<StorageResult<()>>> {
        // Outside the lock: encoding is most of the work.
        let record = format::encode(epoch, writes)?;
        let (done, answer) = oneshot::channel();
        let append = Append { epoch, record, done };
        let mut order = self.order.lock();
        assert!(
            order.last_epoch.is_none_or(|last| epoch > last),
            "TABLELOG-1: epoch {epoch} is not above {:?}",
            order.last_epoch
        );
        order.last_epoch = Some(epoch);
        // If the writer is gone, the answer's other end is dropped here, which is an answer too.
        match order.sender.as_ref() {
            Some(Sender::Thread(sender)) => drop(sender.send(append)),
            Some(Sender::Task(sender)) => drop(sender.send(append)),
            None => {}
        }
        Ok(answer)
    }

    /// The epoch of the last write that was appended, also by earlier processes. None if there never was one since the
    /// last truncation.
    pub fn last_epoch(&self) -> Option<Epoch> {
        self.order.lock().last_epoch
    }

    /// The newest segment, for the manifest of a checkpoint.
    pub fn newest_segment(&self) -> u64 {
        self.shared.segments.lock().last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Reads back the writes after an epoch that are durable now, in order.
    pub fn replay(&self, after: Epoch) -> Replay {
        let segments = self.shared.segments.lock();
        let wanted = segments.iter().filter(|(_, s)| s.last_epoch.is_some_and(|last| last > after));
        let waiting = wanted.map(|(number, segment)| (*number, segment.bytes)).collect();
        Replay { store: self.shared.claim.store().clone(), after, waiting, ready: VecDeque::new() }
    }

    /// Drops what is wholly at or before an epoch that a durable checkpoint has. Cheap if that is nothing.
    ///
    /// # Errors
    /// If the store refuses; it is made good by the next call.
    pub async fn truncate(&self, through: Epoch) -> StorageResult<()> {
        let first = {
            let segments = self.shared.segments.lock();
            // The newest is where the writer is, or what fences older processes: it always stays.
            let newest = segments.last_key_value().map_or(0, |(number, _)| *number);
            let needed = |s: &Segment| s.last_epoch.is_some_and(|last| last > through);
            let first = segments.iter().find(|(_, s)| needed(s)).map_or(newest, |(number, _)| *number);
            let least = if self.shared.claim.store().local_root().is_some() { 1 } else { remote::TRUNCATE_AT_LEAST };
            if segments.range(..first).count() < least {
                return Ok(());
            }
            first
        };
        let store = self.shared.claim.store();
        if self.shared.claim.publish(&start_path(first), format!("{}\n", self.shared.claim.generation()).into()).await?
            == Put::Taken
        {
            return Err(StorageError::corrupt(&start_path(first), "it was put by another process"));
        }
        CrashPoint::InTableLogTruncation.pass();
        let dropped: BTreeMap<u64, Segment> = {
            let mut segments = self.shared.segments.lock();
            let kept = segments.split_off(&first);
            std::mem::replace(&mut *segments, kept)
        };
        let deletable = |(number, segment): (u64, Segment)| {
            let needed = store.local_root().is_none() && remote::still_fences(segment, &self.shared.claim);
            (!needed).then(|| segment_path(number))
        };
        store.delete(dropped.into_iter().filter_map(deletable).collect()).await?;
        forget_starts_before(store, first).await
    }

    /// What it has done.
    pub fn stats(&self) -> TableLogStats {
        let segments = self.shared.segments.lock();
        TableLogStats {
            appends: self.shared.appends.load(Ordering::Relaxed),
            groups: self.shared.groups.load(Ordering::Relaxed),
            segments: segments.len(),
            bytes: segments.values().map(|s| s.bytes).sum(),
        }
    }
}

impl Drop for TableLog {
    /// Waits for the write that is under way, so that no thread of ours writes after the log is gone.
    fn drop(&mut self) {
        self.order.lock().sender = None;
        if let Some(Writer::Thread(thread)) = self.writer.take()
            && thread.join().is_err()
        {
            tracing::error!("the table log's thread panicked");
        }
    }
}

impl Shared {
    /// Tells everyone in a group how it ended.
    fn answer(&self, group: Vec<Append>, result: Result<(), Failure>) {
        if result.is_ok() {
            self.appends.fetch_add(group.len() as u64, Ordering::Relaxed);
            self.groups.fetch_add(1, Ordering::Relaxed);
        }
        for append in group {
            // Who no longer waits has no need of the answer.
            let _ = append.done.send(result.as_ref().copied().map_err(Failure::error));
        }
    }

    /// Breaks the log: TABLELOG-2.
    fn break_with(&self, error: &StorageError) -> Failure {
        tracing::error!(error = %error, "the table log takes no more writes");
        let failure = Failure::of(error);
        self.broken.lock().get_or_insert(failure).clone()
    }

    fn broken(&self) -> Option<Failure> {
        self.broken.lock().clone()
    }
}

/// Writes read back from a log, see [`TableLog::replay`].
pub struct Replay {
    store: ObjectStore,
    after: Epoch,
    /// Segments to read, with how much of each.
    waiting: VecDeque<(u64, u64)>,
    ready: VecDeque<LogEntry>,
}

impl Replay {
    /// The next write, none at the end. Reads a segment at a time.
    ///
    /// # Errors
    /// `Missing` or `Corrupt`, naming the segment and the place in it.
    pub async fn next(&mut self) -> StorageResult<Option<LogEntry>> {
        while self.ready.is_empty() {
            let at_once = if self.store.local_root().is_some() { 1 } else { remote::PARALLEL };
            let batch: Vec<_> = self.waiting.drain(..self.waiting.len().min(at_once)).collect();
            if batch.is_empty() {
                return Ok(None);
            }
            let read = batch.into_iter().map(|(number, bytes)| read_entries(&self.store, number, bytes));
            for entries in futures::future::try_join_all(read).await? {
                self.ready.extend(entries.into_iter().filter(|entry| entry.epoch > self.after));
            }
        }
        Ok(self.ready.pop_front())
    }
}

async fn read_entries(store: &ObjectStore, number: u64, durable_bytes: u64) -> StorageResult<Vec<LogEntry>> {
    let path = segment_path(number);
    let bytes = store.get(&path).await?;
    crate::object::blocking(move || {
        let scan = format::scan(&path, number, &bytes, Tail::At(durable_bytes))?;
        let mut entries = Vec::new();
        for frame in scan.frames {
            entries.extend(format::decode(&path, &bytes, frame)?);
        }
        Ok(entries)
    })
    .await
}

async fn scan_segment(store: &ObjectStore, number: u64, tail: Tail) -> StorageResult<Scan> {
    let path = segment_path(number);
    let bytes = store.get(&path).await?;
    crate::object::blocking(move || format::scan(&path, number, &bytes, tail)).await
}

/// Takes a segment that is there into the log.
fn admit(
    claim: &GenerationClaim,
    number: u64,
    scan: &Scan,
    last_epoch: &mut Option<Epoch>,
    segments: &mut BTreeMap<u64, Segment>,
) -> StorageResult<()> {
    if scan.generation > claim.generation() {
        return Err(claim.fenced_by(scan.generation));
    }
    let path = segment_path(number);
    if segments.last_key_value().is_some_and(|(_, before)| before.generation > scan.generation) {
        return Err(StorageError::corrupt(&path, format!("it is of generation {}, after a newer one", scan.generation)));
    }
    for epoch in &scan.epochs {
        if last_epoch.is_some_and(|last| *epoch <= last) {
            return Err(StorageError::corrupt(&path, format!("epoch {epoch} does not come after the one before")));
        }
        *last_epoch = Some(*epoch);
    }
    let segment = Segment { generation: scan.generation, last_epoch: scan.epochs.last().copied(), bytes: scan.bytes };
    segments.insert(number, segment);
    Ok(())
}

/// The first segment that counts, and all that do, which are without gaps.
async fn list_segments(store: &ObjectStore, reaches: u64) -> StorageResult<(u64, Vec<u64>)> {
    let first = numbers_in(store, STARTS).await?.last().copied();
    let mut numbers = numbers_in(store, SEGMENTS).await?;
    let lowest = first.unwrap_or(0);
    numbers.retain(|number| *number >= lowest);
    if first.is_some() || !numbers.is_empty() || reaches > 0 {
        let end = numbers.last().copied().unwrap_or(lowest).max(reaches);
        for (at, expected) in (lowest..=end).enumerate() {
            if numbers.get(at) != Some(&expected) {
                return Err(StorageError::Missing { path: segment_path(expected) });
            }
        }
    }
    Ok((lowest, numbers))
}

/// Deletes what a truncation that was interrupted left behind.
async fn forget_before(claim: &GenerationClaim, first: u64) -> StorageResult<()> {
    let store = claim.store();
    let mut old = Vec::new();
    for number in numbers_in(store, SEGMENTS).await?.into_iter().take_while(|number| *number < first) {
        if store.local_root().is_none() {
            let scan = scan_segment(store, number, Tail::Marked).await?;
            let segment = Segment { generation: scan.generation, last_epoch: scan.epochs.last().copied(), bytes: scan.bytes };
            if remote::still_fences(segment, claim) {
                continue;
            }
        }
        old.push(segment_path(number));
    }
    store.delete(old).await?;
    forget_starts_before(store, first).await
}

async fn forget_starts_before(store: &ObjectStore, first: u64) -> StorageResult<()> {
    let starts = numbers_in(store, STARTS).await?;
    store.delete(starts.into_iter().filter(|start| *start < first).map(start_path).collect()).await
}

async fn numbers_in(store: &ObjectStore, folder: &str) -> StorageResult<Vec<u64>> {
    let listed = store.list(folder).await?;
    let number = |path: &str| number_in(path).ok_or_else(|| StorageError::corrupt(path, "its name is no number"));
    listed.iter().map(|object| number(&object.path)).collect()
}

fn segment_path(number: u64) -> String {
    format!("{SEGMENTS}/{number:020}.log")
}

fn start_path(first: u64) -> String {
    format!("{STARTS}/{first:020}")
}

#[cfg(test)]
mod tests;
