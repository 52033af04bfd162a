//! A session: one client's state, and what its statements do. Implements what the wire protocol calls; `thalweg run` uses it too.
//!
//! Transactions. Outside a block each statement commits by itself; several statements in one simple query commit together at
//! its end, as in Postgres. Writes of a transaction are kept in the session and reach the table log in one record at commit, so
//! they become visible at one epoch or not at all; the transaction itself reads its tables with them, but views only what is
//! committed. What it writes it keeps others from writing until it ends: see `database::locks`. `REPEATABLE READ` and `SERIALIZABLE`
//! read everything at one epoch: see `isolation`. `CREATE`, `DROP` and the like take effect at once and are not rolled back.

mod access;
mod create_as;
pub mod cursor;
mod definition;
pub mod explain;
pub mod factory;
mod hold;
mod isolation;
mod known;
mod lookup;
mod notify;
mod origins;
mod prepared;
mod privileges;
pub mod read;
mod replace;
mod set;
pub mod settings;
pub mod show;
pub mod snapshot;
pub mod subscribe;
mod system_types;
mod temporary;
pub mod transaction;
pub mod write;

use crate::database::Database;
use crate::database::query::Statement as Running;
use crate::pg_catalog::snapshot::FunctionInfo;
use crate::system::SystemRelations;
use crate::wire::connections::Connections;
use crate::wire::parameter::parameter_type;
use crate::wire::session::{
    ConnectionInfo, Notice, Outcome, PortalUse, PreparedStatements, ResultColumn, Session, Severity, StatementDescription,
    TransactionStatus,
};
use crate::wire::settings::OutputSettings;
use async_trait::async_trait;
use cursor::OpenCursor;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use datafusion::scalar::ScalarValue;
use notify::Deed;
use settings::SessionSettings;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::security::Role;
use thalweg_catalog::{Epoch, RoleId, SqlError, SqlResult, SqlState, SqlType};
use thalweg_planner::{ParsedStatement, Statement, session_state};
use transaction::Transaction;

/// One client's session.
pub struct ClientSession {
    database: Arc<Database>,
    connections: Option<Arc<Connections>>,
    runtime: Arc<RuntimeEnv>,
    info: ConnectionInfo,
    /// Whose session it is from the start.
    login: RoleId,
    settings: SessionSettings,
    /// The settings as the client was last told them.
    told: SessionSettings,
    transaction: Option<Transaction>,
    prepared: PreparedStatements<ParsedStatement>,
    cursors: BTreeMap<String, OpenCursor>,
    notices: Vec<Notice>,
    /// What `set_config` set while the last statement's rows were made.
    set_config: Arc<parking_lot::Mutex<Vec<snapshot::SettingChange>>>,
    /// What `pg_notify` was called with while the last statement's rows were made.
    notified: Arc<parking_lot::Mutex<Vec<(String, String)>>>,
    /// What `COPY … FROM STDIN` has written, to be taken over when it is over.
    copied: Arc<parking_lot::Mutex<Vec<write::Copied>>>,
    /// DataFusion's state for the settings that it was made with: it is costly to make.
    planning: Option<Planning>,
    /// Whether statements of the request commit together at its end.
    together: bool,
    /// Whether the statement was sent in one string with others.
    among_others: bool,
    /// The types that the parameters of the statement that runs were described with.
    param_types: Vec<Option<SqlType>>,
    /// Queries that it has described.
    known: known::KnownQueries,
    /// Where its temporary tables stand, once it has some.
    temporary: Option<temporary::TemporarySchema>,
    /// The newest epoch that the session has written or read at: it never sees less again.
    seen: Epoch,
}

/// What statements are planned with.
struct Planning {
    settings: thalweg_planner::SessionSettings,
    state: SessionState,
    /// The functions of the state, as `pg_proc` has them.
    functions: Arc<Vec<FunctionInfo>>,
}

impl ClientSession {
    /// A session on a database.
    ///
    /// # Errors
    /// `42704` or `22023` for a setting that the client asked for and can't have.
    pub fn new(
        database: Arc<Database>,
        connections: Option<Arc<Connections>>,
        info: ConnectionInfo,
        role: &Role,
    ) -> SqlResult<ClientSession> {
        let mut settings = SessionSettings::of_user(&info.user, role.attributes.superuser);
        for (name, value) in role.settings.iter().chain(info.settings.iter().map(|(name, value)| (name, value))) {
            if SessionSettings::is_identity(name) {
                return Err(SqlError::unsupported(format!("parameter \"{name}\" cannot be set when connecting")));
            }
            settings.set(name, Some(value))?;
        }
        settings.note_tls(database.gate().tls().is_some());
        settings.start();
        Ok(ClientSession {
            database,
            connections,
            runtime: Arc::new(RuntimeEnv::default()),
            info,
            login: role.id,
            told: settings.clone(),
            settings,
            transaction: None,
            prepared: PreparedStatements::default(),
            cursors: BTreeMap::new(),
            notices: vec![],
            set_config: Arc::default(),
            notified: Arc::default(),
            copied: Arc::default(),
            planning: None,
            together: false,
            among_others: false,
            param_types: vec![],
            known: known::KnownQueries::default(),
            temporary: None,
            seen: Epoch(0),
        })
    }

