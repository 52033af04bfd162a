//! Where files are: local paths and object stores behind one face.

use crate::error::{ConnectorError, ConnectorResult};
use futures::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_catalog::options::Options;
use thalweg_catalog::{SqlError, SqlResult};
use tokio::runtime::Handle;
use url::Url;

/// How globs match: a star stays within a folder, and names that start with a dot are hidden.
const GLOB: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// How much of an object is fetched at once.
const OBJECT_BLOCK: u64 = 4 << 20;

/// A place for files.
#[derive(Clone)]
pub(super) enum Location {
    /// A path of this machine.
    Local(PathBuf),
    /// A key of an object store.
    Object { store: Arc<dyn ObjectStore>, bucket: String, key: String },
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({self})")
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Local(path) => path.display().fmt(f),
            Location::Object { bucket, key, .. } => write!(f, "s3://{bucket}/{key}"),
        }
    }
}

impl Location {
    /// The place that the option `path` names, with the options of its store.
    pub(super) fn parse(options: &mut Options) -> SqlResult<Location> {
        let path = options.required("path")?;
        let store = StoreOptions::parse(options)?;
        let Some((scheme, _)) = path.split_once("://") else {
            if path.is_empty() {
                return Err(SqlError::invalid_parameter("option \"path\" of connector \"file\" is empty"));
            }
            return Ok(Location::Local(PathBuf::from(path)));
        };
        match scheme {
            "s3" | "s3a" => store.s3(&path),
            "file" => Url::parse(&path).ok().and_then(|url| url.to_file_path().ok()).map(Location::Local).ok_or_else(|| {
                SqlError::invalid_parameter(format!("\"{path}\" is no URL of a local file")).with_hint("Write file:///path.")
            }),
            _ => Err(SqlError::unsupported(format!("files behind \"{scheme}://\" URLs are not supported"))
                .with_hint("Use a local path or an s3:// URL.")),
        }
    }

    /// The files that there are, by name, sorted.
    pub(super) async fn list(&self) -> ConnectorResult<Vec<String>> {
        let mut names = match self {
            Location::Local(path) => {
                let path = path.clone();
                tokio::task::spawn_blocking(move || list_local(&path))
                    .await
                    .map_err(|error| ConnectorError::internal(format!("listing files was broken off: {error}")))??
            }
            Location::Object { store, bucket, key } => {
                let keys = list_objects(store.as_ref(), key).await.map_err(|error| self.failed("list", &error))?;
                if keys.is_empty() && !is_glob(key) {
                    return Err(ConnectorError::missing(format!("there is no object \"{self}\"")));
                }
                keys.into_iter().map(|key| format!("s3://{bucket}/{key}")).collect()
            }
        };
        names.sort();
        Ok(names)
    }

    /// Whether this is the one local file that was listed here, and not where more can come.
    pub(super) fn is_just(&self, listed: &[Arc<str>]) -> bool {
        match (self, listed) {
            (Location::Local(path), [one]) => path.as_os_str() == &**one,
            _ => false,
        }
    }

    /// A file that was listed here.
    pub(super) fn file(&self, name: &str) -> ConnectorResult<Location> {
        match self {
            Location::Local(_) => Ok(Location::Local(PathBuf::from(name))),
            Location::Object { store, bucket, .. } => match name.strip_prefix(&format!("s3://{bucket}/")) {
                Some(key) => Ok(Location::Object { store: store.clone(), bucket: bucket.clone(), key: key.into() }),
                None => Err(ConnectorError::internal(format!("\"{name}\" is no object of bucket \"{bucket}\""))),
            },
        }
    }

    /// The bytes of this file from `offset` on.
    pub(super) fn open(&self, offset: u64, runtime: &Handle) -> ConnectorResult<Box<dyn Read + Send>> {
        match self {
            Location::Local(path) => {
                let failed = |error: io::Error| io_error("open", &path.display(), &error);
                let mut file = std::fs::File::open(path).map_err(failed)?;
                self.check_size(file.metadata().map_err(failed)?.len(), offset)?;
                io::Seek::seek(&mut file, io::SeekFrom::Start(offset)).map_err(failed)?;
                Ok(Box::new(file))
            }
            Location::Object { store, key, .. } => {
                let path = ObjectPath::from(key.as_str());
                let size = runtime.block_on(store.head(&path)).map_err(|error| self.failed("open", &error))?.size;
                self.check_size(size, offset)?;
                Ok(Box::new(ObjectReader {
                    store: store.clone(),
                    path,
                    size,
                    at: offset,
                    block: bytes::Bytes::new(),
                    runtime: runtime.clone(),
                }))
            }
        }
    }

    fn check_size(&self, size: u64, offset: u64) -> ConnectorResult<()> {
        if size < offset {
            return Err(ConnectorError::user(format!("file \"{self}\" has become shorter than what was read of it")));
        }
        Ok(())
    }

    /// An error of the object store, as ours.
    pub(super) fn failed(&self, what: &str, error: &object_store::Error) -> ConnectorError {
        match error {
            object_store::Error::NotFound { .. } => ConnectorError::user(format!("can't {what} \"{self}\": it is not there")),
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                ConnectorError::user(format!("can't {what} \"{self}\": access is denied"))
            }
            other => ConnectorError::external(format!("can't {what} \"{self}\": {other}")),
        }
    }
}

