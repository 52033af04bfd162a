//! The bytes of a segment. All numbers are little-endian.
//!
//! ```text
//! segment  = "thwlgTL1" generation:u64 number:u64 crc32(those):u32  mark  frame*
//! mark     = length:u64 crc32(that):u32             how much of the segment had been acknowledged, some time ago
//! frame    = size:u64 crc32(size, payload):u32 payload                 one group commit
//! payload  = records:u32 record*
//! record   = epoch:u64 writes:u32 write*
//! write    = table:u32 weighted:u8 size:u64 bytes                     an Arrow IPC stream; if weighted, its last column is the weight
//! ```
//!
//! The mark tells damage from a torn tail: bytes below it were acknowledged, so they must be whole. It is written after
//! each sync but not synced itself, so it is exact after a crash of the process, and at most one frame behind after a crash
//! of the machine. Before the next segment begins it is synced too, and whoever opens the log settles it for the last one.

use super::LogEntry;
use crate::error::{StorageError, StorageResult};
use crate::generation::Generation;
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::ops::Range;
use std::sync::Arc;
use thalweg_catalog::{Delta, Epoch, ObjectId};

const MAGIC: &[u8; 8] = b"thwlgTL1";
/// Where the mark is.
pub(super) const MARK_AT: u64 = 28;
const MARK_BYTES: usize = 12;
/// The first frame begins here.
pub(super) const HEADER_BYTES: usize = MARK_AT as usize + MARK_BYTES;
const FRAME_HEADER_BYTES: usize = 12;

/// Where a segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// At its mark, which is exact once the segment is no longer written to. What stands behind it is from a process that
    /// did not know that it was fenced.
    Marked,
    /// Behind its last whole frame: the newest segment of a process that may have crashed in the middle of a write.
    MayBeTorn,
    /// Here, as its own writer knows.
    At(u64),
}

/// What a segment holds.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) generation: Generation,
    /// Where the payloads are.
    pub(super) frames: Vec<Range<usize>>,
    /// The epochs of all records, in order.
    pub(super) epochs: Vec<Epoch>,
    /// Where the last whole frame ends.
    pub(super) bytes: u64,
    /// Whether more than that is there.
    pub(super) torn: bool,
}

