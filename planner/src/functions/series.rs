//! `series(first, last [, step])`: the list that `generate_series` spreads into rows where it stands in a select list.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::Result;
use datafusion::functions_nested::range::gen_series_udf;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlState};

/// The most values that one call makes: they are all in memory at once.
const VALUES_MAX: i128 = 20_000_000;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(Series { signature: Signature::user_defined(Volatility::Immutable) })]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Series {
    signature: Signature,
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

impl ScalarUDFImpl for Series {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "series"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Whole numbers are counted in the type that holds them; what else there is, DataFusion knows.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if !(2..=3).contains(&types.len()) {
            return super::wrong_types("generate_series", types);
        }
        if !types.iter().all(|t| t.is_integer() || t.is_null()) {
            return gen_series_udf().coerce_types(types);
        }
        let wide = types.iter().any(|t| matches!(t, DataType::Int64 | DataType::UInt64 | DataType::UInt32));
        Ok(vec![if wide { DataType::Int64 } else { DataType::Int32 }; types.len()])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            None => super::wrong_types("generate_series", types),
            Some(first) if first.is_integer() => Ok(list(first.clone())),
            Some(_) => gen_series_udf().return_type(types),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !args.arg_fields.iter().all(|field| field.data_type().is_integer()) {
            return gen_series_udf().invoke_with_args(args);
        }
        let wanted = args.return_field.data_type().clone();
        args.args = args.args.iter().map(|arg| arg.cast_to(&DataType::Int64, None)).collect::<Result<_>>()?;
        check(&args)?;
        let wide = |field: &Arc<Field>| Arc::new(field.as_ref().clone().with_data_type(DataType::Int64));
        args.arg_fields = args.arg_fields.iter().map(wide).collect();
        args.return_field = Arc::new(args.return_field.as_ref().clone().with_data_type(list(DataType::Int64)));
        match gen_series_udf().invoke_with_args(args)? {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(cast(&array, &wanted)?)),
            ColumnarValue::Scalar(scalar) => Ok(ColumnarValue::Scalar(scalar.cast_to(&wanted)?)),
        }
    }
}

/// Refuses a step of zero, and series that memory would not hold.
fn check(args: &ScalarFunctionArgs) -> Result<()> {
    let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { args.number_rows };
    let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<ArrayRef>>>()?;
    let value = |at: usize, row: usize| {
        let array: &ArrayRef = arrays.get(at)?;
        let array = array.as_primitive::<Int64Type>();
        array.is_valid(row).then(|| i128::from(array.value(row)))
    };
    let mut total = 0;
    for row in 0..rows {
        let step = if arrays.len() > 2 { value(2, row) } else { Some(1) };
        let (Some(first), Some(last), Some(step)) = (value(0, row), value(1, row), step) else { continue };
        if step == 0 {
            return Err(error(SqlError::invalid_parameter("step size cannot equal zero")));
        }
        total += ((last - first) / step + 1).max(0);
    }
    if total > VALUES_MAX {
        return Err(error(
            SqlError::new(SqlState::ProgramLimitExceeded, format!("generate_series gives more than {VALUES_MAX} rows here"))
                .with_hint("Put it into the FROM clause, where its rows are made one after another."),
        ));
    }
    Ok(())
}
