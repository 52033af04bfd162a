//! Types as they are written, to SQL types.

use crate::rewrite;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{self, ArrayElemTypeDef, CharacterLength, ExactNumberInfo, Ident, TimezoneInfo};
use std::sync::Arc;
use thalweg_catalog::carried::geometry::Shape;
use thalweg_catalog::{CarriedType, Catalog, EnumType, SqlError, SqlResult, SqlState, SqlType, suggest};

/// The most digits of a numeric.
const NUMERIC_PRECISION_MAX: u64 = 38;

/// Names for "did you mean".
const KNOWN: [&str; 22] = [
    "boolean",
    "smallint",
    "integer",
    "bigint",
    "real",
    "double precision",
    "numeric",
    "decimal",
    "text",
    "varchar",
    "char",
    "bytea",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "uuid",
    "json",
    "jsonb",
    "int",
    "float",
];

/// Types of Postgres that are not there.
const UNSUPPORTED: [&str; 4] = ["serial", "bigserial", "smallserial", "tsquery"];

/// Types of Postgres's own catalog; their values are carried as text or as numbers, and no column can be declared with them.
const SYSTEM_TEXT: [&str; 12] = [
    "name",
    "\"char\"",
    "regtype",
    "regproc",
    "regprocedure",
    "regnamespace",
    "regrole",
    "regoper",
    "regoperator",
    "pg_node_tree",
    "aclitem",
    "cstring",
];
const SYSTEM_NUMBER: [&str; 6] = ["oid", "regclass", "xid", "cid", "xid8", "int2vector"];

/// The SQL type of a column or a cast.
///
/// # Errors
/// `42704` for a name that is no type, `0A000` for types that are not there, `22023` for modifiers out of bounds.
pub fn sql_type(data_type: &ast::DataType) -> SqlResult<SqlType> {
    use ast::DataType as T;
    if let Some(plain) = unquoted(data_type) {
        return sql_type(&plain);
    }
    Ok(match data_type {
        T::Bool | T::Boolean => SqlType::Boolean,
        T::SmallInt(_) | T::Int2(_) => SqlType::Int2,
        T::Int(_) | T::Integer(_) | T::Int4(_) => SqlType::Int4,
        T::BigInt(_) | T::Int8(_) => SqlType::Int8,
        T::Real | T::Float4 => SqlType::Float4,
        T::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => SqlType::Float4,
        T::Float(_) | T::Float8 | T::DoublePrecision | T::Double(ExactNumberInfo::None) => SqlType::Float8,
        T::Numeric(info) | T::Decimal(info) | T::Dec(info) => numeric(info)?,
        T::Text | T::String(None) => SqlType::Text,
        T::Varchar(length) | T::CharacterVarying(length) | T::CharVarying(length) => SqlType::Varchar(limit(length)?),
        T::Char(length) | T::Character(length) => SqlType::Char(limit(length)?.unwrap_or(1)),
        T::Bytea => SqlType::Bytea,
        T::Date => SqlType::Date,
        T::Time(Some(digits), _) | T::Timestamp(Some(digits), _) if *digits < 6 => {
            return Err(SqlError::unsupported(format!("type {} is not supported", data_type.to_string().to_lowercase()))
                .with_detail("Columns of times keep microseconds.")
                .with_hint("Leave the number of digits out; a cast to the type rounds."));
        }
        T::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => SqlType::Time,
        T::Time(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => SqlType::Carried(CarriedType::TimeTz),
        T::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => SqlType::Timestamp,
        T::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => SqlType::TimestampTz,
        T::Interval { fields: Some(_), .. } => {
            return Err(SqlError::unsupported(format!("type {} is not supported", data_type.to_string().to_lowercase()))
                .with_hint("Intervals have all fields."));
        }
        T::Interval { precision: Some(digits), .. } if *digits < 6 => {
            return Err(SqlError::unsupported(format!("type {} is not supported", data_type.to_string().to_lowercase()))
                .with_detail("Intervals keep microseconds.")
                .with_hint("Leave the number of digits out; a cast to the type rounds."));
        }
        T::Interval { .. } => SqlType::Interval,
        T::Uuid => SqlType::Uuid,
        T::JSON => SqlType::Json,
        T::JSONB => SqlType::Jsonb,
        T::Bit(length) => SqlType::Carried(CarriedType::Bit(bits(*length)?.or(Some(1)))),
        T::BitVarying(limit) | T::VarBit(limit) => SqlType::Carried(CarriedType::VarBit(bits(*limit)?)),
        T::TsVector => SqlType::Carried(CarriedType::TsVector),
        T::GeometricType(kind) => custom(&kind.to_string())?,
        T::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) => {
            match sql_type(item)? {
                // Their elements have another delimiter, as commas stand within them.
                SqlType::Carried(CarriedType::Shape(Shape::Box)) => {
                    return Err(SqlError::unsupported("type box[] is not supported").with_hint("Use arrays of points."));
                }
                item => SqlType::Array(Box::new(item)),
            }
        }
        T::Custom(name, modifiers) if modifiers.is_empty() => match spelled(name) {
            Some(of) => SqlType::Carried(CarriedType::Enum(Arc::new(of))),
            None => custom(&name.to_string())?,
        },
        other => {
            return Err(SqlError::unsupported(format!("type {other} is not supported")).with_hint(known_hint(&other.to_string())));
        }
    })
}

