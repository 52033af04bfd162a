//! The streaming plan: what the planner hands to the executor, as plain data.
//!
//! Knows no SQL text and no optimiser; the executor knows no planner. Expressions are DataFusion's physical ones, bound
//! to the columns of the node's input.
#![deny(missing_docs)]

pub mod aggregate;
pub mod join;
pub mod node;
pub mod operator;
pub mod print;
pub mod top_n;
pub mod watermark;

pub use aggregate::{AggregateCall, AggregateFunction};
pub use join::{JoinBound, JoinType};
pub use node::{DeltaKind, Edge, Exchange, NodeId, PlanNode, StreamPlan};
pub use operator::{MapExpr, Operator};
pub use top_n::SortKey;
pub use watermark::{WatermarkMapping, WatermarkTransform};
