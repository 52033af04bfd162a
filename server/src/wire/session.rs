//! The seam between the protocol and what runs statements: the protocol calls a [`Session`], one per connection.
//!
//! Order of calls. A simple query: [`Session::parse`] of the whole text, then for each statement [`Session::execute`],
//! and its outcome is drained before the next is executed; then [`Session::end_request`]. An extended query:
//! [`Session::parse`] and [`Session::describe`] at Parse, [`Session::execute`] at the first Execute of a portal, whose rows
//! may be read by later Executes; [`Session::end_request`] at Sync. Whenever anything fails (a call, a row stream, a
//! cancel, the statement timeout), [`Session::fail`] is called before `end_request`. After every call, notices and
//! changed parameters are taken and sent.
//!
//! Cancellation. A cancel request, `statement_timeout` or the client's leaving drops the future of `execute` (or the row
//! stream) wherever it waits. What must not stop half-way has to run in a task of its own.

use super::copy::CopyOptions;
use super::settings::OutputSettings;
use crate::access::verifier::Verifier;
use arrow::array::RecordBatch;
use arrow::datatypes::Field;
use async_trait::async_trait;
use datafusion::scalar::ScalarValue;
use futures::stream::BoxStream;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use thalweg_catalog::{Column, SqlError, SqlResult, SqlType};

/// The field metadata key under which a result column's OID is kept where it is not that of its [`SqlType`].
pub use thalweg_catalog::types::OID_METADATA;

/// The OIDs of types that are shown by name: regproc, regclass, regtype, regnamespace, regrole.
pub const NAMED_OIDS: [u32; 5] = [24, 2205, 2206, 4089, 4096];

/// What follows this in a column's name only keeps it apart from others of the same name, and is not sent.
pub const NAME_MARK: char = '\u{1}';

/// Makes the session of each new connection.
#[async_trait]
pub trait SessionFactory: Send + Sync + 'static {
    /// The sessions made.
    type Session: Session;

    /// What a connection has to prove.
    ///
    /// # Errors
    /// `28000` if it is not let in whatever it proves.
    fn admit(&self, _connection: &ConnectionInfo) -> SqlResult<Admission> {
        Ok(Admission::Trusted)
    }

    /// A connection was not let in.
    fn refused(&self, _connection: &ConnectionInfo, _error: &SqlError) {}

    /// A session for a connection that has said, and where that was asked for proved, who it is.
    ///
    /// # Errors
    /// What the client is told before the connection is closed: an unknown setting (`42704`), no access (`28000`), ….
    async fn connect(&self, connection: ConnectionInfo) -> SqlResult<Self::Session>;
}

/// What a connection has to prove.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Nothing.
    Trusted,
    /// It has proved already who it is.
    Proven,
    /// That it knows the password that this is the verifier of.
    Password(Verifier),
}

/// How a connection is encrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsInfo {
    /// The common name of the client's certificate, if it has one.
    pub common_name: Option<String>,
    /// What a login is bound to the channel with.
    pub end_point: Option<Vec<u8>>,
    /// The protocol's version, as Postgres shows it.
    pub version: String,
    /// The name of the cipher suite.
    pub cipher: String,
}

/// What is known of a connection at its start.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The startup parameter `user`.
    pub user: String,
    /// The startup parameter `database`, by default the user's name.
    pub database: String,
    /// All other startup parameters, and those given as `options=-c name=value`: settings, in their order.
    pub settings: Vec<(String, String)>,
    /// The id under which the connection can be cancelled and terminated: `pg_backend_pid()`.
    pub process_id: i32,
    /// The client's address, none for a socket without one.
    pub peer: Option<SocketAddr>,
    /// How it is encrypted, if it is.
    pub tls: Option<TlsInfo>,
    /// Whether the client has proved to be the user.
    pub proven: bool,
}