/// Whether a cast to the type is one to text that is checked.
pub(crate) fn is_carried_by_text(data_type: &ast::DataType) -> bool {
    use ast::DataType as T;
    match data_type {
        T::Uuid | T::JSON | T::JSONB | T::Varchar(_) | T::CharacterVarying(_) | T::Char(_) | T::Character(_) => true,
        other => matches!(sql_type(other), Ok(SqlType::Carried(_))),
    }
}

/// The type of a user that a name spells out; see [`written`].
pub fn spelled(name: &ast::ObjectName) -> Option<EnumType> {
    let [part] = name.0.as_slice() else { return None };
    EnumType::parse(&part.as_ident()?.value)
}

/// The type as it is written in SQL, so that it is read as this one whatever the search path is.
pub fn written(sql_type: &SqlType) -> String {
    match sql_type {
        SqlType::Carried(CarriedType::Enum(of)) => format!("\"{}\"", of.spelled().replace('"', "\"\"")),
        SqlType::Array(item) => format!("{}[]", written(item)),
        other => other.to_string(),
    }
}

/// [`sql_type`] where names of users' types are looked up, by the path where no schema is written.
///
/// # Errors
/// As there.
pub fn sql_type_in(data_type: &ast::DataType, catalog: &Catalog, search_path: &[String]) -> SqlResult<SqlType> {
    let mut data_type = data_type.clone();
    rewrite::resolve_type(&mut data_type, catalog, search_path)?;
    sql_type(&data_type)
}

/// Whether an unqualified name is one of Postgres's own types, which come before those of users.
pub(crate) fn is_own(name: &str) -> bool {
    let known = SYSTEM_TEXT.contains(&name) || SYSTEM_NUMBER.contains(&name) || UNSUPPORTED.contains(&name);
    known || SqlType::parse(name).is_some()
}

fn known_hint(name: &str) -> String {
    suggest::hint(name, KNOWN.iter().copied())
}

fn custom(name: &str) -> SqlResult<SqlType> {
    let lower = name.to_lowercase();
    if UNSUPPORTED.contains(&lower.as_str()) {
        return Err(
            SqlError::unsupported(format!("type {lower} is not supported")).with_hint(format!("There are {}.", KNOWN.join(", ")))
        );
    }
    match SqlType::parse(&lower) {
        Some(found) => Ok(found),
        None => Err(SqlError::new(SqlState::UndefinedObject, format!("type \"{}\" does not exist", name.trim_matches('"')))
            .with_hint(known_hint(name))),
    }
}

fn numeric(info: &ExactNumberInfo) -> SqlResult<SqlType> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(SqlType::Numeric(None)),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if precision == 0 || precision > NUMERIC_PRECISION_MAX {
        return Err(SqlError::invalid_parameter(format!(
            "NUMERIC precision {precision} must be between 1 and {NUMERIC_PRECISION_MAX}"
        )));
    }
    if scale < 0 || scale as u64 > precision {
        return Err(SqlError::invalid_parameter(format!("NUMERIC scale {scale} must be between 0 and precision {precision}")));
    }
    Ok(SqlType::Numeric(Some((precision as u8, scale as i8))))
}

fn limit(length: &Option<CharacterLength>) -> SqlResult<Option<u32>> {
    match length {
        None => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) if (1..=10_485_760).contains(length) => Ok(Some(*length as u32)),
        Some(_) => Err(SqlError::invalid_parameter("the length of a character type must be between 1 and 10485760")),
    }
}

/// How many bits a type has room for.
fn bits(length: Option<u64>) -> SqlResult<Option<u32>> {
    match length {
        None => Ok(None),
        Some(length @ 1..=83_886_080) => Ok(Some(length as u32)),
        Some(_) => Err(SqlError::invalid_parameter("the length of a bit type must be between 1 and 83886080")),
    }
}

