//! What operators share: rows shown to users, weights, and the reason of an error.

use crate::error::OperatorError;
use crate::operator::RowErrors;
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use thalweg_catalog::Delta;

/// Where an operator reports rows at fault. Shared by the operators of a job on one worker.
pub type Errors = Rc<RefCell<dyn RowErrors>>;

/// The longest text of a row in `thalweg.errors`, in bytes.
const SHOWN_BYTES_MAX: usize = 1000;

/// These columns of the batch.
pub fn columns_of(batch: &RecordBatch, columns: &[usize]) -> Vec<ArrayRef> {
    columns.iter().map(|c| Arc::clone(batch.column(*c))).collect()
}

/// These fields of the schema.
///
/// # Errors
/// `Plan` if there is no such field.
pub fn fields_of(schema: &SchemaRef, columns: &[usize]) -> Result<Vec<Field>, OperatorError> {
    columns
        .iter()
        .map(|c| match schema.fields().get(*c) {
            Some(field) => Ok(field.as_ref().clone()),
            None => Err(OperatorError::Plan(format!("there is no column {c} in the input"))),
        })
        .collect()
}

/// A batch of `rows` rows, also without columns.
///
/// # Errors
/// If the columns don't fit the schema.
pub fn batch_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &RecordBatchOptions::new().with_row_count(Some(rows)))
}

/// The rows with their weights, or as plain inserts where each counts +1.
pub fn weighted(batch: RecordBatch, weights: Vec<i64>) -> Delta {
    if weights.iter().all(|w| *w == 1) { Delta::inserts(batch) } else { Delta::weighted(batch, Int64Array::from(weights)) }
}

/// Checks that an input which is planned as append-only has no retractions: what is kept for it could not follow them.
///
/// # Errors
/// `Invariant` if it has.
pub fn check_append(delta: &Delta) -> Result<(), OperatorError> {
    match delta.weights() {
        Some(weights) if weights.values().iter().any(|w| *w < 0) => {
            Err(OperatorError::Invariant("APPEND-1", "an append-only input has taken a row back".into()))
        }
        _ => Ok(()),
    }
}

/// The rows where all of `columns` have a value; none if that is every row.
pub fn rows_with_values<'a>(columns: impl IntoIterator<Item = &'a ArrayRef>) -> Option<BooleanBuffer> {
    let mut all: Option<BooleanBuffer> = None;
    for nulls in columns.into_iter().filter_map(|c| c.logical_nulls()) {
        all = Some(match all {
            Some(before) => &before & nulls.inner(),
            None => nulls.inner().clone(),
        });
    }
    all
}

/// The rows where `column` is true (not NULL).
pub fn true_rows(column: &BooleanArray) -> BooleanBuffer {
    match column.nulls() {
        Some(nulls) => column.values() & nulls.inner(),
        None => column.values().clone(),
    }
}

/// A row as a user reads it: `id=1, name=NULL`.
pub fn describe_row(fields: &[impl AsRef<Field>], columns: &[ArrayRef], row: usize) -> String {
    let options = FormatOptions::new().with_null("NULL");
    let mut text = String::new();
    for (field, column) in fields.iter().zip(columns) {
        if !text.is_empty() {
            text.push_str(", ");
        }
        let value = match ArrayFormatter::try_new(column.as_ref(), &options) {
            Ok(formatter) => formatter.value(row).try_to_string().unwrap_or_else(|e| format!("<{e}>")),
            Err(e) => format!("<{e}>"),
        };
        text.push_str(field.as_ref().name());
        text.push('=');
        text.push_str(&value);
        if text.len() > SHOWN_BYTES_MAX {
            let end = (0..=SHOWN_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
            break;
        }
    }
    text
}

/// Whether the fault is one of the rows, and not of the plan or of us.
pub fn is_row_fault(error: &DataFusionError) -> bool {
    !matches!(
        error.find_root(),
        DataFusionError::Internal(_)
            | DataFusionError::NotImplemented(_)
            | DataFusionError::Plan(_)
            | DataFusionError::Configuration(_)
            | DataFusionError::SchemaError(..)
            | DataFusionError::ResourcesExhausted(_)
    )
}

/// Why a row could not be computed, in Postgres's words where it has some.
pub fn reason(error: &DataFusionError) -> String {
    match error.find_root() {
        DataFusionError::ArrowError(error, _) => arrow_reason(error),
        DataFusionError::Execution(text) => text.clone(),
        DataFusionError::External(error) => error.to_string(),
        other => other.strip_backtrace(),
    }
}

fn arrow_reason(error: &ArrowError) -> String {
    match error {
        ArrowError::DivideByZero => "division by zero".into(),
        ArrowError::ArithmeticOverflow(text) => format!("value out of range: {text}"),
        ArrowError::CastError(text)
        | ArrowError::ParseError(text)
        | ArrowError::ComputeError(text)
        | ArrowError::InvalidArgumentError(text) => text.clone(),
        ArrowError::ExternalError(error) => match error.downcast_ref::<DataFusionError>() {
            Some(error) => reason(error),
            None => error.to_string(),
        },
        other => other.to_string(),
    }
}

/// The boolean column that an expression gave.
///
/// # Errors
/// `Plan` if it is of another type.
pub fn as_condition(array: &ArrayRef) -> Result<&BooleanArray, OperatorError> {
    array.as_any().downcast_ref::<BooleanArray>().ok_or_else(|| {
        let given: &DataType = array.data_type();
        OperatorError::Plan(format!("a condition must be boolean, not {given}"))
    })
}
