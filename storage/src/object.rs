//! The one place where everything durable lives: a local directory, or a bucket.
//!
//! What it promises: an object that was put is whole and survives a crash of process and machine; of several that put at
//! one path if absent, exactly one wins, and a put whose answer was lost is recognised when it is tried again, as long as
//! writers never put the same bytes. Nothing else coordinates processes.
//!
//! Paths are relative, `/` between plain segments of letters, digits, `.`, `_` and `-`.

mod local;
mod remote;
pub(crate) mod sealed;

use crate::error::{StorageError, StorageResult};
use bytes::Bytes;
use local::LocalStore;
use remote::RemoteStore;
pub(crate) use remote::is_transient;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store of objects by path. Cheap to clone.
#[derive(Clone)]
pub struct ObjectStore {
    url: Arc<str>,
    backend: Backend,
}

#[derive(Clone)]
enum Backend {
    Local(Arc<LocalStore>),
    Remote(Arc<RemoteStore>),
}

/// How to reach an S3 service. What is not given comes from the environment (`AWS_…`).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct S3Options {
    /// The service's address, for one that is not Amazon's.
    pub endpoint: Option<String>,
    /// Whether to talk to it without TLS.
    pub allow_http: bool,
    /// The region that the bucket is in.
    pub region: Option<String>,
    /// The access key's id.
    pub access_key_id: Option<String>,
    /// The access key's secret.
    pub secret_access_key: Option<String>,
}

impl fmt::Debug for S3Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Options")
            .field("endpoint", &self.endpoint)
            .field("allow_http", &self.allow_http)
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id)
            .field("secret_access_key", &self.secret_access_key.as_ref().map(|_| "(hidden)"))
            .finish()
    }
}

/// How a put-if-absent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is there, and it is ours.
    Created,
    /// Another object was there before.
    Taken,
}

/// An object in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its path.
    pub path: String,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// What the content of a file is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its CRC-32 (IEEE).
    pub crc32: u32,
}

/// Whether a file may share its bytes on disk with a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Never changes once written: a hard link will do.
    Immutable,
    /// May be written to: takes a copy.
    Mutable,
}

/// What is known of a file that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is what was put.
    Checked,
    /// It is the object itself, of the right size and not read yet: see [`ObjectStore::check`].
    Linked,
}

/// A local file to put as an object.
#[derive(Clone, Debug)]
pub struct Upload {
    /// The file.
    pub file: PathBuf,
    /// The object's path.
    pub path: String,
    /// Whether the file can still change after the upload.
    pub kind: FileKind,
}

impl ObjectStore {
    /// Opens the store at a local path (created if absent), a `file://` URL, or `s3://bucket/prefix`, and touches it once.
    ///
    /// # Errors
    /// `Place` if the URL is not understood, else what the file system or the service answers.
    pub async fn open(url: &str, s3: &S3Options) -> StorageResult<ObjectStore> {
        let place = |reason: &str| StorageError::Place { url: url.to_string(), reason: reason.to_string() };
        match url.split_once("://") {
            None if url.is_empty() => Err(place("it is empty")),
            None => ObjectStore::local(Path::new(url)),
            Some(("file", _)) => {
                let parsed = url::Url::parse(url).map_err(|e| place(&e.to_string()))?;
                let path = parsed.to_file_path().map_err(|()| place("a file URL has the form file:///path"))?;
                ObjectStore::local(&path)
            }
            Some(("s3", rest)) => {
                let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                if bucket.is_empty() {
                    return Err(place("an S3 URL has the form s3://bucket/prefix"));
                }
                let remote = RemoteStore::s3(bucket, prefix, s3)?;
                remote.probe().await?;
                Ok(ObjectStore { url: url.into(), backend: Backend::Remote(Arc::new(remote)) })
            }
            Some(_) => Err(place("only local paths, file:// and s3:// are supported")),
        }
    }

    /// Opens the store in a local directory, which is created if absent.
    ///
    /// # Errors
    /// If the directory can't be created.
    pub fn local(root: &Path) -> StorageResult<ObjectStore> {
        let store = LocalStore::open(root)?;
        Ok(ObjectStore { url: root.display().to_string().into(), backend: Backend::Local(Arc::new(store)) })
    }

    /// A store in another service, under a prefix.
    pub fn remote(client: Arc<dyn object_store::ObjectStore>, prefix: &str) -> ObjectStore {
        let url = format!("{client}/{prefix}").into();
        ObjectStore { url, backend: Backend::Remote(Arc::new(RemoteStore::new(client, prefix, remote::Limits::default()))) }
    }

    /// Where it is, as it was given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The directory of a local store.
    pub fn local_root(&self) -> Option<&Path> {
        match &self.backend {
            Backend::Local(local) => Some(local.root()),
            Backend::Remote(_) => None,
        }
    }

    /// Puts an object unless there is one at this path. An object there of the very same bytes is taken for an earlier
    /// try of this put.
    ///
    /// # Errors
    /// After an error it is not known whether the object was put.
    pub async fn put_if_absent(&self, path: &str, bytes: Bytes) -> StorageResult<Put> {
        check_path(path)?;
        match &self.backend {
            Backend::Local(local) => {
                let (local, path) = (Arc::clone(local), path.to_string());
                blocking(move || local.put_if_absent(&path, &bytes)).await
            }
            Backend::Remote(remote) => remote.put_if_absent(path, bytes).await,
        }
    }

    /// The whole object.
    ///
    /// # Errors
    /// `Missing` if there is none.
    pub async fn get(&self, path: &str) -> StorageResult<Bytes> {
        check_path(path)?;
        match &self.backend {
            Backend::Local(local) => {
                let (local, path) = (Arc::clone(local), path.to_string());
                blocking(move || local.get(&path)).await
            }
            Backend::Remote(remote) => remote.get(path).await,
        }
    }

