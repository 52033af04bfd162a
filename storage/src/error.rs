//! What goes wrong with disks, object stores and what stands on them.

use thalweg_catalog::SqlError;
use thiserror::Error;

/// What RocksDB says when there is no room.
pub(crate) const ROCKSDB_DISK_FULL: &str = "No space left on device";

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
    /// Another process is using the store's directory.
    #[error("\"{path}\" is in use by another server ({owner})")]
    InUse {
        /// The directory.
        path: String,
        /// What is known of that server.
        owner: String,
    },
    /// The place of the store is not understood.
    #[error("\"{url}\" is not a place to store in: {reason}")]
    Place {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There was no room for a write, and nothing of it is left.
    #[error("there is no room left on the disk to write \"{path}\"")]
    DiskFull {
        /// What was being written.
        path: String,
    },
    /// An earlier failure left unknown what is durable, so nothing more is written until a restart has read it back.
    #[error("\"{path}\" takes no more writes after an earlier failure: {reason}")]
    Poisoned {
        /// What was being written.
        path: String,
        /// The earlier failure.
        reason: String,
    },
    /// A catalog change that can't be made, as the user is told.
    #[error(transparent)]
    Refused(#[from] SqlError),
    /// State was asked for in another shape than it was registered with.
    #[error("state table \"{table}\" was registered in another form: {reason}")]
    Shape {
        /// The table's id.
        table: String,
        /// The difference.
        reason: String,
    },
}

impl StorageError {
    /// What `action` on the file `path` failed with.
    pub(crate) fn file(action: &'static str, path: &std::path::Path, source: std::io::Error) -> StorageError {
        StorageError::File { action, path: path.display().to_string(), source }
    }

    /// Whether the cause is that the disk is full.
    pub fn is_disk_full(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let of_files = error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::StorageFull);
            let of_rocksdb = error.downcast_ref::<rocksdb::Error>().is_some_and(|db| db.as_ref().contains(ROCKSDB_DISK_FULL));
            if of_files || of_rocksdb || matches!(error.downcast_ref(), Some(StorageError::DiskFull { .. })) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// The stored file `path` is not what was written.
    pub(crate) fn corrupt(path: &str, reason: impl Into<String>) -> StorageError {
        StorageError::Corrupt { path: path.to_string(), reason: reason.into() }
    }
}

/// The result of whatever can fail with a [`StorageError`].
pub type StorageResult<T> = Result<T, StorageError>;
