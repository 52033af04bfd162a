//! Extended queries: Parse, Bind, Describe, Execute, Close. A failure skips what follows up to Sync.

use super::connection::Connection;
use super::guard::{Guard, Stop};
use super::message::{self, Bind, Frontend, Target, protocol_violation};
use super::named::cannot_run;
use super::parameter::decode_parameter;
use super::portal::{Portal, PortalState};
use super::rows::{Cursor, send_rows};
use super::session::{Outcome, Prepared, ResultColumn, RowTag, Session, StatementDescription};
use super::value::Format;
use super::value::write::RowWriter;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;
use std::time::SystemTime;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};

impl<R, W, S> Connection<R, W, S>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    S: Session,
{
    /// Handles one message of an extended query.
    pub(super) async fn extended(&mut self, message: Frontend) -> Result<(), Stop> {
        match message {
            Frontend::Parse { name, sql, param_oids } => self.parse(name, sql, &param_oids).await,
            Frontend::Bind(bind) => self.bind(bind).await,
            Frontend::Describe(target) => self.describe(&target).await,
            Frontend::Execute { portal, rows_max } => self.execute(portal, rows_max).await,
            Frontend::Close(target) => {
                match target {
                    Target::Statement(name) => {
                        self.session.prepared().remove(&name);
                    }
                    Target::Portal(name) => {
                        self.portals.close(&name);
                        self.session.close_cursor(&name);
                    }
                }
                message::put_bare(&mut self.writer.out, b'3');
                Ok(())
            }
            _ => Err(SqlError::internal("a message of no extended query was taken for one").into()),
        }
    }

