//! Statements that give or take rows over time: cursors, `COPY`, `SUBSCRIBE`.

use super::{EmbeddedQuery, Name, Statement, Word};

/// `DECLARE name [BINARY] [NO SCROLL|SCROLL] CURSOR [WITH HOLD] FOR …`.
#[derive(Clone, Debug)]
pub struct Declare {
    /// Its name.
    pub name: Word,
    /// `BINARY`.
    pub binary: bool,
    /// `SCROLL` (true), `NO SCROLL` (false).
    pub scroll: Option<bool>,
    /// `WITH HOLD`.
    pub hold: bool,
    /// What it runs over.
    pub body: CursorBody,
}

/// What a cursor runs over.
#[derive(Clone, Debug)]
pub enum CursorBody {
    /// A query's rows.
    Query(EmbeddedQuery),
    /// The changes of a relation, without end.
    Subscribe(Subscribe),
}

/// Which rows `FETCH` and `MOVE` are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchDirection {
    /// That many on from here; 0 is the current row again; negative ones back.
    Forward(i64),
    /// All that are left.
    ForwardAll,
    /// All before.
    BackwardAll,
    /// The row at this place, from 1; from the end if negative.
    Absolute(i64),
    /// The row so many on.
    Relative(i64),
}

/// `COPY`.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Which way, of what.
    pub direction: CopyDirection,
    /// How rows are written.
    pub options: CopyOptions,
}

/// Which way rows go.
#[derive(Clone, Debug)]
pub enum CopyDirection {
    /// `COPY rel [(columns)] TO STDOUT`.
    ToFromRelation {
        /// The relation.
        name: Name,
        /// Its columns; empty for all.
        columns: Vec<Word>,
    },
    /// `COPY (query) TO STDOUT`.
    ToFromQuery(EmbeddedQuery),
    /// `COPY (INSERT … RETURNING …) TO STDOUT` and the like.
    ToFromStatement(Box<Statement>),
    /// `COPY (SUBSCRIBE …) TO STDOUT`.
    ToFromSubscribe(Subscribe),
    /// `COPY rel [(columns)] FROM STDIN`.
    From {
        /// The table.
        name: Name,
        /// The columns that come; empty for all.
        columns: Vec<Word>,
    },
}

/// How rows are written by `COPY`. None where the format's default stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyOptions {
    /// `FORMAT …`.
    pub format: CopyFormat,
    /// `DELIMITER 'c'`.
    pub delimiter: Option<String>,
    /// `NULL 'text'`.
    pub null: Option<String>,
    /// `HEADER`.
    pub header: bool,
    /// `QUOTE 'c'`.
    pub quote: Option<String>,
    /// `ESCAPE 'c'`.
    pub escape: Option<String>,
    /// `FORCE_QUOTE (columns)`: an empty list means all.
    pub force_quote: Option<Vec<String>>,
    /// `FORCE_NOT_NULL (columns)`.
    pub force_not_null: Vec<String>,
    /// `FORCE_NULL (columns)`.
    pub force_null: Vec<String>,
}

/// The formats of `COPY`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

/// `SUBSCRIBE [TO] rel [WITH (…)]`.
#[derive(Clone, Debug)]
pub struct Subscribe {
    /// Of what.
    pub input: SubscribeInput,
    /// Whether what is there already comes first.
    pub snapshot: bool,
    /// Whether rows tell how far time has come where nothing changes.
    pub progress: bool,
}

/// What is subscribed to.
#[derive(Clone, Debug)]
pub enum SubscribeInput {
    /// A relation.
    Relation(Name),
    /// `(query)`.
    Query(EmbeddedQuery),
}
