//! The contract of a sink connector.
//!
//! A sink gets the changes of complete epochs. How far its target has them decides what a restart sends again: see
//! [`Delivery`].

use crate::error::ConnectorResult;
use arrow::array::{Int64Array, RecordBatch};
use async_trait::async_trait;
use std::fmt;
use thalweg_catalog::object::SinkMode;
use thalweg_catalog::{Column, Epoch};

/// When rows go to the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// As soon as their epoch is complete; a checkpoint waits until they have been taken. After a crash the rows since the
    /// last checkpoint are sent again.
    OnEpoch,
    /// Once a checkpoint that holds them in the sink log is durable. After a crash what the target lacks is sent from the
    /// log; the target itself tells what it has ([`SinkWriter::delivered`]).
    OnCheckpoint,
}

/// What a reader of the target sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guarantee {
    /// Every row once.
    ExactlyOnce,
    /// Every row at least once.
    AtLeastOnce,
    /// Nothing is promised: the target forgets.
    None,
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Guarantee::ExactlyOnce => "exactly once",
            Guarantee::AtLeastOnce => "at least once",
            Guarantee::None => "none",
        })
    }
}

/// What a writer is opened with.
#[derive(Clone, Debug)]
pub struct SinkContext {
    /// The sink's name.
    pub name: String,
    /// The columns that it gets.
    pub columns: Vec<Column>,
    /// In what shape.
    pub mode: SinkMode,
    /// The columns of the target's key, for an upsert sink.
    pub key: Vec<usize>,
    /// Which of the sink's writers this is.
    pub writer: usize,
    /// How many writers the sink has.
    pub writers: usize,
}

/// A sink that was declared and found valid.
#[async_trait]
pub trait SinkConnector: Send + Sync {
    /// When rows go to the target.
    fn delivery(&self) -> Delivery;

    /// What a reader of the target sees.
    fn guarantee(&self) -> Guarantee;

    /// Opens one writer: connects, creates what is missing.
    ///
    /// # Errors
    /// If the target can't be reached or does not fit.
    async fn writer(&self, context: SinkContext) -> ConnectorResult<Box<dyn SinkWriter>>;
}

/// Consolidated changes of one epoch.
///
/// For an append-only sink all weights are positive. For an upsert sink there is at most one row for each key: of weight +1, the
/// key's new row, or of weight −1, the row that its key has lost.
#[derive(Clone, Debug)]
pub struct SinkBatch {
    /// The epoch.
    pub epoch: Epoch,
    /// The rows.
    pub batch: RecordBatch,
    /// Their weights; none for all +1.
    pub weights: Option<Int64Array>,
}

/// Sends rows to the target. Used by one task.
#[async_trait]
pub trait SinkWriter: Send {
    /// The epoch through which the target has all changes, as the target itself tells; none if it has nothing of ours. Asked once,
    /// before the first delivery of an [`Delivery::OnCheckpoint`] sink.
    ///
    /// # Errors
    /// If the target can't be asked.
    async fn delivered(&mut self) -> ConnectorResult<Option<Epoch>>;

    /// Sends these rows, in order, and returns once the target has them for good. `through` is the last epoch among them. For an
    /// [`Delivery::OnCheckpoint`] sink they are all rows up to `through` that were not delivered before, those of a durable
    /// checkpoint or a piece of them, and they become visible together with the marker of `through`, or not at all; repeated
    /// after a crash, it does nothing that a reader can see twice.
    ///
    /// # Errors
    /// If the target refuses. The same delivery is tried again if the error says that this can help.
    async fn deliver(&mut self, through: Epoch, batches: Vec<SinkBatch>) -> ConnectorResult<()>;

    /// The sink ends; nothing more will be delivered.
    ///
    /// # Errors
    /// If the target refuses.
    async fn finish(&mut self) -> ConnectorResult<()> {
        Ok(())
    }
}
