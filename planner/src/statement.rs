//! Statements: what a text asks for, before any name in it is looked up.
//!
//! Positions in here are in characters from 1, counted in the statement's own text. Queries, expressions and data changes
//! are kept as `sqlparser` gives them; the spans of their tokens are on "line" 1, their column being that same position.

use datafusion::sql::sqlparser::ast;
use std::collections::BTreeMap;
use thalweg_catalog::ObjectKind;
use thalweg_catalog::object::{Emit, Encode, MessagePart};

/// One statement of a text.
#[derive(Clone, Debug)]
pub struct ParsedStatement {
    /// What is asked for.
    pub statement: Statement,
    /// The statement's own text, without the semicolon and without comments around it.
    pub text: String,
    /// How many characters of the whole text stand before it: add it to the position of an error to show it in the whole.
    pub offset: usize,
}

/// A name of something in a schema, folded to lower case where it was not quoted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Name {
    /// The schema, if it was written.
    pub schema: Option<String>,
    /// The name itself.
    pub name: String,
    /// Where it starts in the statement.
    pub position: usize,
}

/// A plain word, folded to lower case where it was not quoted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// The word.
    pub value: String,
    /// Where it starts in the statement.
    pub position: usize,
}

/// A query that stands inside another statement.
#[derive(Clone, Debug)]
pub struct EmbeddedQuery {
    /// The query.
    pub query: Box<ast::Query>,
    /// Its text.
    pub text: String,
}

/// Everything that can be asked for.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Statement {
    /// `SELECT`, `WITH`, `VALUES`, `TABLE t`.
    Query(Box<ast::Query>),
    /// `INSERT INTO`.
    Insert(Box<ast::Insert>),
    /// `UPDATE`.
    Update(Box<ast::Update>),
    /// `DELETE FROM`.
    Delete(Box<ast::Delete>),
    /// `CREATE SOURCE`.
    CreateSource(CreateRelation),
    /// `CREATE TABLE`.
    CreateTable(CreateRelation),
    /// `CREATE VIEW`.
    CreateView(CreateView),
    /// `CREATE MATERIALIZED VIEW`.
    CreateMaterializedView(CreateView),
    /// `CREATE SINK`.
    CreateSink(CreateSink),
    /// `CREATE SCHEMA`.
    CreateSchema {
        /// Its name.
        name: Word,
        /// Whether an existing one is fine.
        if_not_exists: bool,
    },
    /// `DROP kind …`.
    Drop(DropObjects),
    /// `DROP SCHEMA …`.
    DropSchema(DropSchemas),
    /// `ALTER kind x RENAME TO y`.
    Rename {
        /// What it must be.
        kind: ObjectKind,
        /// Whether a missing one is fine.
        if_exists: bool,
        /// Which one.
        name: Name,
        /// Its new name.
        to: Word,
    },
    /// `COMMENT ON …`.
    Comment {
        /// On what.
        target: CommentTarget,
        /// The text; none removes it.
        comment: Option<String>,
    },
    /// `EXPLAIN …`.
    Explain(Explain),
    /// `SHOW …`.
    Show(Show),
    /// `DESCRIBE x`.
    Describe(Name),
    /// `SET`, `RESET`, `ALTER SYSTEM SET`.
    Set(SetSetting),
    /// `BEGIN`, `START TRANSACTION`.
    Begin {
        /// What follows it.
        modes: TransactionModes,
        /// Whether it was spelled `START TRANSACTION`, which has a command tag of its own.
        start: bool,
    },
    /// `COMMIT`, `END`. With `AND CHAIN`, a new transaction begins.
    Commit {
        /// `AND CHAIN`.
        chain: bool,
    },
    /// `ROLLBACK`, `ABORT`. With `AND CHAIN`, a new transaction begins.
    Rollback {
        /// `AND CHAIN`.
        chain: bool,
    },
    /// `SAVEPOINT x`.
    Savepoint(String),
    /// `RELEASE [SAVEPOINT] x`.
    ReleaseSavepoint(String),
    /// `ROLLBACK TO [SAVEPOINT] x`.
    RollbackTo(String),
    /// `SET TRANSACTION …`.
    SetTransaction(TransactionModes),
    /// `SET SESSION CHARACTERISTICS AS TRANSACTION …`.
    SetSessionCharacteristics(TransactionModes),
    /// `DECLARE c CURSOR FOR …`.
    Declare(Declare),
    /// `FETCH …`; with `move_only`, `MOVE …`.
    Fetch {
        /// Which rows.
        direction: FetchDirection,
        /// Of which cursor.
        cursor: Word,
        /// Whether the rows are passed over rather than given.
        move_only: bool,
    },
    /// `CLOSE c`; none for `CLOSE ALL`.
    Close(Option<Word>),
    /// `PREPARE x [(types)] AS …`.
    Prepare {
        /// Its name.
        name: Word,
        /// The declared parameter types.
        types: Vec<ast::DataType>,
        /// The statement.
        statement: Box<Statement>,
        /// The statement's text.
        text: String,
    },
    /// `EXECUTE x [(values)]`.
    Execute {
        /// Its name.
        name: Word,
        /// The values.
        values: Vec<ast::Expr>,
    },
    /// `DEALLOCATE [PREPARE] x`; none for `ALL`.
    Deallocate(Option<Word>),
    /// `DISCARD …`.
    Discard(DiscardTarget),
    /// `LISTEN x`.
    Listen(String),
    /// `UNLISTEN x`; none for `*`.
    Unlisten(Option<String>),
    /// `NOTIFY x [, 'payload']`.
    Notify {
        /// The channel.
        channel: String,
        /// The payload, empty if there is none.
        payload: String,
    },
    /// `COPY … TO STDOUT`, `COPY … FROM STDIN`.
    Copy(Copy),
    /// `SUBSCRIBE [TO] x`.
    Subscribe(Subscribe),
    /// `FLUSH`: waits until everything that was written is in every view.
    Flush,
    /// `CANCEL JOB x`.
    CancelJob(JobReference),
}

