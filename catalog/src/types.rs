//! SQL types: what a column is to a user, and the Arrow type that carries it.

use crate::carried::CarriedType;
use crate::carried::labels::EnumType;
use crate::error::{SqlError, SqlResult, SqlState};
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The field metadata key under which a type is kept that Arrow alone can't tell (uuid, jsonb, varchar(n), …).
pub const TYPE_METADATA: &str = "thalweg.type";

/// The field metadata key under which the OID is kept that clients are told where it is not that of the [`SqlType`]: of `oid`,
/// `name`, `"char"`, … in system relations and in casts.
pub const OID_METADATA: &str = "thalweg.oid";

/// The scale and precision that a `numeric` without any is kept with.
pub const NUMERIC_DEFAULT: (u8, i8) = (38, 10);

/// A SQL type as Postgres knows it.
///
/// Carried by Arrow as: integers and floats as they are; `numeric` as Decimal128; text types, `uuid`, JSON and [`CarriedType`]s as Utf8;
/// `timestamp` and `timestamptz` in microseconds (the latter with zone `+00:00`); `date` as Date32; `time` as Time64 in
/// microseconds; `interval` as MonthDayNano; `bytea` as Binary; arrays as List; records as Struct.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum SqlType {
    Boolean,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// Precision and scale; none means whatever [`NUMERIC_DEFAULT`] holds.
    Numeric(Option<(u8, i8)>),
    Text,
    /// At most so many characters; none means no limit.
    Varchar(Option<u32>),
    /// Blank-padded to so many characters.
    Char(u32),
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    /// Carried by its canonical text.
    Carried(CarriedType),
    Array(Box<SqlType>),
    Record(Vec<(String, SqlType)>),
}