/// One connection's state behind the protocol.
#[async_trait]
pub trait Session: Send + 'static {
    /// A parsed statement.
    type Statement: Send + Sync + 'static;

    /// All statements of a text, none for one that holds only blanks and comments.
    ///
    /// # Errors
    /// `42601` with a position in the text; then nothing of it is executed.
    fn parse(&mut self, sql: &str) -> SqlResult<Vec<Self::Statement>>;

    /// The parameters and result columns of a statement, without executing it. `param_oids` are the types that the client
    /// declared, 0 for those that are to be found out; there may be fewer than there are parameters.
    ///
    /// # Errors
    /// Whatever is wrong with the statement that can be told without running it; `25P02` in a failed transaction.
    async fn describe(&mut self, statement: &Self::Statement, param_oids: &[u32]) -> SqlResult<StatementDescription>;

    /// Runs a statement up to where its rows can be read. `params` are as many as described, of the described types, whose
    /// OIDs are `param_oids`; none in a simple query.
    ///
    /// # Errors
    /// The statement's.
    async fn execute(&mut self, statement: &Self::Statement, params: Vec<ScalarValue>, param_oids: &[u32]) -> SqlResult<Outcome>;

    /// What is executed from here to [`Session::end_request`] is one transaction: the statements of a pipeline.
    fn join_request(&mut self) {}

    /// Something failed since the last [`Session::end_request`]: a transaction block becomes a failed one.
    fn fail(&mut self, error: &SqlError);

    /// The simple query is over, or Sync came: ends the implicit transaction, if there is one, by commit, or by rollback
    /// after [`Session::fail`].
    ///
    /// # Errors
    /// Those of the commit.
    async fn end_request(&mut self) -> SqlResult<()>;

    /// Outside a transaction block, in one, or in a failed one.
    fn transaction_status(&self) -> TransactionStatus;

    /// A number that is another one as soon as a statement may mean something else than before, as after a `CREATE` or `DROP`.
    fn meaning(&self) -> u64 {
        0
    }

    /// The type that a parameter of this OID is read as; none for one that is not known.
    fn parameter_type(&self, oid: u32) -> Option<SqlType> {
        super::parameter::parameter_type(oid)
    }

    /// The statements that were prepared, by the protocol or by `PREPARE`: both see each other's.
    fn prepared(&mut self) -> &mut PreparedStatements<Self::Statement>;

    /// The result columns of the SQL cursor of this name, which the protocol can describe as a portal.
    fn cursor_columns(&self, _name: &str) -> Option<Vec<ResultColumn>> {
        None
    }

    /// What a statement does with a cursor that the session does not have: a portal may have its name.
    fn portal_use(&self, _statement: &Self::Statement) -> Option<PortalUse> {
        None
    }

    /// Whether a statement that was executed closes all portals but the one that it runs in.
    fn closes_portals(&self, _statement: &Self::Statement) -> bool {
        false
    }

    /// Closes the SQL cursor of this name, if there is one: the protocol can close it as a portal.
    fn close_cursor(&mut self, _name: &str) {}

    /// The settings that decide how values are read and written.
    fn output_settings(&self) -> OutputSettings;

    /// `statement_timeout`, none if off.
    fn statement_timeout(&self) -> Option<Duration>;

    /// The parameters to report at the start: `server_version`, `client_encoding`, `DateStyle`, `TimeZone`, ….
    fn reported_parameters(&self) -> Vec<(String, String)>;

    /// Reported parameters that have changed since the last call.
    fn take_parameter_changes(&mut self) -> Vec<(String, String)>;

    /// The client has gone, or was made to go.
    fn ended(&mut self) {}

    /// Notices since the last call, oldest first, without those that `client_min_messages` leaves out.
    fn take_notices(&mut self) -> Vec<Notice>;
}

/// A `FETCH`, `MOVE` or `CLOSE` of what may be a portal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortalUse {
    /// The portal's name.
    pub name: String,
    /// What becomes of it.
    pub action: PortalAction,
}

/// What `FETCH`, `MOVE` and `CLOSE` do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortalAction {
    /// So many rows are read.
    Fetch(usize),
    /// So many rows are passed over.
    Move(usize),
    /// Rows are read that were passed before, which no portal keeps.
    Back,
    /// It is closed.
    Close,
}

