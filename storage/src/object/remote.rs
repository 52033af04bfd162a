//! Objects in a bucket, through the `object_store` crate.
//!
//! Its client tries again for seconds; here everything is tried again for minutes, so that an outage of the service delays
//! a checkpoint but fails none of what stands on it.

use super::{Content, ObjectInfo, Put, S3Options, Upload};
use crate::error::{StorageError, StorageResult};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::path::Path as Location;
use object_store::{BackoffConfig, ClientOptions, ObjectStoreExt, PutMode, PutOptions, RetryConfig, WriteMultipart};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

/// Files above this go up in parts of this size. S3 takes no part below 5 MiB but the last.
const PART_BYTES: usize = 16 << 20;
/// Transfers at a time; more would share the same bandwidth.
const PARALLEL: usize = 8;

pub(super) struct RemoteStore {
    client: Arc<dyn object_store::ObjectStore>,
    prefix: String,
    limits: Limits,
}

/// How long a call is tried again while the service can't be reached.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) total: Duration,
    /// Between the first two tries; then twice as long each time, up to `pause_max`.
    pub(super) pause: Duration,
    pub(super) pause_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { total: Duration::from_secs(150), pause: Duration::from_millis(50), pause_max: Duration::from_secs(5) }
    }
}

impl RemoteStore {
    pub(super) fn new(client: Arc<dyn object_store::ObjectStore>, prefix: &str, limits: Limits) -> RemoteStore {
        RemoteStore { client, prefix: prefix.trim_matches('/').to_string(), limits }
    }

    pub(super) fn s3(bucket: &str, prefix: &str, options: &S3Options) -> StorageResult<RemoteStore> {
        let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 4, retry_timeout: Duration::from_secs(10) };
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(retry)
            .with_client_options(ClientOptions::new().with_allow_http(options.allow_http).with_timeout(Duration::from_secs(60)))
            .with_allow_http(options.allow_http);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &options.region {
            builder = builder.with_region(region);
        }
        if let Some(id) = &options.access_key_id {
            builder = builder.with_access_key_id(id);
        }
        if let Some(secret) = &options.secret_access_key {
            builder = builder.with_secret_access_key(secret);
        }
        let client = builder.build().map_err(|e| fail("open the bucket of", bucket, e))?;
        Ok(RemoteStore::new(Arc::new(client), prefix, Limits::default()))
    }

    /// Finds out whether the bucket can be reached, without patience: a wrong address should be told at once.
    pub(super) async fn probe(&self) -> StorageResult<()> {
        let location = self.location("generation");
        self.client.list_with_delimiter(Some(&location)).await.map_err(|e| fail("list", location.as_ref(), e))?;
        Ok(())
    }

    fn location(&self, path: &str) -> Location {
        if self.prefix.is_empty() { Location::from(path) } else { Location::from(format!("{}/{path}", self.prefix)) }
    }

    pub(super) async fn put_if_absent(&self, path: &str, bytes: Bytes) -> StorageResult<Put> {
        let location = self.location(path);
        let mut patience = Patience::new(self.limits);
        loop {
            let options = PutOptions::from(PutMode::Create);
            match self.client.put_opts(&location, bytes.clone().into(), options).await {
                Ok(_) => return Ok(Put::Created),
                // Perhaps by a try of ours whose answer was lost. S3 also says so while another put is under way that
                // may yet fail; then nothing is there, and the next try decides.
                Err(object_store::Error::AlreadyExists { .. }) => match self.get(path).await {
                    Ok(there) if there == bytes => return Ok(Put::Created),
                    Ok(_) => return Ok(Put::Taken),
                    Err(StorageError::Missing { .. }) if patience.wait().await => {}
                    Err(e) => return Err(e),
                },
                Err(e) if is_transient(&e) && patience.wait().await => {}
                Err(e) => return Err(fail("create", path, e)),
            }
        }
    }

    pub(super) async fn get(&self, path: &str) -> StorageResult<Bytes> {
        let location = self.location(path);
        self.patiently("read", path, || async { self.client.get(&location).await?.bytes().await }.boxed()).await
    }

    pub(super) async fn list(&self, folder: &str) -> StorageResult<Vec<ObjectInfo>> {
        let location = self.location(folder);
        let found: Vec<_> =
            self.patiently("list", folder, || self.client.list(Some(&location)).try_collect::<Vec<_>>().boxed()).await?;
        // Keys are given back with the prefix, which is not part of our paths.
        let skip = location.as_ref().len() - folder.len();
        let info =
            |o: &object_store::ObjectMeta| ObjectInfo { path: o.location.as_ref()[skip..].to_string(), size_bytes: o.size };
        let mut found: Vec<_> = found.iter().map(info).collect();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    pub(super) async fn delete(&self, paths: Vec<String>) -> StorageResult<()> {
        let locations: Vec<_> = paths.iter().map(|p| self.location(p)).collect();
        let what = paths.first().map_or("", String::as_str);
        self.patiently("delete", what, || self.delete_once(locations.clone()).boxed()).await
    }

    async fn delete_once(&self, locations: Vec<Location>) -> Result<(), object_store::Error> {
        let mut deleted = self.client.delete_stream(futures::stream::iter(locations.into_iter().map(Ok)).boxed());
        while let Some(result) = deleted.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) async fn put_files(&self, uploads: &[Upload]) -> StorageResult<Vec<Content>> {
        // Made up front and boxed: from within a lazy map over borrowed uploads, callers could not be spawned as tasks.
        let mut puts: Vec<BoxFuture<'_, StorageResult<Content>>> = Vec::with_capacity(uploads.len());
        for upload in uploads {
            puts.push(self.put_file(upload).boxed());
        }
        futures::stream::iter(puts).buffered(PARALLEL).try_collect().await
    }

    async fn put_file(&self, upload: &Upload) -> StorageResult<Content> {
        let location = self.location(&upload.path);
        let mut patience = Patience::new(self.limits);
        loop {
            match self.put_file_once(upload, &location).await {
                Err(StorageError::ObjectStore { source, .. }) if is_transient(&source) && patience.wait().await => {}
                result => return result,
            }
        }
    }

    async fn put_file_once(&self, upload: &Upload, location: &Location) -> StorageResult<Content> {
        let unread = |e| StorageError::file("read", &upload.file, e);
        let refused = |e| fail("write", &upload.path, e);
        let mut file = tokio::fs::File::open(&upload.file).await.map_err(unread)?;
        let mut read = Reading::new();
        let first = read_part(&mut file).await.map_err(unread)?;
        read.add(&first);
        if first.len() < PART_BYTES {
            self.client.put(location, first.into()).await.map_err(refused)?;
            return Ok(read.content());
        }
        let mut parts =
            WriteMultipart::new_with_chunk_size(self.client.put_multipart(location).await.map_err(refused)?, PART_BYTES);
        let mut part = first;
        while !part.is_empty() {
            parts.wait_for_capacity(2).await.map_err(refused)?;
            parts.put(part);
            part = read_part(&mut file).await.map_err(unread)?;
            read.add(&part);
        }
        parts.finish().await.map_err(refused)?;
        Ok(read.content())
    }

    pub(super) async fn fetch_file(&self, path: &str, expected: Content, file: &Path) -> StorageResult<()> {
        let mut patience = Patience::new(self.limits);
        loop {
            match self.fetch_file_once(path, expected, file).await {
                Err(StorageError::ObjectStore { source, .. }) if is_transient(&source) && patience.wait().await => {}
                result => return result,
            }
        }
    }

    async fn fetch_file_once(&self, path: &str, expected: Content, file: &Path) -> StorageResult<()> {
        let unwritten = |e| StorageError::file("write", file, e);
        let object = self.client.get(&self.location(path)).await.map_err(|e| fail("read", path, e))?;
        let mut copy = tokio::fs::File::create(file).await.map_err(unwritten)?;
        let mut chunks = object.into_stream();
        let mut read = Reading::new();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|e| fail("read", path, e))?;
            read.add(&chunk);
            copy.write_all(&chunk).await.map_err(unwritten)?;
        }
        copy.flush().await.map_err(unwritten)?;
        read.content().check(expected, path)
    }

    async fn patiently<'a, T>(
        &self,
        action: &'static str,
        path: &str,
        call: impl Fn() -> BoxFuture<'a, Result<T, object_store::Error>>,
    ) -> StorageResult<T> {
        let mut patience = Patience::new(self.limits);
        loop {
            match call().await {
                Err(e) if is_transient(&e) && patience.wait().await => {
                    tracing::warn!(action, path, error = %e, "trying the object store again");
                }
                result => return result.map_err(|e| fail(action, path, e)),
            }
        }
    }
}

