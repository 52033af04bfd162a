//! Unnest: a row for each item of a list. `{ (r without list, item): r in input, item in r.list }`, each with r's weight.
//!
//! Keeps no state. A retraction takes back the rows of each item. A list that is NULL or empty gives no row; an item that is NULL
//! gives a row with NULL. What it gives comes in pieces of at most [`PIECE_ROWS`] rows, however long the lists are.

use super::build::Transform;
use super::rows::batch_of;
use crate::error::OperatorError;
use crate::operator::PIECE_ROWS;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;
use thalweg_catalog::Delta;
use thalweg_plan::PlanNode;

/// A running `Unnest`.
pub struct Unnest {
    schema: SchemaRef,
    column: usize,
}

impl Unnest {
    /// The operator of an `Unnest` node.
    ///
    /// # Errors
    /// `Plan` if the column is not a list, or the node's schema is not the input's with the item in the list's place.
    pub fn new(node: &PlanNode, input: &SchemaRef, column: usize) -> Result<Unnest, OperatorError> {
        let item = match input.fields().get(column).map(|f| f.data_type()) {
            Some(DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) => item,
            Some(other) => return Err(OperatorError::Plan(format!("only a list can be unnested, not {other}"))),
            None => return Err(OperatorError::Plan(format!("there is no column {column} in the input"))),
        };
        let fields = node.schema.fields();
        if fields.len() != input.fields().len() || fields[column].data_type() != item.data_type() {
            return Err(OperatorError::Plan("an Unnest has its input's columns, with the item for the list".into()));
        }
        Ok(Unnest { schema: Arc::clone(&node.schema), column })
    }

    fn piece(&self, delta: &Delta, items: &ArrayRef, places: &mut Places) -> Result<Delta, OperatorError> {
        let rows = UInt64Array::from(std::mem::take(&mut places.rows));
        let items_at = UInt64Array::from(std::mem::take(&mut places.items));
        let mut columns = Vec::with_capacity(delta.batch().num_columns());
        for (at, column) in delta.batch().columns().iter().enumerate() {
            columns.push(if at == self.column { take(items, &items_at, None)? } else { take(column, &rows, None)? });
        }
        let weights = delta.weights().map(|w| Int64Array::from_iter_values(rows.values().iter().map(|r| w.value(*r as usize))));
        Ok(Delta::new(batch_of(&self.schema, columns, rows.len())?, weights))
    }
}

/// Where the rows of a piece come from.
#[derive(Default)]
struct Places {
    rows: Vec<u64>,
    items: Vec<u64>,
}

impl Transform for Unnest {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn apply(&mut self, delta: Delta) -> Result<Vec<Delta>, OperatorError> {
        let lists = delta.batch().column(self.column);
        let (items, ranges) = item_ranges(lists)?;
        let mut given = Vec::new();
        let mut places = Places::default();
        for (row, range) in ranges.into_iter().enumerate() {
            for item in range {
                places.rows.push(row as u64);
                places.items.push(item);
                if places.rows.len() == PIECE_ROWS {
                    given.push(self.piece(&delta, &items, &mut places)?);
                }
            }
        }
        if !places.rows.is_empty() {
            given.push(self.piece(&delta, &items, &mut places)?);
        }
        Ok(given)
    }
}

/// The items of all lists, and where those of each row are. A NULL list has none, whatever lies under it.
fn item_ranges(lists: &ArrayRef) -> Result<(ArrayRef, Vec<std::ops::Range<u64>>), OperatorError> {
    let offsets: Vec<u64>;
    let items;
    match lists.data_type() {
        DataType::List(_) => {
            let lists = lists.as_list::<i32>();
            items = Arc::clone(lists.values());
            offsets = lists.offsets().iter().map(|o| *o as u64).collect();
        }
        DataType::LargeList(_) => {
            let lists = lists.as_list::<i64>();
            items = Arc::clone(lists.values());
            offsets = lists.offsets().iter().map(|o| *o as u64).collect();
        }
        DataType::FixedSizeList(_, length) => {
            items = Arc::clone(lists.as_fixed_size_list().values());
            offsets = (0..=lists.len() as u64).map(|row| row * *length as u64).collect();
        }
        other => return Err(OperatorError::Plan(format!("only a list can be unnested, not {other}"))),
    }
    let ranges = (0..lists.len()).map(|row| if lists.is_null(row) { 0..0 } else { offsets[row]..offsets[row + 1] }).collect();
    Ok((items, ranges))
}

#[cfg(test)]
mod tests;
