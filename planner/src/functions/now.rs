//! `now()` and `current_timestamp`: when the statement started, in microseconds.
//!
//! Known only to who runs the statement: the optimiser is told and puts the moment in. Continuous queries refuse it.

use super::error;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::SqlError;

/// What Arrow calls the zone of `timestamptz`.
const UTC: &str = "+00:00";

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(Now { signature: Signature::nullary(Volatility::Stable), aliases: vec!["current_timestamp".into()] })]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Now {
    signature: Signature,
    aliases: Vec<String>,
}

impl ScalarUDFImpl for Now {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "now"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, false)))
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match context.query_execution_start_time() {
            None => Ok(ExprSimplifyResult::Original(args)),
            Some(now) => {
                let moment = ScalarValue::TimestampMicrosecond(Some(now.timestamp_micros()), Some(UTC.into()));
                Ok(ExprSimplifyResult::Simplified(Expr::Literal(moment, None)))
            }
        }
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(error(SqlError::internal("now() was evaluated without a statement's time")))
    }
}