    /// The database.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Who is connected, and how.
    pub fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// The surroundings of one statement: catalog, relations and functions as of now.
    fn running(&mut self) -> Running {
        let session = Arc::new(self.settings.clone());
        let catalog = self.database.catalog();
        let (mut state, known) = self.planning_state();
        let snapshot = self.system_snapshot(&catalog, known);
        for function in crate::pg_catalog::functions::functions(&snapshot) {
            // Only an alias that is taken by a function of another name could be refused, and ours have none.
            let _ = state.register_udf(Arc::new(function));
        }
        let system = SystemRelations::new(&self.database, catalog, self.connections.clone(), session, snapshot);
        let written = self.transaction.as_ref().map(Transaction::written).unwrap_or_default();
        let rights = (self.authority(), self.settings.get("row_security").is_ok_and(|value| value == "on"));
        let path = self.search_path();
        let moment = self.moment();
        let running = Running::new(&self.database, state, path, Arc::new(system), written, self.seen, rights);
        Running { moment, ..running }
    }

    /// The schemas of the search path that there are.
    fn search_path(&self) -> Vec<String> {
        let authority = self.authority();
        let catalog = Arc::clone(&authority.catalog);
        let found = |schema: &String| catalog.has_schema(schema) && authority.may_use_schema(schema);
        let temporary = self.temporary.iter().map(|schema| schema.name().to_string());
        temporary
            .filter(|schema| catalog.has_schema(schema))
            .chain(self.settings.search_path().into_iter().filter(found))
            .collect()
    }

    fn planning_state(&mut self) -> (SessionState, Arc<Vec<FunctionInfo>>) {
        let settings = self.settings.planning();
        if self.planning.as_ref().is_none_or(|planning| planning.settings != settings) {
            let state = session_state(&settings, Arc::clone(&self.runtime));
            let functions = Arc::new(FunctionInfo::of_state(&state));
            self.planning = Some(Planning { settings, state, functions });
        }
        let planning = self.planning.as_ref().expect("made just now");
        (planning.state.clone(), Arc::clone(&planning.functions))
    }

    fn notice(&mut self, severity: Severity, state: SqlState, text: impl Into<String>) {
        self.notices.push(Notice { severity, message: SqlError::new(state, text) });
    }

    fn note_all(&mut self, texts: Vec<String>) {
        for text in texts {
            self.notice(Severity::Notice, SqlState::SuccessfulCompletion, text);
        }
    }

