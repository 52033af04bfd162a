//! What can end a wait: a cancel request, the statement timeout, the client's leaving, the server's shutdown.

use super::connections::{Interrupt, Registered};
use super::transport::{FrameReader, MessageWriter, ReadError};
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

/// Why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The client said so, or has gone.
    Closed,
    /// The client is told this.
    Fatal(SqlError),
}

/// Why a statement stops.
#[derive(Debug)]
pub enum Stop {
    /// It failed, with the place in the client's data where that happened.
    Error(SqlError, Option<Box<str>>),
    /// The connection ends with it.
    End(End),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Stop::Error(error, None)
    }
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Closed => End::Closed,
            ReadError::Lost(error) => End::Fatal(error),
        }
    }
}

/// `57P01`.
pub fn shutdown() -> SqlError {
    SqlError::new(SqlState::AdminShutdown, "terminating connection due to administrator command")
}

fn canceled(why: &str) -> Stop {
    Stop::Error(SqlError::new(SqlState::QueryCanceled, format!("canceling statement due to {why}")), None)
}

/// Watches over one statement.
pub struct Guard {
    entry: Arc<Registered>,
    deadline: Option<Instant>,
}

impl Guard {
    /// A guard whose timeout begins now.
    pub fn new(entry: Arc<Registered>, timeout: Option<Duration>) -> Guard {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Guard { entry, deadline }
    }

    fn stop_of(&self, interrupt: Interrupt) -> Stop {
        match interrupt {
            Interrupt::Cancel => {
                self.entry.signal.clear_cancel();
                canceled("user request")
            }
            Interrupt::Terminate => Stop::End(End::Fatal(shutdown())),
        }
    }

    /// Looks without waiting: for work that never has to wait.
    ///
    /// # Errors
    /// If the statement is to stop.
    pub fn check(&self) -> Result<(), Stop> {
        if let Some(interrupt) = self.entry.signal.get() {
            return Err(self.stop_of(interrupt));
        }
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(canceled("statement timeout"));
        }
        Ok(())
    }

    async fn expired(&self) {
        match self.deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// What stops a statement from outside, as soon as there is any such thing.
    async fn stopped(&self) -> Stop {
        tokio::select! {
            biased;
            interrupt = self.entry.signal.raised() => self.stop_of(interrupt),
            () = self.expired() => canceled("statement timeout"),
        }
    }

    /// Waits for a result while the client may leave.
    ///
    /// # Errors
    /// The future's error, or what stopped it.
    pub async fn run<R, T>(&self, reader: &mut FrameReader<R>, future: impl Future<Output = SqlResult<T>>) -> Result<T, Stop>
    where
        R: AsyncRead + Unpin + Send,
    {
        tokio::select! {
            biased;
            stop = self.stopped() => Err(stop),
            result = future => result.map_err(Stop::from),
            () = reader.gone() => Err(Stop::End(End::Closed)),
        }
    }

    /// Writes what is gathered while the client may be slow, or leave.
    ///
    /// # Errors
    /// What stopped it.
    pub async fn flush<R, W>(&self, reader: &mut FrameReader<R>, writer: &mut MessageWriter<W>) -> Result<(), Stop>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        tokio::select! {
            biased;
            stop = self.stopped() => Err(stop),
            result = writer.flush() => result.map_err(|_| Stop::End(End::Closed)),
            () = reader.gone() => Err(Stop::End(End::Closed)),
        }
    }

    /// Waits for the next message within a statement.
    ///
    /// # Errors
    /// What stopped it.
    pub async fn frame<R: AsyncRead + Unpin + Send>(&self, reader: &mut FrameReader<R>) -> Result<(u8, Bytes), Stop> {
        tokio::select! {
            biased;
            stop = self.stopped() => Err(stop),
            frame = reader.frame() => frame.map_err(|error| Stop::End(error.into())),
        }
    }
}
