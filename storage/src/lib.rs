//! Keyed state, change logs, checkpoints. Knows no SQL.
#![deny(missing_docs)]

pub mod error;
pub mod state;

pub use error::{StorageError, StorageResult};
