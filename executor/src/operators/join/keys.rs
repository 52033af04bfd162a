//! That the sides' keys can be matched by their bytes.

use super::side::{LEFT, RIGHT};
use crate::error::OperatorError;
use arrow::datatypes::{DataType, SchemaRef};

/// Checks the pairs of columns that must be equal.
pub(super) fn check_keys(on: &[(usize, usize)], inputs: &[SchemaRef]) -> Result<(), OperatorError> {
    for (left, right) in on {
        let type_of = |side: usize, column: usize| inputs[side].fields().get(column).map(|f| f.data_type());
        let types = (type_of(LEFT, *left), type_of(RIGHT, *right));
        if !matches!(types, (Some(left), Some(right)) if same_key_type(left, right)) {
            return Err(OperatorError::Plan(format!("the keys of a join are of types {types:?}")));
        }
    }
    Ok(())
}

/// Whether equal values of both types have the same bytes and hash.
fn same_key_type(left: &DataType, right: &DataType) -> bool {
    match (left, right) {
        (DataType::Decimal128(_, l), DataType::Decimal128(_, r)) => l == r,
        _ => left == right,
    }
}
