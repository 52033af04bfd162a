//! Keyed state, change logs, checkpoints. Knows no SQL.
#![deny(missing_docs)]

pub mod catalog_log;
pub mod checkpoint;
pub mod error;
pub mod garbage;
pub mod generation;
pub mod manifest;
pub mod object;
pub mod spill;
pub mod state;
pub mod table_log;
pub mod worker_store;

pub use catalog_log::CatalogLog;
pub use checkpoint::{CheckpointAttempt, CheckpointStore};
pub use error::{StorageError, StorageResult};
pub use generation::{Generation, GenerationClaim};
pub use manifest::{CheckpointManifest, CheckpointNumber, FileEntry, JobEntry, WorkerFiles};
pub use object::{ObjectStore, S3Options};
pub use table_log::{LogEntry, TableLog};
pub use worker_store::{WorkerStore, WorkerStoreOptions};
