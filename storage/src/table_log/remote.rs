//! Segments as objects of a bucket, one for each frame.
//!
//! The numbers have no gaps, so a stale process always tries the number that the next process took for its first segment,
//! and learns there that it is fenced. Those first segments therefore outlive the truncation of their log.

use super::{Append, Failure, GROUP_BYTES_MAX, Segment, Sender, Shared, Writer, format, segment_path};
use crate::error::StorageError;
use crate::generation::{GENERATIONS_KEPT, GenerationClaim};
use crate::object::{Put, is_transient};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

/// Objects read at the same time.
pub(super) const PARALLEL: usize = 16;

/// Objects that a truncation waits for: it costs three calls, however many it drops.
pub(super) const TRUNCATE_AT_LEAST: usize = 64;

/// How long a look at the newest generation is believed. The fence is exact for [`GENERATIONS_KEPT`] starts; this is for a
/// process that slept through more.
const BELIEVED: Duration = Duration::from_secs(10);

/// Whether an old segment is there to tell a stale process that it is fenced.
pub(super) fn still_fences(segment: Segment, claim: &GenerationClaim) -> bool {
    segment.last_epoch.is_none() && segment.generation.0 + GENERATIONS_KEPT > claim.generation().0
}

/// Starts the task that puts the segments after `number`.
pub(super) fn start(shared: Arc<Shared>, number: u64) -> (Sender, Writer) {
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(run(shared, number, receiver));
    (Sender::Task(sender), Writer::Task)
}

async fn run(shared: Arc<Shared>, mut number: u64, mut receiver: UnboundedReceiver<Append>) {
    let mut checked = Instant::now();
    while let Some(first) = receiver.recv().await {
        let mut bytes = first.record.len();
        let mut group = vec![first];
        while bytes < GROUP_BYTES_MAX {
            let Ok(next) = receiver.try_recv() else { break };
            bytes += next.record.len();
            group.push(next);
        }
        let result = match shared.broken() {
            Some(failure) => Err(failure),
            None => write(&shared, number + 1, &group, &mut checked).await,
        };
        if result.is_ok() {
            number += 1;
        }
        shared.answer(group, result);
    }
}

async fn write(shared: &Shared, number: u64, group: &[Append], checked: &mut Instant) -> Result<(), Failure> {
    let generation = shared.claim.generation();
    let frame = format::frame(group.iter().map(|a| a.record.as_slice()));
    let segment = Bytes::from(format::whole_segment(generation, number, &frame));
    let bytes = segment.len() as u64;
    put(shared, number, segment).await.map_err(|e| shared.break_with(&e))?;
    if checked.elapsed() > BELIEVED {
        shared.claim.check().await.map_err(|e| shared.break_with(&e))?;
        *checked = Instant::now();
    }
    let last_epoch = group.last().map(|a| a.epoch);
    shared.segments.lock().insert(number, Segment { generation, last_epoch, bytes });
    Ok(())
}

/// Puts a segment, however long the service is away: its writers wait meanwhile, and nothing is lost.
async fn put(shared: &Shared, number: u64, segment: Bytes) -> Result<(), StorageError> {
    let path = segment_path(number);
    loop {
        match shared.claim.store().put_if_absent(&path, segment.clone()).await {
            Ok(Put::Created) => return Ok(()),
            Ok(Put::Taken) => {
                shared.claim.check().await?;
                return Err(StorageError::corrupt(&path, "another process put it"));
            }
            Err(StorageError::ObjectStore { source, .. }) if is_transient(&source) => {
                tracing::warn!(error = %source, %path, "the table log waits for the object store");
            }
            Err(error) => return Err(error),
        }
    }
}
