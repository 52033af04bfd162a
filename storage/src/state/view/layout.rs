//! Where a relation's columns are in what is stored.

use crate::error::{StorageError, StorageResult};
use crate::state::RowCodec;
use crate::state::directory::StoredTable;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;

/// A relation's columns, and the codecs of key and value.
pub(super) struct Layout {
    schema: SchemaRef,
    pub(super) table_id: u32,
    /// Rows have a key; else all columns are the key and rows count.
    pub(super) keyed: bool,
    /// The columns of the stored key, in its order.
    pub(super) key: Vec<usize>,
    /// The columns of the stored value.
    pub(super) rest: Vec<usize>,
    pub(super) key_codec: RowCodec,
    pub(super) value_codec: RowCodec,
    /// For each column of the relation its place in key or value.
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
enum Place {
    Key(usize),
    Value(usize),
}

impl Layout {
    pub(super) fn new(table: &StoredTable, schema: SchemaRef, key: &[usize]) -> StorageResult<Layout> {
        let keyed = !key.is_empty();
        let all = 0..schema.fields().len();
        let key = if keyed { key.to_vec() } else { all.clone().collect() };
        let rest = all.filter(|column| !key.contains(column)).collect::<Vec<_>>();
        let place = |column: usize| match key.iter().position(|k| *k == column) {
            Some(at) => Place::Key(at),
            None => Place::Value(rest.iter().filter(|r| **r < column).count()),
        };
        let places = (0..schema.fields().len()).map(place).collect();
        let fields = |columns: &[usize]| columns.iter().map(|c| schema.field(*c).clone()).collect::<Vec<_>>();
        let key_codec = RowCodec::new(&fields(&key))?;
        let value_codec = RowCodec::new(&fields(&rest))?;
        Ok(Layout { table_id: table.table_id, keyed, key, rest, key_codec, value_codec, places, schema })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn key_types(&self) -> impl Iterator<Item = &DataType> {
        self.key.iter().map(|column| self.schema.field(*column).data_type())
    }

    /// A batch of these columns from rows of encoded keys and values, each decoded only if a column comes from it.
    pub(super) fn batch<'a>(
        &self,
        columns: &[usize],
        rows: usize,
        keys: impl Iterator<Item = &'a [u8]>,
        values: impl Iterator<Item = &'a [u8]>,
    ) -> StorageResult<RecordBatch> {
        let places = columns.iter().map(|column| self.places.get(*column).copied().ok_or(column)).collect::<Result<Vec<_>, _>>();
        let places = places.map_err(|column| StorageError::Shape {
            table: "rows".to_string(),
            reason: format!("column {column} is not among {}", self.places.len()),
        })?;
        let from_key = places.iter().any(|p| matches!(p, Place::Key(_)));
        let from_value = places.iter().any(|p| matches!(p, Place::Value(_)));
        let key = if from_key { self.key_codec.decode(keys)? } else { Vec::new() };
        let value = if from_value { self.value_codec.decode(values)? } else { Vec::new() };
        let columns_out = places
            .iter()
            .map(|place| match *place {
                Place::Key(at) => Arc::clone(&key[at]),
                Place::Value(at) => Arc::clone(&value[at]),
            })
            .collect::<Vec<ArrayRef>>();
        let schema = Arc::new(self.schema.project(columns)?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, columns_out, &options)?)
    }

    /// All columns, in the relation's order.
    pub(super) fn all_columns(&self) -> Vec<usize> {
        (0..self.places.len()).collect()
    }
}
