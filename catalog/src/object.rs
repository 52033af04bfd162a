//! Catalog objects: sources, tables, views, materialized views and sinks, which are relations, and types.

use crate::carried::labels::EnumType;
use crate::column::{Column, schema_of};
use crate::ids::ObjectId;
use crate::security::Subject;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One named thing that a user created.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CatalogObject {
    /// Its lasting id.
    pub id: ObjectId,
    /// The SQL schema it stands in.
    pub schema: String,
    /// Its name in that schema.
    pub name: String,
    /// Its columns, in order. A sink has those that it sends.
    pub columns: Vec<Column>,
    /// What it is.
    pub definition: ObjectDefinition,
    /// The statement that created it, as the user wrote it.
    pub sql: String,
    /// The objects that it reads, without repeats, in order of their ids.
    pub depends_on: Vec<ObjectId>,
    /// Text of `COMMENT ON`.
    #[serde(default)]
    pub comment: Option<String>,
    /// Text of `COMMENT ON COLUMN`, by the column's place.
    #[serde(default)]
    pub column_comments: BTreeMap<usize, String>,
    /// When it was created, in milliseconds since 1970.
    #[serde(default)]
    pub created_ms: u64,
}

/// What a catalog object is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ObjectDefinition {
    /// A stream of rows from outside, not kept.
    Source {
        /// Where the rows come from.
        connector: ConnectorSpec,
        /// What it promises about time.
        watermark: Option<WatermarkSpec>,
    },
    /// Rows that are kept: written by SQL, or by a connector.
    Table {
        /// The columns of the primary key, none for a table without one.
        primary_key: Vec<usize>,
        /// Where the rows come from, if not from SQL.
        connector: Option<ConnectorSpec>,
        /// What it promises about time.
        watermark: Option<WatermarkSpec>,
    },
    /// A named query.
    View {
        /// The query's text.
        query: String,
    },
    /// A query whose result is kept up to date.
    MaterializedView {
        /// The query's text, without `EMIT`.
        query: String,
        /// When results are given out.
        emit: Emit,
        /// Columns by which its rows are unique, none if not known.
        key: Vec<usize>,
    },
    /// Rows that are sent out.
    Sink {
        /// The query's text; `SELECT * FROM rel` for `CREATE SINK … FROM rel`.
        query: String,
        /// When results are given out.
        emit: Emit,
        /// Where they go.
        connector: ConnectorSpec,
        /// In what shape.
        mode: SinkMode,
        /// The columns of the target's key, for an upsert sink.
        key: Vec<usize>,
    },
    /// A type whose values are labels.
    Enum {
        /// The OID of its arrays.
        array: ObjectId,
        /// Its labels, in their order.
        labels: Vec<EnumLabel>,
    },
}

/// A label of an enum type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EnumLabel {
    /// Its lasting id, which is its OID in `pg_enum`.
    pub id: ObjectId,
    /// Its text.
    pub label: String,
    /// `pg_enum.enumsortorder`: grows along the labels.
    pub sort_order: f32,
}

/// When a query over windows gives out its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Emit {
    /// At every epoch, as they are by then.
    #[default]
    Immediate,
    /// Once, when the watermark has passed the window.
    OnWindowClose,
}

/// What a sink sends for a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SinkMode {
    /// Rows that are never taken back.
    AppendOnly,
    /// The newest row of each key, or its removal.
    Upsert,
    /// Each row that comes and each that goes.
    Changelog,
}

/// A connector with its options, as declared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ConnectorSpec {
    /// The connector's name: `kafka`, `file`, ….
    pub connector: String,
    /// All other `WITH` options, by name.
    pub options: BTreeMap<String, String>,
    /// What follows `ENCODE`; none where the connector makes rows itself.
    pub encode: Option<Encode>,
    /// Options of the encoding, by name.
    #[serde(default)]
    pub encode_options: BTreeMap<String, String>,
    /// `INCLUDE` columns: which column, and what of the message goes there.
    #[serde(default)]
    pub includes: Vec<Include>,
}

/// How rows are written as bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Encode {
    Json,
    Csv,
    Bytes,
    Parquet,
}

impl fmt::Display for Encode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encode::Json => "JSON",
            Encode::Csv => "CSV",
            Encode::Bytes => "BYTES",
            Encode::Parquet => "PARQUET",
        })
    }
}

/// A column that is filled from around a message rather than from within it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Include {
    /// The column's place.
    pub column: usize,
    /// What goes there.
    pub part: MessagePart,
}

