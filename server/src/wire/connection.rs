//! One connection: the loop that takes messages, and simple queries.

use super::connections::Registration;
use super::guard::{End, Guard, Stop, shutdown};
use super::message::{self, Frontend, protocol_violation};
use super::portal::Portals;
use super::rows::{Cursor, send_rows};
use super::session::{Outcome, Session, TransactionStatus};
use super::transport::{FrameReader, MessageWriter};
use super::value::Format;
use super::value::write::RowWriter;
use bytes::Bytes;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection past its startup.
pub struct Connection<R, W, S: Session> {
    pub(super) reader: FrameReader<R>,
    pub(super) writer: MessageWriter<W>,
    pub(super) session: S,
    pub(super) registration: Registration,
    pub(super) portals: Portals<S::Statement>,
    /// An extended query failed: messages up to Sync don't count.
    pub(super) skips: bool,
}

impl<R, W, S> Connection<R, W, S>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    S: Session,
{
    /// A connection whose session stands.
    pub fn new(reader: FrameReader<R>, writer: MessageWriter<W>, session: S, registration: Registration) -> Self {
        Connection { reader, writer, session, registration, portals: Portals::default(), skips: false }
    }

    /// Serves the client until it leaves or is made to.
    pub async fn serve(mut self) {
        message::put_authentication_ok(&mut self.writer.out);
        for (name, value) in self.session.reported_parameters() {
            message::put_parameter_status(&mut self.writer.out, &name, &value);
        }
        let entry = &self.registration.entry;
        message::put_backend_key(&mut self.writer.out, entry.process_id, entry.secret);
        let end = match self.ready().await {
            Ok(()) => self.serve_messages().await,
            Err(end) => end,
        };
        self.session.ended();
        if let End::Fatal(error) = end {
            message::put_error(&mut self.writer.out, "FATAL", &error, None);
        }
        self.writer.close().await;
    }

    async fn serve_messages(&mut self) -> End {
        let mut idle = true;
        loop {
            let entry = Arc::clone(&self.registration.entry);
            let may_be_told = idle && self.session.transaction_status() == TransactionStatus::Idle;
            let frame = tokio::select! {
                biased;
                () = entry.signal.terminated() => return End::Fatal(shutdown()),
                frame = self.reader.frame() => frame,
                () = entry.mailbox.arrived(), if may_be_told => {
                    match self.tell().await {
                        Ok(()) => continue,
                        Err(end) => return end,
                    }
                }
            };
            let (kind, body) = match frame {
                Ok(frame) => frame,
                Err(error) => return error.into(),
            };
            if idle {
                // A cancel that came while nothing ran is not for what comes now.
                entry.signal.clear_cancel();
            }
            idle = matches!(kind, b'Q' | b'S');
            if let Err(end) = self.handle(kind, body).await {
                return end;
            }
        }
    }

    async fn handle(&mut self, kind: u8, body: Bytes) -> Result<(), End> {
        if kind == b'X' {
            return Err(End::Closed);
        }
        if self.skips && kind != b'S' {
            return Ok(());
        }
        let message = match Frontend::decode(kind, body) {
            Ok(message) => message,
            Err(error) if Frontend::is_extended(kind) && kind != b'S' => {
                self.fail(error, None);
                self.skips = true;
                return self.flush().await;
            }
            // The rest of a COPY that has failed: what is wrong with it no longer matters.
            Err(_) if matches!(kind, b'd' | b'c' | b'f') => return Ok(()),
            Err(error) => {
                self.fail(error, None);
                self.skips = false;
                return self.end_request().await;
            }
        };
        match message {
            Frontend::Query(sql) => self.simple_query(&sql).await,
            Frontend::Sync => {
                self.skips = false;
                self.end_request().await
            }
            Frontend::Flush => self.writer.flush().await.map_err(|_| End::Closed),
            // The rest of a COPY that has failed.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::Terminate => Err(End::Closed),
            extended => match self.extended(extended).await {
                Ok(()) => Ok(()),
                Err(Stop::Error(error, context)) => {
                    self.fail(error, context.as_deref());
                    self.skips = true;
                    // A client that has sent Flush waits for it, and what it sent after the error is skipped.
                    self.flush().await
                }
                Err(Stop::End(end)) => Err(end),
            },
        }
    }

    async fn simple_query(&mut self, sql: &str) -> Result<(), End> {
        self.registration.entry.activity.begins(sql);
        // A simple query takes the place of what has no name.
        self.portals.close("");
        self.session.prepared().remove("");
        match self.session.parse(sql) {
            Err(error) => self.fail(error, None),
            Ok(statements) if statements.is_empty() => message::put_bare(&mut self.writer.out, b'I'),
            Ok(statements) => {
                for statement in &statements {
                    match self.run_simple(statement).await {
                        Ok(()) => {}
                        Err(Stop::Error(error, context)) => {
                            self.fail(error, context.as_deref());
                            break;
                        }
                        Err(Stop::End(end)) => return Err(end),
                    }
                }
            }
        }
        self.end_request().await
    }

