//! A segment of a sink log: the changes of one epoch after another, as one cell of state.

use crate::error::OperatorError;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, UInt64Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;
use thalweg_catalog::Epoch;
use thalweg_connectors::SinkBatch;

/// A segment's name. Names sort as their epochs do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SegmentName {
    /// The last epoch in it.
    pub through: Epoch,
    /// The writer that the changes are to be delivered by.
    pub writer: u32,
    /// Of how many.
    pub writers: u32,
}

impl SegmentName {
    /// As the name of a cell.
    pub fn to_bytes(self) -> Vec<u8> {
        [&self.through.0.to_be_bytes()[..], &self.writer.to_be_bytes(), &self.writers.to_be_bytes()].concat()
    }

    /// From the name of a cell.
    ///
    /// # Errors
    /// SINKLOG-1: if it is not as it was written.
    pub fn from_bytes(name: &[u8]) -> Result<SegmentName, OperatorError> {
        let Ok(name) = <[u8; 16]>::try_from(name) else { return Err(damaged("name")) };
        let number = u128::from_be_bytes(name);
        Ok(SegmentName { through: Epoch((number >> 64) as u64), writer: (number >> 32) as u32, writers: number as u32 })
    }
}

fn damaged(what: &str) -> OperatorError {
    OperatorError::Invariant("SINKLOG-1", format!("a logged segment has no {what}"))
}

/// The changes as an Arrow stream, with weight and epoch as the last two columns.
///
/// # Errors
/// If Arrow can't write them.
pub fn encode(batches: &[SinkBatch]) -> Result<Vec<u8>, OperatorError> {
    let Some(first) = batches.first() else { return Ok(vec![]) };
    let mut fields: Vec<_> = first.batch.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("weight", DataType::Int64, false)));
    fields.push(Arc::new(Field::new("epoch", DataType::UInt64, false)));
    let schema = Arc::new(Schema::new(fields));
    let mut value = vec![];
    let mut writer = StreamWriter::try_new(&mut value, &schema)?;
    for SinkBatch { epoch, batch, weights } in batches {
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(weights.clone().unwrap_or_else(|| Int64Array::from(vec![1; rows]))) as ArrayRef);
        columns.push(Arc::new(UInt64Array::from(vec![epoch.0; rows])));
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    writer.finish()?;
    drop(writer);
    Ok(value)
}

/// What [`encode`] was given.
///
/// # Errors
/// SINKLOG-1: if it is not as it was written.
pub fn decode(value: &[u8]) -> Result<Vec<SinkBatch>, OperatorError> {
    StreamReader::try_new(value, None)?.map(|batch| decode_batch(&batch?)).collect()
}

fn decode_batch(batch: &RecordBatch) -> Result<SinkBatch, OperatorError> {
    let columns = batch.num_columns().checked_sub(2).ok_or_else(|| damaged("weights"))?;
    let weights = batch.column(columns).as_primitive_opt::<Int64Type>().ok_or_else(|| damaged("weights"))?;
    let epochs = batch.column(columns + 1).as_primitive_opt::<UInt64Type>().ok_or_else(|| damaged("epochs"))?;
    let epoch = Epoch(epochs.values().first().copied().ok_or_else(|| damaged("rows"))?);
    let weights = weights.values().iter().any(|w| *w != 1).then(|| weights.clone());
    Ok(SinkBatch { epoch, batch: batch.project(&(0..columns).collect::<Vec<_>>())?, weights })
}

#[cfg(test)]
mod tests;