    /// All objects below a folder, sorted by path.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn list(&self, folder: &str) -> StorageResult<Vec<ObjectInfo>> {
        check_path(folder)?;
        match &self.backend {
            Backend::Local(local) => {
                let (local, folder) = (Arc::clone(local), folder.to_string());
                blocking(move || local.list(&folder)).await
            }
            Backend::Remote(remote) => remote.list(folder).await,
        }
    }

    /// [`ObjectStore::list`] for a thread that may block. None if the store is not local.
    pub(crate) fn list_blocking(&self, folder: &str) -> Option<StorageResult<Vec<ObjectInfo>>> {
        match &self.backend {
            Backend::Local(local) => Some(local.list(folder)),
            Backend::Remote(_) => None,
        }
    }

    /// [`ObjectStore::put_if_absent`] for a thread that may block. None if the store is not local.
    pub(crate) fn put_if_absent_blocking(&self, path: &str, bytes: &[u8]) -> Option<StorageResult<Put>> {
        match &self.backend {
            Backend::Local(local) => Some(local.put_if_absent(path, bytes)),
            Backend::Remote(_) => None,
        }
    }

    /// Removes what a crash left half written in a local store. Only for who holds the store's lock.
    pub(crate) fn clear_staging(&self) -> StorageResult<()> {
        match &self.backend {
            Backend::Local(local) => local.clear_staging(),
            Backend::Remote(_) => Ok(()),
        }
    }

    /// Deletes objects; one that is not there is none the worse. They may come back after a crash of the machine.
    ///
    /// # Errors
    /// If the store refuses; some may have been deleted then.
    pub async fn delete(&self, paths: Vec<String>) -> StorageResult<()> {
        for path in &paths {
            check_path(path)?;
        }
        match &self.backend {
            Backend::Local(local) => {
                let local = Arc::clone(local);
                blocking(move || paths.iter().try_for_each(|path| local.delete(path))).await
            }
            Backend::Remote(remote) => remote.delete(paths).await,
        }
    }

    /// Puts local files as objects, replacing what is there; all are durable when it returns. Gives what was put, in the
    /// order of `uploads`. On one local file system, immutable files are linked.
    ///
    /// # Errors
    /// If a file can't be read, or the store refuses.
    pub async fn put_files(&self, uploads: Vec<Upload>) -> StorageResult<Vec<Content>> {
        for upload in &uploads {
            check_path(&upload.path)?;
        }
        match &self.backend {
            Backend::Local(local) => {
                let local = Arc::clone(local);
                blocking(move || local.put_files(&uploads)).await
            }
            Backend::Remote(remote) => remote.put_files(&uploads).await,
        }
    }

    /// Brings an object into a new local file, and checks that it is what was put, or at least has its size. Not synced: such a
    /// file is a working copy.
    ///
    /// # Errors
    /// `Missing` or `Corrupt`, naming the object.
    pub async fn fetch_file(&self, path: &str, expected: Content, file: &Path, kind: FileKind) -> StorageResult<Fetched> {
        check_path(path)?;
        match &self.backend {
            Backend::Local(local) => {
                let (local, path, file) = (Arc::clone(local), path.to_string(), file.to_path_buf());
                blocking(move || local.fetch_file(&path, expected, &file, kind)).await
            }
            Backend::Remote(remote) => {
                remote.fetch_file(path, expected, file).await?;
                Ok(Fetched::Checked)
            }
        }
    }

    /// Reads an object to its end, and checks that it is what was put.
    ///
    /// # Errors
    /// `Missing` or `Corrupt`, naming the object.
    pub async fn check(&self, path: &str, expected: Content) -> StorageResult<()> {
        check_path(path)?;
        match &self.backend {
            Backend::Local(local) => {
                let (local, path) = (Arc::clone(local), path.to_string());
                blocking(move || local.check(&path, expected)).await
            }
            Backend::Remote(remote) => {
                let bytes = remote.get(path).await?;
                Content { size_bytes: bytes.len() as u64, crc32: crc32fast::hash(&bytes) }.check(expected, path)
            }
        }
    }
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectStore").field(&self.url).finish()
    }
}

impl Content {
    /// Checks what was read from `path` against what was put there.
    fn check(self, expected: Content, path: &str) -> StorageResult<()> {
        if self.size_bytes != expected.size_bytes {
            let reason = format!("it has {} bytes and not {}", self.size_bytes, expected.size_bytes);
            return Err(StorageError::corrupt(path, reason));
        }
        if self.crc32 != expected.crc32 {
            let reason = format!("its checksum is {:08x} and not {:08x}", self.crc32, expected.crc32);
            return Err(StorageError::corrupt(path, reason));
        }
        Ok(())
    }
}

/// Refuses paths that could lead out of the store. They come from manifests too, so this is no assertion.
fn check_path(path: &str) -> StorageResult<()> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    let good = |segment: &str| !segment.is_empty() && !segment.starts_with('.') && segment.bytes().all(plain);
    if path.split('/').all(good) { Ok(()) } else { Err(StorageError::corrupt(path, "it is not the path of an object")) }
}

/// Runs what blocks on a thread where it may.
pub(crate) async fn blocking<T, F>(work: F) -> StorageResult<T>
where
    T: Send + 'static,
    F: FnOnce() -> StorageResult<T> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failure) => match failure.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(cancelled) => Err(StorageError::File {
                action: "finish working on",
                path: "the store".to_string(),
                source: std::io::Error::new(std::io::ErrorKind::Interrupted, cancelled),
            }),
        },
    }
}

#[cfg(test)]
pub(crate) mod tests;
