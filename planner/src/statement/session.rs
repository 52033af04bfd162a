//! Statements about the session: settings, transactions, what is shown and explained.

use super::{Name, Statement};
use thalweg_catalog::ObjectKind;

/// `EXPLAIN [(options)] statement`.
#[derive(Clone, Debug)]
pub struct Explain {
    /// The statement: a query, an `INSERT`/`UPDATE`/`DELETE`, or a `CREATE MATERIALIZED VIEW`/`SINK`.
    pub statement: Box<Statement>,
    /// The statement's text.
    pub text: String,
    /// Which plan is shown; none for all of them.
    pub stage: Option<ExplainStage>,
    /// `FORMAT JSON` rather than text.
    pub json: bool,
    /// `ANALYZE`: the statement is run and measured.
    pub analyze: bool,
    /// `VERBOSE`: with the columns of each node.
    pub verbose: bool,
}

/// Which plan `EXPLAIN` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExplainStage {
    /// As bound, before any rule.
    Raw,
    /// The optimised logical plan.
    Logical,
    /// The streaming or batch plan that runs.
    Physical,
}

/// `SHOW …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Show {
    /// `SHOW TABLES`, `SHOW SOURCES`, …: all objects of a kind, perhaps of one schema, perhaps like a pattern.
    Objects {
        /// The kind.
        kind: ObjectKind,
        /// `FROM schema`.
        schema: Option<String>,
        /// `LIKE 'pattern'`.
        like: Option<String>,
    },
    /// `SHOW JOBS`.
    Jobs,
    /// `SHOW SCHEMAS`.
    Schemas,
    /// `SHOW DATABASES`.
    Databases,
    /// `SHOW COLUMNS FROM x`.
    Columns(Name),
    /// `SHOW CREATE kind x`.
    Create(ObjectKind, Name),
    /// `SHOW ALL`.
    AllSettings,
    /// `SHOW setting`, in lower case.
    Setting(String),
}

/// Where a setting is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetScope {
    /// For the session.
    Session,
    /// For the transaction.
    Local,
    /// For all, for good: `ALTER SYSTEM`.
    System,
}

/// `SET x = …`, `RESET x`, `RESET ALL`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetSetting {
    /// Where.
    pub scope: SetScope,
    /// The setting in lower case; none for `RESET ALL`.
    pub name: Option<String>,
    /// Its values as they were written, several for a list; none to reset it.
    pub values: Option<Vec<String>>,
    /// Whether it was spelled `RESET`, which has a command tag of its own.
    pub reset: bool,
    /// Where the name starts.
    pub position: usize,
}

impl SetSetting {
    pub(super) fn tag(&self) -> &'static str {
        match (self.scope, self.reset) {
            (SetScope::System, _) => "ALTER SYSTEM",
            (_, false) => "SET",
            (_, true) => "RESET",
        }
    }

    /// The value as `SHOW` prints it; none to reset it.
    pub fn value(&self) -> Option<String> {
        self.values.as_ref().map(|values| values.join(", "))
    }
}

/// What follows `BEGIN` and its like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransactionModes {
    /// `READ ONLY` (true), `READ WRITE` (false).
    pub read_only: Option<bool>,
    /// `ISOLATION LEVEL …`.
    pub isolation: Option<Isolation>,
    /// `DEFERRABLE` (true), `NOT DEFERRABLE` (false).
    pub deferrable: Option<bool>,
}

/// Isolation levels, as they are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// The level's name as `SHOW transaction_isolation` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "read uncommitted",
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        }
    }
}

/// What `DISCARD` throws away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum DiscardTarget {
    All,
    Plans,
    Sequences,
    Temporary,
}

impl DiscardTarget {
    pub(super) fn tag(self) -> &'static str {
        match self {
            DiscardTarget::All => "DISCARD ALL",
            DiscardTarget::Plans => "DISCARD PLANS",
            DiscardTarget::Sequences => "DISCARD SEQUENCES",
            DiscardTarget::Temporary => "DISCARD TEMP",
        }
    }
}