/// The byte of ReadyForQuery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionStatus {
    /// Outside a transaction block.
    Idle,
    /// In a transaction block.
    InTransaction,
    /// In a transaction block that has failed.
    Failed,
}

impl TransactionStatus {
    /// The byte that the protocol has for it.
    pub fn byte(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::InTransaction => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

/// What a statement takes and gives.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StatementDescription {
    /// The OID of each parameter's type; 0 or 705 (unknown) are sent as 25 and given to `execute` as text.
    pub params: Vec<u32>,
    /// The result columns, none for a statement without rows.
    pub columns: Option<Vec<ResultColumn>>,
}

/// A column of a result.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultColumn {
    /// Its name; need not be unique.
    pub name: String,
    /// The type that its values are encoded by.
    pub sql_type: SqlType,
    /// The OID that the client is told: mostly that of `sql_type`.
    pub type_oid: u32,
    /// The relation that it comes from unchanged, 0 if none.
    pub table_oid: u32,
    /// Its place in that relation from 1, 0 if none.
    pub column_number: i16,
    /// The type modifier that the query writes out for it.
    pub written_modifier: Option<i32>,
}

impl ResultColumn {
    /// A column of this type that comes from no relation.
    pub fn new(name: impl Into<String>, sql_type: SqlType) -> ResultColumn {
        let type_oid = sql_type.oid();
        let mut name = name.into();
        if let Some(mark) = name.find(NAME_MARK) {
            name.truncate(mark);
        }
        ResultColumn { name, sql_type, type_oid, table_oid: 0, column_number: 0, written_modifier: None }
    }

    /// The column that an Arrow field is shown as.
    ///
    /// # Errors
    /// `0A000` for an Arrow type that no SQL type is carried by.
    pub fn from_field(field: &Field) -> SqlResult<ResultColumn> {
        Ok(ResultColumn::new(field.name(), SqlType::from_field(field)?).with_type_of(field))
    }

    /// The same column with the OID that an Arrow field says it is to be told by, if it says one.
    #[must_use]
    pub fn with_type_of(mut self, field: &Field) -> ResultColumn {
        if let Some(oid) = field.metadata().get(OID_METADATA).and_then(|text| text.parse().ok()) {
            self.type_oid = oid;
        }
        self
    }

    /// The same column, known to come unchanged from a relation.
    #[must_use]
    pub fn from_relation(mut self, table_oid: u32, column_number: i16) -> ResultColumn {
        self.table_oid = table_oid;
        self.column_number = column_number;
        self
    }
}

/// Rows as they come. Batches may be of any size; their columns are cast to [`ResultColumn::sql_type`] where they differ.
pub type RowStream = BoxStream<'static, SqlResult<RecordBatch>>;

/// What came of executing a statement.
pub enum Outcome {
    /// Done, with this command tag: `CREATE TABLE`, `INSERT 0 3`, ….
    Tag(String),
    /// Rows to be read. An endless stream is fine: rows are sent as soon as the stream has no more at once.
    Rows {
        /// The result's columns.
        columns: Vec<ResultColumn>,
        /// The result.
        rows: RowStream,
        /// The tag at the end.
        tag: RowTag,
    },
    /// Rows for `COPY … TO STDOUT`.
    CopyOut {
        /// The columns that are sent.
        columns: Vec<ResultColumn>,
        /// The rows.
        rows: RowStream,
        /// How they are written.
        options: CopyOptions,
    },
    /// `COPY … FROM STDIN`: the rows that the client sends go to the sink.
    CopyIn {
        /// The columns that the client sends, in its order.
        columns: Vec<Column>,
        /// How they are written.
        options: CopyOptions,
        /// The relation's name, for the context of errors.
        relation: String,
        /// Where they go.
        sink: Box<dyn CopySink>,
    },
    /// The statement was empty.
    Empty,
}

