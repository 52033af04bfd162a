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