/// An error of the file system, as ours; it is the user's who named a file that is not there or may not be read.
pub(super) fn io_error(what: &str, name: &dyn fmt::Display, error: &io::Error) -> ConnectorError {
    let message = format!("can't {what} \"{name}\": {error}");
    match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::NotADirectory => ConnectorError::user(message),
        _ => ConnectorError::external(message),
    }
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn list_local(path: &Path) -> ConnectorResult<Vec<String>> {
    let name_of = |path: PathBuf| path.to_string_lossy().into_owned();
    let text = name_of(path.to_path_buf());
    // A path that is there is meant as it is, even if it has the characters of a glob.
    if path.is_file() {
        return Ok(vec![text]);
    }
    let pattern = if path.is_dir() {
        format!("{}/*", Pattern::escape(text.trim_end_matches('/')))
    } else if is_glob(&text) {
        text
    } else {
        return Err(ConnectorError::missing(format!("there is no file \"{text}\"")));
    };
    let paths = glob::glob_with(&pattern, GLOB)
        .map_err(|error| ConnectorError::user(format!("\"{pattern}\" is no valid glob: {error}")))?;
    let mut names = vec![];
    for path in paths {
        let path = path.map_err(|error| io_error("list", &error.path().display(), error.error()))?;
        if path.is_file() {
            names.push(name_of(path));
        }
    }
    Ok(names)
}

async fn list_objects(store: &dyn ObjectStore, key: &str) -> object_store::Result<Vec<String>> {
    let is_hidden = |key: &str| key.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    if !is_glob(key) && !key.is_empty() && !key.ends_with('/') {
        match store.head(&ObjectPath::from(key)).await {
            Ok(found) => return Ok(vec![found.location.to_string()]),
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let pattern = if is_glob(key) { key.to_string() } else { format!("{}/*", Pattern::escape(key.trim_end_matches('/'))) };
    let pattern = pattern.trim_start_matches('/');
    let Ok(compiled) = Pattern::new(pattern) else { return Ok(vec![]) };
    let literal = if is_glob(key) { key.split(['*', '?', '[']).next().unwrap_or("") } else { key };
    // Stores list by whole segments of a key.
    let prefix = match literal.trim_end_matches('/') {
        whole if whole.len() < literal.len() || !is_glob(key) => whole,
        part => part.rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    let prefix = (!prefix.is_empty()).then(|| ObjectPath::from(prefix));
    let objects: Vec<_> = store.list(prefix.as_ref()).try_collect().await?;
    let keys = objects.into_iter().map(|object| object.location.to_string());
    Ok(keys.filter(|key| compiled.matches_with(key, GLOB) && !is_hidden(key)).collect())
}

/// The options of an object store. What is not given comes from the environment (`AWS_…`).
struct StoreOptions {
    endpoint: Option<String>,
    access_key: Option<String>,
    secret_key: Option<String>,
    region: Option<String>,
    allow_http: bool,
}

impl StoreOptions {
    fn parse(options: &mut Options) -> SqlResult<StoreOptions> {
        Ok(StoreOptions {
            endpoint: options.text("s3.endpoint"),
            access_key: options.text("s3.access_key"),
            secret_key: options.text("s3.secret_key"),
            region: options.text("s3.region"),
            allow_http: options.flag("s3.allow_http")?,
        })
    }

    fn s3(self, url: &str) -> SqlResult<Location> {
        let wrong = |why: &str| SqlError::invalid_parameter(format!("can't use \"{url}\": {why}"));
        let (_, rest) = url.split_once("://").ok_or_else(|| wrong("it is no URL"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong("it names no bucket").with_hint("Write s3://bucket/path."));
        }
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        if let Some(endpoint) = self.endpoint {
            let plain = endpoint.starts_with("http://");
            if plain && !self.allow_http {
                return Err(
                    wrong("the endpoint is not encrypted").with_hint("Add s3.allow_http = 'true' to use it all the same.")
                );
            }
            builder = builder.with_endpoint(endpoint).with_allow_http(plain);
        }
        if let Some(access_key) = self.access_key {
            builder = builder.with_access_key_id(access_key);
        }
        if let Some(secret_key) = self.secret_key {
            builder = builder.with_secret_access_key(secret_key);
        }
        if let Some(region) = self.region {
            builder = builder.with_region(region);
        }
        let store = builder.build().map_err(|error| wrong(&error.to_string()))?;
        Ok(Location::Object { store: Arc::new(store), bucket: bucket.into(), key: key.trim_start_matches('/').into() })
    }
}

/// Reads an object from a thread that may block.
struct ObjectReader {
    store: Arc<dyn ObjectStore>,
    path: ObjectPath,
    size: u64,
    at: u64,
    block: bytes::Bytes,
    runtime: Handle,
}

impl Read for ObjectReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() && self.at < self.size {
            let end = self.size.min(self.at + OBJECT_BLOCK);
            self.block = self.runtime.block_on(self.store.get_range(&self.path, self.at..end)).map_err(io::Error::other)?;
            self.at = end;
        }
        let length = out.len().min(self.block.len());
        out[..length].copy_from_slice(&self.block.split_to(length));
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
