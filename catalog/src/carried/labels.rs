//! Enum types: values are labels, in the order in which the type lists them.
//!
//! The type goes along with its columns, so that whoever meets a value needs no catalog to read and to order it. That is sound as
//! long as labels only change while nothing uses the type: see [`crate::CatalogChange::SetLabels`].

use crate::catalog::DEFAULT_SCHEMA;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ids::ObjectId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the text of a whole type begins with; see [`EnumType::spelled`].
const SPELLED: &str = "enum ";

/// An enum type with its labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct EnumType {
    /// Its lasting id, which is its OID.
    pub id: ObjectId,
    /// The OID of its arrays.
    pub array: ObjectId,
    /// The SQL schema it stands in.
    pub schema: String,
    /// Its name in that schema.
    pub name: String,
    /// Its labels, in their order.
    pub labels: Vec<String>,
}

impl EnumType {
    /// The label that a text is.
    ///
    /// # Errors
    /// `22P02` for any other text.
    pub fn checked<'a>(&self, text: &'a str) -> SqlResult<&'a str> {
        self.place(text).map(|_| text)
    }

    /// The place of a label among the others, from 0.
    ///
    /// # Errors
    /// `22P02` for a text that is no label.
    pub fn place(&self, label: &str) -> SqlResult<u32> {
        let found = self.labels.iter().position(|known| known == label).and_then(|place| u32::try_from(place).ok());
        found.ok_or_else(|| {
            let message = format!("invalid input value for enum {self}: \"{label}\"");
            SqlError::new(SqlState::InvalidTextRepresentation, message)
        })
    }

    /// A text from which [`EnumType::parse`] makes the type again: the name alone would say nothing without the catalog.
    pub fn spelled(&self) -> String {
        let parts = (&self.schema, &self.name, self.id.0, self.array.0, &self.labels);
        format!("{SPELLED}{}", serde_json::to_string(&parts).expect("texts and numbers are JSON"))
    }

    /// The type that [`EnumType::spelled`] gave this text of.
    pub fn parse(text: &str) -> Option<EnumType> {
        let (schema, name, id, array, labels) = serde_json::from_str(text.strip_prefix(SPELLED)?).ok()?;
        Some(EnumType { id: ObjectId(id), array: ObjectId(array), schema, name, labels })
    }
}

/// Prints the type as `format_type` does in Postgres under the default search path.
impl fmt::Display for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schema != DEFAULT_SCHEMA {
            write!(f, "{}.", quoted(&self.schema))?;
        }
        f.write_str(&quoted(&self.name))
    }
}

/// A name in quotes, where it would not be read as itself without.
fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A type that many columns share is written out in each of them.
pub(super) mod shared {
    use super::EnumType;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(crate) fn serialize<S: Serializer>(of: &Arc<EnumType>, serializer: S) -> Result<S::Ok, S::Error> {
        of.as_ref().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<EnumType>, D::Error> {
        EnumType::deserialize(deserializer).map(Arc::new)
    }
}

#[cfg(test)]
mod tests;
