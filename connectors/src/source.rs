//! The contract of a source connector.
//!
//! A source has *splits* (files, partitions), found by name. Within a split rows have one order and each place in it a
//! [`Position`]; reading again from a position gives exactly the rows that came after it, the same each time. Nothing is
//! promised about the order between splits. Every worker reads its own splits through one [`SourceReader`], which runs on a
//! thread of its own and may block.

use crate::error::ConnectorResult;
use arrow::array::RecordBatch;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{Column, SqlResult};

/// The lasting name of a split: a file's path, a partition's number.
pub type SplitId = Arc<str>;

/// A place in a split, after the rows that came before it. The connector alone knows how to read it, but it is text, so
/// that users can too.
pub type Position = String;

/// Whether a source ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boundedness {
    /// It has a fixed set of splits, each of which ends.
    Bounded,
    /// It never ends by itself.
    Unbounded,
}

/// What a connector is opened with.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// The source's name, for messages, client ids and the like.
    pub name: String,
    /// The name of the job that reads it; several jobs read one source each for itself.
    pub job: String,
    /// All declared columns.
    pub columns: Vec<Column>,
    /// The declared columns that are read, in output order: batches have exactly these.
    pub projection: Vec<usize>,
    /// The place in `projection` of the time that the source's watermark stands on. A reader that can choose reads the split that is
    /// behind in it: what is read ahead of the others must be kept until they have come as far.
    pub time: Option<usize>,
    /// For what must be async, such as object stores.
    pub runtime: tokio::runtime::Handle,
}

/// A source that was declared and found valid.
#[async_trait]
pub trait SourceConnector: Send + Sync {
    /// Whether it ends.
    fn boundedness(&self) -> Boundedness;

    /// The splits that there are now, sorted. Asked again every [`discovery_interval`](Self::discovery_interval); a split
    /// that was named once may go away, but must never change its meaning.
    ///
    /// # Errors
    /// If the outside can't be asked.
    async fn splits(&self) -> ConnectorResult<Vec<SplitId>>;

    /// How often to look for new splits, when these were found last; none for never again.
    fn discovery_interval(&self, found: &[SplitId]) -> Option<Duration>;

    /// Looks whether what is to be read is there and of the declared form, as far as that can be told when the source is declared.
    ///
    /// # Errors
    /// What is missing, with a hint.
    async fn check(&self, _context: SourceContext) -> SqlResult<()> {
        Ok(())
    }

    /// A reader without splits. Does no I/O.
    ///
    /// # Errors
    /// If the context does not fit the connector.
    fn reader(&self, context: SourceContext) -> ConnectorResult<Box<dyn SourceReader>>;

    /// Told after a checkpoint that holds these positions is durable, so that they can be acknowledged upstream. Called for
    /// each worker's splits.
    ///
    /// # Errors
    /// If the acknowledgement fails; it is tried again with the next checkpoint.
    async fn checkpointed(&self, _positions: &BTreeMap<SplitId, Position>) -> ConnectorResult<()> {
        Ok(())
    }
}

/// Reads some splits of a source. Used by one thread.
pub trait SourceReader: Send {
    /// Reads these splits too, each from after its position, or from where the options say that reading starts.
    ///
    /// # Errors
    /// If a split can't be opened or its position can't be read.
    fn assign(&mut self, splits: Vec<(SplitId, Option<Position>)>) -> ConnectorResult<()>;

    /// What comes next; waits at most about `timeout` for it. Splits take turns, so that none starves, or the one
    /// furthest behind in time comes first. After an error the
    /// reader is not used again: a new one starts from the last positions.
    ///
    /// # Errors
    /// If the outside fails. A bad record is no error.
    fn next(&mut self, timeout: Duration) -> ConnectorResult<SourceEvent>;
}

/// What a reader gives.
#[derive(Debug)]
pub enum SourceEvent {
    /// Rows of one split, at most about 8,192.
    Rows(SourceBatch),
    /// A split has ended; it gives no more rows. Its last position was given before, or is this one.
    SplitEnd {
        /// Which one.
        split: SplitId,
        /// The place at its end: assigned again from here, it ends at once.
        position: Position,
    },
    /// Nothing for now.
    Idle,
}

/// Rows of one split with the place after them.
#[derive(Debug)]
pub struct SourceBatch {
    /// Which split.
    pub split: SplitId,
    /// The rows, with the columns of [`SourceContext::projection`].
    pub batch: RecordBatch,
    /// The place after these rows.
    pub position: Position,
    /// Records among these rows that could not be read and were left out.
    pub errors: Vec<RecordError>,
    /// How many records are known to follow in this split, if known.
    pub lag: Option<u64>,
}

/// A record that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordError {
    /// Where it stands in its split, for a user to find it: `line 17`, `offset 4711`.
    pub position: String,
    /// Why.
    pub reason: String,
    /// The start of it, as text.
    pub excerpt: String,
}
