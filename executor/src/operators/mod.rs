//! The operators, one file or folder each, in reading order.
//!
//! What enters and leaves a job (sources, relations, views, sinks) is not here: those meet the engine, not only rows.

pub mod aggregate;
pub mod build;
mod combine;
pub mod emit_on_close;
pub mod horizon;
pub mod join;
pub mod map;
pub mod rows;
pub mod top_n;
pub mod unnest;

pub use build::{Built, Context, Transform, build};
pub use rows::Errors;
