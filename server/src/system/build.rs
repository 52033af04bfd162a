//! Builds batches row by row, for relations that are small.

use arrow::array::{
    ArrayRef, BooleanBuilder, Int64Builder, RecordBatch, RecordBatchOptions, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::Schema;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlType};

/// One value.
pub enum Cell {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
    /// A truth value.
    Truth(bool),
    /// Microseconds since 1970.
    Time(i64),
    /// Nothing.
    Null,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_string())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Cell {
        Cell::Number(i64::from(number))
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Cell {
        Cell::from(number as u64)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Number(number)
    }
}

impl From<bool> for Cell {
    fn from(truth: bool) -> Cell {
        Cell::Truth(truth)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

/// A moment, given in milliseconds since 1970; none before the first.
pub fn time_ms(ms: u64) -> Cell {
    if ms == 0 { Cell::Null } else { Cell::Time(i64::try_from(ms).map_or(i64::MAX, |ms| ms.saturating_mul(1000))) }
}

/// The batch of these rows.
///
/// # Errors
/// If a value is not of its column's type, which would be a fault of ours.
pub fn batch(columns: &[(&str, SqlType)], rows: Vec<Vec<Cell>>) -> SqlResult<RecordBatch> {
    let fields: Vec<_> = columns.iter().map(|(name, sql_type)| sql_type.to_field(name, true)).collect();
    let count = rows.len();
    let mut by_column: Vec<Vec<Cell>> = columns.iter().map(|_| Vec::with_capacity(count)).collect();
    for row in rows {
        for (column, cell) in by_column.iter_mut().zip(row) {
            column.push(cell);
        }
    }
    let arrays =
        columns.iter().zip(by_column).map(|((name, sql_type), cells)| array(name, sql_type, cells)).collect::<SqlResult<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| thalweg_planner::errors::arrow_error(&e))
}

fn array(name: &str, sql_type: &SqlType, cells: Vec<Cell>) -> SqlResult<ArrayRef> {
    macro_rules! fill {
        ($builder:expr, $kind:path) => {{
            let mut builder = $builder;
            for cell in cells {
                match cell {
                    $kind(value) => builder.append_value(value),
                    Cell::Null => builder.append_null(),
                    _ => {
                        return Err(SqlError::internal(format!(
                            "column \"{name}\" of a system relation has a value of another type"
                        )));
                    }
                }
            }
            Arc::new(builder.finish()) as ArrayRef
        }};
    }
    Ok(match sql_type {
        SqlType::Text => fill!(StringBuilder::new(), Cell::Text),
        SqlType::Int8 => fill!(Int64Builder::new(), Cell::Number),
        SqlType::Boolean => fill!(BooleanBuilder::new(), Cell::Truth),
        SqlType::TimestampTz => fill!(TimestampMicrosecondBuilder::new().with_timezone("+00:00"), Cell::Time),
        other => return Err(SqlError::internal(format!("system relations have no columns of type {other}"))),
    })
}
