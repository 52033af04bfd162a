//! TopN: of each partition of the input, the rows from place `offset + 1` to `offset + limit` in an order.
//!
//! Ties are broken by the whole row, so the result does not depend on the order of arrival. Copies of a row take a place each.
//!
//! State: the partitions' rows, in the order itself: the columns of the order come first in the encoded row, with their
//! directions. An input that retracts keeps all rows, since any may rise (S20); an append-only one only as many as can be shown.
//! Nothing expires by watermark.
//!
//! For each partition that an epoch touches, the rows shown before it and after it are compared and the difference is given,
//! which costs O(log n) for each change and O(offset + limit) for each partition. Rows of an append-only input are sorted out by
//! partition first, so that state is met once for each (`arrivals.rs`); retractions may cancel any row, and go to state one by one
//! (`touched.rs`). A retraction of a row that is not there is dropped and counted (S19). Nothing is outside state between epochs.

use super::build::Context;
use super::rows::{Errors, check_append, columns_of, fields_of};
use crate::error::OperatorError;
use crate::operator::{Dropped, EpochInput, Operator, Output, PIECE_ROWS, Progress};
use arrivals::Arrivals;
use arrow::datatypes::SchemaRef;
use pending::{Form, Pending};
use std::sync::Arc;
use thalweg_catalog::Delta;
use thalweg_catalog::hash::hash_columns;
use thalweg_plan::{PlanNode, SortKey};
use thalweg_storage::state::{RowCodec, SortedTable, TableSpec};
use touched::Touched;

mod arrivals;
mod pending;
mod touched;

/// A running `TopN`.
pub struct TopN {
    schema: SchemaRef,
    partition: Vec<usize>,
    key_codec: RowCodec,
    row_codec: RowCodec,
    /// The input's column at each place of an encoded row: the order's columns, then the others.
    layout: Vec<usize>,
    table: SortedTable,
    span: Span,
    with_rank: bool,
    epoch: Epoch,
    pending: Pending,
    errors: Errors,
}

/// What an epoch has brought.
enum Epoch {
    /// To an append-only input.
    Append(Arrivals),
    Retract(Touched),
}

/// Which places are shown.
#[derive(Clone, Copy)]
struct Span {
    offset: u64,
    limit: Option<u64>,
}

impl Span {
    /// The last place that is shown.
    fn end(self) -> u64 {
        self.limit.map_or(u64::MAX, |limit| self.offset.saturating_add(limit))
    }
}

impl TopN {
    /// The operator of a `TopN` node.
    ///
    /// # Errors
    /// `Plan` if the node is another or does not fit its input; `State` if state can't be opened.
    pub fn new(node: &PlanNode, input: &SchemaRef, append: bool, context: Context) -> Result<TopN, OperatorError> {
        let thalweg_plan::Operator::TopN { partition, order, offset, limit, with_rank } = &node.operator else {
            return Err(OperatorError::Plan("not a TopN".into()));
        };
        if node.schema.fields().len() != input.fields().len() + usize::from(*with_rank) {
            return Err(OperatorError::Plan("a TopN gives its input's columns, and the rank if asked for".into()));
        }
        let (layout, directions) = layout(order, input.fields().len());
        let (key_fields, row_fields) = (fields_of(input, partition)?, fields_of(input, &layout)?);
        Ok(TopN {
            schema: Arc::clone(&node.schema),
            partition: partition.clone(),
            key_codec: RowCodec::new(&key_fields)?,
            row_codec: RowCodec::ordered(&row_fields, &directions)?,
            layout,
            table: context.state.sorted_table(TableSpec {
                name: "rows".into(),
                key: key_fields,
                sub: row_fields,
                sub_order: directions,
                value: Vec::new(),
            })?,
            span: Span { offset: *offset, limit: *limit },
            with_rank: *with_rank,
            epoch: if append { Epoch::Append(Arrivals::default()) } else { Epoch::Retract(Touched::default()) },
            pending: Pending::default(),
            errors: context.errors,
        })
    }

    fn take_in(&mut self, delta: &Delta) -> Result<(), OperatorError> {
        let (batch, rows) = (delta.batch(), delta.num_rows());
        let key_columns = columns_of(batch, &self.partition);
        let hashes = hash_columns(&key_columns, rows)?;
        let keys = self.key_codec.encode(&key_columns, rows)?;
        let encoded = self.row_codec.encode(&columns_of(batch, &self.layout), rows)?;
        match &mut self.epoch {
            Epoch::Append(arrivals) => {
                check_append(delta)?;
                arrivals.take_in(delta, &hashes, &keys, encoded)?;
            }
            Epoch::Retract(touched) => {
                for (row, hash) in hashes.into_iter().enumerate() {
                    touched.take_in((hash, keys.row(row)), encoded.row(row), delta.weight(row), self.span, &mut self.table)?;
                }
            }
        }
        Ok(())
    }

    /// Finds what has changed in the next partition. False if there is none.
    fn next_partition(&mut self) -> Result<bool, OperatorError> {
        match &mut self.epoch {
            Epoch::Append(arrivals) if arrivals.is_left() => {
                arrivals.merge_next(self.span, self.with_rank, &mut self.table, &mut self.pending)?;
            }
            Epoch::Retract(touched) if touched.is_left() => {
                touched.compare_next(self.span, self.with_rank, &mut self.table, &mut self.pending)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Operator for TopN {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        for delta in input.ports.iter().flatten() {
            self.take_in(delta)?;
        }
        if let Epoch::Retract(touched) = &mut self.epoch {
            let unmatched = touched.settle(&mut self.table)?;
            if unmatched > 0 {
                self.errors.borrow_mut().dropped(Dropped::Unmatched, unmatched);
            }
        }
        Ok(())
    }

    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        let mut left = true;
        while left && self.pending.len() < PIECE_ROWS {
            left = self.next_partition()?;
        }
        let form = Form { schema: &self.schema, row_codec: &self.row_codec, layout: &self.layout, with_rank: self.with_rank };
        let arrivals = if let Epoch::Append(arrivals) = &self.epoch { Some(arrivals) } else { None };
        let all = self.pending.give_piece(&form, arrivals, output)?;
        if left || !all {
            return Ok(Progress::More);
        }
        match &mut self.epoch {
            Epoch::Append(arrivals) => *arrivals = Arrivals::default(),
            Epoch::Retract(touched) => *touched = Touched::default(),
        }
        Ok(Progress::Done)
    }
}

/// The columns of an encoded row and their directions: the order's columns, once each, then the others.
fn layout(order: &[SortKey], columns: usize) -> (Vec<usize>, Vec<(bool, bool)>) {
    let mut layout = Vec::with_capacity(columns);
    let mut directions = Vec::with_capacity(columns);
    for key in order {
        if !layout.contains(&key.column) {
            layout.push(key.column);
            directions.push((key.descending, key.nulls_first));
        }
    }
    for column in 0..columns {
        if !layout.contains(&column) {
            layout.push(column);
            directions.push((false, false));
        }
    }
    (layout, directions)
}

#[cfg(test)]
mod tests;
