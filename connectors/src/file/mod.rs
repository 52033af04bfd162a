//! Files: JSON lines, CSV, lines of bytes, and Parquet, on local disks and in object stores, as a source and as a sink.
//!
//! Source: `path` is a file, a folder, a glob, or an `s3://` URL with or without one. A split is a file, named by its path or
//! URL. Files whose names start with a dot are left alone: they are someone's work in progress.
//! - Positions are `offset=…,line=…` for text: bytes and lines read so far, of the decompressed text where the file is compressed;
//!   and `row=…` for Parquet. A restart seeks to the offset, or decompresses up to it.
//! - Rows come in the order in which they stand in the file. Up to eight files are read in turn.
//! - Bounded: each file is read once, the last line even if nothing ends it. With `follow = 'true'` new files are picked up and
//!   plain text files are read on as they grow, a last line only once it has ended. Compressed files, Parquet files and
//!   objects do not grow: they are read once, when they are there. A followed file that shrinks, is replaced or vanishes is
//!   an error that names it, since what was read of it could not be read again.
//!
//! Sink: one file for each checkpoint and writer that has rows (several for one that has many, or when the folder could not be
//! written to for a while), in the folder or under the URL `path`, named `<sink>-<epoch>-<writer>-of-<writers>.<extension>`
//! after the last epoch in it. It gets its name only when it is whole and its checkpoint durable; a
//! delivery whose name is there was made before and does nothing. So a reader that takes only files with such names sees
//! every row exactly once. Takes append-only changes only: a row in a file can't be taken back.

mod compression;
mod lines;
mod location;
mod options;
mod parquet;
mod reader;
mod sink;
mod source;

pub use compression::Compression;
pub use options::{FileFormat, FileSinkOptions, FileSourceOptions};
pub use sink::FileSink;
pub use source::FileSource;