impl Statement {
    /// The first words of the statement's form, as in its command tag: `CREATE TABLE`, `SELECT`, ….
    pub fn tag(&self) -> &'static str {
        match self {
            Statement::Query(_) => "SELECT",
            Statement::Insert(_) => "INSERT",
            Statement::Update(_) => "UPDATE",
            Statement::Delete(_) => "DELETE",
            Statement::CreateSource(_) => "CREATE SOURCE",
            Statement::CreateTable(_) => "CREATE TABLE",
            Statement::CreateView(_) => "CREATE VIEW",
            Statement::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
            Statement::CreateSink(_) => "CREATE SINK",
            Statement::CreateSchema { .. } => "CREATE SCHEMA",
            Statement::Drop(drop) => drop_tag(drop.kind),
            Statement::DropSchema(_) => "DROP SCHEMA",
            Statement::Rename { kind, .. } => alter_tag(*kind),
            Statement::Comment { .. } => "COMMENT",
            Statement::Explain(_) => "EXPLAIN",
            Statement::Show(_) => "SHOW",
            Statement::Describe(_) => "DESCRIBE",
            Statement::Set(set) => set.tag(),
            Statement::SetTransaction(_) | Statement::SetSessionCharacteristics(_) => "SET",
            Statement::Begin { start: true, .. } => "START TRANSACTION",
            Statement::Begin { .. } => "BEGIN",
            Statement::Commit { .. } => "COMMIT",
            Statement::Rollback { .. } | Statement::RollbackTo(_) => "ROLLBACK",
            Statement::Savepoint(_) => "SAVEPOINT",
            Statement::ReleaseSavepoint(_) => "RELEASE",
            Statement::Declare(_) => "DECLARE CURSOR",
            Statement::Fetch { move_only: true, .. } => "MOVE",
            Statement::Fetch { .. } => "FETCH",
            Statement::Close(Some(_)) => "CLOSE CURSOR",
            Statement::Close(None) => "CLOSE CURSOR ALL",
            Statement::Prepare { .. } => "PREPARE",
            Statement::Execute { .. } => "EXECUTE",
            Statement::Deallocate(Some(_)) => "DEALLOCATE",
            Statement::Deallocate(None) => "DEALLOCATE ALL",
            Statement::Discard(target) => target.tag(),
            Statement::Listen(_) => "LISTEN",
            Statement::Unlisten(_) => "UNLISTEN",
            Statement::Notify { .. } => "NOTIFY",
            Statement::Copy(_) => "COPY",
            Statement::Subscribe(_) => "SUBSCRIBE",
            Statement::Flush => "FLUSH",
            Statement::CancelJob(_) => "CANCEL JOB",
        }
    }

    /// Whether the statement changes data or the catalog, so that a read-only transaction refuses it.
    pub fn writes(&self) -> bool {
        match self {
            Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::CreateSource(_)
            | Statement::CreateTable(_)
            | Statement::CreateView(_)
            | Statement::CreateMaterializedView(_)
            | Statement::CreateSink(_)
            | Statement::CreateSchema { .. }
            | Statement::Drop(_)
            | Statement::DropSchema(_)
            | Statement::Rename { .. }
            | Statement::Comment { .. }
            | Statement::CancelJob(_) => true,
            Statement::Copy(copy) => matches!(copy.direction, CopyDirection::From { .. }),
            Statement::Set(set) => set.scope == SetScope::System,
            _ => false,
        }
    }
}

