//! The watermark up to which an operator has forgotten (or given away) its rows, and the index of what it keeps by time.

use crate::error::OperatorError;
use crate::operator::PIECE_ROWS;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Date32Array, Int64Array, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMicrosecondType};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use thalweg_catalog::{Delta, VNode};
use thalweg_storage::state::{CellTable, OperatorState, RowCodec};

/// HORIZON-1: nothing below `value` is in state, and no row below it is let in.
///
/// It is state itself: after a restart the rows of closed times must stay out. Every worker of a job has the same value at a
/// checkpoint, so after a rescale each has that too.
pub struct Horizon {
    value: i64,
    cell: CellTable,
}

const CELL: &[u8] = b"watermark";

impl Horizon {
    /// The horizon as of the last checkpoint, or one that lets in all.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn open(state: &OperatorState) -> Result<Horizon, OperatorError> {
        Horizon::named("horizon", state)
    }

    /// One of several of an operator.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn named(name: &str, state: &OperatorState) -> Result<Horizon, OperatorError> {
        let cell = state.cell_table(name, VNode::EVERY_WORKER)?;
        let value = match cell.get(CELL)? {
            None => i64::MIN,
            Some(bytes) => i64::from_le_bytes(
                bytes
                    .as_slice()
                    .try_into()
                    .map_err(|_| OperatorError::Invariant("HORIZON-1", format!("a stored horizon has {} bytes", bytes.len())))?,
            ),
        };
        Ok(Horizon { value, cell })
    }

    /// The watermark, in microseconds since 1970. What is below is gone.
    pub fn value(&self) -> i64 {
        self.value
    }

    /// Moves on to `watermark`; never back. Whether it moved.
    pub fn advance(&mut self, watermark: Option<i64>) -> bool {
        match watermark {
            Some(watermark) if watermark > self.value => {
                self.value = watermark;
                self.cell.put(CELL, &watermark.to_le_bytes());
                true
            }
            _ => false,
        }
    }

    /// The rows that are not late by this column, and how many were. NULL is never late.
    ///
    /// # Errors
    /// If the column is not a time.
    pub fn on_time(&self, delta: Delta, column: usize) -> Result<(Delta, u64), OperatorError> {
        if self.value == i64::MIN {
            return Ok((delta, 0));
        }
        let times = micros(delta.batch().column(column))?;
        let keep: BooleanArray = times.iter().map(|t| Some(t.is_none_or(|t| t >= self.value))).collect();
        match delta.num_rows() - keep.true_count() {
            0 => Ok((delta, 0)),
            late => Ok((delta.filter(&keep)?, late as u64)),
        }
    }
}

/// The values of a time column in microseconds since 1970.
///
/// # Errors
/// `Plan` if the column is not a time.
pub fn micros(column: &ArrayRef) -> Result<Int64Array, OperatorError> {
    let column = match column.data_type() {
        DataType::Timestamp(TimeUnit::Microsecond, _) => column.clone(),
        DataType::Date32 => cast(column, &DataType::Timestamp(TimeUnit::Microsecond, None))?,
        other => return Err(OperatorError::Plan(format!("a column of type {other} can't carry a watermark"))),
    };
    Ok(column.as_primitive::<TimestampMicrosecondType>().reinterpret_cast::<Int64Type>())
}

/// The least value of this type that is not below a watermark, as an array of one.
///
/// # Errors
/// `Plan` if the type is not a time.
pub fn least_not_below(watermark: i64, data_type: &DataType) -> Result<ArrayRef, OperatorError> {
    match data_type {
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            Ok(Arc::new(TimestampMicrosecondArray::from(vec![watermark]).with_data_type(data_type.clone())))
        }
        DataType::Date32 => {
            let days = watermark.div_euclid(DAY_US) + i64::from(watermark.rem_euclid(DAY_US) > 0);
            Ok(Arc::new(Date32Array::from(vec![days as i32])))
        }
        other => Err(OperatorError::Plan(format!("a column of type {other} can't carry a watermark"))),
    }
}

/// A day in microseconds. The days of any 64-bit number of microseconds fit 32 bits.
const DAY_US: i64 = 86_400_000_000;

/// The keys in state by their time, so that they can be forgotten. Held in memory, rebuilt from state on opening.
#[derive(Default)]
pub struct TimeIndex {
    keys: BTreeMap<i64, HashMap<Box<[u8]>, u64, ahash::RandomState>>,
}

impl TimeIndex {
    /// Notes a key.
    pub fn insert(&mut self, time: i64, hash: u64, key: &[u8]) {
        let keys = self.keys.entry(time).or_default();
        if !keys.contains_key(key) {
            keys.insert(key.into(), hash);
        }
    }

    /// Notes stored keys, whose time is at this place of theirs. NULL times are left out: they are never below.
    ///
    /// # Errors
    /// `Plan` if that is not a time; `State` if a key is not of the codec's shape.
    pub fn insert_all(&mut self, keys: &[(u64, Box<[u8]>)], codec: &RowCodec, place: usize) -> Result<(), OperatorError> {
        for piece in keys.chunks(PIECE_ROWS) {
            let columns = codec.decode(piece.iter().map(|(_, key)| key.as_ref()))?;
            for (time, (hash, key)) in micros(&columns[place])?.iter().zip(piece) {
                if let Some(time) = time {
                    self.insert(time, *hash, key);
                }
            }
        }
        Ok(())
    }

    /// Takes out up to about `keys_max` keys whose time is below `horizon`, with their hashes, earliest first.
    pub fn take_below(&mut self, horizon: i64, keys_max: usize) -> Vec<(u64, Box<[u8]>)> {
        let mut taken = Vec::new();
        while taken.len() < keys_max {
            match self.keys.first_entry() {
                Some(entry) if *entry.key() < horizon => {
                    taken.extend(entry.remove().into_iter().map(|(key, hash)| (hash, key)));
                }
                _ => break,
            }
        }
        taken
    }
}
