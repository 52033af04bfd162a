//! Types whose values are carried by their text: addresses, bit strings, ranges and others that no operator computes with.
//!
//! A value is read where it comes in and kept in the one form that Postgres shows it in, its *canonical* text. Two values are equal
//! when their texts are, so that keys, groups and joins need to know nothing of the type. Texts do not sort as values do:
//! [`CarriedType::order_key`] gives bytes that do, where there are some.
//!
//! In reading order: [`network`], [`bits`], [`scalar`] (`timetz`, `money`, `pg_lsn`), [`range`] over [`bound`], [`geometry`], [`words`]
//! (`tsvector`), [`markup`] (`xml`), [`labels`] (enums, which users create).

pub mod bits;
pub mod bound;
pub mod geometry;
pub mod labels;
pub mod markup;
pub mod network;
pub mod range;
pub mod scalar;
pub mod words;

use crate::datetime::SessionTimeZone;
use crate::error::{SqlError, SqlResult, SqlState};
use bound::BoundType;
use geometry::Shape;
use labels::EnumType;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A type whose values are carried by their canonical text.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum CarriedType {
    Inet,
    Cidr,
    MacAddr,
    MacAddr8,
    TimeTz,
    /// Exactly so many bits; none means any number.
    Bit(Option<u32>),
    /// At most so many bits; none means no limit.
    VarBit(Option<u32>),
    Money,
    PgLsn,
    Xml,
    TsVector,
    Shape(Shape),
    Range(BoundType),
    Multirange(BoundType),
    /// One of the labels of a type that a user created.
    Enum(#[serde(with = "labels::shared")] Arc<EnumType>),
}

use CarriedType as T;

/// All types that every database has, without their lengths: name in `pg_type`, OID, OID of its arrays, `pg_type.typlen`.
static ALL: [(CarriedType, &str, u32, u32, i16); 30] = [
    (T::Inet, "inet", 869, 1041, -1),
    (T::Cidr, "cidr", 650, 651, -1),
    (T::MacAddr, "macaddr", 829, 1040, 6),
    (T::MacAddr8, "macaddr8", 774, 775, 8),
    (T::TimeTz, "timetz", 1266, 1270, 12),
    (T::Bit(None), "bit", 1560, 1561, -1),
    (T::VarBit(None), "varbit", 1562, 1563, -1),
    (T::Money, "money", 790, 791, 8),
    (T::PgLsn, "pg_lsn", 3220, 3221, 8),
    (T::Xml, "xml", 142, 143, -1),
    (T::TsVector, "tsvector", 3614, 3643, -1),
    (T::Shape(Shape::Point), "point", 600, 1017, 16),
    (T::Shape(Shape::Line), "line", 628, 629, 24),
    (T::Shape(Shape::Segment), "lseg", 601, 1018, 32),
    (T::Shape(Shape::Box), "box", 603, 1020, 32),
    (T::Shape(Shape::Path), "path", 602, 1019, -1),
    (T::Shape(Shape::Polygon), "polygon", 604, 1027, -1),
    (T::Shape(Shape::Circle), "circle", 718, 719, 24),
    (T::Range(BoundType::Int4), "int4range", 3904, 3905, -1),
    (T::Range(BoundType::Int8), "int8range", 3926, 3927, -1),
    (T::Range(BoundType::Numeric), "numrange", 3906, 3907, -1),
    (T::Range(BoundType::Timestamp), "tsrange", 3908, 3909, -1),
    (T::Range(BoundType::TimestampTz), "tstzrange", 3910, 3911, -1),
    (T::Range(BoundType::Date), "daterange", 3912, 3913, -1),
    (T::Multirange(BoundType::Int4), "int4multirange", 4451, 6150, -1),
    (T::Multirange(BoundType::Int8), "int8multirange", 4536, 6157, -1),
    (T::Multirange(BoundType::Numeric), "nummultirange", 4532, 6151, -1),
    (T::Multirange(BoundType::Timestamp), "tsmultirange", 4533, 6152, -1),
    (T::Multirange(BoundType::TimestampTz), "tstzmultirange", 4534, 6153, -1),
    (T::Multirange(BoundType::Date), "datemultirange", 4535, 6155, -1),
];

impl CarriedType {
    /// All types that every database has, without their lengths.
    pub fn all() -> impl Iterator<Item = CarriedType> + Clone {
        ALL.iter().map(|(found, ..)| found.clone())
    }

    /// The type of this name, in SQL or in `pg_type`, with its length.
    pub fn parse(name: &str, args: &[u32]) -> Option<CarriedType> {
        match (name, args) {
            ("bit", []) => Some(T::Bit(Some(1))),
            ("\"bit\"", []) => Some(T::Bit(None)),
            ("bit", [n]) => Some(T::Bit(Some(*n))),
            ("varbit" | "bit varying", []) => Some(T::VarBit(None)),
            ("varbit" | "bit varying", [n]) => Some(T::VarBit(Some(*n))),
            ("time with time zone", []) => Some(T::TimeTz),
            (name, []) => ALL.iter().find(|(_, known, ..)| *known == name).map(|(found, ..)| found.clone()),
            _ => None,
        }
    }

    /// What is known of a type that every database has.
    fn facts(&self) -> &'static (CarriedType, &'static str, u32, u32, i16) {
        let plain = self.without_length();
        ALL.iter().find(|(found, ..)| *found == plain).expect("all types but enums are in the list")
    }

    /// The type for values of any length.
    #[must_use]
    pub fn without_length(&self) -> CarriedType {
        match self {
            T::Bit(_) => T::Bit(None),
            T::VarBit(_) => T::VarBit(None),
            other => other.clone(),
        }
    }

    /// The name in `pg_type`, after which Postgres names columns.
    pub fn name(&self) -> &str {
        match self {
            T::Enum(of) => &of.name,
            other => other.facts().1,
        }
    }

    /// The OID of the type.
    pub fn oid(&self) -> u32 {
        match self {
            T::Enum(of) => of.id.0,
            other => other.facts().2,
        }
    }

    /// The OID of arrays of the type.
    pub fn array_oid(&self) -> u32 {
        match self {
            T::Enum(of) => of.array.0,
            other => other.facts().3,
        }
    }

    /// `pg_type.typlen`.
    pub fn typlen(&self) -> i16 {
        match self {
            // What Postgres keeps of a value is the OID of its label.
            T::Enum(_) => 4,
            other => other.facts().4,
        }
    }

    /// The type modifier that Postgres sends with this type, −1 for none.
    pub fn typmod(&self) -> i32 {
        match *self {
            T::Bit(Some(n)) | T::VarBit(Some(n)) => i32::try_from(n).unwrap_or(-1),
            _ => -1,
        }
    }

    /// Whether a text without a time zone stands for a value that depends on the session's.
    pub fn depends_on_zone(&self) -> bool {
        matches!(self, T::TimeTz | T::Range(BoundType::TimestampTz) | T::Multirange(BoundType::TimestampTz))
    }

    /// Whether Postgres has `=` for the type, which groups, keys and `DISTINCT` need too.
    pub fn has_equality(&self) -> bool {
        // Boxes, circles and paths are equal to others of the same area or length there: that is no equality of values.
        !matches!(self, T::Xml | T::Shape(_))
    }

    /// Whether values have an order: then [`CarriedType::order_key`] gives a key of each.
    pub fn has_order(&self) -> bool {
        self.has_equality() && *self != T::TsVector
    }

    /// Whether canonical texts compare as the values do, so that no keys are needed.
    pub fn sorts_as_text(&self) -> bool {
        matches!(self, T::MacAddr | T::MacAddr8 | T::Bit(_) | T::VarBit(_))
    }

    /// The canonical text of a value; `zone` is where times without a zone are.
    ///
    /// # Errors
    /// `22P02` and its like for a text that is no value of the type.
    pub fn canonical(&self, text: &str, zone: &SessionTimeZone) -> SqlResult<String> {
        Ok(match *self {
            T::Inet => network::Network::parse(text, false)?.to_string(),
            T::Cidr => network::Network::parse(text, true)?.shown_with_length(),
            T::MacAddr => network::mac_text(&network::mac(text)?),
            T::MacAddr8 => network::mac_text(&network::mac8(text)?),
            T::TimeTz => scalar::TimeTz::parse(text, zone)?.to_string(),
            T::Bit(length) => bits::exactly(bits::parse(text)?, length)?,
            T::VarBit(limit) => bits::at_most(bits::parse(text)?, limit)?,
            T::Money => scalar::Money::parse(text)?.to_string(),
            T::PgLsn => scalar::Lsn::parse(text)?.to_string(),
            T::Xml => markup::checked(text)?,
            T::TsVector => words::text_of(&words::parse(text)?),
            T::Shape(shape) => geometry::text_of(shape, &geometry::parse(shape, text)?),
            T::Range(bounds) => range::parse(bounds, text, zone)?.to_string(),
            T::Multirange(bounds) => range::text_of(&range::parse_many(bounds, text, zone)?),
            T::Enum(ref of) => of.checked(text)?.to_string(),
        })
    }

    /// The canonical text as a cast to `text` shows it.
    pub fn cast_to_text(&self, canonical: &str) -> SqlResult<String> {
        match self {
            // An address always has its length there.
            T::Inet => Ok(network::Network::parse(canonical, false)?.shown_with_length()),
            _ => Ok(canonical.to_string()),
        }
    }

    /// Bytes that compare as the values do, of a canonical text.
    ///
    /// # Errors
    /// `42883` for types without an order.
    pub fn order_key(&self, canonical: &str) -> SqlResult<Vec<u8>> {
        let utc = &SessionTimeZone::UTC;
        Ok(match *self {
            T::Inet | T::Cidr => network::Network::parse(canonical, false)?.order_key(),
            T::MacAddr | T::MacAddr8 | T::Bit(_) | T::VarBit(_) => canonical.as_bytes().to_vec(),
            T::TimeTz => scalar::TimeTz::parse(canonical, utc)?.order_key(),
            T::Money => ordered(scalar::Money::parse(canonical)?.cents).to_vec(),
            T::PgLsn => scalar::Lsn::parse(canonical)?.0.to_be_bytes().to_vec(),
            T::Range(bounds) => range::parse(bounds, canonical, utc)?.order_key(),
            T::Multirange(bounds) => range::order_key(&range::parse_many(bounds, canonical, utc)?),
            T::Enum(ref of) => of.place(canonical)?.to_be_bytes().to_vec(),
            T::Xml | T::TsVector | T::Shape(_) => return Err(self.no_order()),
        })
    }

    /// `42883`: the type has no order here.
    pub fn no_order(&self) -> SqlError {
        SqlError::new(SqlState::UndefinedFunction, format!("could not identify an ordering operator for type {self}"))
            .with_hint("Order by its text, with a cast to text.")
    }

    /// `42883`: the type has no equality.
    pub fn no_equality(&self) -> SqlError {
        SqlError::new(SqlState::UndefinedFunction, format!("could not identify an equality operator for type {self}"))
            .with_hint("Compare its text, with a cast to text.")
    }
}

/// Bytes that compare as the numbers do.
fn ordered(value: i64) -> [u8; 8] {
    (value as u64 ^ 1 << 63).to_be_bytes()
}

/// `22P02`: a text that is no value of a type.
fn invalid(type_name: &str, text: &str) -> SqlError {
    SqlError::new(SqlState::InvalidTextRepresentation, format!("invalid input syntax for type {type_name}: \"{text}\""))
}

/// Prints the type as `format_type` does in Postgres.
impl fmt::Display for CarriedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            T::TimeTz => f.write_str("time with time zone"),
            // In quotes it is the type of any length; without, that of one bit.
            T::Bit(None) => f.write_str("\"bit\""),
            T::Bit(Some(n)) => write!(f, "bit({n})"),
            T::VarBit(None) => f.write_str("bit varying"),
            T::VarBit(Some(n)) => write!(f, "bit varying({n})"),
            T::Enum(of) => of.fmt(f),
            other => f.write_str(other.name()),
        }
    }
}

#[cfg(test)]
mod tests;
