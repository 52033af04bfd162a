//! Pairs of a changed row and a row in state with the same key, collected a piece at a time and then judged together.

use super::change::Change;
use super::side::Side;
use crate::error::OperatorError;
use crate::operator::PIECE_ROWS;
use crate::operators::rows::{Errors, as_condition, batch_of, describe_row, is_row_fault, reason, true_rows};
use arrow::array::{ArrayRef, BooleanBufferBuilder, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use std::sync::Arc;
use thalweg_storage::state::Entry;

/// Where the search for partners stands.
#[derive(Default)]
pub(super) struct Cursor {
    /// The changed row at hand.
    at: usize,
    /// The last partner of it that was taken.
    after: Option<Vec<u8>>,
}

/// A piece of pairs.
#[derive(Default)]
pub(super) struct Candidates {
    /// The changed row of each pair, as a number among those that remain in the change.
    pub changed: Vec<u32>,
    /// Where the other row's bytes end; they begin where those before end.
    ends: Vec<usize>,
    bytes: Vec<u8>,
    pub entries: Vec<Entry>,
}

impl Candidates {
    /// How many pairs.
    pub fn len(&self) -> usize {
        self.changed.len()
    }

    /// The encoded row in state of pair `pair`.
    pub fn row(&self, pair: usize) -> &[u8] {
        let start = if pair == 0 { 0 } else { self.ends[pair - 1] };
        &self.bytes[start..self.ends[pair]]
    }

    /// Collects the next pairs. Whether the search is at its end.
    pub fn collect(&mut self, change: &Change, other: &mut Side, cursor: &mut Cursor) -> Result<bool, OperatorError> {
        self.changed.clear();
        self.ends.clear();
        self.bytes.clear();
        self.entries.clear();
        while cursor.at < change.rows.len() {
            if self.len() >= PIECE_ROWS {
                return Ok(false);
            }
            let (hash, key, _) = change.at(cursor.at);
            let at = cursor.at as u32;
            let visit = |row: &[u8], entry: Entry| {
                self.changed.push(at);
                self.bytes.extend_from_slice(row);
                self.ends.push(self.bytes.len());
                self.entries.push(entry);
                self.changed.len() < PIECE_ROWS
            };
            other.scan(hash, key, cursor.after.take().as_deref(), visit)?;
            if self.len() >= PIECE_ROWS {
                cursor.after = Some(self.row(self.len() - 1).to_vec());
                return Ok(false);
            }
            cursor.at += 1;
        }
        Ok(true)
    }

    /// The columns of the changed rows and of the rows in state.
    pub fn columns(&self, change: &Change, other: &Side) -> Result<[Vec<ArrayRef>; 2], OperatorError> {
        let rows = UInt32Array::from_iter_values(self.changed.iter().map(|at| change.rows[*at as usize]));
        let changed = change.batch.columns().iter().map(|c| take(c, &rows, None)).collect::<Result<_, _>>()?;
        Ok([changed, other.decode((0..self.len()).map(|pair| self.row(pair)))?])
    }
}

/// A further condition on pairs.
pub(super) struct Residual {
    expr: Arc<dyn PhysicalExpr>,
    /// The left's columns, then the right's that are kept.
    schema: SchemaRef,
    errors: Errors,
}

impl Residual {
    /// The columns of the right that the condition reads.
    pub fn right_columns(expr: &Arc<dyn PhysicalExpr>, left_columns: usize) -> Vec<usize> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().filter_map(|c| c.index().checked_sub(left_columns)).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The condition over the left's columns followed by those of the right that are kept.
    pub fn new(
        expr: &Arc<dyn PhysicalExpr>,
        inputs: &[SchemaRef],
        kept: &[usize],
        errors: Errors,
    ) -> Result<Residual, OperatorError> {
        let left = inputs[0].fields().len();
        let moved = Arc::clone(expr).transform(|node| {
            let Some(column) = node.as_any().downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
            let place = column.index().checked_sub(left).and_then(|right| kept.iter().position(|k| *k == right));
            match place {
                Some(place) => Ok(Transformed::yes(Arc::new(Column::new(column.name(), left + place)) as Arc<dyn PhysicalExpr>)),
                None => Ok(Transformed::no(node)),
            }
        })?;
        let mut fields: Vec<_> = inputs[0].fields().iter().cloned().collect();
        for column in kept {
            let field = inputs[1].fields().get(*column);
            fields.push(Arc::clone(field.ok_or_else(|| OperatorError::Plan(format!("the right has no column {column}")))?));
        }
        Ok(Residual { expr: moved.data, schema: Arc::new(Schema::new(fields)), errors })
    }

    /// Which pairs fulfil it. Pairs that can't be judged don't, and are reported with their weights.
    pub fn judge(&self, columns: Vec<ArrayRef>, weights: &[i64]) -> Result<BooleanBuffer, OperatorError> {
        let batch = batch_of(&self.schema, columns, weights.len())?;
        let mut judged = BooleanBufferBuilder::new(weights.len());
        self.judge_part(&batch, weights, &mut judged)?;
        Ok(judged.finish())
    }

    fn judge_part(&self, batch: &RecordBatch, weights: &[i64], judged: &mut BooleanBufferBuilder) -> Result<(), OperatorError> {
        let rows = batch.num_rows();
        match self.expr.evaluate(batch).and_then(|v| v.into_array(rows)) {
            Ok(condition) => judged.append_buffer(&true_rows(as_condition(&condition)?)),
            Err(error) if !is_row_fault(&error) => return Err(error.into()),
            Err(error) if rows == 1 => {
                let shown = describe_row(self.schema.fields(), batch.columns(), 0);
                self.errors.borrow_mut().report(&shown, &reason(&error), weights[0]);
                judged.append(false);
            }
            Err(_) => {
                let half = rows / 2;
                self.judge_part(&batch.slice(0, half), &weights[..half], judged)?;
                self.judge_part(&batch.slice(half, rows - half), &weights[half..], judged)?;
            }
        }
        Ok(())
    }
}
