//! `pg_sleep(seconds)`: waits without holding a thread, so that a cancel or a timeout ends it at once.

use crate::pg_catalog::relation::Kind;
use arrow::array::{Array, AsArray, StringArray};
use arrow::datatypes::{DataType, FieldRef, Float64Type};
use async_trait::async_trait;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::SqlError;

/// The function, to be registered.
pub fn function() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf()
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(Kind::Void.arrow())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        Ok(Arc::new(Kind::Void.field(self.name())))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let error = SqlError::internal("pg_sleep was called where nothing can wait for it");
        Err(datafusion::error::DataFusionError::External(Box::new(error)))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let seconds = args.args[0].to_array(args.number_rows)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        for time in seconds.iter().flatten().filter(|time| *time > 0.0) {
            // What is too long to be told apart from forever waits as long as can be said.
            tokio::time::sleep(Duration::try_from_secs_f64(time).unwrap_or(Duration::MAX)).await;
        }
        let done: StringArray = (0..seconds.len()).map(|row| (!seconds.is_null(row)).then_some("")).collect();
        Ok(ColumnarValue::Array(Arc::new(done)))
    }
}