/// The beginning of a segment without frames.
pub(super) fn header(generation: Generation, number: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(generation.0.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(mark(HEADER_BYTES as u64));
    bytes
}

pub(super) fn mark(acknowledged: u64) -> [u8; MARK_BYTES] {
    let mut bytes = [0; MARK_BYTES];
    bytes[..8].copy_from_slice(&acknowledged.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..8]);
    bytes[8..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A segment of a bucket: never appended to, so that its mark is its length.
pub(super) fn whole_segment(generation: Generation, number: u64, frame: &[u8]) -> Vec<u8> {
    let mut bytes = header(generation, number);
    bytes.extend_from_slice(frame);
    let end = bytes.len() as u64;
    bytes[MARK_AT as usize..HEADER_BYTES].copy_from_slice(&mark(end));
    bytes
}

/// One group of records.
pub(super) fn frame<'a>(records: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
    let size = 4 + records.clone().map(<[u8]>::len).sum::<usize>();
    let mut bytes = Vec::with_capacity(FRAME_HEADER_BYTES + size);
    bytes.extend((size as u64).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend((records.len() as u32).to_le_bytes());
    records.for_each(|record| bytes.extend_from_slice(record));
    let crc = frame_crc(&bytes[..8], &bytes[FRAME_HEADER_BYTES..]);
    bytes[8..FRAME_HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn frame_crc(size: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(size);
    hasher.update(payload);
    hasher.finalize()
}

/// Finds the frames of a segment and checks all of it.
pub(super) fn scan(path: &str, number: u64, bytes: &[u8], tail: Tail) -> StorageResult<Scan> {
    let (generation, mark) = read_header(path, number, bytes)?;
    let (limit, acknowledged) = match (tail, mark) {
        // While its own writer is at work the mark may be half written, and says nothing new.
        (Tail::At(end), _) => (end, end),
        (_, None) => return Err(StorageError::corrupt(path, "the mark in its header is damaged")),
        (Tail::Marked, Some(mark)) => (mark, mark),
        (Tail::MayBeTorn, Some(mark)) => (bytes.len() as u64, mark),
    };
    let mut scan = Scan { generation, frames: Vec::new(), epochs: Vec::new(), bytes: HEADER_BYTES as u64, torn: false };
    let bytes = usize::try_from(limit).ok().and_then(|limit| bytes.get(..limit)).unwrap_or(bytes);
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let damage = match frame_at(bytes, at) {
            Ok(payload) => {
                at = payload.end;
                scan.epochs.extend(epochs_in(path, bytes, payload.clone())?);
                scan.frames.push(payload);
                continue;
            }
            Err(damage) => damage,
        };
        if tail != Tail::MayBeTorn || (at as u64) < acknowledged || damage.followed {
            return Err(StorageError::corrupt(path, format!("the record at byte {at} {}", damage.reason)));
        }
        scan.torn = true;
        break;
    }
    scan.bytes = at as u64;
    if scan.bytes < acknowledged {
        return Err(StorageError::corrupt(path, format!("it ends at byte {at}, of {acknowledged} that were acknowledged")));
    }
    Ok(scan)
}

/// The generation that a segment is of, and its mark unless that is damaged.
fn read_header(path: &str, number: u64, bytes: &[u8]) -> StorageResult<(Generation, Option<u64>)> {
    let corrupt = |reason: &str| Err(StorageError::corrupt(path, reason));
    let mut reader = Reader { bytes, at: 0 };
    let (Some(magic), Some(generation), Some(found), Some(crc), Some(acknowledged), Some(mark_crc)) =
        (reader.take(8), reader.u64(), reader.u64(), reader.u32(), reader.u64(), reader.u32())
    else {
        return corrupt("its header is cut short");
    };
    if magic != MAGIC || crc != crc32fast::hash(&bytes[..24]) {
        return corrupt("its header is not one of a table log segment, or is damaged");
    }
    if found != number {
        return corrupt(&format!("it is segment {found}"));
    }
    let mark_is_whole = mark_crc == crc32fast::hash(&acknowledged.to_le_bytes());
    Ok((Generation(generation), mark_is_whole.then_some(acknowledged)))
}

struct Damage {
    reason: &'static str,
    /// Whether a whole frame follows where this one would end: then this one had been synced before that was written.
    followed: bool,
}

/// The payload of the frame that begins at `at`.
fn frame_at(bytes: &[u8], at: usize) -> Result<Range<usize>, Damage> {
    let cut = Damage { reason: "is cut short", followed: false };
    let mut reader = Reader { bytes, at };
    let (Some(size), Some(crc)) = (reader.u64(), reader.u32()) else { return Err(cut) };
    let start = reader.at;
    let end = usize::try_from(size).ok().and_then(|size| start.checked_add(size)).filter(|end| *end <= bytes.len());
    let Some(end) = end else { return Err(cut) };
    if crc == frame_crc(&bytes[at..at + 8], &bytes[start..end]) {
        return Ok(start..end);
    }
    // One step, and from a frame that may well be no frame: zeros have size 0 and would follow each other for ever.
    let mut next = Reader { bytes, at: end };
    let followed = match (next.u64(), next.u32()) {
        (Some(size), Some(crc)) if size > 0 => {
            let payload = usize::try_from(size).ok().and_then(|size| next.take(size));
            payload.is_some_and(|payload| crc == frame_crc(&size.to_le_bytes(), payload))
        }
        _ => false,
    };
    Err(Damage { reason: "has a checksum that does not match", followed })
}

/// The bytes of a record.
pub(super) fn encode(epoch: Epoch, writes: &[(ObjectId, Delta)]) -> StorageResult<Vec<u8>> {
    let mut bytes = epoch.0.to_le_bytes().to_vec();
    bytes.extend((writes.len() as u32).to_le_bytes());
    for (table, delta) in writes {
        bytes.extend(table.0.to_le_bytes());
        bytes.push(u8::from(delta.weights().is_some()));
        let size_at = bytes.len();
        bytes.extend([0; 8]);
        write_stream(delta, &mut bytes)?;
        let size = (bytes.len() - size_at - 8) as u64;
        bytes[size_at..size_at + 8].copy_from_slice(&size.to_le_bytes());
    }
    Ok(bytes)
}

fn write_stream(delta: &Delta, bytes: &mut Vec<u8>) -> StorageResult<()> {
    let batch = match delta.weights() {
        None => delta.batch().clone(),
        Some(weights) => {
            let schema = delta.schema();
            let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
            fields.push(Arc::new(Field::new("weight", DataType::Int64, false)));
            let mut columns = delta.batch().columns().to_vec();
            columns.push(Arc::new(weights.clone()) as ArrayRef);
            RecordBatch::try_new(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())), columns)?
        }
    };
    let mut writer = StreamWriter::try_new(&mut *bytes, &batch.schema())?;
    writer.write(&batch)?;
    writer.finish()?;
    Ok(())
}

/// The records of a frame. Its checksum has been found right, so what does not fit here is a fault of the writer.
pub(super) fn decode(path: &str, bytes: &[u8], payload: Range<usize>) -> StorageResult<Vec<LogEntry>> {
    let mut entries = Vec::new();
    records(path, bytes, payload, |epoch, writes| {
        let writes = writes.into_iter().map(|write| Ok((write.table, read_stream(path, &write)?)));
        entries.push(LogEntry { epoch, writes: writes.collect::<StorageResult<_>>()? });
        Ok(())
    })?;
    Ok(entries)
}

fn epochs_in(path: &str, bytes: &[u8], payload: Range<usize>) -> StorageResult<Vec<Epoch>> {
    let mut epochs = Vec::new();
    records(path, bytes, payload, |epoch, _| {
        epochs.push(epoch);
        Ok(())
    })?;
    Ok(epochs)
}

struct Write<'a> {
    table: ObjectId,
    weighted: bool,
    stream: &'a [u8],
}