    async fn parse(&mut self, name: String, sql: String, param_oids: &[u32]) -> Result<(), Stop> {
        self.registration.entry.activity.begins(&sql);
        if !name.is_empty() && self.session.prepared().get(&name).is_some() {
            return Err(SqlError::new(
                SqlState::DuplicatePreparedStatement,
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        // Even if this one is wrong, the one before it is gone.
        self.session.prepared().remove(&name);
        let mut statements = self.session.parse(&sql)?;
        if statements.len() > 1 {
            return Err(SqlError::syntax("cannot insert multiple commands into a prepared statement").into());
        }
        let statement = statements.pop().map(Arc::new);
        let meaning = self.session.meaning();
        let description = match &statement {
            Some(statement) => self.described(statement, param_oids).await?,
            None => StatementDescription { params: param_oids.to_vec(), columns: None },
        };
        let prepared = Prepared { statement, description, sql, from_sql: false, meaning, since: SystemTime::now() };
        self.session.prepared().insert(name, prepared);
        message::put_bare(&mut self.writer.out, b'1');
        Ok(())
    }

    async fn bind(&mut self, bind: Bind) -> Result<(), Stop> {
        let prepared = self.current(&bind.statement).await?;
        let params = self.bound_params(&bind, &prepared.description.params)?;
        let columns = prepared.description.columns.as_ref().map_or(0, Vec::len);
        let formats = result_formats(&bind.result_formats, columns)?;
        if !bind.portal.is_empty() && self.portals.get(&bind.portal).is_some() {
            return Err(SqlError::new(SqlState::DuplicateCursor, format!("cursor \"{}\" already exists", bind.portal)).into());
        }
        self.portals.put(bind.portal, Portal { prepared, formats, state: PortalState::Bound(params) });
        message::put_bare(&mut self.writer.out, b'2');
        Ok(())
    }

    fn bound_params(&self, bind: &Bind, types: &[u32]) -> SqlResult<Vec<ScalarValue>> {
        let formats = spread_formats(&bind.param_formats, bind.params.len()).map_err(|count| {
            protocol_violation(format!("bind message has {count} parameter formats but {} parameters", bind.params.len()))
        })?;
        if bind.params.len() != types.len() {
            return Err(protocol_violation(format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.params.len(),
                bind.statement,
                types.len()
            )));
        }
        let settings = self.session.output_settings();
        let params = bind.params.iter().zip(types).zip(formats).enumerate();
        params
            .map(|(index, ((bytes, oid), format))| {
                let of = (*oid, self.session.parameter_type(*oid));
                decode_parameter(index, of, checked(format)?, bytes.as_deref(), &settings)
            })
            .collect()
    }

    async fn described(&mut self, statement: &S::Statement, param_oids: &[u32]) -> Result<StatementDescription, Stop> {
        let guard = self.guard();
        let described = guard.run(&mut self.reader, self.session.describe(statement, param_oids)).await?;
        Ok(match self.portal_columns(statement) {
            Some(columns) => StatementDescription { columns: Some(columns), ..described },
            None => described,
        })
    }

    /// The prepared statement of this name, described anew if it may mean something else by now.
    async fn current(&mut self, name: &str) -> Result<Arc<Prepared<S::Statement>>, Stop> {
        let prepared = Arc::clone(self.statement(name)?);
        let meaning = self.session.meaning();
        let Some(statement) = prepared.statement.as_ref().filter(|_| prepared.meaning != meaning) else { return Ok(prepared) };
        let description = self.described(statement, &prepared.description.params).await?;
        let now = prepared.described_anew(description, meaning)?;
        self.session.prepared().insert(name, now);
        Ok(Arc::clone(self.statement(name)?))
    }

    fn statement(&mut self, name: &str) -> SqlResult<&Arc<Prepared<S::Statement>>> {
        self.session.prepared().get(name).ok_or_else(|| {
            let shown = if name.is_empty() {
                "unnamed prepared statement does not exist".to_string()
            } else {
                format!("prepared statement \"{name}\" does not exist")
            };
            SqlError::new(SqlState::InvalidSqlStatementName, shown)
        })
    }

    async fn describe(&mut self, target: &Target) -> Result<(), Stop> {
        match target {
            Target::Statement(name) => {
                let prepared = self.current(name).await?;
                message::put_parameter_description(&mut self.writer.out, &prepared.description.params);
                self.put_columns(prepared.description.columns.as_deref(), &[]);
            }
            Target::Portal(name) => match self.portals.get(name) {
                Some(portal) => {
                    let (prepared, formats) = (Arc::clone(&portal.prepared), portal.formats.clone());
                    self.put_columns(prepared.description.columns.as_deref(), &formats);
                }
                None => {
                    let columns = self.session.cursor_columns(name).ok_or_else(|| no_portal(name))?;
                    self.put_columns(Some(&columns), &[]);
                }
            },
        }
        Ok(())
    }

    fn put_columns(&mut self, columns: Option<&[ResultColumn]>, formats: &[Format]) {
        match columns {
            Some(columns) => message::put_row_description(&mut self.writer.out, columns, formats),
            None => message::put_bare(&mut self.writer.out, b'n'),
        }
    }

    async fn execute(&mut self, name: String, rows_max: u32) -> Result<(), Stop> {
        if self.portals.get(&name).is_none() && self.session.cursor_columns(&name).is_some() {
            return self.execute_cursor(&name, rows_max).await;
        }
        let mut portal = self.portals.take(&name).ok_or_else(|| no_portal(&name))?;
        self.registration.entry.activity.begins(&portal.prepared.sql);
        let guard = self.guard();
        let state = std::mem::replace(&mut portal.state, PortalState::Finished);
        portal.state = match state {
            PortalState::Bound(params) => {
                let (prepared, formats) = (Arc::clone(&portal.prepared), portal.formats.clone());
                self.execute_bound(&prepared, formats, params, rows_max, &guard).await?
            }
            PortalState::Open(cursor) => self.read_on(cursor, rows_max, &guard).await?,
            PortalState::Exhausted(tag) => {
                self.complete(&tag.text(0));
                PortalState::Exhausted(tag)
            }
            PortalState::Finished => {
                return Err(cannot_run(&name).into());
            }
        };
        self.portals.put(name, portal);
        Ok(())
    }

    /// Rows of a cursor that was declared in SQL, which Execute can name as a portal.
    async fn execute_cursor(&mut self, name: &str, rows_max: u32) -> Result<(), Stop> {
        let count = if rows_max == 0 { "ALL".to_string() } else { rows_max.to_string() };
        let fetch = self.session.parse(&format!("FETCH {count} FROM \"{}\"", name.replace('"', "\"\"")))?;
        let guard = self.guard();
        self.session.join_request();
        for statement in &fetch {
            let outcome = guard.run(&mut self.reader, self.session.execute(statement, vec![], &[])).await?;
            let Outcome::Rows { columns, rows, .. } = outcome else {
                return Err(SqlError::internal("a cursor gives no rows").into());
            };
            let formats = vec![Format::Text; columns.len()];
            let writer = RowWriter::new(columns, formats, self.session.output_settings());
            let mut cursor = Cursor::new(writer, rows, RowTag::Counted("SELECT"));
            let sent = send_rows(&mut cursor, 0, &guard, &mut self.reader, &mut self.writer).await?;
            if rows_max > 0 && sent.rows == u64::from(rows_max) {
                message::put_bare(&mut self.writer.out, b's');
            } else {
                self.complete(&cursor.tag().text(sent.rows));
            }
        }
        Ok(())
    }

    async fn execute_bound(
        &mut self,
        prepared: &Prepared<S::Statement>,
        formats: Vec<Format>,
        params: Vec<ScalarValue>,
        rows_max: u32,
        guard: &Guard,
    ) -> Result<PortalState, Stop> {
        let Some(statement) = &prepared.statement else {
            message::put_bare(&mut self.writer.out, b'I');
            return Ok(PortalState::Finished);
        };
        self.session.join_request();
        match self.outcome(statement, params, &prepared.description.params, guard).await? {
            Outcome::Rows { columns, rows, tag } => {
                check_columns(prepared.description.columns.as_deref(), &columns)?;
                let row_writer = RowWriter::new(columns, formats, self.session.output_settings());
                self.read_on(Box::new(Cursor::new(row_writer, rows, tag)), rows_max, guard).await
            }
            other => {
                self.finish_without_rows(other, guard).await?;
                Ok(PortalState::Finished)
            }
        }
    }

    async fn read_on(&mut self, mut cursor: Box<Cursor>, rows_max: u32, guard: &Guard) -> Result<PortalState, Stop> {
        let sent = send_rows(&mut cursor, u64::from(rows_max), guard, &mut self.reader, &mut self.writer).await?;
        if sent.ended {
            self.complete(&cursor.tag().text(sent.rows));
            Ok(PortalState::Exhausted(cursor.tag().clone()))
        } else {
            message::put_bare(&mut self.writer.out, b's');
            Ok(PortalState::Open(cursor))
        }
    }
}

pub(super) fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::InvalidCursorName, format!("portal \"{name}\" does not exist"))
}

