//! What an anti join that stands for `NOT IN` knows of its right side as a whole.

use super::change::Change;
use crate::error::OperatorError;
use crate::operators::build::Context;
use thalweg_catalog::VNode;
use thalweg_storage::state::CellTable;

/// What `NOT IN` must know of the whole right side.
pub(super) struct NullAware {
    right_rows: i64,
    right_nulls: i64,
    cell: CellTable,
}

/// What the right side as a whole says about left rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is empty: every left row is given.
    All,
    /// It has a NULL: none is.
    None,
    /// It depends on the row.
    ByRow,
}

const RIGHT_COUNTS: &[u8] = b"right";

impl NullAware {
    pub fn open(context: &Context) -> Result<NullAware, OperatorError> {
        let cell = context.state.cell_table("right_counts", VNode(0))?;
        let (mut right_rows, mut right_nulls) = (0, 0);
        if let Some(bytes) = cell.get(RIGHT_COUNTS)? {
            let (rows, nulls) = bytes.split_at_checked(8).unwrap_or((&[], &[]));
            match (rows.try_into(), nulls.try_into()) {
                (Ok(rows), Ok(nulls)) => {
                    right_rows = i64::from_le_bytes(rows);
                    right_nulls = i64::from_le_bytes(nulls);
                }
                _ => return Err(OperatorError::Invariant("JOIN-2", "the stored counts of the right are not two numbers".into())),
            }
        }
        Ok(NullAware { right_rows, right_nulls, cell })
    }

    pub fn verdict(&self) -> Verdict {
        match (self.right_rows, self.right_nulls) {
            (0, _) => Verdict::All,
            (_, 0) => Verdict::ByRow,
            _ => Verdict::None,
        }
    }

    /// Counts the right's changes. What follows from them.
    pub fn take_in(&mut self, right: &Change) -> Verdict {
        let nulls: i64 = right.unmatchable.iter().map(|(_, weight)| weight).sum();
        let values: i64 = right.weights.iter().sum();
        if nulls != 0 || values != 0 {
            self.right_nulls += nulls;
            self.right_rows += nulls + values;
            let bytes = [self.right_rows.to_le_bytes(), self.right_nulls.to_le_bytes()].concat();
            self.cell.put(RIGHT_COUNTS, &bytes);
        }
        self.verdict()
    }
}
