//! `as_type(text, 'type')`: text as a value of a type that is carried by text, refused if it is none.
//!
//! Casts and assignments to `uuid`, `json`, `varchar(n)` and `char(n)` end in it; the result's field says the type.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType, json};

/// The value as of this type; itself where its Arrow type says it all.
pub(crate) fn to_type(value: Expr, sql_type: &SqlType) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function()));
    match sql_type {
        SqlType::Uuid | SqlType::Json | SqlType::Jsonb | SqlType::Varchar(Some(_)) | SqlType::Char(_) => {
            let name = ScalarValue::Utf8(Some(sql_type.to_string()));
            FUNCTION.call(vec![value, Expr::Literal(name, None)])
        }
        _ => value,
    }
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![function()]
}

fn function() -> ScalarUDF {
    ScalarUDF::from(AsType { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AsType {
    signature: Signature,
}

impl ScalarUDFImpl for AsType {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "as_type"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.len() == 2 { Ok(vec![DataType::Utf8; 2]) } else { super::wrong_types(self.name(), types) }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = args.scalar_arguments.get(1).copied().flatten();
        let nullable = args.arg_fields.first().is_none_or(|f| f.is_nullable());
        let sql_type = match name {
            Some(ScalarValue::Utf8(Some(name))) => SqlType::parse(name).unwrap_or(SqlType::Text),
            _ => SqlType::Text,
        };
        Ok(Arc::new(sql_type.to_field(self.name(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let sql_type = match &args.args[1] {
            ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))) => SqlType::parse(name),
            _ => None,
        };
        let Some(sql_type) = sql_type else {
            return Err(error(SqlError::invalid_parameter("the type of as_type must be written out")));
        };
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let texts = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let texts = texts.as_string::<i32>();
        let mut out = StringBuilder::with_capacity(texts.len(), texts.values().len());
        for row in 0..texts.len() {
            if texts.is_null(row) {
                out.append_null();
            } else {
                out.append_value(checked(texts.value(row), &sql_type).map_err(error)?);
            }
        }
        let result: ArrayRef = Arc::new(out.finish());
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

/// The text as the type keeps it.
///
/// # Errors
/// `22P02` for text that is no value of the type, `22001` for one that is too long.
pub fn checked<'a>(text: &'a str, sql_type: &SqlType) -> SqlResult<Cow<'a, str>> {
    match sql_type {
        SqlType::Uuid => uuid(text).map(Cow::Owned).ok_or_else(|| invalid(text, sql_type)),
        SqlType::Json => json::check(text).map(|()| Cow::Borrowed(text)),
        SqlType::Jsonb => json::canonical(text).map(Cow::Owned),
        SqlType::Varchar(Some(limit)) => shortened(text, *limit as usize, sql_type).map(Cow::Borrowed),
        SqlType::Char(limit) => {
            let text = shortened(text, *limit as usize, sql_type)?;
            let missing = (*limit as usize).saturating_sub(text.chars().count());
            Ok(if missing == 0 { Cow::Borrowed(text) } else { Cow::Owned(format!("{text}{}", " ".repeat(missing))) })
        }
        _ => Ok(Cow::Borrowed(text)),
    }
}

fn invalid(text: &str, sql_type: &SqlType) -> SqlError {
    SqlError::new(SqlState::InvalidTextRepresentation, format!("invalid input syntax for type {sql_type}: \"{text}\""))
}

/// The text cut where only spaces stand behind the limit.
fn shortened<'a>(text: &'a str, limit: usize, sql_type: &SqlType) -> SqlResult<&'a str> {
    match text.char_indices().nth(limit) {
        None => Ok(text),
        Some((cut, _)) if text[cut..].chars().all(|c| c == ' ') => Ok(&text[..cut]),
        Some(_) => Err(SqlError::new(SqlState::StringDataRightTruncation, format!("value too long for type {sql_type}"))),
    }
}

/// A UUID in its usual form; read with or without hyphens, in braces or not, in any case.
fn uuid(text: &str) -> Option<String> {
    let inner = text.trim();
    let inner = inner.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(inner);
    let digits: String = inner.chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
    if digits.len() != 32 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    Some(format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]))
}
