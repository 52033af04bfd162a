//! The sink connector: one file for each checkpoint, under its final name only when it is whole.

use super::compression::Compression;
use super::location::Location;
use super::options::{FileFormat, FileSinkOptions};
use crate::decode::Format;
use crate::encode::{CsvRows, JsonRows, ParquetCompression, parquet_file};
use crate::error::{ConnectorError, ConnectorResult};
use crate::sink::{Delivery, Guarantee, SinkBatch, SinkConnector, SinkContext, SinkWriter};
use arrow::array::{RecordBatch, UInt32Array};
use async_trait::async_trait;
use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_catalog::object::{ConnectorSpec, SinkMode};
use thalweg_catalog::{Column, CrashPoint, Epoch, SqlError, SqlResult, schema_of};

/// Files that are written.
#[derive(Clone, Debug)]
pub struct FileSink {
    options: FileSinkOptions,
}

impl FileSink {
    /// The sink that these options declare.
    ///
    /// # Errors
    /// `22023` for a bad option, `0A000` for a sink that takes rows back or an encoding that sinks do not write.
    pub fn from_spec(spec: &ConnectorSpec, mode: SinkMode) -> SqlResult<FileSink> {
        if mode != SinkMode::AppendOnly {
            return Err(SqlError::unsupported("a file sink cannot take rows back").with_hint(
                "Use type = 'append-only', over a query whose rows are final, such as one with EMIT ON WINDOW CLOSE.",
            ));
        }
        Ok(FileSink { options: FileSinkOptions::parse(spec)? })
    }
}

#[async_trait]
impl SinkConnector for FileSink {
    fn delivery(&self) -> Delivery {
        Delivery::OnCheckpoint
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    async fn writer(&self, context: SinkContext) -> ConnectorResult<Box<dyn SinkWriter>> {
        let encoder = FileEncoder { options: self.options.clone(), columns: context.columns.clone() };
        let names = FileNames {
            sink: escape(&context.name),
            writer: context.writer,
            writers: context.writers,
            extension: encoder.extension(),
        };
        let target = match &self.options.location {
            Location::Local(folder) => Target::Folder(folder.clone()),
            Location::Object { store, key, .. } => Target::Store { store: store.clone(), prefix: ObjectPath::from(key.as_str()) },
        };
        let mut writer =
            FileWriter { encoder: Arc::new(encoder), names: Arc::new(names), target, place: self.options.location.clone() };
        writer.prepare().await?;
        Ok(Box::new(writer))
    }
}

/// A sink's name as part of a file's: letters and digits stay, anything else is written as its bytes.
fn escape(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02x}"));
        }
    }
    escaped
}

/// How the files of one writer are named.
struct FileNames {
    sink: String,
    writer: usize,
    writers: usize,
    /// With its dot.
    extension: String,
}

impl FileNames {
    fn of(&self, through: Epoch) -> String {
        // Twenty digits hold any epoch, so that names sort as their epochs do.
        format!("{}-{:020}-{}-of-{}{}", self.sink, through.0, self.writer, self.writers, self.extension)
    }

    /// The epoch in a name that this writer gave.
    fn epoch(&self, name: &str) -> Option<Epoch> {
        let rest = name.strip_prefix(&self.sink)?.strip_prefix('-')?;
        let (epoch, rest) = rest.split_once('-')?;
        let (writer, _) = rest.split_once('.')?;
        if writer != format!("{}-of-{}", self.writer, self.writers) {
            return None;
        }
        epoch.parse().ok().map(Epoch)
    }

    /// Whether a file is an unfinished one of this writer.
    fn is_staged(&self, name: &str) -> bool {
        name.strip_prefix('.').and_then(|name| name.strip_suffix(STAGED)).is_some_and(|name| self.epoch(name).is_some())
    }
}

/// The ending of files that are being written; they start with a dot too.
const STAGED: &str = ".tmp";

/// Rows to files.
struct FileEncoder {
    options: FileSinkOptions,
    columns: Vec<Column>,
}

impl FileEncoder {
    fn extension(&self) -> String {
        match &self.options.format {
            FileFormat::Parquet => ".parquet".into(),
            FileFormat::Lines(Format::Csv(_)) => format!(".csv{}", self.options.compression.extension()),
            FileFormat::Lines(_) => format!(".json{}", self.options.compression.extension()),
        }
    }

    fn encode(&self, batches: &[SinkBatch]) -> ConnectorResult<Vec<u8>> {
        let text = match &self.options.format {
            FileFormat::Parquet => {
                let compression = match self.options.compression {
                    Compression::None => ParquetCompression::None,
                    Compression::Gzip => ParquetCompression::Gzip,
                    Compression::Zstd => ParquetCompression::Zstd,
                };
                let batches = batches.iter().map(repeated).collect::<ConnectorResult<Vec<_>>>()?;
                return parquet_file(&schema_of(&self.columns), &batches, compression);
            }
            FileFormat::Lines(Format::Csv(options)) => {
                let mut out = vec![];
                if options.header {
                    CsvRows::write_header(&self.columns, options, &mut out);
                }
                for batch in batches {
                    let rows = CsvRows::new(&batch.batch, &self.columns, options)?;
                    for_each_row(batch, |row| rows.write(row, &mut out))?;
                }
                out
            }
            FileFormat::Lines(_) => {
                let all: Vec<usize> = (0..self.columns.len()).collect();
                let mut out = vec![];
                for batch in batches {
                    let rows = JsonRows::new(&batch.batch, &self.columns, &all)?;
                    for_each_row(batch, |row| {
                        rows.write(row, &mut out);
                        out.push(b'\n');
                    })?;
                }
                out
            }
        };
        self.options
            .compression
            .compress(text)
            .map_err(|error| ConnectorError::internal(format!("can't compress a file: {error}")))
    }
}

