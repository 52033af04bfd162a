//! `INCLUDE` columns: what stands around a record rather than in it.
//!
//! | part | type of the column | value |
//! |---|---|---|
//! | key | `bytea` or a text type | the key's bytes or, its text; NULL for a record without one |
//! | partition | `integer`, `bigint` or a text type | the partition's number |
//! | offset | `bigint` or a text type | the record's offset |
//! | timestamp | `timestamptz` or `timestamp` | the record's time as the producer or the broker set it; NULL if there is none |
//! | headers | `jsonb`, `json` or a text type | an array of objects with `key` and `value`, in the record's order; see [`headers_json`] |

use arrow::array::{ArrayRef, BinaryBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use rdkafka::message::{Headers, Message};
use std::fmt::Write;
use std::sync::Arc;
use thalweg_catalog::object::{Include, MessagePart};
use thalweg_catalog::{Column, SqlError, SqlResult, SqlState, SqlType};

/// Collects the values of one `INCLUDE` column.
pub struct IncludeColumn {
    name: String,
    part: MessagePart,
    nullable: bool,
    values: Values,
}

enum Values {
    Int(Int32Builder),
    BigInt(Int64Builder),
    Bytes(BinaryBuilder),
    Text(StringBuilder),
    Time(TimestampMicrosecondBuilder),
}

/// Checks that each `INCLUDE` column has a type that its part fits in.
///
/// # Errors
/// `42804` for one that has not, `42703` for one that is not there.
pub fn check(includes: &[Include], columns: &[Column]) -> SqlResult<()> {
    for include in includes {
        let Some(column) = columns.get(include.column) else {
            return Err(SqlError::new(SqlState::UndefinedColumn, "an INCLUDE column is not among the columns"));
        };
        if values_for(include.part, &column.sql_type).is_none() {
            let (part, fitting) = match include.part {
                MessagePart::Key => ("key", "bytea or text"),
                MessagePart::Partition => ("partition", "integer, bigint or text"),
                MessagePart::Offset => ("offset", "bigint or text"),
                MessagePart::Timestamp => ("timestamp", "timestamptz or timestamp"),
                MessagePart::Headers => ("headers", "jsonb, json or text"),
            };
            return Err(SqlError::new(
                SqlState::DatatypeMismatch,
                format!("a record's {part} does not fit column \"{}\" of type {}", column.name, column.sql_type),
            )
            .with_hint(format!("Declare it as {fitting}.")));
        }
    }
    Ok(())
}

fn values_for(part: MessagePart, sql_type: &SqlType) -> Option<Values> {
    let text = matches!(sql_type, SqlType::Text | SqlType::Varchar(None));
    Some(match (part, sql_type) {
        (MessagePart::Key, SqlType::Bytea) => Values::Bytes(BinaryBuilder::new()),
        (MessagePart::Partition, SqlType::Int4) => Values::Int(Int32Builder::new()),
        (MessagePart::Partition | MessagePart::Offset, SqlType::Int8) => Values::BigInt(Int64Builder::new()),
        (MessagePart::Timestamp, SqlType::Timestamp) => Values::Time(TimestampMicrosecondBuilder::new()),
        (MessagePart::Timestamp, SqlType::TimestampTz) => {
            Values::Time(TimestampMicrosecondBuilder::new().with_data_type(sql_type.to_arrow()))
        }
        (MessagePart::Headers, SqlType::Jsonb | SqlType::Json) => Values::Text(StringBuilder::new()),
        (MessagePart::Key | MessagePart::Partition | MessagePart::Offset | MessagePart::Headers, _) if text => {
            Values::Text(StringBuilder::new())
        }
        _ => return None,
    })
}

impl IncludeColumn {
    /// An empty column; none if the part does not fit the type, which [`check`] has ruled out.
    pub fn new(part: MessagePart, column: &Column) -> Option<IncludeColumn> {
        let values = values_for(part, &column.sql_type)?;
        Some(IncludeColumn { name: column.name.clone(), part, nullable: column.nullable, values })
    }

    /// Why the record's part can't be a value of this column, if it can't.
    pub fn refusal<M: Message>(&self, message: &M) -> Option<String> {
        let missing = match self.part {
            MessagePart::Key => message.key().is_none(),
            MessagePart::Timestamp => message.timestamp().to_millis().is_none(),
            MessagePart::Partition | MessagePart::Offset | MessagePart::Headers => false,
        };
        if missing && !self.nullable {
            return Some(format!("null value in column \"{}\" that is NOT NULL", self.name));
        }
        let text = matches!((&self.values, self.part), (Values::Text(_), MessagePart::Key));
        match message.key() {
            Some(key) if text && (std::str::from_utf8(key).is_err() || key.contains(&0)) => {
                Some(format!("the key is not text, so it does not fit column \"{}\"", self.name))
            }
            _ => None,
        }
    }

    /// Adds the record's part. The record was not refused.
    pub fn push<M: Message>(&mut self, message: &M) {
        let number = || if self.part == MessagePart::Offset { message.offset() } else { i64::from(message.partition()) };
        match &mut self.values {
            Values::Int(values) => values.append_value(message.partition()),
            Values::BigInt(values) => values.append_value(number()),
            Values::Bytes(values) => values.append_option(message.key()),
            Values::Time(values) => values.append_option(message.timestamp().to_millis().and_then(|ms| ms.checked_mul(1_000))),
            Values::Text(values) => match self.part {
                MessagePart::Key => values.append_option(message.key().and_then(|key| std::str::from_utf8(key).ok())),
                MessagePart::Headers => values.append_value(message.headers().map_or_else(|| "[]".into(), headers_json)),
                MessagePart::Partition | MessagePart::Offset | MessagePart::Timestamp => {
                    values.append_value(number().to_string())
                }
            },
        }
    }

    /// The values so far; the column is empty again.
    pub fn finish(&mut self) -> ArrayRef {
        match &mut self.values {
            Values::Int(values) => Arc::new(values.finish()),
            Values::BigInt(values) => Arc::new(values.finish()),
            Values::Bytes(values) => Arc::new(values.finish()),
            Values::Text(values) => Arc::new(values.finish()),
            Values::Time(values) => Arc::new(values.finish()),
        }
    }
}

/// Headers as JSON: `[{"key": "name", "value": "text"}, …]`. A name can come more than once, so an object would not do. A
/// value that is not UTF-8 is written as Postgres writes `bytea`, `\x` and hexadecimal digits; a missing one is null.
pub fn headers_json<H: Headers>(headers: &H) -> String {
    let mut json = String::from("[");
    for (index, header) in headers.iter().enumerate() {
        if index > 0 {
            json.push_str(", ");
        }
        let value = match header.value.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
            None => serde_json::Value::Null,
            Some((_, Ok(text))) => serde_json::Value::from(text),
            Some((bytes, Err(_))) => {
                let mut hex = String::from("\\x");
                for byte in bytes {
                    // Writing to a string does not fail.
                    let _ = write!(hex, "{byte:02x}");
                }
                serde_json::Value::from(hex)
            }
        };
        let _ = write!(json, "{{\"key\": {}, \"value\": {value}}}", serde_json::Value::from(header.key));
    }
    json.push(']');
    json
}

#[cfg(test)]
mod tests;
