//! `as_system_type(value, 'type')`: a value as one of the types of Postgres's own catalog, which clients are told it is of.
//!
//! The values are carried as text or as wide integers: the result's field says the OID.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_catalog::types::OID_METADATA;
use thalweg_catalog::{SqlError, SqlState};

/// The function's name.
pub(crate) const NAME: &str = "as_system_type";

/// The longest name in bytes.
const NAME_BYTES_MAX: usize = 63;

/// The OID of the one type that has more than 32 bits.
const XID8: u32 = 5069;

/// Types that are shown by name, which what reads system relations looks up.
const NAMED: [(&str, u32); 5] =
    [("regproc", 24), ("regclass", 2205), ("regtype", 2206), ("regnamespace", 4089), ("regrole", 4096)];

/// A type: its name, its OID, that of its arrays, and what carries it. A vector is an array itself.
struct SystemType {
    name: &'static str,
    oid: u32,
    array: u32,
    carrier: Carrier,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Text,
    Number,
    Vector,
}

const TYPES: [SystemType; 8] = [
    SystemType { name: "name", oid: 19, array: 1003, carrier: Carrier::Text },
    SystemType { name: "\"char\"", oid: 18, array: 1002, carrier: Carrier::Text },
    SystemType { name: "oid", oid: 26, array: 1028, carrier: Carrier::Number },
    SystemType { name: "xid", oid: 28, array: 1011, carrier: Carrier::Number },
    SystemType { name: "cid", oid: 29, array: 1012, carrier: Carrier::Number },
    SystemType { name: "xid8", oid: XID8, array: 271, carrier: Carrier::Number },
    SystemType { name: "int2vector", oid: 22, array: 22, carrier: Carrier::Vector },
    SystemType { name: "oidvector", oid: 30, array: 30, carrier: Carrier::Vector },
];

/// The OID of the arrays of a type of Postgres's own catalog.
pub fn system_array_oid(oid: u32) -> Option<u32> {
    TYPES.iter().find(|t| t.oid == oid).map(|t| t.array)
}

/// The name of the type in [`TYPES`] that a cast names, or of arrays of it, and the type that its values are carried as.
pub(crate) fn carried(data_type: &ast::DataType) -> Option<(String, ast::DataType)> {
    if let Some(item) = item_of(data_type) {
        let (name, carried) = carried(item)?;
        let array = ast::ArrayElemTypeDef::SquareBracket(Box::new(carried), None);
        return Some((format!("{name}[]"), ast::DataType::Array(array)));
    }
    let found = find(data_type)?;
    let array = |item: ast::DataType| ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(Box::new(item), None));
    let carrier = match found.carrier {
        Carrier::Text => ast::DataType::Text,
        Carrier::Number => ast::DataType::BigInt(None),
        Carrier::Vector if found.oid == 22 => array(ast::DataType::SmallInt(None)),
        Carrier::Vector => array(ast::DataType::BigInt(None)),
    };
    Some((found.name.to_string(), carrier))
}

/// The text of a vector, `1 2`, as that of the array which carries it; none for other types.
pub(crate) fn vector_text(text: &str, data_type: &ast::DataType) -> Option<String> {
    let is_vector = find(data_type).is_some_and(|found| found.carrier == Carrier::Vector);
    is_vector.then(|| format!("{{{}}}", text.split_whitespace().collect::<Vec<_>>().join(",")))
}

/// The OID of the type that a cast names, if it or its items are in [`TYPES`], or it is in [`NAMED`].
pub(crate) fn oid(data_type: &ast::DataType) -> Option<u32> {
    let name = data_type.to_string().to_lowercase();
    if let Some((_, oid)) = NAMED.iter().find(|(known, _)| *known == name.trim_start_matches("pg_catalog.")) {
        return Some(*oid);
    }
    match item_of(data_type) {
        Some(item) => find(item).map(|found| found.array),
        None => find(data_type).map(|found| found.oid),
    }
}

fn item_of(data_type: &ast::DataType) -> Option<&ast::DataType> {
    match data_type {
        ast::DataType::Array(ast::ArrayElemTypeDef::SquareBracket(item, _)) => Some(item),
        _ => None,
    }
}

fn find(data_type: &ast::DataType) -> Option<&'static SystemType> {
    let ast::DataType::Custom(name, _) = data_type else { return None };
    let name = name.0.last()?.to_string();
    TYPES.iter().find(|t| t.name == name || !name.starts_with('"') && t.name == name.to_lowercase())
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(AsSystemType { signature: Signature::any(2, Volatility::Immutable) })]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct AsSystemType {
    signature: Signature,
}

/// The type that the second argument names, its arrays by `[]` behind it.
fn named(value: Option<&ScalarValue>) -> Result<&'static SystemType> {
    let found = match value {
        Some(ScalarValue::Utf8(Some(name))) => TYPES.iter().find(|t| t.name == name.trim_end_matches("[]")),
        _ => None,
    };
    found.ok_or_else(|| error(SqlError::invalid_parameter("the type of as_system_type must be written out")))
}

impl ScalarUDFImpl for AsSystemType {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().map_or_else(|| super::wrong_types(NAME, types), Ok)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let target = named(args.scalar_arguments.get(1).copied().flatten())?;
        let field = args.arg_fields[0].as_ref().clone().with_name(NAME);
        let oid = if matches!(field.data_type(), DataType::List(_)) { target.array } else { target.oid };
        Ok(Arc::new(field.with_metadata(HashMap::from([(OID_METADATA.to_string(), oid.to_string())]))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let target = match &args.args[1] {
            ColumnarValue::Scalar(value) => named(Some(value))?,
            ColumnarValue::Array(_) => named(None)?,
        };
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let values = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let result: ArrayRef = match values.data_type() {
            DataType::Int64 => {
                check_numbers(values.as_primitive::<Int64Type>(), target)?;
                values
            }
            DataType::Utf8 => {
                let texts = values.as_string::<i32>();
                Arc::new(texts.iter().map(|text| text.map(|text| shortened(text, target))).collect::<StringArray>())
            }
            _ => values,
        };
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

/// Refuses what 32 bits can't hold; negative numbers wrap, as in Postgres.
fn check_numbers(values: &arrow::array::Int64Array, target: &SystemType) -> Result<()> {
    let bounds = if target.oid == XID8 { i64::MIN..=i64::MAX } else { i64::from(i32::MIN)..=i64::from(u32::MAX) };
    match values.iter().flatten().find(|value| !bounds.contains(value)) {
        None => Ok(()),
        Some(_) => Err(error(SqlError::new(SqlState::NumericValueOutOfRange, format!("{} out of range", target.name)))),
    }
}

/// The text as far as the type holds it: names have a longest length, a `"char"` is one byte.
fn shortened<'a>(text: &'a str, target: &SystemType) -> &'a str {
    let limit = if target.oid == 18 { 1 } else { NAME_BYTES_MAX };
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
