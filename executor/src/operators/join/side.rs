//! One side of a join: its rows in state.
//!
//! Rows lie under their key, whose hash also decided the worker. The sides of a null-aware join are on one worker whatever their
//! keys; there all rows lie under the empty key, which belongs to that worker, and the join's key is the first part of the
//! sub-key. So a rescale takes state and rows to the same place.

use crate::error::OperatorError;
use crate::operators::build::Context;
use crate::operators::horizon::{least_not_below, micros};
use crate::operators::rows::{columns_of, fields_of};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, SchemaRef};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_storage::StorageResult;
use thalweg_storage::state::{EncodedRows, Entry, RowCodec, SortedTable, TableSpec};

/// The port of the left side.
pub(super) const LEFT: usize = 0;
/// The port of the right side.
pub(super) const RIGHT: usize = 1;

/// The rows of one input.
pub(super) struct Side {
    /// The key's columns.
    pub keys: Vec<usize>,
    /// The columns that state keeps.
    pub kept: Vec<usize>,
    pub key_codec: RowCodec,
    row_codec: RowCodec,
    /// The kept columns in the order in which they are stored.
    stored: Vec<usize>,
    table: SortedTable,
    /// All rows lie under the empty key.
    on_one: bool,
    /// The key's columns, then the kept ones.
    stored_codec: RowCodec,
    /// Whether the number of partners of each row matters.
    pub degrees: bool,
}

/// What a side keeps.
pub(super) struct SideShape {
    pub name: &'static str,
    pub keys: Vec<usize>,
    pub kept: Vec<usize>,
    pub degrees: bool,
    pub on_one: bool,
    /// The kept column of times that is stored first, so that rows can be forgotten by it.
    pub first: Option<usize>,
}

impl Side {
    /// Opens the side's state.
    pub fn open(shape: SideShape, input: &SchemaRef, context: &Context) -> Result<Side, OperatorError> {
        let key_fields = nullable(fields_of(input, &shape.keys)?);
        let rest = shape.kept.iter().filter(|column| Some(**column) != shape.first);
        let stored: Vec<usize> = shape.first.iter().chain(rest).copied().collect();
        if stored.len() != shape.kept.len() {
            return Err(OperatorError::Plan("the column that bounds a side is not kept".into()));
        }
        let row_fields = nullable(fields_of(input, &stored)?);
        let stored_codec = RowCodec::new(&[key_fields.clone(), row_fields.clone()].concat())?;
        Ok(Side {
            key_codec: RowCodec::new(&key_fields)?,
            row_codec: RowCodec::new(&row_fields)?,
            table: context.state.sorted_table(TableSpec {
                name: shape.name.into(),
                key: if shape.on_one { Vec::new() } else { key_fields.clone() },
                sub: if shape.on_one { [key_fields, row_fields].concat() } else { row_fields },
                sub_order: Vec::new(),
                value: Vec::new(),
            })?,
            on_one: shape.on_one,
            stored_codec,
            stored,
            keys: shape.keys,
            kept: shape.kept,
            degrees: shape.degrees,
        })
    }

