//! One side of a join: its rows in state.

use crate::error::OperatorError;
use crate::operators::build::Context;
use crate::operators::rows::{KeyHash, fields_of};
use arrow::array::ArrayRef;
use arrow::datatypes::{Field, SchemaRef};
use thalweg_plan::PlanNode;
use thalweg_storage::state::{RowCodec, SortedTable, TableSpec};

/// The rows of one input.
pub(super) struct Side {
    /// The key's columns.
    pub keys: Vec<usize>,
    /// The columns that state keeps.
    pub kept: Vec<usize>,
    pub key_hash: KeyHash,
    pub key_codec: RowCodec,
    pub row_codec: RowCodec,
    pub table: SortedTable,
    /// Whether the number of partners of each row matters.
    pub degrees: bool,
}

/// What a side keeps.
pub(super) struct SideShape {
    pub name: &'static str,
    pub port: usize,
    pub keys: Vec<usize>,
    pub kept: Vec<usize>,
    pub degrees: bool,
}

impl Side {
    /// Opens the side's state.
    pub fn open(shape: SideShape, node: &PlanNode, input: &SchemaRef, context: &Context) -> Result<Side, OperatorError> {
        let key_fields = nullable(fields_of(input, &shape.keys)?);
        let row_fields = nullable(fields_of(input, &shape.kept)?);
        Ok(Side {
            key_hash: KeyHash::of(node, shape.port),
            key_codec: RowCodec::new(&key_fields)?,
            row_codec: RowCodec::new(&row_fields)?,
            table: context.state.sorted_table(TableSpec {
                name: shape.name.into(),
                key: key_fields,
                sub: row_fields,
                sub_order: Vec::new(),
                value: Vec::new(),
            })?,
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
        Ok(self.row_codec.decode(rows)?)
    }
}

fn nullable(fields: Vec<Field>) -> Vec<Field> {
    fields.into_iter().map(|f| f.with_nullable(true)).collect()
}