/// What there is around a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum MessagePart {
    Key,
    Partition,
    Offset,
    Timestamp,
    Headers,
}

/// `WATERMARK FOR column AS column - delay`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WatermarkSpec {
    /// The column, a timestamp.
    pub column: usize,
    /// How far behind the newest row the watermark stays, in microseconds.
    pub delay_us: i64,
    /// After how long without rows a partition stops holding the watermark, in milliseconds; none for never.
    #[serde(default)]
    pub idle_timeout_ms: Option<u64>,
    /// How far ahead of the clock a row may be before it no longer moves the watermark, in milliseconds; none for any.
    #[serde(default)]
    pub max_drift_ms: Option<u64>,
}

/// The kinds of objects, as they are named to users.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum ObjectKind {
    Source,
    Table,
    View,
    MaterializedView,
    Sink,
    Type,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::Source => "source",
            ObjectKind::Table => "table",
            ObjectKind::View => "view",
            ObjectKind::MaterializedView => "materialized view",
            ObjectKind::Sink => "sink",
            ObjectKind::Type => "type",
        })
    }
}

impl CatalogObject {
    /// What kind of object it is.
    pub fn kind(&self) -> ObjectKind {
        match self.definition {
            ObjectDefinition::Source { .. } => ObjectKind::Source,
            ObjectDefinition::Table { .. } => ObjectKind::Table,
            ObjectDefinition::View { .. } => ObjectKind::View,
            ObjectDefinition::MaterializedView { .. } => ObjectKind::MaterializedView,
            ObjectDefinition::Sink { .. } => ObjectKind::Sink,
            ObjectDefinition::Enum { .. } => ObjectKind::Type,
        }
    }

    /// Whether it is a relation, and no type.
    pub fn is_relation(&self) -> bool {
        self.kind() != ObjectKind::Type
    }

    /// What its owner and its privileges are kept under.
    pub fn subject(&self) -> Subject {
        if self.is_relation() { Subject::Relation(self.id) } else { Subject::Type(self.id) }
    }

    /// The enum type that it is.
    pub fn enum_type(&self) -> Option<EnumType> {
        let ObjectDefinition::Enum { array, labels } = &self.definition else { return None };
        let labels = labels.iter().map(|known| known.label.clone()).collect();
        Some(EnumType { id: self.id, array: *array, schema: self.schema.clone(), name: self.name.clone(), labels })
    }

    /// The last of the ids that are its own: an enum type has some beside its first.
    pub fn last_id(&self) -> ObjectId {
        match &self.definition {
            ObjectDefinition::Enum { array, labels } => labels.iter().map(|known| known.id).fold(*array, ObjectId::max),
            _ => self.id,
        }
    }

    /// The Arrow schema of its columns.
    pub fn arrow_schema(&self) -> SchemaRef {
        schema_of(&self.columns)
    }

    /// Whether the engine runs a dataflow for it: tables, materialized views and sinks.
    pub fn is_job(&self) -> bool {
        !matches!(self.kind(), ObjectKind::Source | ObjectKind::View | ObjectKind::Type)
    }

    /// Whether its rows are kept and can be read at an epoch: tables and materialized views.
    pub fn is_kept(&self) -> bool {
        matches!(self.kind(), ObjectKind::Table | ObjectKind::MaterializedView)
    }

    /// The columns by which its kept rows are unique; empty if not known.
    pub fn key(&self) -> &[usize] {
        match &self.definition {
            ObjectDefinition::Table { primary_key, .. } => primary_key,
            ObjectDefinition::MaterializedView { key, .. } | ObjectDefinition::Sink { key, .. } => key,
            ObjectDefinition::Source { .. } | ObjectDefinition::View { .. } | ObjectDefinition::Enum { .. } => &[],
        }
    }

    /// The connector that brings or takes its rows.
    pub fn connector(&self) -> Option<&ConnectorSpec> {
        match &self.definition {
            ObjectDefinition::Source { connector, .. } | ObjectDefinition::Sink { connector, .. } => Some(connector),
            ObjectDefinition::Table { connector, .. } => connector.as_ref(),
            ObjectDefinition::View { .. } | ObjectDefinition::MaterializedView { .. } | ObjectDefinition::Enum { .. } => None,
        }
    }

    /// What it promises about time.
    pub fn watermark(&self) -> Option<&WatermarkSpec> {
        match &self.definition {
            ObjectDefinition::Source { watermark, .. } | ObjectDefinition::Table { watermark, .. } => watermark.as_ref(),
            _ => None,
        }
    }
}