    /// The kept columns of these encoded rows; no columns if none are kept.
    pub fn decode<'a>(&self, rows: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, OperatorError> {
        if self.kept.is_empty() {
            return Ok(Vec::new());
        }
        let columns = self.row_codec.decode(rows)?;
        let place = |column: &usize| self.stored.iter().position(|stored| stored == column);
        Ok(self.kept.iter().filter_map(place).map(|place| Arc::clone(&columns[place])).collect())
    }

    /// Rows as state keeps them.
    pub fn encode(&self, batch: &RecordBatch) -> Result<EncodedRows, OperatorError> {
        Ok(self.row_codec.encode(&columns_of(batch, &self.stored), batch.num_rows())?)
    }

    /// Adds copies of a row. The entry before and after.
    pub fn add(&mut self, hash: u64, key: &[u8], row: &[u8], count: i64) -> Result<(Entry, Entry), OperatorError> {
        Ok(if self.on_one {
            self.table.add(ON_ONE, &[], &[key, row].concat(), count)?
        } else {
            self.table.add(hash, key, row, count)?
        })
    }

    /// The entry of a row.
    pub fn get(&mut self, hash: u64, key: &[u8], row: &[u8]) -> Result<Entry, OperatorError> {
        Ok(if self.on_one { self.table.get(ON_ONE, &[], &[key, row].concat())? } else { self.table.get(hash, key, row)? })
    }

    /// Notes how many partners a row has.
    pub fn set_degree(&mut self, hash: u64, key: &[u8], row: &[u8], degree: i64) -> Result<(), OperatorError> {
        if self.on_one {
            self.table.set_extra(ON_ONE, &[], &[key, row].concat(), degree)?;
        } else {
            self.table.set_extra(hash, key, row, degree)?;
        }
        Ok(())
    }

    /// Visits the rows of a key, in order, those after the row `after` if it is given, until the visitor returns false.
    pub fn scan(
        &mut self,
        hash: u64,
        key: &[u8],
        after: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], Entry) -> bool,
    ) -> Result<(), OperatorError> {
        if !self.on_one {
            match after {
                None => self.table.scan(hash, key, visit)?,
                Some(after) => self.table.scan_after(hash, key, after, visit)?,
            }
            return Ok(());
        }
        let from = [key, after.unwrap_or_default()].concat();
        if after.is_none() {
            // The row without columns, which is the key alone and so not after it.
            let entry = self.table.get(ON_ONE, &[], &from)?;
            if entry.count != 0 && !visit(&[], entry) {
                return Ok(());
            }
        }
        self.table.scan_after(ON_ONE, &[], &from, |stored, entry| match stored.strip_prefix(key) {
            Some(row) => visit(row, entry),
            None => false,
        })?;
        Ok(())
    }

    /// All encoded rows of a side whose rows lie under the empty key, each still with the join's key before it.
    pub fn all_on_one(&mut self) -> Result<Vec<(Vec<u8>, Entry)>, OperatorError> {
        let mut all = Vec::new();
        self.table.scan(ON_ONE, &[], |stored, entry| {
            all.push((stored.to_vec(), entry));
            true
        })?;
        Ok(all)
    }

    /// The columns of such rows.
    pub fn decode_on_one<'a>(&self, stored: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, OperatorError> {
        Ok(self.stored_codec.decode(stored)?.split_off(self.keys.len()))
    }

    /// Forgets a key.
    pub fn remove_key(&mut self, hash: u64, key: &[u8]) -> Result<(), OperatorError> {
        Ok(self.table.remove_key(hash, key)?)
    }

    /// Forgets the rows of these keys whose time, which is stored first, is below `time`. The keys that have others left, by their places,
    /// each with the time of its first row.
    pub fn forget_below(&mut self, keys: &[(u64, Rc<[u8]>)], time: i64) -> Result<Vec<(usize, i64)>, OperatorError> {
        let mut times = self.row_codec.decode([])?;
        times.truncate(1);
        let [column] = times.as_slice() else {
            return Err(OperatorError::Plan("a bounded side keeps no column".into()));
        };
        let least = least_not_below(time, column.data_type())?;
        let field = Field::new("time", column.data_type().clone(), true);
        let least = RowCodec::new(&[field])?.encode(&[least], 1)?;
        let (mut places, mut firsts) = (Vec::new(), Vec::new());
        for (place, (hash, key)) in keys.iter().enumerate() {
            if let Some(first) = self.table.remove_below(*hash, key, least.row(0))? {
                places.push(place);
                firsts.push(first);
            }
        }
        let columns = self.row_codec.decode(firsts.iter().map(Vec::as_slice))?;
        let times = micros(&columns[0])?;
        // NULLs are last: where the first is one, so are all.
        Ok(places.into_iter().zip(times.iter()).filter_map(|(place, time)| Some((place, time?))).collect())
    }

    /// Visits every key: see [`SortedTable::for_each_key`].
    pub fn for_each_key(&self, visit: &mut dyn FnMut(u64, &[u8]) -> StorageResult<()>) -> Result<(), OperatorError> {
        Ok(self.table.for_each_key(visit)?)
    }
}

/// The hash of the empty key.
const ON_ONE: u64 = 0;

fn nullable(fields: Vec<Field>) -> Vec<Field> {
    fields.into_iter().map(|f| f.with_nullable(true)).collect()
}
