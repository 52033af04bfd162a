//! `thalweg run`: statements in one process, in order. A query over what never ends prints its changes as they come; over what
//! ends it waits until all of that has been read. When every input has ended and every sink has what is its, the run ends.

use crate::config::Settings;
use crate::database::Database;
use crate::session::ClientSession;
use crate::wire::session::{ConnectionInfo, Outcome, ResultColumn, Session};
use futures::StreamExt;
use printer::Printer;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_catalog::{Catalog, ObjectDefinition, ObjectId, ObjectKind, RoleId, SqlError, SqlResult, SqlType};
use thalweg_connectors::{Boundedness, registry};
use thalweg_executor::job::{JobShared, JobState};
use thalweg_planner::{ParsedStatement, Scope, Statement, StreamRelations};

mod printer;

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people: an aligned table.
    Table,
    /// With a header line.
    Csv,
    /// An object a line.
    Json,
}

/// What is run.
pub struct Script {
    /// The file's name, for messages.
    pub name: Option<String>,
    /// The statements.
    pub text: String,
    /// How results are printed.
    pub format: Format,
    /// Whether to show progress on standard error.
    pub progress: bool,
}

/// Runs a script.
///
/// # Errors
/// The text to show for the first error: message, detail, hint and where it is.
pub async fn run(settings: Settings, script: Script) -> Result<(), String> {
    let shown = |e: &SqlError| shown_error(e, Some(&script));
    // Read whole before anything runs, so that a slip at the end costs nothing.
    let statements = thalweg_planner::parse(&script.text).map_err(|e| shown(&e))?;
    let database = Database::open(settings).await.map_err(|e| shown(&e))?;
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    let work = run_all(&database, &statements, &script);
    let outcome = tokio::select! {
        outcome = work => outcome,
        // What has come so far is kept: closing makes a last checkpoint, and sinks get what is theirs.
        _ = &mut interrupted => Ok(()),
    };
    let drained = match outcome {
        Ok(()) => database.close().await,
        Err(error) => {
            database.engine().abandon().await;
            Err(error)
        }
    };
    drained.map_err(|e| shown(&e))
}

async fn run_all(database: &Arc<Database>, statements: &[ParsedStatement], script: &Script) -> SqlResult<()> {
    let info = ConnectionInfo {
        user: "thalweg".into(),
        database: "thalweg".into(),
        settings: vec![],
        process_id: 0,
        peer: None,
        tls: None,
        proven: true,
    };
    let catalog = database.catalog();
    let role = catalog.security().role(RoleId::BOOTSTRAP).ok_or_else(|| SqlError::internal("there is no bootstrap role"))?;
    let mut session = ClientSession::new(Arc::clone(database), None, info, role)?;
    for statement in statements {
        let located = |error: SqlError| SqlError { position: Some(error.position.unwrap_or(1 + statement.offset)), ..error };
        run_one(database, &mut session, statement, script).await.map_err(located)?;
        session.end_request().await.map_err(located)?;
        for notice in session.take_notices() {
            eprintln!("{}: {}", notice.severity.word(), notice.message);
        }
    }
    finish(database, script).await
}

async fn run_one(
    database: &Arc<Database>,
    session: &mut ClientSession,
    statement: &ParsedStatement,
    script: &Script,
) -> SqlResult<()> {
    if let Statement::Query(query) = &statement.statement {
        let reads = objects_read(database, query);
        let catalog = database.catalog();
        if let Some(endless) = reads.iter().find(|id| is_endless(&catalog, **id)) {
            return print_changes(database, session, statement, *endless, script).await;
        }
        wait_for_end(database, &reads).await?;
    }
    match session.execute(statement, vec![], &[]).await? {
        Outcome::Tag(_) | Outcome::Empty => Ok(()),
        Outcome::Rows { columns, mut rows, .. } | Outcome::CopyOut { columns, mut rows, .. } => {
            let mut printer = Printer::new(script.format, columns)?;
            while let Some(batch) = rows.next().await {
                printer.take(&batch?)?;
            }
            printer.finish()
        }
        Outcome::CopyIn { .. } => {
            Err(SqlError::unsupported("COPY FROM STDIN is not supported in a script").with_hint("Use a file source, or INSERT."))
        }
    }
}

