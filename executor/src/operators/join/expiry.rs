//! How a join's keys are forgotten by time.

use super::side::{LEFT, RIGHT, Side};
use crate::error::OperatorError;
use crate::operator::EpochInput;
use crate::operators::build::Context;
use crate::operators::horizon::{Horizon, TimeIndex, micros};
use arrow::array::Array;

/// How keys are forgotten by time.
pub(super) struct Expiry {
    pub columns: [usize; 2],
    pub horizon: Horizon,
    pub index: TimeIndex,
}

impl Expiry {
    pub fn open(place: usize, on: &[(usize, usize)], sides: &[Side; 2], context: &Context) -> Result<Expiry, OperatorError> {
        let (left, right) = *on.get(place).ok_or_else(|| OperatorError::Plan(format!("there is no key {place}")))?;
        let mut index = TimeIndex::default();
        for side in sides {
            let mut fault = None;
            side.for_each_key(&mut |hash, key| {
                let columns = side.key_codec.decode([key])?;
                match micros(&columns[place]) {
                    Ok(times) if !times.is_null(0) => index.insert(times.value(0), hash, key),
                    Ok(_) => {}
                    Err(error) => fault = Some(error),
                }
                Ok(())
            })?;
            if let Some(error) = fault {
                return Err(error);
            }
        }
        Ok(Expiry { columns: [left, right], horizon: Horizon::open(&context.state)?, index })
    }

    /// The lesser of both sides' watermarks, once both have one.
    pub fn watermark(&self, input: &EpochInput) -> Option<i64> {
        let of = |side: usize| input.watermarks.get(side).and_then(|w| w.get(&self.columns[side]).copied());
        Some(of(LEFT)?.min(of(RIGHT)?))
    }
}
