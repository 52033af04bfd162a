//! Combine: of equal rows of a batch one, with the sum of their weights. `{ r : r in input }`, in fewer pieces.
//!
//! Keeps no state. It stands below an aggregate that groups by whole rows, where it saves sending and looking up each of them. Where
//! hardly any rows are equal it lets batches through as they are, and looks again at a later one.

use super::build::Transform;
use crate::error::OperatorError;
use arrow::array::{Int64Array, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_catalog::Delta;
use thalweg_storage::state::RowCodec;

/// A smaller batch is not worth it.
const ROWS_MIN: usize = 16;
/// How many batches pass after one of which more than three quarters were left.
const PASSED: u32 = 31;

/// A running `Combine`.
pub struct Combine {
    schema: SchemaRef,
    codec: RowCodec,
    /// How many more batches pass as they are.
    passing: u32,
}

impl Combine {
    /// For rows of this shape.
    ///
    /// # Errors
    /// `State` if a column's type can't be compared by its bytes.
    pub fn new(input: &SchemaRef) -> Result<Combine, OperatorError> {
        let fields: Vec<_> = input.fields().iter().map(|field| field.as_ref().clone()).collect();
        Ok(Combine { schema: Arc::clone(input), codec: RowCodec::new(&fields)?, passing: 0 })
    }

    /// The first row of each kind, and the weight of all of it.
    fn kinds(&self, delta: &Delta) -> Result<(Vec<u32>, Vec<i64>), OperatorError> {
        let rows = self.codec.encode(delta.batch().columns(), delta.num_rows())?;
        let mut places: HashMap<&[u8], usize, ahash::RandomState> = HashMap::default();
        let (mut firsts, mut weights) = (Vec::new(), Vec::new());
        for row in 0..delta.num_rows() {
            let place = *places.entry(rows.row(row)).or_insert_with(|| {
                firsts.push(row as u32);
                weights.push(0i64);
                firsts.len() - 1
            });
            weights[place] = weights[place]
                .checked_add(delta.weight(row))
                .ok_or_else(|| OperatorError::Invariant("COMBINE-1", "a row has more copies than can be counted".into()))?;
        }
        Ok((firsts, weights))
    }
}

impl Transform for Combine {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn apply(&mut self, delta: Delta) -> Result<Vec<Delta>, OperatorError> {
        let rows = delta.num_rows();
        if rows < ROWS_MIN || self.passing > 0 {
            self.passing = self.passing.saturating_sub(1);
            return Ok(vec![delta]);
        }
        let (firsts, weights) = self.kinds(&delta)?;
        if firsts.len() * 4 > rows * 3 {
            self.passing = PASSED;
        }
        if firsts.len() == rows {
            return Ok(vec![delta]);
        }
        let (firsts, weights): (Vec<u32>, Vec<i64>) = firsts.into_iter().zip(weights).filter(|(_, weight)| *weight != 0).unzip();
        let batch = take_record_batch(delta.batch(), &UInt32Array::from(firsts))?;
        Ok(vec![Delta::new(batch, Some(Int64Array::from(weights)))])
    }
}

#[cfg(test)]
mod tests;
