//! The values of each group, for what no fixed width can hold.

use super::layout::{Keeps, SetShape};
use crate::error::OperatorError;
use arrow::array::{Array, ArrayRef};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::Field;
use thalweg_storage::state::{EncodedRows, OperatorState, RowCodec, SortedTable, TableSpec};

/// A table of values by group.
pub(super) struct ValueSet {
    pub shape: SetShape,
    pub codec: RowCodec,
    table: SortedTable,
    /// Whether some accumulator wants to know when values come and go.
    distinct: bool,
    /// Values that have been below zero in this epoch. A retraction may come before its insert; what is still below zero at
    /// the end of the epoch takes back what was not there.
    below_zero: Vec<(u64, Vec<u8>, Vec<u8>)>,
}

/// The groups of a delta's rows.
pub(super) struct GroupRows<'a> {
    pub hashes: &'a [u64],
    pub keys: &'a EncodedRows,
}

/// Rows whose value came to be in its group (+1) or ceased to be (−1).
#[derive(Default)]
pub(super) struct Transitions {
    pub rows: Vec<u32>,
    pub weights: Vec<i64>,
}

impl ValueSet {
    /// Opens the set's table, which is named by what it holds.
    pub fn open(
        shape: SetShape,
        keys: &[Field],
        argument: Field,
        distinct: bool,
        state: &OperatorState,
    ) -> Result<ValueSet, OperatorError> {
        let kind = match shape.keeps {
            Keeps::All => "values",
            Keeps::Seen => "seen",
            Keeps::Least => "least",
            Keeps::Greatest => "greatest",
        };
        let filter = shape.filters.first().copied().flatten().map_or(String::new(), |f| format!("_where_{f}"));
        let order = vec![(shape.keeps == Keeps::Greatest, false)];
        let codec = RowCodec::ordered(std::slice::from_ref(&argument), &order)?;
        let table = state.sorted_table(TableSpec {
            name: format!("{kind}_{}{filter}", shape.argument),
            key: keys.to_vec(),
            sub: vec![argument],
            sub_order: order,
            value: Vec::new(),
        })?;
        Ok(ValueSet { shape, codec, table, distinct, below_zero: Vec::new() })
    }

    /// Takes the values of the rows that each filter lets in (none: all). For each filter, the rows whose value came or went.
    pub fn apply(
        &mut self,
        groups: &GroupRows<'_>,
        column: &ArrayRef,
        let_in: &[Option<BooleanBuffer>],
        weights: Option<&[i64]>,
    ) -> Result<Vec<Transitions>, OperatorError> {
        let values = self.codec.encode(std::slice::from_ref(column), column.len())?;
        match let_in {
            _ if self.shape.keeps == Keeps::Seen => self.see(groups, &values, let_in),
            [keep] => Ok(vec![self.count(groups, &values, keep.as_ref(), weights)?]),
            _ => Err(OperatorError::Plan("only values that never go are shared by several filters".into())),
        }
    }

    /// Notes which filters let in each row's value.
    fn see(
        &mut self,
        groups: &GroupRows<'_>,
        values: &EncodedRows,
        let_in: &[Option<BooleanBuffer>],
    ) -> Result<Vec<Transitions>, OperatorError> {
        let mut transitions: Vec<Transitions> = let_in.iter().map(|_| Transitions::default()).collect();
        for row in 0..values.len() {
            let passes = |keep: &Option<BooleanBuffer>| keep.as_ref().is_none_or(|keep| keep.value(row));
            let marks = let_in.iter().enumerate().fold(0, |marks, (place, keep)| marks | i64::from(passes(keep)) << place);
            if marks == 0 {
                continue;
            }
            let before = self.table.mark(groups.hashes[row], groups.keys.row(row), values.row(row), marks)?;
            let mut new = marks & !before;
            while new != 0 {
                let place = new.trailing_zeros() as usize;
                transitions[place].rows.push(row as u32);
                transitions[place].weights.push(1);
                new &= new - 1;
            }
        }
        Ok(transitions)
    }

    /// Counts the values of the rows in `keep`.
    fn count(
        &mut self,
        groups: &GroupRows<'_>,
        values: &EncodedRows,
        keep: Option<&BooleanBuffer>,
        weights: Option<&[i64]>,
    ) -> Result<Transitions, OperatorError> {
        let mut transitions = Transitions::default();
        for row in 0..values.len() {
            if keep.is_some_and(|k| !k.value(row)) {
                continue;
            }
            let (hash, key, value) = (groups.hashes[row], groups.keys.row(row), values.row(row));
            if self.shape.keeps != Keeps::All {
                self.replace(hash, key, value)?;
                continue;
            }
            let (before, after) = self.table.add(hash, key, value, weights.map_or(1, |w| w[row]))?;
            if after.count < 0 {
                self.below_zero.push((hash, key.to_vec(), value.to_vec()));
            }
            if self.distinct && (before.count > 0) != (after.count > 0) {
                transitions.rows.push(row as u32);
                transitions.weights.push(if after.count > 0 { 1 } else { -1 });
            }
        }
        Ok(transitions)
    }

    /// Keeps `value` if it comes before the one that is kept.
    fn replace(&mut self, hash: u64, key: &[u8], value: &[u8]) -> Result<(), OperatorError> {
        let mut kept = None;
        let mut before = true;
        self.table.scan(hash, key, |old, _| {
            before = value < old;
            kept = before.then(|| old.to_vec());
            false
        })?;
        if let Some(old) = kept {
            self.table.add(hash, key, &old, -1)?;
        }
        if before {
            self.table.add(hash, key, value, 1)?;
        }
        Ok(())
    }

    /// Ends the epoch's changes: what is below zero goes. How many retractions that were.
    pub fn settle(&mut self) -> Result<u64, OperatorError> {
        let mut unmatched = 0;
        for (hash, key, value) in std::mem::take(&mut self.below_zero) {
            let count = self.table.get(hash, &key, &value)?.count;
            if count < 0 {
                self.table.add(hash, &key, &value, -count)?;
                unmatched += count.unsigned_abs();
            }
        }
        Ok(unmatched)
    }

    /// The first value of a group in ascending order, or the last.
    pub fn extreme(&mut self, hash: u64, key: &[u8], greatest: bool) -> Result<Option<Vec<u8>>, OperatorError> {
        if greatest && self.shape.keeps == Keeps::All {
            return Ok(self.table.last(hash, key)?.map(|(value, _)| value));
        }
        let mut first = None;
        self.table.scan(hash, key, |value, _| {
            first = Some(value.to_vec());
            false
        })?;
        Ok(first)
    }

    /// Forgets a group.
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Result<(), OperatorError> {
        Ok(self.table.remove_key(hash, key)?)
    }
}
