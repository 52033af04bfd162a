//! What goes wrong with disks, object stores and what stands on them.

use thiserror::Error;

/// A failure of storage. `Display` says what was being tried on which file; the cause is the source.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The object store refused or could not be reached.
    #[error("could not {action} \"{path}\" in the object store")]
    ObjectStore {
        /// What was being tried.
        action: &'static str,
        /// On which object.
        path: String,
        /// Why it failed.
        #[source]
        source: object_store::Error,
    },
    /// The file system refused.
    #[error("could not {action} \"{path}\"")]
    File {
        /// What was being tried.
        action: &'static str,
        /// On which file.
        path: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// RocksDB refused.
    #[error("the state database failed to {action}")]
    Database {
        /// What was being tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: rocksdb::Error,
    },
    /// A stored file is not what was written.
    #[error("\"{path}\" is damaged: {reason}")]
    Corrupt {
        /// Which file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A stored file that must be there is not.
    #[error("\"{path}\" is missing")]
    Missing {
        /// Which file.
        path: String,
    },
    /// Another process has taken over.
    #[error("another process has taken over this store (generation {theirs}, ours is {ours})")]
    Fenced {
        /// Our generation.
        ours: u64,
        /// The newer one.
        theirs: u64,
    },
    /// Rows could not be encoded or decoded.
    #[error("rows could not be encoded or decoded")]
    Arrow(#[from] arrow::error::ArrowError),
    /// Metadata could not be encoded or decoded.
    #[error("metadata could not be encoded or decoded")]
    Json(#[from] serde_json::Error),
    /// State was asked for in another shape than it was registered with.
    #[error("state table \"{table}\" was registered in another form: {reason}")]
    Shape {
        /// The table's id.
        table: String,
        /// The difference.
        reason: String,
    },
}

/// The result of whatever can fail with a [`StorageError`].
pub type StorageResult<T> = Result<T, StorageError>;
