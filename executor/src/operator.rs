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

/// A watermark of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watermark {
    /// No further row has less in the column, in microseconds since 1970. `i64::MAX` once the input has ended; `i64::MIN` as long
    /// as an idle one has not had a row.
    pub value: i64,
    /// Whether all that it comes from is idle: then it holds nobody up (S11).
    pub idle: bool,
}

impl Watermark {
    /// That of an input that has ended.
    pub const END: Watermark = Watermark { value: i64::MAX, idle: false };

    /// The watermark where several come together; none as long as one of them has none. It is the least of those that are not
    /// idle. If all are idle it is the greatest: nothing is to come, so what the furthest has passed is over.
    pub fn combined(parts: impl IntoIterator<Item = Option<Watermark>>) -> Option<Watermark> {
        let mut combined: Option<Watermark> = None;
        for part in parts {
            let part = part?;
            combined = Some(match combined {
                Some(before) if before.idle && part.idle => Watermark { value: before.value.max(part.value), idle: true },
                Some(before) if before.idle => part,
                Some(before) if part.idle => before,
                Some(before) => Watermark { value: before.value.min(part.value), idle: false },
                None => part,
            });
        }
        combined
    }
}

/// The watermark of each column that has one.
pub type Watermarks = BTreeMap<usize, Watermark>;

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
    /// The watermarks of each port at the end of this epoch. Their values never fall.
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
