//! The substrate: the only place that names timely. In reading order: what travels, how it finds its worker, how watermarks
//! combine, how operators are driven, the ways in, the ways out, and how a plan becomes a dataflow on a worker.

pub mod adapter;
pub mod build;
pub mod context;
pub mod exchange;
pub mod hub;
pub mod input;
pub mod marks;
pub mod materialize;
pub mod packet;
pub mod relation;
pub mod sink;
pub mod source;
pub mod table_input;
#[cfg(test)]
pub(crate) mod testing;
pub mod values;
pub mod watermark_filter;
pub mod worker;

pub use source::SplitState;
pub use table_input::TableQueue;
pub use worker::{Command, Workers};
