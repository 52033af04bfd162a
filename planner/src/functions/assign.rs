//! `as_type(text, 'type')`: text as a value of a type that is carried by text, refused if it is none.
//!
//! Casts and assignments to `uuid`, `json`, `varchar(n)`, `char(n)` and the [`CarriedType`](thalweg_catalog::CarriedType)s end in it;
//! the result's field says the type. Lists of texts become arrays of such values. Where a type's texts may leave out a time zone, a
//! third argument says which is meant.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringBuilder};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType, json};

/// The function's name.
pub(crate) const NAME: &str = "as_type";

/// The value as of this type; itself where its Arrow type says it all.
pub(crate) fn to_type(value: Expr, sql_type: &SqlType) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function()));
    if !is_checked(sql_type) {
        return value;
    }
    let name = ScalarValue::Utf8(Some(sql_type.spelled()));
    FUNCTION.call(vec![value, Expr::Literal(name, None)])
}

/// Whether not every text is a value of a type, or not as it stands.
fn is_checked(sql_type: &SqlType) -> bool {
    match sql_type {
        SqlType::Uuid | SqlType::Json | SqlType::Jsonb | SqlType::Varchar(Some(_)) | SqlType::Char(_) | SqlType::Carried(_) => {
            true
        }
        SqlType::Array(item) => is_checked(item),
        _ => false,
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
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types.len() {
            2 | 3 => {
                let value = if matches!(types[0], DataType::List(_)) { types[0].clone() } else { DataType::Utf8 };
                Ok([vec![value], vec![DataType::Utf8; types.len() - 1]].concat())
            }
            _ => super::wrong_types(NAME, types),
        }
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
        let zone = match args.args.get(2) {
            Some(ColumnarValue::Scalar(ScalarValue::Utf8(Some(zone)))) => SessionTimeZone::parse(zone),
            _ => None,
        };
        let zone = zone.unwrap_or(SessionTimeZone::UTC);
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let values = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let result = all(&values, &sql_type, &zone)?;
        Ok(match result.as_list_opt::<i32>() {
            _ if !is_scalar => ColumnarValue::Array(result),
            // Of the first list of an array it would be forgotten what its items are.
            Some(list) => ColumnarValue::Scalar(ScalarValue::List(Arc::new(list.clone()))),
            None => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        })
    }
}

/// Texts, or lists of them, as values of a type.
fn all(values: &ArrayRef, sql_type: &SqlType, zone: &SessionTimeZone) -> Result<ArrayRef> {
    if let (SqlType::Array(item), DataType::List(_)) = (sql_type, values.data_type()) {
        let (_, offsets, items, nulls) = values.as_list::<i32>().clone().into_parts();
        let items = all(&items, item, zone)?;
        return Ok(Arc::new(ListArray::try_new(Arc::new(item.to_field("item", true)), offsets, items, nulls)?));
    }
    let texts = values.as_string_opt::<i32>().ok_or_else(|| datafusion::common::exec_datafusion_err!("{NAME} takes text"))?;
    let mut out = StringBuilder::with_capacity(texts.len(), texts.values().len());
    for text in texts {
        match text {
            Some(text) => out.append_value(checked(text, sql_type, zone).map_err(error)?),
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// The text as the type keeps it.
///
/// # Errors
/// `22P02` for text that is no value of the type, `22001` for one that is too long.
fn checked<'a>(text: &'a str, sql_type: &SqlType, zone: &SessionTimeZone) -> SqlResult<Cow<'a, str>> {
    match sql_type {
        SqlType::Carried(carried) => carried.canonical(text, zone).map(Cow::Owned),
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
