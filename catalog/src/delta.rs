//! Deltas: what flows. A batch of rows and how many times each is added or taken away.

use arrow::array::{Array, BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter, filter_record_batch, take, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

/// A change to a collection (a Z-set): each row of `batch` with a weight, +1 for an insert, −1 for a delete, any multiple
/// allowed. No weights means that every row counts +1, so append-only streams carry none.
#[derive(Clone, Debug)]
pub struct Delta {
    batch: RecordBatch,
    /// DELTA-1: as long as the batch, and without NULLs.
    weights: Option<Int64Array>,
}

impl Delta {
    /// Inserts of every row of the batch.
    pub fn inserts(batch: RecordBatch) -> Delta {
        Delta { batch, weights: None }
    }

    /// The rows with their weights.
    ///
    /// # Panics
    /// DELTA-1: if there are not as many weights as rows, or one is NULL.
    pub fn weighted(batch: RecordBatch, weights: Int64Array) -> Delta {
        assert_eq!(weights.len(), batch.num_rows(), "DELTA-1: a weight for every row");
        assert_eq!(weights.null_count(), 0, "DELTA-1: no weight is NULL");
        Delta { batch, weights: Some(weights) }
    }

    /// The rows with weights if there are some, else inserts.
    pub fn new(batch: RecordBatch, weights: Option<Int64Array>) -> Delta {
        match weights {
            Some(weights) => Delta::weighted(batch, weights),
            None => Delta::inserts(batch),
        }
    }

    /// No change, of this schema.
    pub fn empty(schema: SchemaRef) -> Delta {
        Delta::inserts(RecordBatch::new_empty(schema))
    }

    /// The rows.
    pub fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    /// The weights; none means all +1.
    pub fn weights(&self) -> Option<&Int64Array> {
        self.weights.as_ref()
    }

    /// The weight of row `row`.
    #[inline]
    pub fn weight(&self, row: usize) -> i64 {
        self.weights.as_ref().map_or(1, |w| w.value(row))
    }

    /// How many rows, whatever their weights.
    pub fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.batch.num_rows() == 0
    }

    /// The schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        self.batch.schema()
    }

    /// The rows and weights.
    pub fn into_parts(self) -> (RecordBatch, Option<Int64Array>) {
        (self.batch, self.weights)
    }

    /// The memory that rows and weights hold, in bytes. Buffers that are shared count each time.
    pub fn memory_bytes(&self) -> usize {
        self.batch.get_array_memory_size() + self.weights.as_ref().map_or(0, |w| w.get_array_memory_size())
    }

    /// The same weights over other columns.
    ///
    /// # Panics
    /// DELTA-1: if `batch` has another number of rows.
    #[must_use]
    pub fn with_batch(&self, batch: RecordBatch) -> Delta {
        Delta::new(batch, self.weights.clone())
    }

    /// Only these columns, in this order.
    ///
    /// # Errors
    /// If a column is out of range.
    pub fn project(&self, columns: &[usize]) -> Result<Delta, ArrowError> {
        Ok(Delta { batch: self.batch.project(columns)?, weights: self.weights.clone() })
    }

    /// Only the rows where `keep` is true.
    ///
    /// # Errors
    /// If `keep` has another length.
    pub fn filter(&self, keep: &BooleanArray) -> Result<Delta, ArrowError> {
        let weights = self.weights.as_ref().map(|w| filter(w, keep)).transpose()?;
        Ok(Delta { batch: filter_record_batch(&self.batch, keep)?, weights: weights.map(|w| Int64Array::from(w.to_data())) })
    }

    /// The rows at these places.
    ///
    /// # Errors
    /// If a place is out of range.
    pub fn take(&self, rows: &UInt32Array) -> Result<Delta, ArrowError> {
        let weights = self.weights.as_ref().map(|w| take(w, rows, None)).transpose()?;
        Ok(Delta { batch: take_record_batch(&self.batch, rows)?, weights: weights.map(|w| Int64Array::from(w.to_data())) })
    }

    /// `length` rows from `offset` on, without a copy.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Delta {
        Delta { batch: self.batch.slice(offset, length), weights: self.weights.as_ref().map(|w| w.slice(offset, length)) }
    }

    /// The same change the other way round.
    #[must_use]
    pub fn negate(&self) -> Delta {
        let weights = (0..self.num_rows()).map(|row| -self.weight(row)).collect::<Vec<_>>();
        Delta::weighted(self.batch.clone(), Int64Array::from(weights))
    }

    /// All the changes in one, in order.
    ///
    /// # Errors
    /// If the schemas differ.
    pub fn concat(schema: &SchemaRef, deltas: &[Delta]) -> Result<Delta, ArrowError> {
        if let [only] = deltas {
            return Ok(only.clone());
        }
        let batch = concat_batches(schema, deltas.iter().map(|d| &d.batch))?;
        let weights = deltas
            .iter()
            .any(|d| d.weights.is_some())
            .then(|| Int64Array::from_iter_values(deltas.iter().flat_map(|d| (0..d.num_rows()).map(|row| d.weight(row)))));
        Ok(Delta { batch, weights })
    }
}