impl SqlType {
    /// The Arrow type that carries values of this type.
    pub fn to_arrow(&self) -> DataType {
        match self {
            SqlType::Boolean => DataType::Boolean,
            SqlType::Int2 => DataType::Int16,
            SqlType::Int4 => DataType::Int32,
            SqlType::Int8 => DataType::Int64,
            SqlType::Float4 => DataType::Float32,
            SqlType::Float8 => DataType::Float64,
            SqlType::Numeric(p) => {
                let (precision, scale) = p.unwrap_or(NUMERIC_DEFAULT);
                DataType::Decimal128(precision, scale)
            }
            SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_) => DataType::Utf8,
            SqlType::Uuid | SqlType::Json | SqlType::Jsonb | SqlType::Carried(_) => DataType::Utf8,
            SqlType::Bytea => DataType::Binary,
            SqlType::Date => DataType::Date32,
            SqlType::Time => DataType::Time64(TimeUnit::Microsecond),
            SqlType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            SqlType::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            SqlType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            SqlType::Array(item) => DataType::List(Arc::new(item.to_field("item", true))),
            SqlType::Record(fields) => DataType::Struct(fields.iter().map(|(n, t)| t.to_field(n, true)).collect::<Fields>()),
        }
    }

    /// An Arrow field of this type, with metadata where the Arrow type alone does not tell it.
    pub fn to_field(&self, name: &str, nullable: bool) -> Field {
        let field = Field::new(name, self.to_arrow(), nullable);
        if SqlType::from_arrow(field.data_type()).as_ref() == Ok(self) {
            field
        } else {
            field.with_metadata(HashMap::from([(TYPE_METADATA.to_string(), self.spelled())]))
        }
    }

    /// The type of a field, by its metadata where it has some.
    ///
    /// # Errors
    /// `0A000` for an Arrow type that no SQL type is carried by.
    pub fn from_field(field: &Field) -> SqlResult<SqlType> {
        match field.metadata().get(TYPE_METADATA).and_then(|text| SqlType::parse(text)) {
            Some(found) if found.to_arrow() == *field.data_type() => Ok(found),
            _ => SqlType::from_arrow(field.data_type()),
        }
    }

    /// The type that values of this Arrow type are shown as. Types that are wider than any of ours (unsigned integers,
    /// views, nanoseconds) map to the one that holds them; [`SqlType::to_arrow`] of the result is what to cast to.
    ///
    /// # Errors
    /// `0A000` for an Arrow type that no SQL type is carried by.
    pub fn from_arrow(data_type: &DataType) -> SqlResult<SqlType> {
        Ok(match data_type {
            DataType::Boolean => SqlType::Boolean,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => SqlType::Int2,
            DataType::Int32 | DataType::UInt16 => SqlType::Int4,
            DataType::Int64 | DataType::UInt32 => SqlType::Int8,
            DataType::UInt64 => SqlType::Numeric(Some((20, 0))),
            DataType::Float16 | DataType::Float32 => SqlType::Float4,
            DataType::Float64 => SqlType::Float8,
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) if *s >= 0 => {
                if (*p, *s) == NUMERIC_DEFAULT { SqlType::Numeric(None) } else { SqlType::Numeric(Some((*p, *s))) }
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => SqlType::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => SqlType::Bytea,
            DataType::Date32 | DataType::Date64 => SqlType::Date,
            DataType::Time32(_) | DataType::Time64(_) => SqlType::Time,
            DataType::Timestamp(_, None) => SqlType::Timestamp,
            DataType::Timestamp(_, Some(_)) => SqlType::TimestampTz,
            DataType::Interval(_) | DataType::Duration(_) => SqlType::Interval,
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                SqlType::Array(Box::new(SqlType::from_field(item)?))
            }
            DataType::Struct(fields) => {
                SqlType::Record(fields.iter().map(|f| Ok((f.name().clone(), SqlType::from_field(f)?))).collect::<SqlResult<_>>()?)
            }
            DataType::Dictionary(_, value) => SqlType::from_arrow(value)?,
            other => {
                return Err(SqlError::new(SqlState::FeatureNotSupported, format!("type {other} has no SQL counterpart")));
            }
        })
    }

    /// The text from which [`SqlType::parse`] makes this type again, also where its name alone does not tell it.
    pub fn spelled(&self) -> String {
        match self {
            SqlType::Carried(CarriedType::Enum(of)) => of.spelled(),
            SqlType::Array(item) => format!("{}[]", item.spelled()),
            other => other.to_string(),
        }
    }

    /// The type as it can be written in SQL, whatever schemas names are looked up in.
    pub fn in_sql(&self) -> String {
        match self {
            SqlType::Carried(CarriedType::Enum(of)) => format!("\"{}\"", of.spelled().replace('"', "\"\"")),
            SqlType::Array(item) => format!("{}[]", item.in_sql()),
            other => other.to_string(),
        }
    }

    /// The enum types that values are of, or their elements or fields.
    pub fn enums(&self) -> Vec<&Arc<EnumType>> {
        match self {
            SqlType::Carried(CarriedType::Enum(of)) => vec![of],
            SqlType::Array(item) => item.enums(),
            SqlType::Record(fields) => fields.iter().flat_map(|(_, field)| field.enums()).collect(),
            _ => vec![],
        }
    }

    /// The type that [`SqlType::spelled`] gave as `text`, or one of Postgres's other names for a type.
    pub fn parse(text: &str) -> Option<SqlType> {
        let text = text.trim();
        if let Some(item) = text.strip_suffix("[]") {
            return Some(SqlType::Array(Box::new(SqlType::parse(item)?)));
        }
        if let Some(of) = EnumType::parse(text) {
            return Some(SqlType::Carried(CarriedType::Enum(Arc::new(of))));
        }
        let lower = text.to_lowercase();
        let (name, args) = match lower.split_once('(') {
            Some((name, rest)) => {
                let args: Option<Vec<u32>> = rest.strip_suffix(')')?.split(',').map(|a| a.trim().parse().ok()).collect();
                (name.trim(), args?)
            }
            None => (lower.as_str(), vec![]),
        };
        Some(match (name, args.as_slice()) {
            ("boolean" | "bool", []) => SqlType::Boolean,
            ("smallint" | "int2", []) => SqlType::Int2,
            ("integer" | "int" | "int4", []) => SqlType::Int4,
            ("bigint" | "int8", []) => SqlType::Int8,
            ("real" | "float4", []) => SqlType::Float4,
            ("double precision" | "float8" | "float" | "double", []) => SqlType::Float8,
            ("numeric" | "decimal", []) => SqlType::Numeric(None),
            ("numeric" | "decimal", [p]) => SqlType::Numeric(Some((u8::try_from(*p).ok()?, 0))),
            ("numeric" | "decimal", [p, s]) => SqlType::Numeric(Some((u8::try_from(*p).ok()?, i8::try_from(*s).ok()?))),
            ("text" | "string", []) => SqlType::Text,
            ("character varying" | "varchar", []) => SqlType::Varchar(None),
            ("character varying" | "varchar", [n]) => SqlType::Varchar(Some(*n)),
            ("character" | "char" | "bpchar", []) => SqlType::Char(1),
            ("character" | "char" | "bpchar", [n]) => SqlType::Char(*n),
            ("bytea" | "bytes", []) => SqlType::Bytea,
            ("date", []) => SqlType::Date,
            ("time" | "time without time zone", [] | [_]) => SqlType::Time,
            ("timestamp" | "timestamp without time zone", [] | [_]) => SqlType::Timestamp,
            ("timestamptz" | "timestamp with time zone", [] | [_]) => SqlType::TimestampTz,
            ("interval", []) => SqlType::Interval,
            ("uuid", []) => SqlType::Uuid,
            ("json", []) => SqlType::Json,
            ("jsonb", []) => SqlType::Jsonb,
            (name, args) => SqlType::Carried(CarriedType::parse(name, args)?),
        })
    }

    /// The OID of this type in every Postgres. Arrays of types that have no array OID here are shown as `text[]`.
    pub fn oid(&self) -> u32 {
        match self {
            SqlType::Boolean => 16,
            SqlType::Int2 => 21,
            SqlType::Int4 => 23,
            SqlType::Int8 => 20,
            SqlType::Float4 => 700,
            SqlType::Float8 => 701,
            SqlType::Numeric(_) => 1700,
            SqlType::Text => 25,
            SqlType::Varchar(_) => 1043,
            SqlType::Char(_) => 1042,
            SqlType::Bytea => 17,
            SqlType::Date => 1082,
            SqlType::Time => 1083,
            SqlType::Timestamp => 1114,
            SqlType::TimestampTz => 1184,
            SqlType::Interval => 1186,
            SqlType::Uuid => 2950,
            SqlType::Json => 114,
            SqlType::Jsonb => 3802,
            SqlType::Carried(carried) => carried.oid(),
            SqlType::Array(item) => item.array_oid(),
            SqlType::Record(_) => 2249,
        }
    }

    /// The OID of an array of this type.
    pub fn array_oid(&self) -> u32 {
        match self {
            SqlType::Boolean => 1000,
            SqlType::Int2 => 1005,
            SqlType::Int4 => 1007,
            SqlType::Int8 => 1016,
            SqlType::Float4 => 1021,
            SqlType::Float8 => 1022,
            SqlType::Numeric(_) => 1231,
            SqlType::Text => 1009,
            SqlType::Varchar(_) => 1015,
            SqlType::Char(_) => 1014,
            SqlType::Bytea => 1001,
            SqlType::Date => 1182,
            SqlType::Time => 1183,
            SqlType::Timestamp => 1115,
            SqlType::TimestampTz => 1185,
            SqlType::Interval => 1187,
            SqlType::Uuid => 2951,
            SqlType::Json => 199,
            SqlType::Jsonb => 3807,
            SqlType::Carried(carried) => carried.array_oid(),
            // In Postgres an array of arrays has its item's array type.
            SqlType::Array(item) => item.array_oid(),
            SqlType::Record(_) => 2287,
        }
    }

    /// The scalar type with this OID, without its modifier.
    pub fn from_oid(oid: u32) -> Option<SqlType> {
        const SCALARS: [SqlType; 19] = [
            SqlType::Boolean,
            SqlType::Int2,
            SqlType::Int4,
            SqlType::Int8,
            SqlType::Float4,
            SqlType::Float8,
            SqlType::Numeric(None),
            SqlType::Text,
            SqlType::Varchar(None),
            SqlType::Char(1),
            SqlType::Bytea,
            SqlType::Date,
            SqlType::Time,
            SqlType::Timestamp,
            SqlType::TimestampTz,
            SqlType::Interval,
            SqlType::Uuid,
            SqlType::Json,
            SqlType::Jsonb,
        ];
        let mut all = SCALARS.into_iter().chain(CarriedType::all().map(SqlType::Carried));
        let found = all.find(|t| t.oid() == oid || t.array_oid() == oid)?;
        Some(if found.oid() == oid { found } else { SqlType::Array(Box::new(found)) })
    }

    /// The type modifier that Postgres sends with this type, −1 for none.
    pub fn typmod(&self) -> i32 {
        match self {
            SqlType::Varchar(Some(n)) | SqlType::Char(n) => *n as i32 + 4,
            SqlType::Numeric(Some((p, s))) => ((i32::from(*p) << 16) | i32::from(*s as u8)) + 4,
            SqlType::Carried(carried) => carried.typmod(),
            SqlType::Array(item) => item.typmod(),
            _ => -1,
        }
    }

    /// The size of a value in bytes as `pg_type.typlen` has it, −1 for a varying one.
    pub fn typlen(&self) -> i16 {
        match self {
            SqlType::Boolean => 1,
            SqlType::Int2 => 2,
            SqlType::Int4 | SqlType::Float4 | SqlType::Date => 4,
            SqlType::Int8 | SqlType::Float8 | SqlType::Time | SqlType::Timestamp | SqlType::TimestampTz => 8,
            SqlType::Interval | SqlType::Uuid => 16,
            SqlType::Carried(carried) => carried.typlen(),
            _ => -1,
        }
    }
}

