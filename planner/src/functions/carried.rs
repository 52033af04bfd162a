//! What values of a [`CarriedType`] are besides their text: `as_text(value, 'type')` as a cast to `text` shows them,
//! `order_key(value, 'type')` bytes that compare as they do, `money_number(value, 'type')` an amount's number.

use super::error;
use arrow::array::{ArrayRef, AsArray, BinaryArray, StringArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::carried::scalar::Money;
use thalweg_catalog::{CarriedType, SqlError, SqlResult, SqlType};

/// The name of the function that shows values as text.
pub(crate) const AS_TEXT: &str = "as_text";

/// The value as text.
pub(crate) fn as_text(value: Expr, of: &CarriedType) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function(Aspect::Text)));
    called(&FUNCTION, value, of)
}

/// Bytes that compare as the values do.
pub(crate) fn order_key(value: Expr, of: &CarriedType) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function(Aspect::OrderKey)));
    called(&FUNCTION, value, of)
}

/// The number of an amount of money, as text.
pub(crate) fn money_number(value: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function(Aspect::MoneyNumber)));
    called(&FUNCTION, value, &CarriedType::Money)
}

fn called(function: &ScalarUDF, value: Expr, of: &CarriedType) -> Expr {
    let name = ScalarValue::Utf8(Some(SqlType::Carried(of.clone()).spelled()));
    function.call(vec![value, Expr::Literal(name, None)])
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    [Aspect::Text, Aspect::OrderKey, Aspect::MoneyNumber].map(function).to_vec()
}

fn function(aspect: Aspect) -> ScalarUDF {
    ScalarUDF::from(OfCarried { aspect, signature: Signature::user_defined(Volatility::Immutable) })
}

/// What a function tells of a value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Aspect {
    Text,
    OrderKey,
    MoneyNumber,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OfCarried {
    aspect: Aspect,
    signature: Signature,
}

impl ScalarUDFImpl for OfCarried {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        match self.aspect {
            Aspect::Text => AS_TEXT,
            Aspect::OrderKey => "order_key",
            Aspect::MoneyNumber => "money_number",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.len() == 2 { Ok(vec![DataType::Utf8; 2]) } else { super::wrong_types(self.name(), types) }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(match self.aspect {
            Aspect::OrderKey => DataType::Binary,
            Aspect::Text | Aspect::MoneyNumber => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.first().is_none_or(|f| f.is_nullable());
        // What the value's field says of its type is no longer so.
        Ok(Arc::new(arrow::datatypes::Field::new(self.name(), self.return_type(&[])?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = match &args.args[1] {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))) => SqlType::parse(name),
            _ => None,
        };
        let Some(SqlType::Carried(of)) = of else {
            return Err(error(SqlError::invalid_parameter(format!("the type of {} must be written out", self.name()))));
        };
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let values = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let result = self.all(values.as_string::<i32>(), &of).map_err(error)?;
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

impl OfCarried {
    fn all(&self, values: &StringArray, of: &CarriedType) -> SqlResult<ArrayRef> {
        fn each<T, A: FromIterator<Option<T>>>(values: &StringArray, read: impl Fn(&str) -> SqlResult<T>) -> SqlResult<A> {
            values.iter().map(|value| value.map(&read).transpose()).collect()
        }
        Ok(match self.aspect {
            Aspect::Text => Arc::new(each::<_, StringArray>(values, |value| of.cast_to_text(value))?),
            Aspect::OrderKey => Arc::new(each::<_, BinaryArray>(values, |value| of.order_key(value))?),
            Aspect::MoneyNumber => Arc::new(each::<_, StringArray>(values, |value| Ok(Money::parse(value)?.number()))?),
        })
    }
}
