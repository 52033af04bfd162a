//! Statements about objects: what they create, change and drop.

use super::{EmbeddedQuery, Name, Word};
use datafusion::sql::sqlparser::ast;
use std::collections::BTreeMap;
use thalweg_catalog::ObjectKind;
use thalweg_catalog::object::{Emit, Encode, MessagePart};

/// `CREATE SOURCE` and `CREATE TABLE`.
#[derive(Clone, Debug)]
pub struct CreateRelation {
    /// Its name.
    pub name: Name,
    /// `TEMPORARY`: it goes with the session.
    pub temporary: bool,
    /// Whether an existing one is fine.
    pub if_not_exists: bool,
    /// Its columns; none at all where the connector is to know them.
    pub columns: Vec<ColumnDefinition>,
    /// The columns of a `PRIMARY KEY (…)` of the whole relation.
    pub primary_key: Option<Vec<Word>>,
    /// `WATERMARK FOR …`.
    pub watermark: Option<WatermarkClause>,
    /// `INCLUDE … AS …`.
    pub includes: Vec<IncludeClause>,
    /// `WITH (…)`.
    pub options: Vec<OptionPair>,
    /// `FORMAT PLAIN ENCODE …`.
    pub format: Option<FormatClause>,
}

/// One column of a declared relation.
#[derive(Clone, Debug)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: Word,
    /// Its type.
    pub data_type: ast::DataType,
    /// Where the type starts.
    pub type_position: usize,
    /// `NOT NULL`.
    pub not_null: bool,
    /// `DEFAULT …`, and its text.
    pub default: Option<(ast::Expr, String)>,
    /// `PRIMARY KEY`.
    pub primary_key: bool,
}

/// `WATERMARK FOR column AS expression`.
#[derive(Clone, Debug)]
pub struct WatermarkClause {
    /// The column.
    pub column: Word,
    /// What follows `AS`.
    pub expr: ast::Expr,
    /// Where the expression starts.
    pub expr_position: usize,
}

/// `INCLUDE part [AS name]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IncludeClause {
    /// What of the message.
    pub part: MessagePart,
    /// The column's name, if it was given.
    pub name: Option<Word>,
    /// Where the clause starts.
    pub position: usize,
}

/// `name = 'value'` in a `WITH` clause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionPair {
    /// The option's name, in lower case unless quoted; dotted names are kept whole.
    pub name: Word,
    /// Its value as text.
    pub value: String,
}

/// The options of a `WITH` clause by name.
pub(crate) fn options_map(pairs: &[OptionPair]) -> BTreeMap<String, String> {
    pairs.iter().map(|pair| (pair.name.value.clone(), pair.value.clone())).collect()
}

/// `FORMAT PLAIN ENCODE encode (options)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormatClause {
    /// What follows `ENCODE`.
    pub encode: Encode,
    /// What stands in the parentheses.
    pub options: Vec<OptionPair>,
    /// Where the clause starts.
    pub position: usize,
}

/// `CREATE VIEW` and `CREATE MATERIALIZED VIEW`.
#[derive(Clone, Debug)]
pub struct CreateView {
    /// Its name.
    pub name: Name,
    /// Whether an existing one is fine.
    pub if_not_exists: bool,
    /// Names for its columns, where they were given.
    pub columns: Vec<Word>,
    /// The query.
    pub query: EmbeddedQuery,
    /// `EMIT ON WINDOW CLOSE`.
    pub emit: Emit,
    /// `WITH (…)`.
    pub options: Vec<OptionPair>,
}

/// `CREATE TABLE … AS`.
#[derive(Clone, Debug)]
pub struct CreateTableAs {
    /// Its name.
    pub name: Name,
    /// `TEMPORARY`: it goes with the session.
    pub temporary: bool,
    /// Whether an existing one is fine.
    pub if_not_exists: bool,
    /// Names for its columns, where they were given.
    pub columns: Vec<Word>,
    /// The query whose rows it gets.
    pub query: EmbeddedQuery,
    /// Not with `WITH NO DATA`.
    pub with_data: bool,
}

/// `CREATE SINK`.
#[derive(Clone, Debug)]
pub struct CreateSink {
    /// Its name.
    pub name: Name,
    /// Whether an existing one is fine.
    pub if_not_exists: bool,
    /// What it sends.
    pub input: SinkInput,
    /// `EMIT ON WINDOW CLOSE`.
    pub emit: Emit,
    /// `WITH (…)`.
    pub options: Vec<OptionPair>,
    /// `FORMAT PLAIN ENCODE …`.
    pub format: Option<FormatClause>,
}

/// `CREATE TYPE x AS ENUM ('a', 'b')`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateType {
    /// Its name.
    pub name: Name,
    /// Its labels.
    pub labels: Vec<Word>,
}

/// `ALTER TYPE x ADD VALUE [IF NOT EXISTS] 'a' [BEFORE 'b' | AFTER 'b']`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddLabel {
    /// The type.
    pub name: Name,
    /// The new label.
    pub label: Word,
    /// The label that it goes beside; none for the end.
    pub neighbor: Option<Word>,
    /// Whether it goes before that one.
    pub before: bool,
    /// Whether an existing one is fine.
    pub if_not_exists: bool,
}

/// What a sink sends.
#[derive(Clone, Debug)]
pub enum SinkInput {
    /// `FROM rel`.
    Relation(Name),
    /// `AS query`.
    Query(EmbeddedQuery),
}

/// `DROP kind [IF EXISTS] a, b [CASCADE]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DropObjects {
    /// What they must be.
    pub kind: ObjectKind,
    /// Which.
    pub names: Vec<Name>,
    /// Whether missing ones are fine.
    pub if_exists: bool,
    /// Whether what depends on them goes too.
    pub cascade: bool,
}

/// `DROP SCHEMA [IF EXISTS] a, b [CASCADE]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DropSchemas {
    /// Which.
    pub names: Vec<Word>,
    /// Whether missing ones are fine.
    pub if_exists: bool,
    /// Whether what stands in them goes too.
    pub cascade: bool,
}

/// What a comment is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommentTarget {
    /// An object of this kind.
    Object(ObjectKind, Name),
    /// A column of a relation.
    Column(Name, Word),
    /// A schema.
    Schema(Word),
}

/// Which job is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobReference {
    /// The job that keeps this object.
    Name(Name),
    /// The job of this id.
    Id(u32),
}
