//! What an epoch has changed in the rows of some groups.

use super::accumulator::i64_at;
use super::layout::LIVE;
use super::outcome::Shown;
use crate::error::OperatorError;
use arrow::array::BooleanArray;
use arrow::compute::kernels::cmp::distinct;

pub(super) const BEFORE: usize = 0;
pub(super) const AFTER: usize = 1;

/// Which rows of a piece's groups changed.
pub(super) struct Difference {
    /// Whether each group had a row before, and has one after.
    exists: Vec<[bool; 2]>,
    changed: Vec<bool>,
    /// Why a row can't be shown.
    pub faults: Vec<[Option<&'static str>; 2]>,
}

/// The rows to give: −old and +new of a group one after the other.
pub(super) struct ChangedRows {
    /// Before or after, and the place in the piece.
    pub places: Vec<(usize, usize)>,
}

impl Difference {
    pub fn between(old: &[&[u8]], new: &[&[u8]], given: Option<usize>) -> Difference {
        let is_there = |state: &[u8]| match given {
            Some(given) => i64_at(state, given) != 0,
            None => i64_at(state, LIVE) > 0,
        };
        Difference {
            exists: old.iter().zip(new).map(|(old, new)| [is_there(old), is_there(new)]).collect(),
            changed: vec![false; old.len()],
            faults: vec![[None; 2]; old.len()],
        }
    }

    pub fn compare(&mut self, before: &Shown, after: &Shown) -> Result<(), OperatorError> {
        let differs: BooleanArray = distinct(&before.column.as_ref(), &after.column.as_ref())?;
        for place in differs.values().set_indices() {
            self.changed[place] = true;
        }
        for (side, shown) in [(BEFORE, before), (AFTER, after)] {
            for (place, reason) in &shown.faults {
                if self.exists[*place][side] {
                    self.faults[*place][side].get_or_insert(reason);
                }
            }
        }
        Ok(())
    }

    pub fn compare_encoded(&mut self, before: &[Option<Vec<u8>>], after: &[Option<Vec<u8>>]) {
        for ((changed, before), after) in self.changed.iter_mut().zip(before).zip(after) {
            *changed |= before != after;
        }
    }

    pub fn rows(&self) -> ChangedRows {
        let mut places = Vec::new();
        for (place, exists) in self.exists.iter().enumerate() {
            let [before, after] = [BEFORE, AFTER].map(|side| exists[side] && self.faults[place][side].is_none());
            if before && after && !self.changed[place] {
                continue;
            }
            if before {
                places.push((BEFORE, place));
            }
            if after {
                places.push((AFTER, place));
            }
        }
        ChangedRows { places }
    }
}
