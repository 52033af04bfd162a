//! What `@>`, `<@`, `?`, `?|` and `?&` ask of `jsonb` values: functions, by Postgres's names.

use super::{error, is_text};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::SqlResult;
use thalweg_catalog::json::contains::{contains, has_key};

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Test {
    /// Whether the left value has all that the right one has.
    Contains,
    /// The same the other way round.
    Contained,
    /// Whether it has a key.
    Key,
    /// Whether it has one of some keys.
    AnyKey,
    /// Whether it has all of them.
    AllKeys,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct JsonTest {
    test: Test,
    signature: Signature,
}

/// The function that asks this.
pub(crate) fn asking(test: Test) -> ScalarUDF {
    ScalarUDF::from(JsonTest { test, signature: Signature::user_defined(Volatility::Immutable) })
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    [Test::Contains, Test::Contained, Test::Key, Test::AnyKey, Test::AllKeys].into_iter().map(asking).collect()
}

impl Test {
    /// Whether the right side is an array of keys.
    pub(crate) fn takes_keys(self) -> bool {
        matches!(self, Test::AnyKey | Test::AllKeys)
    }

    fn of_texts(self, left: &str, right: &str) -> SqlResult<bool> {
        match self {
            Test::Contains => contains(left, right),
            Test::Contained => contains(right, left),
            _ => has_key(left, right),
        }
    }

    /// NULL is no key.
    fn of_keys<'a>(self, value: &str, keys: impl Iterator<Item = Option<&'a str>>) -> SqlResult<bool> {
        let wanted = self == Test::AnyKey;
        for key in keys.flatten() {
            if has_key(value, key)? == wanted {
                return Ok(wanted);
            }
        }
        Ok(!wanted)
    }
}

impl ScalarUDFImpl for JsonTest {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        match self.test {
            Test::Contains => "jsonb_contains",
            Test::Contained => "jsonb_contained",
            Test::Key => "jsonb_exists",
            Test::AnyKey => "jsonb_exists_any",
            Test::AllKeys => "jsonb_exists_all",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let keys = || DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
        match types {
            [value, DataType::List(_) | DataType::Null] if self.test.takes_keys() && is_text(value) => {
                Ok(vec![DataType::Utf8, keys()])
            }
            [value, other] if !self.test.takes_keys() && is_text(value) && is_text(other) => Ok(vec![DataType::Utf8; 2]),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let (values, others) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
        let values = values.as_string::<i32>();
        let known = |row: &usize| !values.is_null(*row) && !others.is_null(*row);
        let ask = |row: usize| {
            Some(row).filter(known).map(|row| match self.test.takes_keys() {
                true => self.test.of_keys(values.value(row), others.as_list::<i32>().value(row).as_string::<i32>().iter()),
                false => self.test.of_texts(values.value(row), others.as_string::<i32>().value(row)),
            })
        };
        let answers: SqlResult<BooleanArray> = (0..rows).map(|row| ask(row).transpose()).collect();
        let result: ArrayRef = Arc::new(answers.map_err(error)?);
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}
