//! Integer arithmetic that reports overflow, float division that reports a divisor of zero, and rounding of floats to the
//! nearest whole number, of two to the even one.
//!
//! DataFusion's operators wrap and give infinity, in constant folding too; these stand in for them after type coercion.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, Datum};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::{SqlError, SqlState, SqlType};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
    Negate,
    RoundEven,
}

impl Operation {
    fn symbol(self) -> &'static str {
        match self {
            Operation::Add => "+",
            Operation::Subtract | Operation::Negate => "-",
            Operation::Multiply => "*",
            Operation::Divide => "/",
            Operation::RoundEven => "round",
        }
    }
}

macro_rules! operation {
    ($name:ident, $operation:expr, $doc:literal) => {
        #[doc = $doc]
        pub(crate) fn $name() -> Arc<ScalarUDF> {
            static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Checked::new($operation))));
            Arc::clone(&FUNCTION)
        }
    };
}

operation!(add, Operation::Add, "The sum of two integers of one type.");
operation!(subtract, Operation::Subtract, "The difference of two integers of one type.");
operation!(multiply, Operation::Multiply, "The product of two integers of one type.");
operation!(divide, Operation::Divide, "The quotient of two floats of one type.");
operation!(negate, Operation::Negate, "An integer with its sign turned.");
operation!(round_even, Operation::RoundEven, "A float as the nearest whole number.");

pub(super) fn functions() -> Vec<ScalarUDF> {
    [add(), subtract(), multiply(), divide(), negate(), round_even()].iter().map(|function| function.as_ref().clone()).collect()
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation) -> Checked {
        let arguments = if matches!(operation, Operation::Negate | Operation::RoundEven) { 1 } else { 2 };
        Checked { operation, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "checked_add",
            Operation::Subtract => "checked_subtract",
            Operation::Multiply => "checked_multiply",
            Operation::Divide => "checked_divide",
            Operation::Negate => "checked_negate",
            Operation::RoundEven => "round_even",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("({left} {} {right})", self.operation.symbol()),
            [inner] => format!("({} {inner})", self.operation.symbol()),
            _ => self.name().to_string(),
        })
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{} {} {}", left.schema_name(), self.operation.symbol(), right.schema_name()),
            [inner] => format!("({} {})", self.operation.symbol(), inner.schema_name()),
            _ => self.name().to_string(),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(first) => Ok(first.clone()),
            None => super::wrong_types(self.name(), types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args;
        let all_scalars = values.iter().all(|v| matches!(v, ColumnarValue::Scalar(_)));
        let result = match values.as_slice() {
            [left, right] => self.binary(left, right),
            [inner] if self.operation == Operation::RoundEven => inner.to_array(1).map(|array| round_to_even(&array)),
            [inner] => inner.to_array(1).and_then(|array| Ok(numeric::neg(&array)?)),
            _ => super::wrong_types(self.name(), &[]),
        };
        let array = result.map_err(|e| out_of_range(e, args.return_field.data_type()))?;
        if all_scalars {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
        } else {
            Ok(ColumnarValue::Array(array))
        }
    }
}

impl Checked {
    fn binary(&self, left: &ColumnarValue, right: &ColumnarValue) -> Result<ArrayRef> {
        let (left, right) = (datum(left)?, datum(right)?);
        Ok(match self.operation {
            Operation::Add => numeric::add(left.as_ref(), right.as_ref())?,
            Operation::Subtract => numeric::sub(left.as_ref(), right.as_ref())?,
            Operation::Multiply => numeric::mul(left.as_ref(), right.as_ref())?,
            Operation::Divide | Operation::Negate | Operation::RoundEven => {
                let quotient = numeric::div(left.as_ref(), right.as_ref())?;
                refuse_zero(right.as_ref(), &quotient)?;
                quotient
            }
        })
    }
}

fn round_to_even(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even)),
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even)),
        _ => Arc::clone(array),
    }
}

fn datum(value: &ColumnarValue) -> Result<Box<dyn Datum>> {
    Ok(match value {
        ColumnarValue::Array(array) => Box::new(Arc::clone(array)),
        ColumnarValue::Scalar(scalar) => Box::new(scalar.to_scalar()?),
    })
}

/// Refuses a divisor of zero in a row that has a quotient.
fn refuse_zero(divisor: &dyn Datum, quotient: &ArrayRef) -> Result<()> {
    let (array, is_scalar) = divisor.get();
    let is_zero = |row: usize| match array.data_type() {
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row) == 0.0,
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row) == 0.0,
        _ => false,
    };
    let rows = quotient.len();
    let found = if is_scalar {
        array.is_valid(0) && is_zero(0) && quotient.null_count() < rows
    } else {
        (0..rows).any(|row| quotient.is_valid(row) && is_zero(row))
    };
    if found { Err(ArrowError::DivideByZero.into()) } else { Ok(()) }
}

fn out_of_range(found: datafusion::error::DataFusionError, result: &DataType) -> datafusion::error::DataFusionError {
    match found {
        datafusion::error::DataFusionError::ArrowError(arrow, _) if matches!(*arrow, ArrowError::ArithmeticOverflow(_)) => {
            let name = SqlType::from_arrow(result).map_or_else(|_| "value".to_string(), |t| t.to_string());
            error(SqlError::new(SqlState::NumericValueOutOfRange, format!("{name} out of range")))
        }
        other => other,
    }
}
