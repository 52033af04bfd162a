//! The `WITH` options.

use super::compression::Compression;
use super::location::Location;
use crate::decode::Format;
use std::time::Duration;
use thalweg_catalog::object::{ConnectorSpec, Encode};
use thalweg_catalog::options::Options;
use thalweg_catalog::{SqlError, SqlResult};

const OWNER: &str = "connector \"file\"";

/// How rows stand in files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileFormat {
    /// As lines of text.
    Lines(Format),
    /// As Parquet files.
    Parquet,
}

impl FileFormat {
    fn new(spec: &ConnectorSpec) -> SqlResult<FileFormat> {
        match spec.encode {
            None => Err(SqlError::invalid_parameter("connector \"file\" needs an encoding")
                .with_hint("Add FORMAT PLAIN ENCODE JSON, CSV, BYTES or PARQUET.")),
            Some(Encode::Parquet) => {
                Options::new("ENCODE PARQUET", &spec.encode_options).finish()?;
                Ok(FileFormat::Parquet)
            }
            Some(encode) => Ok(FileFormat::Lines(Format::new(encode, &spec.encode_options)?)),
        }
    }
}

/// The options of a file source.
#[derive(Clone, Debug)]
pub struct FileSourceOptions {
    /// `path`: a file, a folder, a glob, or an `s3://` URL of such; with `s3.endpoint`, `s3.access_key`, `s3.secret_key`, `s3.region`
    /// and `s3.allow_http`, for which the environment stands in.
    pub(super) location: Location,
    /// `compression`: `none`, `gzip`, `zstd`, or `auto`, the default, which goes by the ending of each name. None for `auto`.
    pub compression: Option<Compression>,
    /// `follow`: whether to wait for more, in the files and in new ones; false by default.
    pub follow: bool,
    /// `discovery_interval`: how often to look for new files when following; 1 second by default.
    pub discovery_interval: Duration,
    /// How rows stand in the files: `ENCODE` with its options.
    pub format: FileFormat,
}

impl FileSourceOptions {
    /// Reads the options, refusing those that are not known.
    ///
    /// # Errors
    /// `22023` for an unknown option or a value that can't be one.
    pub fn parse(spec: &ConnectorSpec) -> SqlResult<FileSourceOptions> {
        let mut options = Options::new(OWNER, &spec.options);
        let location = Location::parse(&mut options)?;
        let words = [
            ("none", Some(Compression::None)),
            ("gzip", Some(Compression::Gzip)),
            ("zstd", Some(Compression::Zstd)),
            ("auto", None),
        ];
        let compression = options.one_of("compression", &words)?.flatten();
        let follow = options.flag("follow")?;
        let interval_ms = options.duration_ms("discovery_interval")?;
        options.finish()?;
        if interval_ms.is_some() && !follow {
            return Err(SqlError::invalid_parameter(format!(
                "option \"discovery_interval\" of {OWNER} means nothing without \"follow\""
            ))
            .with_hint("Add follow = 'true'."));
        }
        if interval_ms == Some(0) {
            return Err(SqlError::invalid_parameter(format!("option \"discovery_interval\" of {OWNER} must be above zero")));
        }
        let format = FileFormat::new(spec)?;
        if format == FileFormat::Parquet && compression.is_some_and(|given| given != Compression::None) {
            return Err(SqlError::invalid_parameter(
                "Parquet files are compressed inside: option \"compression\" does not apply",
            ));
        }
        Ok(FileSourceOptions {
            location,
            compression,
            follow,
            discovery_interval: Duration::from_millis(interval_ms.unwrap_or(1000)),
            format,
        })
    }
}

/// The options of a file sink.
#[derive(Clone, Debug)]
pub struct FileSinkOptions {
    /// `path`: the folder, or the `s3://` URL of one, with the same store options as a source. It is created if it is not there.
    pub(super) location: Location,
    /// `compression`: `none`, `gzip` or `zstd`; none by default for text, zstd for Parquet, where it applies to the pages inside.
    pub compression: Compression,
    /// How rows are written: `ENCODE` with its options.
    pub format: FileFormat,
}

impl FileSinkOptions {
    /// Reads the options, refusing those that are not known.
    ///
    /// # Errors
    /// `22023` for an unknown option or a value that can't be one, `0A000` for an encoding that sinks do not write.
    pub fn parse(spec: &ConnectorSpec) -> SqlResult<FileSinkOptions> {
        let mut options = Options::new(OWNER, &spec.options);
        let location = Location::parse(&mut options)?;
        let words = [("none", Compression::None), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)];
        let compression = options.one_of("compression", &words)?;
        options.finish()?;
        let format = FileFormat::new(spec)?;
        if format == FileFormat::Lines(Format::Bytes) {
            return Err(SqlError::unsupported("a file sink does not write ENCODE BYTES").with_hint("Use JSON, CSV or PARQUET."));
        }
        let default = if format == FileFormat::Parquet { Compression::Zstd } else { Compression::None };
        Ok(FileSinkOptions { location, compression: compression.unwrap_or(default), format })
    }
}
