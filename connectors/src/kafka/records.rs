//! Rows as JSON records.

use crate::error::{ConnectorError, ConnectorResult};
use arrow::array::RecordBatch;

/// The JSON objects of a batch's rows, one after another.
pub struct JsonRows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl JsonRows {
    /// Writes all rows.
    ///
    /// # Errors
    /// If a value can't be written.
    pub fn new(batch: &RecordBatch) -> ConnectorResult<JsonRows> {
        let mut writer =
            arrow::json::WriterBuilder::new().with_explicit_nulls(true).build::<_, arrow::json::writer::LineDelimited>(vec![]);
        writer.write(batch).and_then(|()| writer.finish()).map_err(|error| ConnectorError::internal(error.to_string()))?;
        let bytes = writer.into_inner();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(place, _)| place).collect();
        Ok(JsonRows { bytes, ends })
    }

    /// One row's object.
    pub fn row(&self, row: usize) -> &[u8] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] + 1 };
        &self.bytes[start..self.ends[row]]
    }
}