/// How often a row stands in an append-only change.
fn count_of(batch: &SinkBatch, row: usize) -> ConnectorResult<u64> {
    let weight = batch.weights.as_ref().map_or(1, |weights| weights.value(row));
    u64::try_from(weight).map_err(|_| ConnectorError::internal("an append-only sink was given a row to take back"))
}

fn for_each_row(batch: &SinkBatch, mut write: impl FnMut(usize)) -> ConnectorResult<()> {
    for row in 0..batch.batch.num_rows() {
        for _ in 0..count_of(batch, row)? {
            write(row);
        }
    }
    Ok(())
}

/// The rows, each as often as its weight says.
fn repeated(batch: &SinkBatch) -> ConnectorResult<RecordBatch> {
    let mut rows = vec![];
    for_each_row(batch, |row| rows.push(row as u32))?;
    if rows.len() == batch.batch.num_rows() {
        return Ok(batch.batch.clone());
    }
    arrow::compute::take_record_batch(&batch.batch, &UInt32Array::from(rows))
        .map_err(|error| ConnectorError::internal(format!("can't repeat rows: {error}")))
}

enum Target {
    Folder(PathBuf),
    Store { store: Arc<dyn ObjectStore>, prefix: ObjectPath },
}

struct FileWriter {
    encoder: Arc<FileEncoder>,
    names: Arc<FileNames>,
    target: Target,
    /// For messages.
    place: Location,
}

impl FileWriter {
    /// Makes the folder and removes what a crash left unfinished.
    async fn prepare(&mut self) -> ConnectorResult<()> {
        let Target::Folder(folder) = &self.target else { return Ok(()) };
        let (folder, names) = (folder.clone(), self.names.clone());
        blocking(move || {
            let failed = |error: io::Error| folder_error("write to", &folder, &error);
            fs::create_dir_all(&folder).map_err(failed)?;
            for name in names_in(&folder).map_err(failed)? {
                if names.is_staged(&name) {
                    fs::remove_file(folder.join(name)).map_err(failed)?;
                }
            }
            Ok(())
        })
        .await
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> ConnectorResult<T> + Send + 'static) -> ConnectorResult<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| ConnectorError::internal(format!("work on files was broken off: {error}")))?
}

/// Whatever the folder refuses for, its rows are kept and it is tried again: who gives it room or the right to write heals it.
fn folder_error(what: &str, folder: &Path, error: &io::Error) -> ConnectorError {
    ConnectorError::external(format!("can't {what} \"{}\": {error}", folder.display()))
}

fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Gives the folder a file that is whole from its first moment, and on disk.
fn put_file(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let staged = folder.join(format!(".{name}{STAGED}"));
    let mut file = File::create(&staged)?;
    file.write_all(content)?;
    file.sync_all()?;
    CrashPoint::InDelivery.pass();
    fs::rename(&staged, folder.join(name))?;
    // The name is on disk when its folder is.
    File::open(folder)?.sync_all()
}

#[async_trait]
impl SinkWriter for FileWriter {
    async fn delivered(&mut self) -> ConnectorResult<Option<Epoch>> {
        let names = match &self.target {
            Target::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || names_in(&folder).map_err(|error| folder_error("list", &folder, &error))).await?
            }
            Target::Store { store, prefix } => {
                let objects: Vec<_> =
                    store.list(Some(prefix)).try_collect().await.map_err(|error| self.place.failed("list", &error))?;
                objects.into_iter().filter_map(|object| object.location.filename().map(str::to_string)).collect()
            }
        };
        Ok(names.iter().filter_map(|name| self.names.epoch(name)).max())
    }

    async fn deliver(&mut self, through: Epoch, batches: Vec<SinkBatch>) -> ConnectorResult<()> {
        if batches.iter().all(|batch| batch.batch.num_rows() == 0) {
            return Ok(());
        }
        let (encoder, name) = (self.encoder.clone(), self.names.of(through));
        match &self.target {
            Target::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || {
                    let failed = |error: io::Error| folder_error("write to", &folder, &error);
                    if folder.join(&name).try_exists().map_err(failed)? {
                        return Ok(());
                    }
                    let content = encoder.encode(&batches)?;
                    put_file(&folder, &name, &content).map_err(failed)
                })
                .await
            }
            Target::Store { store, prefix } => {
                let path = prefix.clone().join(name);
                let failed = |error| self.place.failed("write to", &error);
                match store.head(&path).await {
                    Ok(_) => return Ok(()),
                    Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(failed(error)),
                }
                let content = blocking(move || encoder.encode(&batches)).await?;
                // A single put is visible whole or not at all.
                store.put(&path, content.into()).await.map(|_| ()).map_err(failed)
            }
        }
    }
}

#[cfg(test)]
mod tests;
