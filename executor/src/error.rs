//! What makes a job fail.

use thiserror::Error;

/// A fault that stops an operator, and with it its job; every other job runs on.
#[derive(Debug, Error)]
pub enum OperatorError {
    /// The plan can't be run: a fault of the planner.
    #[error("the plan is not valid: {0}")]
    Plan(String),
    /// Arrow refused a computation.
    #[error("a batch could not be computed")]
    Arrow(#[from] arrow::error::ArrowError),
    /// DataFusion refused a computation.
    #[error("an expression could not be evaluated")]
    Expression(#[from] datafusion::error::DataFusionError),
    /// State could not be read or written.
    #[error("state could not be read or written")]
    State(#[from] thalweg_storage::StorageError),
    /// A named invariant does not hold.
    #[error("invariant {0} is broken: {1}")]
    Invariant(&'static str, String),
    /// Code panicked.
    #[error("panic: {0}")]
    Panic(String),
    /// A connector failed for good.
    #[error("{0}")]
    Connector(String),
}

/// What the engine could not do.
#[derive(Debug, Error)]
pub enum EngineError {
    /// Storage refused.
    #[error("storage failed")]
    Storage(#[from] thalweg_storage::StorageError),
    /// The log of tables took no write, and others that went with it.
    #[error("storage failed")]
    TableLog(#[source] std::sync::Arc<thalweg_storage::StorageError>),
    /// A file of the checkpoint that the engine started from is not what was put.
    #[error("the checkpoint that this process started from is damaged")]
    Damaged(#[source] std::sync::Arc<thalweg_storage::StorageError>),
    /// A connector refused its options.
    #[error("{0}")]
    Refused(thalweg_catalog::SqlError),
    /// The worker threads could not be started, or have stopped.
    #[error("worker threads failed: {0}")]
    Workers(String),
    /// A job's state is of another plan than the one given.
    #[error("the stored state of \"{name}\" is of another plan than this release makes of its query")]
    PlanChanged {
        /// The object.
        name: String,
    },
    /// A write was not made, since a table that it depends on was changed.
    #[error("object {id} was changed")]
    Changed {
        /// The table's id.
        id: thalweg_catalog::ObjectId,
    },
    /// A relation can't be read at a moment that is past: it began later.
    #[error("object {id} was not there at that moment")]
    NotAtMoment {
        /// The object's id.
        id: thalweg_catalog::ObjectId,
    },
    /// Why a relation can't be read at a moment, told to everyone who asks.
    #[error("{0}")]
    Moment(std::sync::Arc<EngineError>),
    /// There is no such job.
    #[error("object {id} has no running job")]
    NoJob {
        /// The object.
        id: thalweg_catalog::ObjectId,
    },
    /// A job has failed.
    #[error("its job has failed: {reason}")]
    JobFailed {
        /// The object.
        id: thalweg_catalog::ObjectId,
        /// Why.
        reason: String,
    },
    /// A relation that was being followed has been dropped.
    #[error("the relation has been dropped")]
    RelationGone,
    /// A fault of ours.
    #[error("{0}")]
    Internal(String),
}