/// The objects that a query reads, through views too. None where it can't be planned: running it tells why.
fn objects_read(database: &Database, query: &thalweg_planner::ast::Query) -> BTreeSet<ObjectId> {
    let catalog = database.catalog();
    let path = ["public".to_string()];
    let scope = Scope { catalog: &catalog, relations: &StreamRelations, search_path: &path };
    let mut found = BTreeSet::new();
    if let Ok(bound) = database.planner().plan_query(query, &scope, &[]) {
        let mut next: Vec<ObjectId> = bound.depends_on;
        while let Some(id) = next.pop() {
            if found.insert(id)
                && let Some(object) = catalog.get(id).filter(|o| o.kind() == ObjectKind::View)
            {
                next.extend(&object.depends_on);
            }
        }
    }
    found
}

/// Whether a query over this object alone never ends: a source without an end.
fn is_endless(catalog: &Catalog, id: ObjectId) -> bool {
    let Some(object) = catalog.get(id) else { return false };
    match (&object.definition, object.connector()) {
        (ObjectDefinition::Source { .. }, Some(connector)) => {
            registry::source(connector, &object.columns).is_ok_and(|source| source.boundedness() == Boundedness::Unbounded)
        }
        _ => false,
    }
}

/// Whether rows can still come to this object without anybody writing them.
fn has_endless_input(catalog: &Catalog, id: ObjectId) -> bool {
    let Some(object) = catalog.get(id) else { return false };
    let own = object.connector().filter(|_| object.kind() != ObjectKind::Sink).is_some_and(|connector| {
        registry::source(connector, &object.columns).is_ok_and(|source| source.boundedness() == Boundedness::Unbounded)
    });
    own || object.depends_on.iter().any(|id| has_endless_input(catalog, *id))
}

/// Waits until the jobs that keep these objects have read all that is bounded.
async fn wait_for_end(database: &Database, reads: &BTreeSet<ObjectId>) -> SqlResult<()> {
    let catalog = database.catalog();
    for id in reads {
        let Some(job) = database.engine().job(*id) else { continue };
        // A table is as full as the statements so far have made it, and so is what is over tables.
        if !has_bounded_source(&catalog, *id) || has_endless_input(&catalog, *id) {
            continue;
        }
        sources_ended(database, &catalog, *id).await;
        check(&job, &catalog)?;
    }
    Ok(())
}

fn has_bounded_source(catalog: &Catalog, id: ObjectId) -> bool {
    let Some(object) = catalog.get(id) else { return false };
    let own = object.kind() == ObjectKind::Source || (object.kind() == ObjectKind::Table && object.connector().is_some());
    own || object.depends_on.iter().any(|id| has_bounded_source(catalog, *id))
}

/// Returns once every source that the object's job (and those it reads) takes in has been read to its end, and the object shows it.
async fn sources_ended(database: &Database, catalog: &Catalog, id: ObjectId) {
    let Some(job) = database.engine().job(id) else { return };
    if let Some(object) = catalog.get(id) {
        for read in &object.depends_on {
            Box::pin(sources_ended(database, catalog, *read)).await;
        }
    }
    let reads_tables = reads_table(catalog, id);
    if !reads_tables {
        job.wait_until(|job| job.is_stopped() || job.completed() == thalweg_catalog::Epoch::END).await;
        return;
    }
    // With tables among the inputs the job itself does not end: look at its splits.
    job.wait_until(|job| job.is_stopped() || database.engine().job_sources_ended(id)).await;
    let open = database.engine().clock().open();
    database.engine().clock().demand();
    job.wait_until(|job| job.is_stopped() || job.completed() >= open).await;
}

fn reads_table(catalog: &Catalog, id: ObjectId) -> bool {
    let Some(object) = catalog.get(id) else { return false };
    (object.kind() == ObjectKind::Table && object.connector().is_none())
        || object.depends_on.iter().any(|id| reads_table(catalog, *id))
}

fn check(job: &JobShared, catalog: &Catalog) -> SqlResult<()> {
    match job.failure() {
        None => Ok(()),
        Some(reason) => {
            let name = catalog.get(job.id).map_or_else(|| job.id.to_string(), |o| format!("{} \"{}\"", o.kind(), o.name));
            Err(SqlError::new(thalweg_catalog::SqlState::ObjectNotInPrerequisiteState, format!("the job of {name} has failed"))
                .with_detail(reason))
        }
    }
}

