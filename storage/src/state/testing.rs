//! Stores for tests: of operators, and of this crate.

use super::OperatorState;
use crate::error::StorageResult;
use crate::worker_store::{WorkerStore, WorkerStoreOptions};
use std::path::Path;
use thalweg_catalog::ObjectId;

/// The state of one operator, in a store of its own at `path`, which is made if it is not there. The store is open for as long as the
/// state is held.
///
/// # Errors
/// If the store can't be opened.
pub fn operator_state(path: &Path) -> StorageResult<OperatorState> {
    Ok(open(path)?.operator_state(ObjectId::FIRST_USER, "operator"))
}

/// A small store at `path`.
///
/// # Errors
/// If the store can't be opened.
pub fn open(path: &Path) -> StorageResult<WorkerStore> {
    WorkerStore::open(path, WorkerStoreOptions { memory_bytes: 16 << 20, ..WorkerStoreOptions::default() })
}