fn drop_tag(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Source => "DROP SOURCE",
        ObjectKind::Table => "DROP TABLE",
        ObjectKind::View => "DROP VIEW",
        ObjectKind::MaterializedView => "DROP MATERIALIZED VIEW",
        ObjectKind::Sink => "DROP SINK",
    }
}

fn alter_tag(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Source => "ALTER SOURCE",
        ObjectKind::Table => "ALTER TABLE",
        ObjectKind::View => "ALTER VIEW",
        ObjectKind::MaterializedView => "ALTER MATERIALIZED VIEW",
        ObjectKind::Sink => "ALTER SINK",
    }
}

/// `CREATE SOURCE` and `CREATE TABLE`.
#[derive(Clone, Debug)]
pub struct CreateRelation {
    /// Its name.
    pub name: Name,
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

/// `EXPLAIN [(options)] statement`.
#[derive(Clone, Debug)]
pub struct Explain {
    /// The statement: a query, an `INSERT`/`UPDATE`/`DELETE`, or a `CREATE MATERIALIZED VIEW`/`SINK`.
    pub statement: Box<Statement>,
    /// The statement's text.
    pub text: String,
    /// Which plan is shown; none for all of them.
    pub stage: Option<ExplainStage>,
    /// `FORMAT JSON` rather than text.
    pub json: bool,
    /// `ANALYZE`: the statement is run and measured.
    pub analyze: bool,
    /// `VERBOSE`: with the columns of each node.
    pub verbose: bool,
}

/// Which plan `EXPLAIN` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplainStage {
    /// As bound, before any rule.
    Raw,
    /// The optimised logical plan.
    Logical,
    /// The streaming or batch plan that runs.
    Physical,
}

/// `SHOW …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Show {
    /// `SHOW TABLES`, `SHOW SOURCES`, …: all objects of a kind, perhaps of one schema, perhaps like a pattern.
    Objects {
        /// The kind.
        kind: ObjectKind,
        /// `FROM schema`.
        schema: Option<String>,
        /// `LIKE 'pattern'`.
        like: Option<String>,
    },
    /// `SHOW JOBS`.
    Jobs,
    /// `SHOW SCHEMAS`.
    Schemas,
    /// `SHOW DATABASES`.
    Databases,
    /// `SHOW COLUMNS FROM x`.
    Columns(Name),
    /// `SHOW CREATE kind x`.
    Create(ObjectKind, Name),
    /// `SHOW ALL`.
    AllSettings,
    /// `SHOW setting`, in lower case.
    Setting(String),
}

/// Where a setting is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetScope {
    /// For the session.
    Session,
    /// For the transaction.
    Local,
    /// For all, for good: `ALTER SYSTEM`.
    System,
}

/// `SET x = …`, `RESET x`, `RESET ALL`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetSetting {
    /// Where.
    pub scope: SetScope,
    /// The setting in lower case; none for `RESET ALL`.
    pub name: Option<String>,
    /// Its values as they were written, several for a list; none to reset it.
    pub values: Option<Vec<String>>,
    /// Where the name starts.
    pub position: usize,
}

impl SetSetting {
    fn tag(&self) -> &'static str {
        match (self.scope, &self.values) {
            (SetScope::System, _) => "ALTER SYSTEM",
            (_, Some(_)) => "SET",
            (_, None) => "RESET",
        }
    }

    /// The value as `SHOW` prints it; none to reset it.
    pub fn value(&self) -> Option<String> {
        self.values.as_ref().map(|values| values.join(", "))
    }
}

