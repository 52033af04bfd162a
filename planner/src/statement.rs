//! Statements: what a text asks for, before any name in it is looked up.
//!
//! Positions in here are in characters from 1, counted in the statement's own text. Queries, expressions and data changes
//! are kept as `sqlparser` gives them; the spans of their tokens are on "line" 1, their column being that same position.

mod access;
mod objects;
mod rows;
mod session;

pub use access::{
    Access, Grant, GrantTarget, GrantedPrivileges, OwnedThing, PolicyClauses, RoleName, RoleOption, RowSecurityChange,
};
pub(crate) use objects::options_map;
pub use objects::{
    AddLabel, ColumnDefinition, CommentTarget, CreateRelation, CreateSink, CreateTableAs, CreateType, CreateView, DropObjects,
    DropSchemas, FormatClause, IncludeClause, JobReference, OptionPair, SinkInput, WatermarkClause,
};
pub use rows::{Copy, CopyDirection, CopyFormat, CopyOptions, CursorBody, Declare, FetchDirection, Subscribe, SubscribeInput};
pub use session::{DiscardTarget, Explain, ExplainStage, Isolation, SetScope, SetSetting, Show, TransactionModes};

use datafusion::sql::sqlparser::ast;
use thalweg_catalog::ObjectKind;

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
    /// `CREATE TABLE … AS`.
    CreateTableAs(CreateTableAs),
    /// `CREATE VIEW`.
    CreateView(CreateView),
    /// `CREATE MATERIALIZED VIEW`.
    CreateMaterializedView(CreateView),
    /// `CREATE SINK`.
    CreateSink(CreateSink),
    /// `CREATE TYPE`.
    CreateType(CreateType),
    /// `ALTER TYPE … ADD VALUE`.
    AddLabel(AddLabel),
    /// `CREATE SCHEMA`.
    CreateSchema {
        /// Its name.
        name: Word,
        /// Whether an existing one is fine.
        if_not_exists: bool,
        /// `AUTHORIZATION x`: who owns it.
        owner: Option<RoleName>,
    },
    /// Roles, privileges, owners, row policies, secrets.
    Access(Box<Access>),
    /// `DROP kind …`.
    Drop(DropObjects),
    /// `DROP SCHEMA …`.
    DropSchema(DropSchemas),
    /// `TRUNCATE …`: all rows of these tables go.
    Truncate(Vec<Name>),
    /// `REFRESH MATERIALIZED VIEW x`: waits until it has everything that was written.
    Refresh(Name),
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
            Statement::CreateTableAs(_) => "CREATE TABLE AS",
            Statement::CreateView(_) => "CREATE VIEW",
            Statement::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
            Statement::CreateSink(_) => "CREATE SINK",
            Statement::CreateType(_) => "CREATE TYPE",
            Statement::AddLabel(_) => "ALTER TYPE",
            Statement::CreateSchema { .. } => "CREATE SCHEMA",
            Statement::Drop(drop) => drop_tag(drop.kind),
            Statement::DropSchema(_) => "DROP SCHEMA",
            Statement::Truncate(_) => "TRUNCATE TABLE",
            Statement::Refresh(_) => "REFRESH MATERIALIZED VIEW",
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
            Statement::Access(access) => access.tag(),
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
            | Statement::CreateTableAs(_)
            | Statement::CreateView(_)
            | Statement::CreateMaterializedView(_)
            | Statement::CreateSink(_)
            | Statement::CreateType(_)
            | Statement::AddLabel(_)
            | Statement::CreateSchema { .. }
            | Statement::Drop(_)
            | Statement::DropSchema(_)
            | Statement::Truncate(_)
            | Statement::Rename { .. }
            | Statement::Comment { .. }
            | Statement::CancelJob(_)
            | Statement::Access(_) => true,
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
        ObjectKind::Type => "DROP TYPE",
    }
}

fn alter_tag(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Source => "ALTER SOURCE",
        ObjectKind::Table => "ALTER TABLE",
        ObjectKind::View => "ALTER VIEW",
        ObjectKind::MaterializedView => "ALTER MATERIALIZED VIEW",
        ObjectKind::Sink => "ALTER SINK",
        ObjectKind::Type => "ALTER TYPE",
    }
}
