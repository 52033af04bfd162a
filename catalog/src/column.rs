//! Columns of relations.

use crate::types::SqlType;
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One column of a relation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Its name, in the case that it was declared with.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Whether it can be NULL.
    pub nullable: bool,
    /// The text of its `DEFAULT` expression.
    #[serde(default)]
    pub default: Option<String>,
}

impl Column {
    /// A nullable column without a default.
    pub fn new(name: impl Into<String>, sql_type: SqlType) -> Column {
        Column { name: name.into(), sql_type, nullable: true, default: None }
    }
}

/// The Arrow schema of these columns.
pub fn schema_of(columns: &[Column]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|c| c.sql_type.to_field(&c.name, c.nullable)).collect::<Vec<_>>()))
}
