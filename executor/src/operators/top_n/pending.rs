//! Rows that have changed in an epoch and are yet to be given.

use super::super::rows::{batch_of, weighted};
use super::arrivals::Arrivals;
use crate::error::OperatorError;
use crate::operator::{Output, PIECE_ROWS};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::compute::{interleave, take};
use arrow::datatypes::SchemaRef;
use std::ops::Range;
use std::sync::Arc;
use thalweg_storage::state::RowCodec;

/// Where the columns of a changed row are.
pub(super) enum Place {
    /// Encoded, in [`Pending`]'s bytes.
    Encoded(Range<usize>),
    /// In a batch of this epoch's input.
    Arrived { batch: u32, row: u32 },
}

struct Row {
    place: Place,
    weight: i64,
    rank: i64,
}

/// Changed rows.
#[derive(Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    given: usize,
}

/// What is needed to make a batch of changed rows.
pub(super) struct Form<'a> {
    /// With the rank as its last column if that is asked for.
    pub schema: &'a SchemaRef,
    pub row_codec: &'a RowCodec,
    /// The column at each place of an encoded row.
    pub layout: &'a [usize],
    pub with_rank: bool,
}

impl Pending {
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds an encoded row.
    pub fn push(&mut self, row: &[u8], weight: i64, rank: i64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(row);
        self.rows.push(Row { place: Place::Encoded(start..self.bytes.len()), weight, rank });
    }

    /// Adds a row of the epoch's input.
    pub fn push_arrived(&mut self, batch: u32, row: u32, weight: i64, rank: i64) {
        self.rows.push(Row { place: Place::Arrived { batch, row }, weight, rank });
    }

    /// Gives the next piece. Whether that was all.
    pub fn give_piece(
        &mut self,
        form: &Form<'_>,
        arrivals: Option<&Arrivals>,
        output: &mut Output,
    ) -> Result<bool, OperatorError> {
        let piece = &self.rows[self.given..self.rows.len().min(self.given + PIECE_ROWS)];
        let (mut encoded, mut encoded_rows, mut arrived, mut arrived_rows) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for row in piece {
            match &row.place {
                Place::Encoded(range) => {
                    encoded.push(&self.bytes[range.clone()]);
                    encoded_rows.push(row);
                }
                Place::Arrived { batch, row: at } => {
                    arrived.push((*batch as usize, *at as usize));
                    arrived_rows.push(row);
                }
            }
        }
        if !encoded.is_empty() {
            form.give(form.decode(encoded)?, &encoded_rows, output)?;
        }
        if let Some(arrivals) = arrivals.filter(|_| !arrived.is_empty()) {
            form.give(pick(arrivals.batches(), &arrived)?, &arrived_rows, output)?;
        }
        self.given += piece.len();
        let all = self.given == self.rows.len();
        if all {
            *self = Pending::default();
        }
        Ok(all)
    }
}

impl Form<'_> {
    fn decode(&self, rows: Vec<&[u8]>) -> Result<Vec<ArrayRef>, OperatorError> {
        let decoded = self.row_codec.decode(rows)?;
        let mut columns: Vec<Option<ArrayRef>> = vec![None; decoded.len()];
        for (column, at) in decoded.into_iter().zip(self.layout) {
            columns[*at] = Some(column);
        }
        Ok(columns.into_iter().flatten().collect())
    }

    fn give(&self, mut columns: Vec<ArrayRef>, rows: &[&Row], output: &mut Output) -> Result<(), OperatorError> {
        if self.with_rank {
            columns.push(Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.rank))));
        }
        let weights = rows.iter().map(|row| row.weight).collect();
        output.give(weighted(batch_of(self.schema, columns, rows.len())?, weights));
        Ok(())
    }
}

/// The columns of these rows of the batches.
fn pick(batches: &[RecordBatch], rows: &[(usize, usize)]) -> Result<Vec<ArrayRef>, OperatorError> {
    let [batch] = batches else {
        let columns = batches.first().map_or(0, RecordBatch::num_columns);
        let of_all = |column: usize| batches.iter().map(|batch| batch.column(column).as_ref()).collect::<Vec<_>>();
        return Ok((0..columns).map(|column| interleave(&of_all(column), rows)).collect::<Result<_, _>>()?);
    };
    let rows = arrow::array::UInt32Array::from_iter_values(rows.iter().map(|(_, row)| *row as u32));
    Ok(batch.columns().iter().map(|column| take(column, &rows, None)).collect::<Result<_, _>>()?)
}