/// What follows `BEGIN` and its like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransactionModes {
    /// `READ ONLY` (true), `READ WRITE` (false).
    pub read_only: Option<bool>,
    /// `ISOLATION LEVEL …`.
    pub isolation: Option<Isolation>,
    /// `DEFERRABLE` (true), `NOT DEFERRABLE` (false).
    pub deferrable: Option<bool>,
}

/// Isolation levels, as they are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// The level's name as `SHOW transaction_isolation` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "read uncommitted",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// `DECLARE name [BINARY] [NO SCROLL|SCROLL] CURSOR [WITH HOLD] FOR …`.
#[derive(Clone, Debug)]
pub struct Declare {
    /// Its name.
    pub name: Word,
    /// `BINARY`.
    pub binary: bool,
    /// `SCROLL` (true), `NO SCROLL` (false).
    pub scroll: Option<bool>,
    /// `WITH HOLD`.
    pub hold: bool,
    /// What it runs over.
    pub body: CursorBody,
}

/// What a cursor runs over.
#[derive(Clone, Debug)]
pub enum CursorBody {
    /// A query's rows.
    Query(EmbeddedQuery),
    /// The changes of a relation, without end.
    Subscribe(Subscribe),
}

/// Which rows `FETCH` and `MOVE` are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchDirection {
    /// That many on from here; 0 is the current row again; negative ones back.
    Forward(i64),
    /// All that are left.
    ForwardAll,
    /// All before.
    BackwardAll,
    /// The row at this place, from 1; from the end if negative.
    Absolute(i64),
    /// The row so many on.
    Relative(i64),
}

/// What `DISCARD` throws away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum DiscardTarget {
    All,
    Plans,
    Sequences,
    Temporary,
}

impl DiscardTarget {
    fn tag(self) -> &'static str {
        match self {
            DiscardTarget::All => "DISCARD ALL",
            DiscardTarget::Plans => "DISCARD PLANS",
            DiscardTarget::Sequences => "DISCARD SEQUENCES",
            DiscardTarget::Temporary => "DISCARD TEMP",
        }
    }
}

/// `COPY`.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Which way, of what.
    pub direction: CopyDirection,
    /// How rows are written.
    pub options: CopyOptions,
}

/// Which way rows go.
#[derive(Clone, Debug)]
pub enum CopyDirection {
    /// `COPY rel [(columns)] TO STDOUT`.
    ToFromRelation {
        /// The relation.
        name: Name,
        /// Its columns; empty for all.
        columns: Vec<Word>,
    },
    /// `COPY (query) TO STDOUT`.
    ToFromQuery(EmbeddedQuery),
    /// `COPY (INSERT … RETURNING …) TO STDOUT` and the like.
    ToFromStatement(Box<Statement>),
    /// `COPY (SUBSCRIBE …) TO STDOUT`.
    ToFromSubscribe(Subscribe),
    /// `COPY rel [(columns)] FROM STDIN`.
    From {
        /// The table.
        name: Name,
        /// The columns that come; empty for all.
        columns: Vec<Word>,
    },
}

/// How rows are written by `COPY`. None where the format's default stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyOptions {
    /// `FORMAT …`.
    pub format: CopyFormat,
    /// `DELIMITER 'c'`.
    pub delimiter: Option<String>,
    /// `NULL 'text'`.
    pub null: Option<String>,
    /// `HEADER`.
    pub header: bool,
    /// `QUOTE 'c'`.
    pub quote: Option<String>,
    /// `ESCAPE 'c'`.
    pub escape: Option<String>,
}

/// The formats of `COPY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

/// `SUBSCRIBE [TO] rel [WITH (…)]`.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// Of what.
    pub input: SubscribeInput,
    /// Whether what is there already comes first.
    pub snapshot: bool,
    /// Whether rows tell how far time has come where nothing changes.
    pub progress: bool,
}

/// What is subscribed to.
#[derive(Clone, Debug)]
pub enum SubscribeInput {
    /// A relation.
    Relation(Name),
    /// `(query)`.
    Query(EmbeddedQuery),
}

/// Which job is meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JobReference {
    /// The job that keeps this object.
    Name(Name),
    /// The job of this id.
    Id(u32),
}
