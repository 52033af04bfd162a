//! A server as the `sqllogictest` crate sees one.
//!
//! Statements go by the simple protocol, so results come as the text that psql shows; NULL is `NULL` and empty text
//! `(empty)`. Three words are for the harness: `.kill` ends the server as a power cut would and starts it again, `.restart`
//! stops and starts it in good order, and `.extended` sends the rest of the statement by the extended protocol.

use crate::server::{Server, ServerError};
use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Why a statement failed, printed as `CODE: message`.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The server refused it.
    #[error("{code}: {message}")]
    Refused {
        /// The SQLSTATE.
        code: String,
        /// The message, with detail, hint and position.
        message: String,
    },
    /// The connection broke.
    #[error("connection: {0}")]
    Connection(String),
    /// The server could not be started again.
    #[error(transparent)]
    Server(#[from] ServerError),
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> DatabaseError {
        let Some(refusal) = error.as_db_error() else { return DatabaseError::Connection(error.to_string()) };
        let mut message = refusal.message().to_string();
        for (name, part) in [("DETAIL", refusal.detail()), ("HINT", refusal.hint())] {
            if let Some(part) = part {
                message.push_str(&format!("\n{name}: {part}"));
            }
        }
        if let Some(tokio_postgres::error::ErrorPosition::Original(position)) = refusal.position() {
            message.push_str(&format!("\nPOSITION: {position}"));
        }
        DatabaseError::Refused { code: refusal.code().code().to_string(), message }
    }
}

/// One session with a server that may be killed under it.
pub struct Database {
    server: Arc<Mutex<Server>>,
    session: Option<(usize, Client)>,
}

impl Database {
    /// A session that connects with its first statement.
    pub fn new(server: Arc<Mutex<Server>>) -> Database {
        Database { server, session: None }
    }

    /// The session's client, connected anew if the server was started since.
    async fn client(&mut self) -> Result<&mut Client, DatabaseError> {
        let server = self.server.lock().await;
        if self.session.as_ref().is_none_or(|(starts, _)| *starts != server.starts()) {
            self.session = Some((server.starts(), server.connect().await?));
        }
        drop(server);
        match &mut self.session {
            Some((_, client)) => Ok(client),
            None => Err(DatabaseError::Connection("there is no session".into())),
        }
    }

    async fn directive(&mut self, word: &str) -> Result<DBOutput<DefaultColumnType>, DatabaseError> {
        let mut server = self.server.lock().await;
        match word {
            ".kill" => server.kill(),
            ".restart" => server.stop()?,
            other => return Err(DatabaseError::Connection(format!("there is no directive {other}"))),
        }
        server.start_again()?;
        Ok(DBOutput::StatementComplete(0))
    }

    async fn extended(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DatabaseError> {
        let client = self.client().await?;
        let statement = client.prepare(sql).await?;
        if statement.columns().is_empty() {
            return Ok(DBOutput::StatementComplete(client.execute(&statement, &[]).await?));
        }
        let rows = client.query(&statement, &[]).await?;
        let cell = |row: &tokio_postgres::Row, at: usize| -> Result<String, DatabaseError> {
            let value: Option<Binary> = row.try_get(at)?;
            Ok(value.map_or_else(|| "NULL".to_string(), |value| shown(value.0)))
        };
        let line = |row| (0..statement.columns().len()).map(|at| cell(row, at)).collect::<Result<Vec<_>, _>>();
        let types = vec![DefaultColumnType::Any; statement.columns().len()];
        Ok(DBOutput::Rows { types, rows: rows.iter().map(line).collect::<Result<_, _>>()? })
    }
}

/// A value that came in binary form, of one of the types whose text is plain.
struct Binary(String);

impl<'a> tokio_postgres::types::FromSql<'a> for Binary {
    fn from_sql(ty: &tokio_postgres::types::Type, raw: &'a [u8]) -> Result<Binary, Box<dyn std::error::Error + Sync + Send>> {
        use tokio_postgres::types::Type;
        Ok(Binary(match *ty {
            Type::BOOL => if bool::from_sql(ty, raw)? { "t" } else { "f" }.to_string(),
            Type::INT2 => i16::from_sql(ty, raw)?.to_string(),
            Type::INT4 => i32::from_sql(ty, raw)?.to_string(),
            Type::INT8 => i64::from_sql(ty, raw)?.to_string(),
            Type::FLOAT4 => f32::from_sql(ty, raw)?.to_string(),
            Type::FLOAT8 => f64::from_sql(ty, raw)?.to_string(),
            Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN => String::from_utf8(raw.to_vec())?,
            _ => raw.iter().fold(String::from("\\x"), |text, byte| format!("{text}{byte:02x}")),
        }))
    }

    fn accepts(_: &tokio_postgres::types::Type) -> bool {
        true
    }
}

fn shown(text: String) -> String {
    if text.is_empty() { "(empty)".to_string() } else { text }
}

#[async_trait]
impl AsyncDB for Database {
    type Error = DatabaseError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, DatabaseError> {
        if let Some(rest) = sql.strip_prefix(".extended") {
            return self.extended(rest.trim_start()).await;
        }
        if sql.starts_with('.') {
            return self.directive(sql.trim()).await;
        }
        let messages = self.client().await?.simple_query(sql).await?;
        let mut width = None;
        let mut rows = vec![];
        let mut count = 0;
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(columns) => width = Some(columns.len()),
                SimpleQueryMessage::Row(row) => {
                    let cell = |at| row.get(at).map_or_else(|| "NULL".to_string(), |text| shown(text.to_string()));
                    rows.push((0..row.len()).map(cell).collect());
                }
                SimpleQueryMessage::CommandComplete(affected) => count = affected,
                _ => {}
            }
        }
        Ok(match width {
            Some(width) => DBOutput::Rows { types: vec![DefaultColumnType::Any; width], rows },
            None => DBOutput::StatementComplete(count),
        })
    }

    async fn shutdown(&mut self) {
        self.session = None;
    }

    fn engine_name(&self) -> &str {
        "thalweg"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    async fn run_command(command: Command) -> std::io::Result<Output> {
        tokio::process::Command::from(command).output().await
    }

    fn error_sql_state(error: &DatabaseError) -> Option<String> {
        match error {
            DatabaseError::Refused { code, .. } => Some(code.clone()),
            DatabaseError::Connection(_) | DatabaseError::Server(_) => None,
        }
    }
}