    /// Refuses what a failed or read-only transaction does not allow.
    fn check_allowed(&self, statement: &Statement) -> SqlResult<()> {
        let ends = matches!(statement, Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackTo(_));
        if self.transaction.as_ref().is_some_and(|t| t.failed && t.explicit) && !ends {
            return Err(SqlError::new(
                SqlState::InFailedSqlTransaction,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        let read_only = if self.in_block() { "transaction_read_only" } else { "default_transaction_read_only" };
        if statement.writes() && self.settings.get(read_only).is_ok_and(|v| v == "on") {
            return Err(SqlError::new(
                SqlState::ReadOnlySqlTransaction,
                format!("cannot execute {} in a read-only transaction", statement.tag()),
            ));
        }
        Ok(())
    }

    fn in_block(&self) -> bool {
        self.transaction.as_ref().is_some_and(|t| t.explicit)
    }

    async fn dispatch(&mut self, parsed: &ParsedStatement, params: Vec<ScalarValue>, param_oids: &[u32]) -> SqlResult<Outcome> {
        let statement = &parsed.statement;
        let tag = statement.tag();
        match statement {
            Statement::Query(query) => match self.look_up(&parsed.text, &params, param_oids).await? {
                Some(found) => Ok(found),
                None => self.query(query, &params).await,
            },
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => self.change(statement, &params).await,
            Statement::CreateSource(_)
            | Statement::CreateTable(_)
            | Statement::CreateView(_)
            | Statement::CreateMaterializedView(_)
            | Statement::CreateSink(_)
            | Statement::CreateType(_) => self.define(parsed).await,
            Statement::AddLabel(add) => self.add_label(add).await,
            Statement::CreateTableAs(create) => self.create_table_as(create, &parsed.text, &params).await,
            Statement::CreateSchema { name, if_not_exists, owner } => {
                self.create_schema(name, *if_not_exists, owner.as_ref()).await
            }
            Statement::Access(access) => self.access(access).await,
            Statement::Drop(drop) => self.drop_objects(drop, tag).await,
            Statement::DropSchema(drop) => self.drop_schemas(drop).await,
            Statement::Truncate(names) => self.truncate(names).await,
            Statement::Refresh(name) => self.refresh(name).await,
            Statement::Rename { .. } => self.rename(statement).await,
            Statement::Comment { target, comment } => self.comment(target, comment.clone()).await,
            Statement::Explain(explain) => self.explain(explain).await,
            Statement::Show(show) => self.show(show),
            Statement::Describe(name) => self.describe_relation(name),
            Statement::Set(set) => self.set(set).await,
            Statement::Begin { modes, start } => self.begin(modes, *start),
            Statement::Commit { chain } => self.commit_block(*chain).await,
            Statement::Rollback { chain } => self.rollback_block(*chain),
            Statement::Savepoint(name) => self.savepoint(name),
            Statement::ReleaseSavepoint(name) => self.release_savepoint(name),
            Statement::RollbackTo(name) => self.rollback_to(name),
            Statement::SetTransaction(modes) => {
                if self.in_block() {
                    self.set_modes(modes)?;
                } else {
                    let text = "SET TRANSACTION can only be used in transaction blocks";
                    self.notice(Severity::Warning, SqlState::NoActiveSqlTransaction, text);
                }
                Ok(Outcome::Tag("SET".into()))
            }
            Statement::SetSessionCharacteristics(modes) => self.set_session_modes(modes),
            Statement::Declare(declare) => self.declare(declare, &params, &parsed.text).await,
            Statement::Fetch { direction, cursor, move_only } => self.fetch(*direction, &cursor.value, *move_only).await,
            Statement::Close(name) => self.close(name.as_ref().map(|n| n.value.as_str())),
            Statement::Prepare { .. } => self.prepare(parsed).await,
            Statement::Execute { name, values } => self.run_prepared(&name.value, values).await,
            Statement::Deallocate(name) => self.deallocate(name.as_ref().map(|n| n.value.as_str())),
            Statement::Discard(target) => self.discard(*target).await,
            Statement::Listen(channel) => self.listen(Deed::Listen(channel.clone()), tag),
            Statement::Notify { channel, payload } => self.notify(channel, payload, tag),
            Statement::Unlisten(channel) => self.listen(Deed::Unlisten(channel.clone()), tag),
            Statement::Copy(copy) => self.copy(copy, &params).await,
            Statement::Subscribe(subscribe) => self.subscribe(subscribe).await,
            Statement::Flush => {
                let database = Arc::clone(&self.database);
                self.seen = self.seen.max(database.flush().await?);
                Ok(Outcome::Tag(tag.into()))
            }
            Statement::CancelJob(job) => self.cancel_job(job).await,
        }
    }

    /// The types that parameters of these OIDs are carried as; none where the client leaves it to the server.
    fn declared_types(&self, param_oids: &[u32]) -> Vec<Option<SqlType>> {
        param_oids.iter().map(|oid| if matches!(oid, 0 | 705) { None } else { self.parameter_type(*oid) }).collect()
    }

    fn describe_statement(&mut self, parsed: &ParsedStatement, param_oids: &[u32]) -> SqlResult<StatementDescription> {
        let declared = self.declared_types(param_oids);
        let none = |columns: Option<Vec<ResultColumn>>| StatementDescription { params: vec![], columns };
        Ok(match &parsed.statement {
            Statement::Query(query) => return self.describe_query(query, &parsed.text, param_oids),
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                self.describe_change(&parsed.statement, &declared)?
            }
            Statement::CreateTableAs(create) => {
                let (_, types) = self.running().plan(&create.query.query, &declared)?;
                StatementDescription { params: types.iter().map(SqlType::oid).collect(), columns: None }
            }
            Statement::Show(show) => none(Some(self.show_columns(show))),
            Statement::Describe(_) => none(Some(show::description_columns())),
            Statement::Explain(explain) => {
                let sql_type = if explain.json { SqlType::Json } else { SqlType::Text };
                none(Some(vec![ResultColumn::new("QUERY PLAN", sql_type)]))
            }
            Statement::Fetch { cursor, move_only: false, .. } => none(self.cursor_columns(&cursor.value)),
            Statement::Execute { name, .. } => none(self.prepared.get(&name.value).and_then(|p| p.description.columns.clone())),
            Statement::Subscribe(subscribe) => none(Some(self.subscribe_columns(subscribe)?)),
            Statement::Declare(declare) => match &declare.body {
                thalweg_planner::statement::CursorBody::Query(query) => {
                    let (_, types) = self.running().plan(&query.query, &declared)?;
                    StatementDescription { params: types.iter().map(SqlType::oid).collect(), columns: None }
                }
                thalweg_planner::statement::CursorBody::Subscribe(_) => none(None),
            },
            _ => none(None),
        })
    }
}

#[async_trait]
impl Session for ClientSession {
    type Statement = ParsedStatement;

    fn parse(&mut self, sql: &str) -> SqlResult<Vec<ParsedStatement>> {
        let statements = thalweg_planner::parse(sql)?;
        self.together = statements.len() > 1;
        self.among_others = self.together;
        Ok(statements)
    }

    async fn describe(&mut self, statement: &ParsedStatement, param_oids: &[u32]) -> SqlResult<StatementDescription> {
        self.check_allowed(&statement.statement)?;
        let mut description = self.describe_statement(statement, param_oids).map_err(|e| shifted(e, statement.offset))?;
        // A type that the client gave is the parameter's, whatever it is carried as.
        for (found, given) in description.params.iter_mut().zip(param_oids).filter(|(_, given)| !matches!(given, 0 | 705)) {
            *found = *given;
        }
        Ok(description)
    }

    async fn execute(&mut self, statement: &ParsedStatement, params: Vec<ScalarValue>, param_oids: &[u32]) -> SqlResult<Outcome> {
        self.param_types = self.declared_types(param_oids);
        self.take_set_config();
        self.take_copied()?;
        self.check_allowed(&statement.statement)?;
        if self.transaction.is_none() && self.together {
            self.transaction = Some(Transaction::new(false, &self.settings));
        }
        if let Some(transaction) = self.transaction.as_mut().filter(|_| isolation::sees_data(&statement.statement)) {
            transaction.began_to_read = true;
        }
        let done = self.dispatch(statement, params, param_oids).await;
        self.audit(statement, done.as_ref().err());
        done.map_err(|e| shifted(e, statement.offset))
    }

    fn join_request(&mut self) {
        self.together = true;
    }

    fn fail(&mut self, _error: &SqlError) {
        if let Some(transaction) = &mut self.transaction {
            transaction.fail();
        }
    }

    async fn end_request(&mut self) -> SqlResult<()> {
        self.take_set_config();
        let taken = self.take_copied();
        self.together = false;
        match &self.transaction {
            Some(transaction) if !transaction.explicit => {
                if transaction.failed {
                    self.roll_back();
                    taken
                } else {
                    self.commit().await
                }
            }
            _ => taken,
        }
    }

    fn transaction_status(&self) -> TransactionStatus {
        match &self.transaction {
            Some(t) if t.explicit && t.failed => TransactionStatus::Failed,
            Some(t) if t.explicit => TransactionStatus::InTransaction,
            _ => TransactionStatus::Idle,
        }
    }

    fn meaning(&self) -> u64 {
        self.database.catalog().version()
    }

    fn parameter_type(&self, oid: u32) -> Option<SqlType> {
        parameter_type(oid).or_else(|| self.database.catalog().type_of_oid(oid))
    }

    fn prepared(&mut self) -> &mut PreparedStatements<ParsedStatement> {
        &mut self.prepared
    }

    fn close_cursor(&mut self, name: &str) {
        self.cursors.remove(name);
    }

    fn cursor_columns(&self, name: &str) -> Option<Vec<ResultColumn>> {
        self.cursors.get(name).map(|cursor| cursor.columns().to_vec())
    }

    fn portal_use(&self, statement: &ParsedStatement) -> Option<PortalUse> {
        self.use_of_portal(&statement.statement)
    }

    fn closes_portals(&self, statement: &ParsedStatement) -> bool {
        cursor::closes_all(&statement.statement)
    }

    fn output_settings(&self) -> OutputSettings {
        self.settings.output()
    }

    fn statement_timeout(&self) -> Option<Duration> {
        self.settings.statement_timeout()
    }

    fn reported_parameters(&self) -> Vec<(String, String)> {
        self.settings.told()
    }

    fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        self.take_set_config();
        self.note_superuser();
        let changes = self.settings.told_differences(&self.told);
        if !changes.is_empty() {
            self.told = self.settings.clone();
        }
        changes
    }

    fn ended(&mut self) {
        self.audit_logout();
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        let least = match self.settings.get("client_min_messages").as_deref() {
            Ok("error") => return std::mem::take(&mut self.notices).into_iter().take(0).collect(),
            Ok("warning") => Severity::Warning,
            Ok("notice") => Severity::Notice,
            Ok("log") => Severity::Log,
            _ => Severity::Debug,
        };
        std::mem::take(&mut self.notices).into_iter().filter(|n| n.severity >= least).collect()
    }
}

/// The error with its position counted in the whole text that the statement stands in.
fn shifted(mut error: SqlError, offset: usize) -> SqlError {
    error.position = error.position.map(|position| position + offset);
    error
}
