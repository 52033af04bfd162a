//! Rows as bytes that compare as the rows do: `arrow::row`, with −0.0 kept as 0.0 and every NaN as one.

use crate::error::StorageResult;
use arrow::array::ArrayRef;
use arrow::datatypes::Field;

/// Encodes and decodes rows of one shape. Encodings of different rows differ, none is the start of another, and their
/// bytes order as the rows do under the codec's directions.
#[derive(Debug)]
pub struct RowCodec {}

/// Encoded rows, one after another.
#[derive(Debug, Default)]
pub struct EncodedRows {}

impl RowCodec {
    /// A codec for these columns, all ascending with NULLs last.
    ///
    /// # Errors
    /// If a type can't be encoded.
    pub fn new(_fields: &[Field]) -> StorageResult<RowCodec> {
        todo!()
    }

    /// A codec with a direction (descending, nulls first) for each column.
    ///
    /// # Errors
    /// If a type can't be encoded.
    pub fn ordered(_fields: &[Field], _directions: &[(bool, bool)]) -> StorageResult<RowCodec> {
        todo!()
    }

    /// Encodes `rows` rows.
    ///
    /// # Errors
    /// If the columns are not of the codec's types.
    pub fn encode(&self, _columns: &[ArrayRef], _rows: usize) -> StorageResult<EncodedRows> {
        todo!()
    }

    /// The columns of encoded rows.
    ///
    /// # Errors
    /// If bytes are not what a codec of this shape wrote.
    pub fn decode<'a>(&self, _rows: impl IntoIterator<Item = &'a [u8]>) -> StorageResult<Vec<ArrayRef>> {
        todo!()
    }
}

impl EncodedRows {
    /// How many.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of row `row`.
    #[inline]
    pub fn row(&self, _row: usize) -> &[u8] {
        todo!()
    }
}