fn records<'a>(
    path: &str,
    bytes: &'a [u8],
    payload: Range<usize>,
    mut each: impl FnMut(Epoch, Vec<Write<'a>>) -> StorageResult<()>,
) -> StorageResult<()> {
    let start = payload.start;
    let misfit = || StorageError::corrupt(path, format!("the record at byte {start} is not in the form of one"));
    let mut reader = Reader { bytes: &bytes[..payload.end], at: payload.start };
    for _ in 0..reader.u32().ok_or_else(misfit)? {
        let epoch = Epoch(reader.u64().ok_or_else(misfit)?);
        let mut writes = Vec::new();
        for _ in 0..reader.u32().ok_or_else(misfit)? {
            writes.push(reader.write().ok_or_else(misfit)?);
        }
        each(epoch, writes)?;
    }
    if reader.at == payload.end { Ok(()) } else { Err(misfit()) }
}

fn read_stream(path: &str, write: &Write<'_>) -> StorageResult<Delta> {
    let mut batches = StreamReader::try_new(write.stream, None)?;
    let misfit = |reason: &str| StorageError::corrupt(path, format!("a write to table {} {reason}", write.table));
    let batch = batches.next().ok_or_else(|| misfit("has no rows' batch"))??;
    if !write.weighted {
        return Ok(Delta::inserts(batch));
    }
    let last = batch.num_columns().checked_sub(1).ok_or_else(|| misfit("has no weights"))?;
    let weights = batch.column(last).as_any().downcast_ref::<Int64Array>().filter(|w| w.null_count() == 0).cloned();
    let weights = weights.ok_or_else(|| misfit("has weights that are none"))?;
    Ok(Delta::weighted(batch.project(&(0..last).collect::<Vec<_>>())?, weights))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(size)?)?;
        self.at += size;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn write(&mut self) -> Option<Write<'a>> {
        let table = ObjectId(self.u32()?);
        let weighted = *self.take(1)?.first()? == 1;
        let size = usize::try_from(self.u64()?).ok()?;
        Some(Write { table, weighted, stream: self.take(size)? })
    }
}
