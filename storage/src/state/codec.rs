//! Rows as bytes that compare as the rows do: `arrow::row`, with −0.0 kept as 0.0 and every NaN as one.
//!
//! The encoding is part of the stored format. A single column of 64-bit integers without NULLs, the commonest key, is written
//! by a loop of our own that gives the same bytes.

use crate::error::{StorageError, StorageResult};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int64Type, TimeUnit};
use arrow::row::{RowConverter, RowParser, Rows, SortField};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Encodes and decodes rows of one shape. Encodings of different rows differ, none is the start of another, and their
/// bytes order as the rows do under the codec's directions.
#[derive(Debug)]
pub struct RowCodec {
    converter: RowConverter,
    parser: RowParser,
    types: Vec<DataType>,
    /// All columns ascend with NULLs last: what the fast path writes.
    plain: bool,
}

/// Encoded rows, one after another.
#[derive(Debug, Default)]
pub struct EncodedRows(Repr);

#[derive(Debug)]
enum Repr {
    /// All of `width` bytes.
    Fixed {
        bytes: Vec<u8>,
        width: usize,
        rows: usize,
    },
    Rows(Rows),
}

impl Default for Repr {
    fn default() -> Repr {
        Repr::Fixed { bytes: Vec::new(), width: 0, rows: 0 }
    }
}

impl RowCodec {
    /// A codec for these columns, all ascending with NULLs last.
    ///
    /// # Errors
    /// If a type can't be encoded.
    pub fn new(fields: &[Field]) -> StorageResult<RowCodec> {
        RowCodec::ordered(fields, &vec![(false, false); fields.len()])
    }

    /// A codec with a direction (descending, nulls first) for each column.
    ///
    /// # Errors
    /// If a type can't be encoded.
    pub fn ordered(fields: &[Field], directions: &[(bool, bool)]) -> StorageResult<RowCodec> {
        if fields.len() != directions.len() {
            return Err(StorageError::Shape {
                table: "row codec".to_string(),
                reason: format!("{} columns have {} directions", fields.len(), directions.len()),
            });
        }
        let sort_fields = fields.iter().zip(directions).map(|(field, &(descending, nulls_first))| {
            SortField::new_with_options(field.data_type().clone(), SortOptions { descending, nulls_first })
        });
        let converter = RowConverter::new(sort_fields.collect())?;
        Ok(RowCodec {
            parser: converter.parser(),
            converter,
            types: fields.iter().map(|f| f.data_type().clone()).collect(),
            plain: directions.iter().all(|d| *d == (false, false)),
        })
    }

    /// Encodes `rows` rows.
    ///
    /// # Errors
    /// If the columns are not of the codec's types.
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> StorageResult<EncodedRows> {
        if self.types.is_empty() && columns.is_empty() {
            return Ok(EncodedRows(Repr::Fixed { bytes: Vec::new(), width: 0, rows }));
        }
        if let Some(wrong) = columns.iter().find(|c| c.len() != rows) {
            return Err(StorageError::Shape {
                table: "row codec".to_string(),
                reason: format!("a column of {} rows stands among {rows}", wrong.len()),
            });
        }
        if let ([column], [of]) = (columns, self.types.as_slice())
            && self.plain
            && column.null_count() == 0
            && column.data_type() == of
            && let Some(values) = as_integers(column)
        {
            return Ok(EncodedRows(encode_integers(values.values())));
        }
        let columns = columns.iter().map(normalise_floats).collect::<Vec<_>>();
        Ok(EncodedRows(Repr::Rows(self.converter.convert_columns(&columns)?)))
    }

    /// The columns of encoded rows.
    ///
    /// # Errors
    /// If bytes are not what a codec of this shape wrote.
    pub fn decode<'a>(&self, rows: impl IntoIterator<Item = &'a [u8]>) -> StorageResult<Vec<ArrayRef>> {
        // The decoder panics on bytes that it can't have written. What is stored is checksummed, so this is met when a table
        // was filled with keys of another shape: an error of one job, not of the process.
        let decoded = catch_unwind(AssertUnwindSafe(|| {
            let rows = rows.into_iter().map(|row| self.parser.parse(row));
            self.converter.convert_rows(rows)
        }));
        match decoded {
            Ok(columns) => Ok(columns?),
            Err(_) => Err(StorageError::Shape {
                table: "row codec".to_string(),
                reason: format!("stored bytes are not rows of {:?}", self.types),
            }),
        }
    }

    /// How many bytes every row has, if all have as many.
    pub(crate) fn fixed_width(&self) -> Option<usize> {
        self.types.iter().map(fixed_type_width).sum()
    }
}

/// The bytes of a value of this type in an encoded row, with its NULL marker.
fn fixed_type_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(2),
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok().map(|w| w + 1),
        other => other.primitive_width().map(|w| w + 1),
    }
}

/// The 64-bit integers that carry a column, if some do.
fn as_integers(column: &ArrayRef) -> Option<PrimitiveArray<Int64Type>> {
    match column.data_type() {
        DataType::Int64 => Some(column.as_primitive::<Int64Type>().clone()),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            cast(column, &DataType::Int64).ok().map(|c| c.as_primitive::<Int64Type>().clone())
        }
        _ => None,
    }
}

fn encode_integers(values: &[i64]) -> Repr {
    const WIDTH: usize = 9;
    let mut bytes = vec![1; values.len() * WIDTH];
    for (row, value) in bytes.chunks_exact_mut(WIDTH).zip(values) {
        row[1..].copy_from_slice(&((*value as u64) ^ (1 << 63)).to_be_bytes());
    }
    Repr::Fixed { bytes, width: WIDTH, rows: values.len() }
}

/// The same column with −0.0 as 0.0 and every NaN as the one, as it is decoded again.
pub fn normalise_floats(column: &ArrayRef) -> ArrayRef {
    fn map<T: ArrowPrimitiveType>(
        column: &ArrayRef,
        odd: impl Fn(T::Native) -> bool,
        usual: impl Fn(T::Native) -> T::Native,
    ) -> ArrayRef {
        let values = column.as_primitive::<T>();
        if values.values().iter().any(|v| odd(*v)) {
            Arc::new(values.unary::<_, T>(usual).with_data_type(column.data_type().clone()))
        } else {
            Arc::clone(column)
        }
    }
    match column.data_type() {
        // Adding 0.0 turns −0.0 into 0.0 and nothing else.
        DataType::Float64 => map::<Float64Type>(
            column,
            |v| v.is_nan() || (v == 0.0 && v.is_sign_negative()),
            |v| if v.is_nan() { f64::NAN } else { v + 0.0 },
        ),
        DataType::Float32 => map::<Float32Type>(
            column,
            |v| v.is_nan() || (v == 0.0 && v.is_sign_negative()),
            |v| if v.is_nan() { f32::NAN } else { v + 0.0 },
        ),
        _ => Arc::clone(column),
    }
}

impl EncodedRows {
    /// How many.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Fixed { rows, .. } => *rows,
            Repr::Rows(rows) => rows.num_rows(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of row `row`.
    #[inline]
    pub fn row(&self, row: usize) -> &[u8] {
        match &self.0 {
            Repr::Fixed { bytes, width, .. } => &bytes[row * width..(row + 1) * width],
            Repr::Rows(rows) => rows.row(row).data(),
        }
    }
}

#[cfg(test)]
mod tests;
