//! Operators and their scheduling. Never sees SQL text.
//!
//! [`engine::Engine`] is the way in. Operators are in `operators`, and know nothing of how they are run; `dataflow` runs them,
//! and is the only place that names the substrate.
#![deny(missing_docs)]

pub mod checkpoint;
pub mod clock;
mod dataflow;
pub mod delivery;
pub mod engine;
pub mod error;
mod feed;
pub mod job;
pub mod operator;
pub mod operators;
pub mod row_errors;
pub mod shared;
pub mod subscribe;
#[cfg(test)]
mod testing;

pub use dataflow::SplitState;
pub use engine::{Engine, EngineConfig, JobSpec, Moment, Reading, Unchanged};
pub use error::{EngineError, OperatorError};
