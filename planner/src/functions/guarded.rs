//! DataFusion's functions with a look at their arguments before: Postgres refuses what has no result, where DataFusion gives NaN
//! or infinity, or takes memory without end.

use super::error;
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::Result;
use datafusion::functions::{math, string};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// The longest text in bytes.
const TEXT_BYTES_MAX: i64 = (1 << 30) - 1;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let guarded: [(Arc<ScalarUDF>, Check); 8] = [
        (math::sqrt(), |args| numbers(&args[0], square_root)),
        (math::ln(), |args| numbers(&args[0], logarithm)),
        (math::log10(), |args| numbers(&args[0], logarithm)),
        (math::log2(), |args| numbers(&args[0], logarithm)),
        (math::log(), |args| args.iter().try_for_each(|arg| numbers(arg, logarithm))),
        (math::power(), power),
        (string::chr(), |args| characters(&args[0])),
        (string::repeat(), repeated),
    ];
    guarded.into_iter().map(|(inner, check)| ScalarUDF::from(Guarded { inner, check })).collect()
}

type Check = fn(&[ArrayRef]) -> Result<()>;

#[derive(Debug)]
struct Guarded {
    inner: Arc<ScalarUDF>,
    check: Check,
}

impl PartialEq for Guarded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Guarded {}

impl Hash for Guarded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl ScalarUDFImpl for Guarded {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        (self.check)(&arrays)?;
        self.inner.invoke_with_args(args)
    }
}

fn doubles(array: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

fn whole(array: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn numbers(array: &ArrayRef, check: fn(f64) -> SqlResult<()>) -> Result<()> {
    doubles(array)?.iter().flatten().try_for_each(|value| check(value).map_err(error))
}

fn square_root(value: f64) -> SqlResult<()> {
    if value < 0.0 {
        return Err(SqlError::new(SqlState::InvalidArgumentForPower, "cannot take square root of a negative number"));
    }
    Ok(())
}

fn logarithm(value: f64) -> SqlResult<()> {
    let what = if value == 0.0 { "zero" } else { "a negative number" };
    if value <= 0.0 {
        return Err(SqlError::new(SqlState::InvalidArgumentForLogarithm, format!("cannot take logarithm of {what}")));
    }
    Ok(())
}

fn power(args: &[ArrayRef]) -> Result<()> {
    let (bases, exponents) = (doubles(&args[0])?, doubles(&args[1])?);
    for (base, exponent) in bases.iter().zip(&exponents).filter_map(|(base, exponent)| base.zip(exponent)) {
        let refused = |what: &str| Err(error(SqlError::new(SqlState::InvalidArgumentForPower, what)));
        if base == 0.0 && exponent < 0.0 {
            return refused("zero raised to a negative power is undefined");
        }
        if base < 0.0 && exponent.is_finite() && exponent.fract() != 0.0 {
            return refused("a negative number raised to a non-integer power yields a complex result");
        }
        if base.is_finite() && exponent.is_finite() && base.powf(exponent).is_infinite() {
            return Err(error(SqlError::new(SqlState::NumericValueOutOfRange, "value out of range: overflow")));
        }
    }
    Ok(())
}

fn characters(codes: &ArrayRef) -> Result<()> {
    let is_none = |code: &i64| *code == 0 || u32::try_from(*code).ok().and_then(char::from_u32).is_none();
    let Some(code) = whole(codes)?.iter().flatten().find(is_none) else { return Ok(()) };
    let message = match code {
        0 => "null character not permitted".to_string(),
        ..0 => "character number must be positive".to_string(),
        0xD800..0xE000 => format!("requested character not valid for encoding: {code}"),
        _ => format!("requested character too large for encoding: {code}"),
    };
    Err(error(SqlError::new(SqlState::ProgramLimitExceeded, message)))
}

fn repeated(args: &[ArrayRef]) -> Result<()> {
    let (texts, counts) = (cast(&args[0], &DataType::Utf8)?, whole(&args[1])?);
    let texts = texts.as_string::<i32>();
    for (text, count) in texts.iter().zip(&counts).filter_map(|(text, count)| text.zip(count)) {
        if (text.len() as i64).saturating_mul(count) > TEXT_BYTES_MAX {
            return Err(error(SqlError::new(SqlState::ProgramLimitExceeded, "requested length too large")));
        }
    }
    Ok(())
}
