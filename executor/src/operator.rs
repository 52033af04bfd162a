//! What an operator is: it takes the changes of one complete epoch after another, and gives changes.
//!
//! Operators know nothing of workers, channels or the substrate. The adapter in `dataflow/` stashes rows until their epoch
//! is complete, calls the operator, sends what it gives, passes watermarks on, flushes its state at checkpoints, and
//! catches what goes wrong.

use crate::error::OperatorError;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use thalweg_catalog::{Delta, Epoch};

/// How many rows an operator gives at about the most before it yields.
pub const PIECE_ROWS: usize = 8192;

/// The watermark of each column that has one, in microseconds since 1970: no further row has less in that column.
/// `i64::MAX` once the input has ended.
pub type Watermarks = BTreeMap<usize, i64>;

/// Whether an operator is done with an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// All has been given.
    Done,
    /// There is more: call again.
    More,
}

/// The changes of one complete epoch, by port.
#[derive(Debug)]
pub struct EpochInput {
    /// The epoch. Each call has a later one than the call before.
    pub epoch: Epoch,
    /// The deltas of each port, in no particular order; the same row may stand in several, with weights that cancel.
    pub ports: Vec<Vec<Delta>>,
    /// The watermarks of each port at the end of this epoch. They never fall.
    pub watermarks: Vec<Watermarks>,
}

/// Collects what an operator gives.
#[derive(Debug, Default)]
pub struct Output {
    deltas: Vec<Delta>,
    rows: usize,
}

impl Output {
    /// Gives a delta. Empty ones are dropped.
    pub fn give(&mut self, delta: Delta) {
        if !delta.is_empty() {
            self.rows += delta.num_rows();
            self.deltas.push(delta);
        }
    }

    /// Whether enough has been given for one call: the operator should return [`Progress::More`] soon.
    pub fn is_full(&self) -> bool {
        self.rows >= PIECE_ROWS
    }

    /// Takes what was given so far.
    pub fn take(&mut self) -> Vec<Delta> {
        self.rows = 0;
        std::mem::take(&mut self.deltas)
    }
}

/// An operator with state, or one that must see whole epochs.
///
/// For each epoch in which a port has rows or a watermark has moved, in order: one call of `begin`, then calls of `step` until it
/// returns [`Progress::Done`]. Between epochs the adapter may flush and evict the operator's state tables.
pub trait Operator {
    /// The columns of what it gives.
    fn schema(&self) -> SchemaRef;

    /// Takes the changes of an epoch.
    ///
    /// # Errors
    /// What makes the job fail. A fault of single rows is reported through [`RowErrors`] instead.
    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError>;

    /// Gives the next piece of the epoch's output, of about [`PIECE_ROWS`] rows at most.
    ///
    /// # Errors
    /// As for `begin`.
    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError>;
}

/// Where operators report rows that could not be computed: the collection behind `thalweg.errors`.
///
/// A row error is a change too: when the row at fault goes (weight −1), its error goes.
pub trait RowErrors {
    /// Adds `weight` to the error `reason` for the row shown as `row`.
    fn report(&mut self, row: &str, reason: &str, weight: i64);

    /// Counts rows that were dropped.
    fn dropped(&mut self, _why: Dropped, _rows: u64) {}
}

/// Why rows were dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dropped {
    /// Their time is below what the watermark has closed.
    Late,
    /// They take back a row that is not there (any more).
    Unmatched,
}
