//! Parameters of Bind, as the scalars that plans take.

use super::session::NAMED_OIDS;
use super::settings::OutputSettings;
use super::value::read::{self, ColumnReader};
use super::value::{Format, array, numeric};
use datafusion::scalar::ScalarValue;
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType, array_text};

/// The type that a parameter of this OID is read as, if every database has it: its own, that of what it is carried as for the types of the system
/// relations, text where the type is not known.
pub fn parameter_type(oid: u32) -> Option<SqlType> {
    let text_array = || SqlType::Array(Box::new(SqlType::Text));
    match oid {
        // Unspecified, unknown, "char", name, cstring.
        0 | 705 | 18 | 19 | 2275 => Some(SqlType::Text),
        oid if NAMED_OIDS.contains(&oid) => Some(SqlType::Text),
        // oid, xid, cid, xid8.
        26 | 28 | 29 | 5069 => Some(SqlType::Int8),
        // oid[], oidvector, int2vector.
        1028 | 30 => Some(SqlType::Array(Box::new(SqlType::Int8))),
        22 => Some(SqlType::Array(Box::new(SqlType::Int2))),
        // "char"[], name[], unknown[].
        1002 | 1003 => Some(text_array()),
        _ => SqlType::from_oid(oid),
    }
}

/// Reads the parameter at `index` (from 0), whose type has this OID and is read as that. `bytes` are none for NULL, which has the parameter's type all the same.
///
/// # Errors
/// `22P02` and its like for bad text, `22P03` for bad binary, `0A000` for a type that is not known.
pub fn decode_parameter(
    index: usize,
    (oid, sql_type): (u32, Option<SqlType>),
    format: Format,
    bytes: Option<&[u8]>,
    settings: &OutputSettings,
) -> SqlResult<ScalarValue> {
    let sql_type = match sql_type {
        // The length of a parameter's type is not known: as long as it comes.
        Some(SqlType::Char(_)) => SqlType::Text,
        Some(found) => found,
        None => return Err(SqlError::unsupported(format!("parameter ${} has a type that is not known: {oid}", index + 1))),
    };
    let named = |error: SqlError| match error.state {
        SqlState::InvalidBinaryRepresentation => SqlError::new(
            SqlState::InvalidBinaryRepresentation,
            format!("incorrect binary data format in bind parameter {}", index + 1),
        ),
        _ => error,
    };
    decode(&sql_type, oid, format, bytes, settings).map_err(named)
}

fn decode(
    sql_type: &SqlType,
    oid: u32,
    format: Format,
    bytes: Option<&[u8]>,
    settings: &OutputSettings,
) -> SqlResult<ScalarValue> {
    match (sql_type, bytes) {
        (SqlType::Numeric(_), Some(bytes)) => return decode_numeric(format, bytes),
        // Four bytes in binary, though carried in eight.
        (SqlType::Int8, Some(bytes)) if matches!(oid, 26 | 28 | 29) && format == Format::Binary => {
            return Ok(ScalarValue::Int64(Some(i64::from(u32::from_be_bytes(read::fixed(bytes)?)))));
        }
        // An OID in binary, though looked up by name: its digits are a name too.
        (SqlType::Text, Some(bytes)) if NAMED_OIDS.contains(&oid) && format == Format::Binary => {
            return Ok(ScalarValue::Utf8(Some(u32::from_be_bytes(read::fixed(bytes)?).to_string())));
        }
        (SqlType::Array(item), Some(bytes)) => return decode_array(item, oid, format, bytes, settings),
        _ => {}
    }
    let mut reader = ColumnReader::new(sql_type, *settings)?;
    match bytes {
        Some(bytes) => reader.append(format, bytes)?,
        None => reader.append_null(),
    }
    scalar_of(&mut reader)
}

/// An array of as many dimensions as came.
fn decode_array(item: &SqlType, oid: u32, format: Format, bytes: &[u8], settings: &OutputSettings) -> SqlResult<ScalarValue> {
    let vector: String;
    let bytes = match (oid, format) {
        // Vectors have neither braces nor commas.
        (22 | 30, Format::Text) => {
            vector = format!("{{{}}}", read::utf8(bytes)?.split_whitespace().collect::<Vec<_>>().join(","));
            vector.as_bytes()
        }
        _ => bytes,
    };
    let dimensions = match format {
        Format::Text => array_text::dimensions(read::utf8(bytes)?)?,
        Format::Binary => array::dimensions_binary(bytes)?,
    };
    let nested = |item: SqlType| (0..dimensions).fold(item, |inner, _| SqlType::Array(Box::new(inner)));
    if matches!(oid, 1028 | 30) && format == Format::Binary {
        // Elements of type oid have four bytes: read as integers and widened.
        let mut reader = ColumnReader::new(&nested(SqlType::Int4), *settings)?;
        reader.append_binary(bytes)?;
        let wide = nested(SqlType::Int8).to_arrow();
        return scalar_of(&mut reader)?.cast_to(&wide).map_err(|error| SqlError::internal(error.to_string()));
    }
    let mut reader = ColumnReader::new(&nested(item.clone()), *settings)?;
    reader.append(format, bytes)?;
    scalar_of(&mut reader)
}

fn scalar_of(reader: &mut ColumnReader) -> SqlResult<ScalarValue> {
    let array = reader.finish()?;
    ScalarValue::try_from_array(&array, 0).map_err(|error| SqlError::internal(format!("a parameter has no scalar: {error}")))
}

/// A number with as many decimal places as it came with.
fn decode_numeric(format: Format, bytes: &[u8]) -> SqlResult<ScalarValue> {
    let number = match format {
        Format::Text => read::decimal(read::utf8(bytes)?)?,
        Format::Binary => read::decimal_binary(bytes)?,
    };
    Ok(ScalarValue::Decimal128(Some(number.value), numeric::PRECISION_MAX, number.scale as i8))
}

#[cfg(test)]
mod tests;
