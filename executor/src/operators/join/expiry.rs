//! How a join's keys are forgotten by time.

use super::side::{LEFT, RIGHT, Side};
use crate::error::OperatorError;
use crate::operator::{EpochInput, Watermark};
use crate::operators::build::Context;
use crate::operators::horizon::{Horizon, TimeIndex};

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
            let mut keys = Vec::new();
            side.for_each_key(&mut |hash, key| {
                keys.push((hash, key.into()));
                Ok(())
            })?;
            index.insert_all(&keys, &side.key_codec, place)?;
        }
        Ok(Expiry { columns: [left, right], horizon: Horizon::open(&context.state)?, index })
    }

    /// The watermark of both sides together, once both have one.
    pub fn watermark(&self, input: &EpochInput) -> Option<i64> {
        let of = |side: usize| input.watermarks.get(side).and_then(|w| w.get(&self.columns[side]).copied());
        Watermark::combined([of(LEFT), of(RIGHT)]).map(|watermark| watermark.value)
    }
}