    async fn run_simple(&mut self, statement: &S::Statement) -> Result<(), Stop> {
        let guard = self.guard();
        match self.outcome(statement, vec![], &[], &guard).await? {
            Outcome::Rows { columns, rows, tag } => {
                let formats = vec![Format::Text; columns.len()];
                message::put_row_description(&mut self.writer.out, &columns, &formats);
                let row_writer = RowWriter::new(columns, formats, self.session.output_settings());
                let mut cursor = Cursor::new(row_writer, rows, tag);
                let sent = send_rows(&mut cursor, 0, &guard, &mut self.reader, &mut self.writer).await?;
                self.complete(&cursor.tag().text(sent.rows));
                Ok(())
            }
            other => self.finish_without_rows(other, &guard).await,
        }
    }

    /// What both protocols do with outcomes whose rows are not result rows.
    pub(super) async fn finish_without_rows(&mut self, outcome: Outcome, guard: &Guard) -> Result<(), Stop> {
        match outcome {
            Outcome::Tag(tag) => self.complete(&tag),
            Outcome::Empty => message::put_bare(&mut self.writer.out, b'I'),
            Outcome::CopyOut { columns, rows, options } => {
                let rows = self.copy_out(columns, rows, options, guard).await?;
                self.complete(&format!("COPY {rows}"));
            }
            Outcome::CopyIn { columns, options, relation, sink } => {
                let rows = self.copy_in(columns, options, relation, sink, guard).await?;
                self.complete(&format!("COPY {rows}"));
            }
            Outcome::Rows { .. } => {
                return Err(SqlError::internal("a result has rows that nothing reads").into());
            }
        }
        Ok(())
    }

    pub(super) fn guard(&self) -> Guard {
        Guard::new(Arc::clone(&self.registration.entry), self.session.statement_timeout())
    }

    /// Ends a statement that went well.
    pub(super) fn complete(&mut self, tag: &str) {
        self.put_notices();
        message::put_complete(&mut self.writer.out, tag);
    }

    /// Tells the client and the session that a statement failed.
    pub(super) fn fail(&mut self, error: SqlError, context: Option<&str>) {
        if error.state == SqlState::InternalError {
            tracing::error!(process_id = self.registration.entry.process_id, message = %error, detail = ?error.detail, "internal error");
        }
        self.put_notices();
        message::put_error(&mut self.writer.out, "ERROR", &error, context);
        self.session.fail(&error);
    }

    fn put_notices(&mut self) {
        for notice in self.session.take_notices() {
            message::put_notice(&mut self.writer.out, &notice);
        }
    }

    /// Ends a simple query or a row of extended ones: commits, and says that the next may come.
    async fn end_request(&mut self) -> Result<(), End> {
        if let Err(error) = self.session.end_request().await {
            self.fail(error, None);
        }
        self.ready().await
    }

    async fn ready(&mut self) -> Result<(), End> {
        let status = self.session.transaction_status();
        if status == TransactionStatus::Idle {
            self.portals.clear();
            self.put_notifications();
        }
        self.put_notices();
        for (name, value) in self.session.take_parameter_changes() {
            message::put_parameter_status(&mut self.writer.out, &name, &value);
        }
        message::put_ready(&mut self.writer.out, status.byte());
        self.registration.entry.activity.waits(status);
        self.flush().await
    }

    /// Tells the client what it was notified of while it does nothing.
    async fn tell(&mut self) -> Result<(), End> {
        self.put_notifications();
        self.flush().await
    }

    fn put_notifications(&mut self) {
        for notification in self.registration.entry.mailbox.take() {
            message::put_notification(&mut self.writer.out, &notification);
        }
    }

    async fn flush(&mut self) -> Result<(), End> {
        // A client that does not read must not keep the server from ending the connection.
        let entry = Arc::clone(&self.registration.entry);
        tokio::select! {
            biased;
            result = self.writer.flush() => result.map_err(|_| End::Closed),
            () = entry.signal.terminated() => Err(End::Fatal(shutdown())),
        }
    }

    /// Client and server no longer agree on where they are.
    pub(super) fn out_of_step(&mut self, kind: u8, place: &str) -> Stop {
        let error = protocol_violation(format!("unexpected message type 0x{kind:02X} during COPY from stdin"));
        self.fail(error, Some(place));
        Stop::End(End::Fatal(protocol_violation("terminating connection because protocol synchronization was lost")))
    }
}

#[cfg(test)]
mod tests;
