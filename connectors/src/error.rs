//! What goes wrong with the outside, who must act on it, and whether trying again can help.

use thalweg_catalog::{SqlError, SqlState};
use thiserror::Error;

/// Who must act for the error to go away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Responsible {
    /// The user: an option, a schema, a missing file.
    User,
    /// The other system: unreachable, overloaded, refusing.
    External,
    /// Us.
    Thalweg,
}

/// A failure of a source or a sink as a whole. A single bad record is a [`RecordError`](crate::RecordError) instead.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct ConnectorError {
    /// What happened, for the user to read.
    pub message: String,
    /// Who must act.
    pub responsible: Responsible,
    /// Whether trying again after a while can help.
    pub retry: bool,
}

/// The result of whatever can fail with a [`ConnectorError`].
pub type ConnectorResult<T> = Result<T, ConnectorError>;

impl ConnectorError {
    /// The user must act; trying again does not help.
    pub fn user(message: impl Into<String>) -> ConnectorError {
        ConnectorError { message: message.into(), responsible: Responsible::User, retry: false }
    }

    /// The other system is in trouble; trying again may help.
    pub fn external(message: impl Into<String>) -> ConnectorError {
        ConnectorError { message: message.into(), responsible: Responsible::External, retry: true }
    }

    /// A fault of ours.
    pub fn internal(message: impl Into<String>) -> ConnectorError {
        ConnectorError { message: message.into(), responsible: Responsible::Thalweg, retry: false }
    }

    /// The user must act; as soon as he has, trying again helps.
    pub fn missing(message: impl Into<String>) -> ConnectorError {
        ConnectorError { message: message.into(), responsible: Responsible::User, retry: true }
    }

    /// What the user is told of it as the answer to a statement; `state` is for what he did wrong himself.
    pub fn refusal(self, state: SqlState) -> SqlError {
        let state = match self.responsible {
            Responsible::User => state,
            Responsible::External => SqlState::ConnectionFailure,
            Responsible::Thalweg => SqlState::InternalError,
        };
        SqlError::new(state, self.message)
    }
}