/// Keeps a query over an endless source up to date, and prints its changes as they come, until interrupted.
async fn print_changes(
    database: &Arc<Database>,
    session: &mut ClientSession,
    statement: &ParsedStatement,
    source: ObjectId,
    script: &Script,
) -> SqlResult<()> {
    let name = format!("_run_{}", source.0);
    let parsed = |text: &str| -> SqlResult<ParsedStatement> {
        thalweg_planner::parse(text)?.into_iter().next().ok_or_else(|| SqlError::internal("an empty statement"))
    };
    let create =
        parsed(&format!("CREATE MATERIALIZED VIEW {name} AS {}", statement.text)).map(|p| ParsedStatement { offset: 0, ..p })?;
    let prefix = format!("CREATE MATERIALIZED VIEW {name} AS ").chars().count();
    let shifted =
        |e: SqlError| SqlError { position: e.position.map(|p| p.saturating_sub(prefix).max(1) + statement.offset), ..e };
    session.execute(&create, vec![], &[]).await.map_err(shifted)?;
    let outcome = session.execute(&parsed(&format!("SUBSCRIBE TO {name}"))?, vec![], &[]).await?;
    let Outcome::Rows { columns, mut rows, .. } = outcome else { return Err(SqlError::internal("SUBSCRIBE gave no rows")) };
    // Of the epoch and the change, the change is shown, under its own name.
    let diff = ResultColumn::new("diff", SqlType::Int8);
    let columns = std::iter::once(diff).chain(columns.into_iter().skip(2)).collect();
    let mut printer = Printer::live(script.format, columns)?;
    let job = database.catalog().find("public", &name).and_then(|o| database.engine().job(o.id));
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let shown: Vec<usize> = (1..batch.num_columns()).collect();
        let batch = batch.project(&shown).map_err(|e| thalweg_planner::errors::arrow_error(&e))?;
        printer.take(&batch)?;
        if let Some(job) = &job {
            check(job, &database.catalog())?;
        }
    }
    Ok(())
}

/// Waits until every job that can end has, with its sinks' rows delivered.
async fn finish(database: &Arc<Database>, script: &Script) -> SqlResult<()> {
    let engine = database.engine();
    engine.close_tables();
    let catalog = database.catalog();
    let progress = script.progress.then(|| tokio::spawn(show_progress(Arc::clone(database))));
    let mut result = Ok(());
    for job in engine.jobs() {
        job.wait_until(|job| job.is_stopped() || job.completed() == thalweg_catalog::Epoch::END).await;
        result = result.and(check(&job, &catalog));
    }
    if result.is_ok() && engine.jobs().iter().any(|job| job.undelivered.load(Ordering::SeqCst) > 0) {
        // Sinks that deliver at checkpoints get their last rows with this one.
        engine.checkpoint().await.map_err(|e| crate::database::engine_error(&e, &catalog))?;
        for job in engine.jobs() {
            job.wait_until(|job| job.is_stopped() || job.state() == JobState::Finished).await;
            result = result.and(check(&job, &catalog));
        }
    }
    if let Some(progress) = progress {
        progress.abort();
        eprint!("\r\x1b[K");
    }
    result
}

async fn show_progress(database: Arc<Database>) {
    let started = std::time::Instant::now();
    let mut every = tokio::time::interval(std::time::Duration::from_millis(500));
    loop {
        every.tick().await;
        let rows: u64 = database.engine().splits().iter().map(|s| s.state.rows).sum();
        let seconds = started.elapsed().as_secs_f64();
        eprint!("\r\x1b[K{rows} rows read, {seconds:.1} s, {:.0} rows/s", rows as f64 / seconds.max(0.001));
        // Progress that can't be shown is no reason to stop.
        let _ = std::io::stderr().flush();
    }
}

/// An error as it is shown on a terminal, with the line of the script that it is in.
pub fn shown_error(error: &SqlError, script: Option<&Script>) -> String {
    let mut text = format!("ERROR:  {}", error.message);
    if let (Some(position), Some(script)) = (error.position, script) {
        let before: String = script.text.chars().take(position.saturating_sub(1)).collect();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        let name = script.name.as_ref().map(|n| format!("{n}:")).unwrap_or_default();
        text.push_str(&format!("\nAT:     {name}{line}:{column}"));
        if let Some(source) = script.text.lines().nth(line - 1) {
            text.push_str(&format!("\n        {source}\n        {}^", " ".repeat(column - 1)));
        }
    }
    if let Some(detail) = &error.detail {
        text.push_str(&format!("\nDETAIL: {detail}"));
    }
    if let Some(hint) = &error.hint {
        text.push_str(&format!("\nHINT:   {hint}"));
    }
    text.push_str(&format!("\nCODE:   {}", error.state.code()));
    text
}
