//! What a node does.

use crate::aggregate::AggregateCall;
use crate::join::{JoinBound, JoinType};
use crate::top_n::SortKey;
use arrow::record_batch::RecordBatch;
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use thalweg_catalog::{ObjectId, object::SinkMode, object::WatermarkSpec};

/// An output column of a [`Operator::Map`].
#[derive(Clone, Debug)]
pub struct MapExpr {
    /// Its value, over the input's columns.
    pub expr: Arc<dyn PhysicalExpr>,
    /// Its name.
    pub name: String,
}

/// What a node does with its inputs' changes. `Map`, `Unnest`, `Combine` and `Union` keep no state.
#[derive(Clone, Debug)]
pub enum Operator {
    /// Rows of a source (or of a table's connector), as they come. No input.
    Source {
        /// The source or table whose connector is read.
        object: ObjectId,
        /// The declared columns that are read, in output order.
        columns: Vec<usize>,
    },
    /// Gives the source's watermark and drops rows that are late against it; directly above the `Source`.
    WatermarkFilter {
        /// As declared, but with `column` counted in the input's columns.
        spec: WatermarkSpec,
    },
    /// Rows written to a table by SQL. No input.
    TableInput {
        /// The table.
        object: ObjectId,
    },
    /// The rows of a table or materialized view: those it has, then its changes. No input.
    Relation {
        /// The table or view.
        object: ObjectId,
        /// The columns that are read, in output order.
        columns: Vec<usize>,
    },
    /// Rows that stand in the query. No input.
    Values {
        /// The rows.
        batch: RecordBatch,
    },
    /// Keeps the rows for which the predicate is true, then computes the columns.
    Map {
        /// None keeps all.
        predicate: Option<Arc<dyn PhysicalExpr>>,
        /// The output's columns.
        exprs: Vec<MapExpr>,
    },
    /// A row for each item of the list in `column`, which becomes the item; a row whose list is NULL or empty goes.
    /// Other columns are repeated.
    Unnest {
        /// The list.
        column: usize,
    },
    /// The same rows in fewer pieces: equal ones of a batch become one, with the sum of their weights.
    Combine,
    /// A row for each group: the keys, then the aggregates.
    Aggregate {
        /// The group's columns. None: one group that is there even without rows.
        keys: Vec<usize>,
        /// The aggregates; none for `DISTINCT`.
        calls: Vec<AggregateCall>,
        /// The place in `keys` of a column that carries a watermark: groups below it get no more rows and are forgotten
        /// (their result stands).
        time_key: Option<usize>,
        /// Whether a group's row is given once, when the group is forgotten, and not with each of its changes: nothing that reads it
        /// gives anything before. Needs a `time_key`.
        on_close: bool,
    },
    /// Pairs of rows with equal keys. Output: the columns of the left, then of the right; for semi and anti joins of the
    /// left alone. Two inputs.
    Join {
        /// Which rows stay without a partner.
        join_type: JoinType,
        /// Pairs of a left and a right column. NULL is equal to nothing, unless `null_equals_null`.
        on: Vec<(usize, usize)>,
        /// Whether NULL keys match each other (`IS NOT DISTINCT FROM`).
        null_equals_null: bool,
        /// A further condition on a pair, over the left's columns followed by the right's.
        residual: Option<Arc<dyn PhysicalExpr>>,
        /// For an anti join that stands for `NOT IN`: a NULL on the right hides every row, a NULL on the left hides that one
        /// unless the right is empty.
        null_aware: bool,
        /// The place in `on` of a pair whose columns carry watermarks on both sides: rows below both are forgotten.
        time_key: Option<usize>,
        /// When rows of the left and of the right are forgotten because of the further condition; none if there is a `time_key`.
        bounds: [Option<JoinBound>; 2],
    },
    /// The first rows of each group in an order.
    TopN {
        /// The group's columns; none for one group.
        partition: Vec<usize>,
        /// The order; ties are broken by the whole row, so the result is always the same.
        order: Vec<SortKey>,
        /// How many rows are passed over first.
        offset: u64,
        /// How many rows are given; none for all after `offset`.
        limit: Option<u64>,
        /// Whether the place in the order (`ROW_NUMBER()`, bigint, from 1) is given as a last column.
        with_rank: bool,
    },
    /// All rows of all inputs.
    Union,
    /// Holds rows back until the watermark on `column` is above its value, so that no more change of such a row can come;
    /// then gives them once, for good.
    EmitOnClose {
        /// A column that carries a watermark: a window's end.
        column: usize,
    },
    /// Keeps the rows, readable at an epoch and followed by other jobs. The root of tables and materialized views.
    Materialize {
        /// The table or view.
        object: ObjectId,
        /// The columns by which rows are unique. None: rows are kept as a multiset.
        key: Vec<usize>,
        /// Whether a new row takes the place of the old one of its key, whatever the input takes back: a table's key is a promise of
        /// its user. A view's follows from its query, and the input takes back each row that goes.
        replaces: bool,
    },
    /// Sends the rows out. The root of sinks.
    Sink {
        /// The sink.
        object: ObjectId,
        /// In what shape.
        mode: SinkMode,
        /// The columns of the target's key, for an upsert sink.
        key: Vec<usize>,
    },
}

impl Operator {
    /// Its name in `EXPLAIN`, metrics, state paths and tests.
    pub fn name(&self) -> &'static str {
        match self {
            Operator::Source { .. } => "Source",
            Operator::WatermarkFilter { .. } => "WatermarkFilter",
            Operator::TableInput { .. } => "TableInput",
            Operator::Relation { .. } => "Relation",
            Operator::Values { .. } => "Values",
            Operator::Map { .. } => "Map",
            Operator::Unnest { .. } => "Unnest",
            Operator::Combine => "Combine",
            Operator::Aggregate { .. } => "Aggregate",
            Operator::Join { .. } => "Join",
            Operator::TopN { .. } => "TopN",
            Operator::Union => "Union",
            Operator::EmitOnClose { .. } => "EmitOnClose",
            Operator::Materialize { .. } => "Materialize",
            Operator::Sink { .. } => "Sink",
        }
    }

    /// Whether rows pass through as they come, without state.
    pub fn is_transform(&self) -> bool {
        matches!(self, Operator::Map { .. } | Operator::Unnest { .. } | Operator::Combine)
    }

    /// The object whose rows it reads from outside the plan.
    pub fn reads(&self) -> Option<ObjectId> {
        match self {
            Operator::Source { object, .. } | Operator::Relation { object, .. } => Some(*object),
            _ => None,
        }
    }
}