/// Counts and checksums what goes by.
struct Reading {
    size_bytes: u64,
    hasher: crc32fast::Hasher,
}

impl Reading {
    fn new() -> Reading {
        Reading { size_bytes: 0, hasher: crc32fast::Hasher::new() }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.size_bytes += bytes.len() as u64;
        self.hasher.update(bytes);
    }

    fn content(self) -> Content {
        Content { size_bytes: self.size_bytes, crc32: self.hasher.finalize() }
    }
}

/// The next part of a file: as large as a part is, unless it is the last.
async fn read_part(file: &mut tokio::fs::File) -> std::io::Result<Bytes> {
    let mut part = Vec::new();
    file.take(PART_BYTES as u64).read_to_end(&mut part).await?;
    Ok(part.into())
}

/// Waits longer each time, until it is enough.
struct Patience {
    until: Instant,
    pause: Duration,
    pause_max: Duration,
}

impl Patience {
    fn new(limits: Limits) -> Patience {
        Patience { until: Instant::now() + limits.total, pause: limits.pause, pause_max: limits.pause_max }
    }

    /// False if there is none left.
    async fn wait(&mut self) -> bool {
        if Instant::now() + self.pause > self.until {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(self.pause_max);
        true
    }
}

/// Whether the same call may succeed later: everything that is not an answer about the object or our rights.
pub(crate) fn is_transient(error: &object_store::Error) -> bool {
    matches!(error, object_store::Error::Generic { .. })
}

fn fail(action: &'static str, path: &str, source: object_store::Error) -> StorageError {
    match source {
        object_store::Error::NotFound { .. } => StorageError::Missing { path: path.to_string() },
        source => StorageError::ObjectStore { action, path: path.to_string(), source },
    }
}
