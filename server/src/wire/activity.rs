//! What each connection does, for `pg_stat_activity`.

use super::session::TransactionStatus;
use parking_lot::Mutex;
use std::time::SystemTime;

/// How many bytes of a statement's text are kept: those that Postgres keeps by default.
const TEXT_BYTES_MAX: usize = 1023;

/// What a connection does, or did last. Written by the connection, read by others.
#[derive(Default)]
pub struct Activity {
    doing: Mutex<Doing>,
}

/// One moment of an [`Activity`].
#[derive(Clone, Default, Debug)]
pub struct Doing {
    /// Whether a statement runs, else where the session stands; none before the first statement.
    pub state: Option<State>,
    /// The beginning of the text of the statement that runs, or ran last.
    pub query: String,
    /// When that statement began.
    pub query_start: Option<SystemTime>,
    /// When the transaction began that it runs in; none outside of one.
    pub transaction_start: Option<SystemTime>,
    /// When the state became what it is.
    pub state_change: Option<SystemTime>,
}

/// The states of `pg_stat_activity`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum State {
    Active,
    Idle,
    IdleInTransaction,
    IdleInFailedTransaction,
}

impl State {
    /// The words for it.
    pub fn text(self) -> &'static str {
        match self {
            State::Active => "active",
            State::Idle => "idle",
            State::IdleInTransaction => "idle in transaction",
            State::IdleInFailedTransaction => "idle in transaction (aborted)",
        }
    }
}

impl Activity {
    /// A statement of this text is taken up.
    pub fn begins(&self, sql: &str) {
        let now = SystemTime::now();
        let mut doing = self.doing.lock();
        doing.state = Some(State::Active);
        doing.query.clear();
        doing.query.push_str(&sql[..sql.floor_char_boundary(TEXT_BYTES_MAX)]);
        doing.query_start = Some(now);
        doing.state_change = Some(now);
        doing.transaction_start.get_or_insert(now);
    }

    /// The client is told that the next statement may come.
    pub fn waits(&self, status: TransactionStatus) {
        let mut doing = self.doing.lock();
        doing.state = Some(match status {
            TransactionStatus::Idle => State::Idle,
            TransactionStatus::InTransaction => State::IdleInTransaction,
            TransactionStatus::Failed => State::IdleInFailedTransaction,
        });
        doing.state_change = Some(SystemTime::now());
        if status == TransactionStatus::Idle {
            doing.transaction_start = None;
        }
    }

    /// What it does now.
    pub fn get(&self) -> Doing {
        self.doing.lock().clone()
    }
}
