//! `regexp_extract(text, pattern [, group])`: what a group of the first match holds; NULL where nothing matches.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use regex::Regex;
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::SqlError;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(RegexpExtract { signature: Signature::user_defined(Volatility::Immutable) })]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct RegexpExtract {
    signature: Signature,
}

impl ScalarUDFImpl for RegexpExtract {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "regexp_extract"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types.len() {
            2 => Ok(vec![DataType::Utf8, DataType::Utf8]),
            3 if types[2].is_integer() || types[2].is_null() => Ok(vec![DataType::Utf8, DataType::Utf8, DataType::Int64]),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let ColumnarValue::Scalar(ScalarValue::Utf8(pattern)) = &args.args[1] else {
            return Err(error(SqlError::unsupported("the pattern of regexp_extract must be written out")));
        };
        let group = match args.args.get(2) {
            None => 1,
            Some(ColumnarValue::Scalar(ScalarValue::Int64(Some(group)))) if *group >= 0 => *group as usize,
            Some(_) => return Err(error(SqlError::invalid_parameter("the group of regexp_extract must be a number from 0"))),
        };
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let texts = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let texts = texts.as_string::<i32>();
        let regex = pattern.as_deref().map(compile).transpose()?;
        let mut found = StringBuilder::with_capacity(texts.len(), 0);
        for row in 0..texts.len() {
            let captures = match &regex {
                Some(regex) if texts.is_valid(row) => regex.captures(texts.value(row)),
                _ => None,
            };
            found.append_option(captures.and_then(|c| c.get(group)).map(|m| m.as_str()));
        }
        let result: ArrayRef = Arc::new(found.finish());
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

fn compile(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|e| {
        error(SqlError::invalid_parameter(format!("invalid regular expression \"{pattern}\"")).with_detail(e.to_string()))
    })
}