/// The type without a number of digits behind the seconds' point.
pub(crate) fn whole_type(data_type: &ast::DataType) -> ast::DataType {
    match data_type {
        ast::DataType::Time(_, zone) if !is_zoned(zone) => ast::DataType::Time(None, *zone),
        ast::DataType::Timestamp(_, zone) => ast::DataType::Timestamp(None, *zone),
        ast::DataType::Interval { fields, .. } => ast::DataType::Interval { fields: *fields, precision: None },
        other => other.clone(),
    }
}

/// Whether a time of day has a zone: then it is carried by text, and is not rounded.
pub(crate) fn is_zoned(zone: &TimezoneInfo) -> bool {
    matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz)
}

/// The type that a name in quotes stands for: in quotes only Postgres's own names are names of types, such as `"int4"`. None for any
/// other type.
pub(crate) fn unquoted(data_type: &ast::DataType) -> Option<ast::DataType> {
    use ast::DataType as T;
    if let T::Array(ArrayElemTypeDef::SquareBracket(item, size)) = data_type {
        return Some(T::Array(ArrayElemTypeDef::SquareBracket(Box::new(unquoted(item)?), *size)));
    }
    let T::Custom(name, modifiers) = data_type else { return None };
    let ident =
        name.0.last().and_then(|part| part.as_ident()).filter(|ident| ident.quote_style.is_some() && modifiers.is_empty())?;
    Some(match ident.value.as_str() {
        "bool" => T::Boolean,
        "int2" => T::Int2(None),
        "int4" => T::Int4(None),
        "int8" => T::Int8(None),
        "float4" => T::Float4,
        "float8" => T::Float8,
        "numeric" => T::Numeric(ExactNumberInfo::None),
        "text" => T::Text,
        "varchar" => T::Varchar(None),
        "bytea" => T::Bytea,
        "date" => T::Date,
        "time" => T::Time(None, TimezoneInfo::None),
        "timestamp" => T::Timestamp(None, TimezoneInfo::None),
        "timestamptz" => T::Timestamp(None, TimezoneInfo::Tz),
        "interval" => T::Interval { fields: None, precision: None },
        "uuid" => T::Uuid,
        "json" => T::JSON,
        "jsonb" => T::JSONB,
        // Without quotes it has a length.
        name if name != "bit" && CarriedType::parse(name, &[]).is_some() => T::Custom(Ident::new(name).into(), vec![]),
        _ => return None,
    })
}

/// The name of a type as Postgres names a column after it: `int4`, `varchar`, ….
pub(crate) fn internal_name(data_type: &ast::DataType) -> String {
    if let ast::DataType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) = data_type {
        return internal_name(item);
    }
    let name = match sql_type(&whole_type(data_type)) {
        Ok(SqlType::Boolean) => "bool",
        Ok(SqlType::Int2) => "int2",
        Ok(SqlType::Int4) => "int4",
        Ok(SqlType::Int8) => "int8",
        Ok(SqlType::Float4) => "float4",
        Ok(SqlType::Float8) => "float8",
        Ok(SqlType::Numeric(_)) => "numeric",
        Ok(SqlType::Varchar(_)) => "varchar",
        Ok(SqlType::Char(_)) => "bpchar",
        Ok(SqlType::Time) => "time",
        Ok(SqlType::Timestamp) => "timestamp",
        Ok(SqlType::TimestampTz) => "timestamptz",
        Ok(SqlType::Carried(carried)) => return carried.name().to_string(),
        Ok(other) => return other.to_string(),
        Err(_) => return data_type.to_string().to_lowercase().trim_matches('"').to_string(),
    };
    name.to_string()
}

/// Tells DataFusion what carries the values of a type.
#[derive(Debug)]
pub(crate) struct PostgresTypes;

impl TypePlanner for PostgresTypes {
    fn plan_type(&self, data_type: &ast::DataType) -> Result<Option<DataType>> {
        let system = data_type.to_string().to_lowercase();
        if SYSTEM_TEXT.contains(&system.as_str()) {
            return Ok(Some(DataType::Utf8));
        }
        if SYSTEM_NUMBER.contains(&system.as_str()) {
            return Ok(Some(DataType::Int64));
        }
        match sql_type(data_type) {
            Ok(found) => Ok(Some(found.to_arrow())),
            Err(error) => Err(DataFusionError::External(Box::new(error))),
        }
    }
}
