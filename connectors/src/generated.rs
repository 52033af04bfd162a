//! What all sources that make their own rows share: places counted from 0, dealt to splits, at a pace.
//!
//! A position is the number of the next place to look at. A row depends on nothing but its place, so that reading again from
//! any position gives the same rows.

use crate::error::{ConnectorError, ConnectorResult};
use crate::source::{Position, SourceBatch, SourceEvent, SourceReader, SplitId};
use arrow::array::RecordBatch;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Rows come due in steps of this length, so that a slow pace does not mean many tiny batches.
const STEP: Duration = Duration::from_millis(10);

/// Makes rows.
pub(crate) trait Generate: Send {
    /// Some rows of split `shard` from place `from` on and before place `until`, and the place after them. Gives an empty batch
    /// only with the place `until`.
    fn generate(&mut self, shard: u64, from: u64, until: u64) -> ConnectorResult<(RecordBatch, u64)>;

    /// About how many rows of split `shard` there are from place `from` to place `until`.
    fn count(&self, shard: u64, from: u64, until: u64) -> u64;
}

/// Reads splits of a generator.
pub(crate) struct GeneratorReader<G> {
    generator: G,
    /// Where places end.
    end: Option<u64>,
    /// Places a second, for all splits together.
    rate: Option<u64>,
    splits: VecDeque<Split>,
}

struct Split {
    id: SplitId,
    shard: u64,
    next: u64,
    started_at: u64,
    started: Instant,
}

/// The names of so many splits.
pub(crate) fn split_ids(splits: u64) -> Vec<SplitId> {
    (0..splits).map(|shard| SplitId::from(shard.to_string())).collect()
}

impl<G: Generate> GeneratorReader<G> {
    pub(crate) fn new(generator: G, end: Option<u64>, rate: Option<u64>) -> GeneratorReader<G> {
        GeneratorReader { generator, end, rate, splits: VecDeque::new() }
    }

    /// The place up to which a split may go by now.
    fn until(&self, split: &Split, now: Instant) -> u64 {
        let paced = match self.rate {
            None => u64::MAX,
            Some(rate) => {
                let steps = now.duration_since(split.started).as_nanos() / STEP.as_nanos();
                let due = steps * u128::from(rate) * STEP.as_nanos() / 1_000_000_000;
                split.started_at.saturating_add(u64::try_from(due).unwrap_or(u64::MAX))
            }
        };
        paced.min(self.end.unwrap_or(u64::MAX))
    }

    /// What is there now; none if nothing is due.
    fn poll(&mut self) -> ConnectorResult<Option<SourceEvent>> {
        let now = Instant::now();
        for _ in 0..self.splits.len() {
            let Some(mut split) = self.splits.pop_front() else { break };
            if self.end.is_some_and(|end| split.next >= end) {
                return Ok(Some(SourceEvent::SplitEnd { position: split.next.to_string(), split: split.id }));
            }
            let until = self.until(&split, now);
            let rows = if split.next < until {
                let (batch, next) = self.generator.generate(split.shard, split.next, until)?;
                split.next = next;
                (batch.num_rows() > 0).then(|| SourceBatch {
                    split: split.id.clone(),
                    batch,
                    position: next.to_string(),
                    errors: vec![],
                    lag: self.end.map(|end| self.generator.count(split.shard, next, end)),
                })
            } else {
                None
            };
            self.splits.push_back(split);
            if let Some(rows) = rows {
                return Ok(Some(SourceEvent::Rows(rows)));
            }
        }
        Ok(None)
    }
}

impl<G: Generate> SourceReader for GeneratorReader<G> {
    fn assign(&mut self, splits: Vec<(SplitId, Option<Position>)>) -> ConnectorResult<()> {
        for (id, position) in splits {
            let shard = id.parse().map_err(|_| ConnectorError::internal(format!("\"{id}\" is no split of a generator")))?;
            let next = match position {
                None => 0,
                Some(text) => {
                    text.parse().map_err(|_| ConnectorError::internal(format!("\"{text}\" is no position of a generator")))?
                }
            };
            self.splits.push_back(Split { id, shard, next, started_at: next, started: Instant::now() });
        }
        Ok(())
    }

    fn next(&mut self, timeout: Duration) -> ConnectorResult<SourceEvent> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(event) = self.poll()? {
                return Ok(event);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(SourceEvent::Idle);
            }
            // Nothing is due before the next step; without splits nothing is due at all.
            std::thread::sleep(if self.splits.is_empty() { left } else { left.min(STEP) });
        }
    }
}
