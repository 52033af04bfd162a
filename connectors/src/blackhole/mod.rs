//! Blackhole: a sink that takes everything and keeps nothing, to measure what comes before it.
//!
//! Takes append-only, upsert and changelog changes, at once when an epoch is complete. Nothing can be read back, so nothing is promised.

use crate::error::ConnectorResult;
use crate::sink::{Delivery, Guarantee, SinkBatch, SinkConnector, SinkContext, SinkWriter};
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg_catalog::Epoch;

/// Counts rows and drops them.
#[derive(Clone, Debug, Default)]
pub struct BlackholeSink {
    rows: Arc<AtomicU64>,
}

impl BlackholeSink {
    /// How many rows have been taken by all writers.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl SinkConnector for BlackholeSink {
    fn delivery(&self) -> Delivery {
        Delivery::OnEpoch
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    async fn writer(&self, _context: SinkContext) -> ConnectorResult<Box<dyn SinkWriter>> {
        Ok(Box::new(BlackholeWriter { rows: self.rows.clone() }))
    }
}

struct BlackholeWriter {
    rows: Arc<AtomicU64>,
}

#[async_trait]
impl SinkWriter for BlackholeWriter {
    async fn delivered(&mut self) -> ConnectorResult<Option<Epoch>> {
        Ok(None)
    }

    async fn deliver(&mut self, _through: Epoch, batches: Vec<SinkBatch>) -> ConnectorResult<()> {
        let rows: usize = batches.iter().map(|batch| batch.batch.num_rows()).sum();
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
        Ok(())
    }
}
