//! `single_value(rows, value)`: the value of a scalar subquery, refused if it has more than one row.

use super::error;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::{SqlError, SqlState};

/// The function: how many rows there are (NULL for none), and the value.
pub(crate) fn single_value() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(SingleValue { signature: Signature::any(2, Volatility::Immutable) })));
    Arc::clone(&FUNCTION)
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![single_value().as_ref().clone()]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SingleValue {
    signature: Signature,
}

impl ScalarUDFImpl for SingleValue {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, value] => Ok(value.clone()),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(args.arg_fields[1].as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.args[0].to_array(1)?;
        let rows = rows.as_primitive::<Int64Type>();
        if (0..rows.len()).any(|row| rows.is_valid(row) && rows.value(row) > 1) {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(error(SqlError::new(SqlState::CardinalityViolation, message)));
        }
        Ok(args.args[1].clone())
    }
}
