//! Operators and their scheduling. Never sees SQL text.
#![deny(missing_docs)]

pub mod error;
pub mod operator;
pub mod operators;