/// Prints the type as `format_type` does in Postgres.
impl fmt::Display for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlType::Boolean => f.write_str("boolean"),
            SqlType::Int2 => f.write_str("smallint"),
            SqlType::Int4 => f.write_str("integer"),
            SqlType::Int8 => f.write_str("bigint"),
            SqlType::Float4 => f.write_str("real"),
            SqlType::Float8 => f.write_str("double precision"),
            SqlType::Numeric(None) => f.write_str("numeric"),
            SqlType::Numeric(Some((p, s))) => write!(f, "numeric({p},{s})"),
            SqlType::Text => f.write_str("text"),
            SqlType::Varchar(None) => f.write_str("character varying"),
            SqlType::Varchar(Some(n)) => write!(f, "character varying({n})"),
            SqlType::Char(n) => write!(f, "character({n})"),
            SqlType::Bytea => f.write_str("bytea"),
            SqlType::Date => f.write_str("date"),
            SqlType::Time => f.write_str("time without time zone"),
            SqlType::Timestamp => f.write_str("timestamp without time zone"),
            SqlType::TimestampTz => f.write_str("timestamp with time zone"),
            SqlType::Interval => f.write_str("interval"),
            SqlType::Uuid => f.write_str("uuid"),
            SqlType::Json => f.write_str("json"),
            SqlType::Jsonb => f.write_str("jsonb"),
            SqlType::Carried(carried) => carried.fmt(f),
            SqlType::Array(item) => write!(f, "{item}[]"),
            SqlType::Record(_) => f.write_str("record"),
        }
    }
}