/// One format code for each of `count` values; else how many codes there are.
fn spread_formats(codes: &[i16], count: usize) -> Result<Vec<i16>, usize> {
    match codes {
        [] => Ok(vec![0; count]),
        [all] => Ok(vec![*all; count]),
        each if each.len() == count => Ok(each.to_vec()),
        other => Err(other.len()),
    }
}

fn checked(code: i16) -> SqlResult<Format> {
    Format::from_code(code).ok_or_else(|| SqlError::invalid_parameter(format!("unsupported format code: {code}")))
}

fn result_formats(codes: &[i16], columns: usize) -> SqlResult<Vec<Format>> {
    if columns == 0 {
        return Ok(vec![]);
    }
    let codes = spread_formats(codes, columns).map_err(|count| {
        protocol_violation(format!("bind message has {count} result formats but query has {columns} columns"))
    })?;
    codes.into_iter().map(checked).collect()
}

/// The client reads the rows by what it was told at Parse: a relation that was made anew since may not fit.
fn check_columns(described: Option<&[ResultColumn]>, columns: &[ResultColumn]) -> SqlResult<()> {
    let same = described.is_some_and(|described| {
        described.len() == columns.len() && described.iter().zip(columns).all(|(a, b)| a.type_oid == b.type_oid)
    });
    if same { Ok(()) } else { Err(SqlError::unsupported("cached plan must not change result type")) }
}