/// The command tag of a statement with rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowTag {
    /// A verb that is followed by the count of rows: `SELECT`, `FETCH`, `UPDATE`, `DELETE`, `INSERT 0`, ….
    Counted(&'static str),
    /// A whole tag: `SHOW`, `EXPLAIN`, ….
    Fixed(String),
}

impl RowTag {
    /// The tag after so many rows.
    pub fn text(&self, rows: u64) -> String {
        match self {
            RowTag::Counted(verb) => format!("{verb} {rows}"),
            RowTag::Fixed(tag) => tag.clone(),
        }
    }
}

/// Where the rows of `COPY … FROM STDIN` go. Dropped without [`CopySink::finish`] when the copy fails: then nothing of it
/// may stay.
#[async_trait]
pub trait CopySink: Send {
    /// Takes more rows: the columns of [`Outcome::CopyIn`].
    ///
    /// # Errors
    /// Ends the copy.
    async fn write(&mut self, batch: RecordBatch) -> SqlResult<()>;

    /// All rows were written. Returns how many were taken.
    ///
    /// # Errors
    /// Fails the copy.
    async fn finish(self: Box<Self>) -> SqlResult<u64>;
}

/// A message to the client that is no error.
#[derive(Clone, PartialEq, Debug)]
pub struct Notice {
    /// How grave it is.
    pub severity: Severity,
    /// Its parts.
    pub message: SqlError,
}

/// The severities of notices, as they are sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
}

impl Severity {
    /// The word that the protocol has for it.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
        }
    }
}

/// A prepared statement. `statement` is none for an empty one.
pub struct Prepared<S> {
    /// The statement, parsed.
    pub statement: Option<Arc<S>>,
    /// What it takes and gives.
    pub description: StatementDescription,
    /// Its text.
    pub sql: String,
    /// Whether `PREPARE` made it, rather than the protocol.
    pub from_sql: bool,
    /// [`Session::meaning`] when it was described.
    pub meaning: u64,
    /// When it was prepared.
    pub since: SystemTime,
}

impl<S> Prepared<S> {
    /// The statement as it is described now.
    ///
    /// # Errors
    /// `0A000` if its result has other columns: the client reads it by those that it was told of.
    pub fn described_anew(&self, description: StatementDescription, meaning: u64) -> SqlResult<Prepared<S>> {
        let same = match (&self.description.columns, &description.columns) {
            (Some(before), Some(now)) => {
                before.len() == now.len() && before.iter().zip(now).all(|(a, b)| a.name == b.name && a.type_oid == b.type_oid)
            }
            (before, now) => before.is_none() && now.is_none(),
        };
        if !same {
            return Err(SqlError::unsupported("cached plan must not change result type"));
        }
        let (statement, sql) = (self.statement.clone(), self.sql.clone());
        Ok(Prepared { statement, description, sql, from_sql: self.from_sql, meaning, since: self.since })
    }
}

/// The prepared statements of a session by name; the protocol's unnamed one has the empty name.
pub struct PreparedStatements<S> {
    statements: HashMap<String, Arc<Prepared<S>>>,
}

impl<S> Default for PreparedStatements<S> {
    fn default() -> Self {
        PreparedStatements { statements: HashMap::new() }
    }
}

impl<S> PreparedStatements<S> {
    /// The statement of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Prepared<S>>> {
        self.statements.get(name)
    }

    /// Keeps a statement under a name, in place of one that has it.
    pub fn insert(&mut self, name: impl Into<String>, statement: Prepared<S>) {
        self.statements.insert(name.into(), Arc::new(statement));
    }

    /// Forgets the statement of this name; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.statements.remove(name).is_some()
    }

    /// Forgets all statements: `DEALLOCATE ALL`.
    pub fn clear(&mut self) {
        self.statements.clear();
    }

    /// All named statements, for `pg_prepared_statements`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Prepared<S>>)> {
        self.statements.iter().filter(|(name, _)| !name.is_empty()).map(|(name, statement)| (name.as_str(), statement))
    }
}
