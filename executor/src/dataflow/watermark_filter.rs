//! Gives a source's watermark, and drops rows that are late against it.
//!
//! Each worker hears the watermarks of all, so all agree on one value at the end of each epoch. A row of an epoch is late if it
//! is below the watermark that held when the epoch began (S9: a row at the watermark is on time), whatever consumes it (S10).
//! State: the watermark. Rows without a time are dropped as late, since no window could take them.

use super::adapter::Stage;
use super::context::NodeContext;
use crate::error::OperatorError;
use crate::operator::{EpochInput, Output, Progress};
use arrow::array::{Array, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use std::sync::atomic::Ordering;
use thalweg_catalog::{Delta, VNode};
use thalweg_storage::state::CellTable;

const NAME: &[u8] = b"watermark";

/// The operator.
pub struct WatermarkFilter {
    context: NodeContext,
    column: usize,
    saved: CellTable,
    watermark: Option<i64>,
    pending: Vec<Delta>,
}

impl WatermarkFilter {
    /// For a column of microseconds since 1970.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn new(context: NodeContext, column: usize) -> Result<WatermarkFilter, OperatorError> {
        let saved = context.state.cell_table("watermark", VNode::EVERY_WORKER)?;
        let watermark = saved.get(NAME)?.map(|bytes| {
            let damaged = |_| OperatorError::Invariant("FILTER-1", "a saved watermark is not as it was written".into());
            bytes.as_slice().try_into().map(i64::from_le_bytes).map_err(damaged)
        });
        let watermark = watermark.transpose()?;
        Ok(WatermarkFilter { context, column, saved, watermark, pending: vec![] })
    }

    fn on_time(&self, delta: &Delta, watermark: i64) -> Result<BooleanArray, OperatorError> {
        let times = delta.batch().column(self.column);
        let zone = if let DataType::Timestamp(_, zone) = times.data_type() { zone.clone() } else { None };
        let times = cast(times, &DataType::Timestamp(TimeUnit::Microsecond, zone))?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        if times.null_count() == 0 {
            Ok(BooleanArray::from_iter(times.values().iter().map(|t| Some(*t >= watermark))))
        } else {
            Ok(BooleanArray::from_iter(times.iter().map(|t| Some(t.is_some_and(|t| t >= watermark)))))
        }
    }
}

impl Stage for WatermarkFilter {
    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        for delta in input.ports.into_iter().flatten() {
            let keep = self.on_time(&delta, self.watermark.unwrap_or(i64::MIN))?;
            let late = delta.num_rows() - keep.true_count();
            if late == 0 {
                self.pending.push(delta);
            } else {
                self.context.figures().late_rows.fetch_add(late as u64, Ordering::Relaxed);
                self.pending.push(delta.filter(&keep)?);
            }
        }
        if let Some(value) = input.watermarks.first().and_then(|marks| marks.get(&self.column)).map(|mark| mark.value)
            && self.watermark.is_none_or(|watermark| watermark < value)
        {
            self.watermark = Some(value);
            self.saved.put(NAME, &value.to_le_bytes());
            self.context.figures().watermark.store(value, Ordering::Relaxed);
        }
        Ok(())
    }

    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        self.pending.drain(..).for_each(|delta| output.give(delta));
        Ok(Progress::Done)
    }
}
