//! Reads several files in turn.

use super::compression::Compression;
use super::lines::{LineFile, LineFileOptions, TextPosition};
use super::location::{Location, io_error};
use super::options::{FileFormat, FileSourceOptions};
use super::parquet::ParquetFile;
use crate::decode::{Decoder, Format};
use crate::error::{ConnectorError, ConnectorResult};
use crate::source::{Position, SourceBatch, SourceContext, SourceEvent, SourceReader, SplitId};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// So many files are open at once.
const OPEN_MAX: usize = 8;

/// How often files are looked at that may have grown.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What reading a file comes to.
pub(super) enum Step {
    Rows(SourceBatch),
    /// The file has been read whole; this is the place at its end.
    End(Position),
    /// There is no more for now.
    Waiting,
}

pub(super) enum OpenFile {
    Lines(Box<LineFile>),
    Parquet(ParquetFile),
}

/// Reads the splits of a file source.
pub(super) struct FileReader {
    options: FileSourceOptions,
    context: SourceContext,
    waiting: VecDeque<(SplitId, Option<Position>)>,
    open: VecDeque<(SplitId, OpenFile)>,
    /// Files that have been read to their end and may grow.
    grown_out: BTreeMap<SplitId, Tail>,
    looked_at: Instant,
    /// Room for blocks of files that are opened.
    buffers: Vec<Vec<u8>>,
}

/// The end of a file that may grow.
struct Tail {
    position: TextPosition,
    /// How large the file was when it was read or looked at last.
    size: u64,
    /// Tells whether it is still the same file.
    inode: u64,
    /// Whether it is being read again.
    active: bool,
}

impl FileReader {
    pub(super) fn new(options: FileSourceOptions, context: SourceContext) -> ConnectorResult<FileReader> {
        // Made to see that the columns fit; each file gets its own.
        if let FileFormat::Lines(format) = &options.format {
            Decoder::new(format, &context.columns, &context.projection)?;
        }
        Ok(FileReader {
            options,
            context,
            waiting: VecDeque::new(),
            open: VecDeque::new(),
            grown_out: BTreeMap::new(),
            looked_at: Instant::now(),
            buffers: vec![],
        })
    }

    /// A file from a position on.
    pub(super) fn open(&mut self, split: SplitId, position: Option<Position>) -> ConnectorResult<OpenFile> {
        let location = self.options.location.file(&split)?;
        let position = position.as_deref();
        let runtime = &self.context.runtime;
        match &self.options.format {
            FileFormat::Parquet => Ok(OpenFile::Parquet(ParquetFile::open(split, &location, position, &self.context)?)),
            FileFormat::Lines(format) => {
                let decoder = Decoder::new(format, &self.context.columns, &self.context.projection)?;
                let compression = self.options.compression.unwrap_or_else(|| Compression::of_name(&split));
                let options = LineFileOptions {
                    split,
                    location: &location,
                    compression,
                    format,
                    columns: self.context.columns.len(),
                    position: position.map(TextPosition::parse).transpose()?.unwrap_or_default(),
                    growing: self.options.follow && compression == Compression::None && matches!(location, Location::Local(_)),
                    runtime,
                };
                Ok(OpenFile::Lines(Box::new(LineFile::open(options, decoder, self.buffers.pop().unwrap_or_default())?)))
            }
        }
    }

    /// The next rows or end among the open files; none if there is nothing to read.
    fn poll(&mut self) -> ConnectorResult<Option<SourceEvent>> {
        loop {
            while self.open.len() < OPEN_MAX {
                let Some((split, position)) = self.waiting.pop_front() else { break };
                let file = self.open(split.clone(), position).map_err(|error| self.patient(error))?;
                self.open.push_back((split, file));
            }
            let Some((split, mut file)) = self.open.pop_front() else { return Ok(None) };
            let step = match &mut file {
                OpenFile::Lines(lines) => lines.read(),
                OpenFile::Parquet(parquet) => parquet.read(),
            };
            match step.map_err(|error| self.patient(error))? {
                Step::Rows(batch) => {
                    self.open.push_back((split, file));
                    return Ok(Some(SourceEvent::Rows(batch)));
                }
                Step::End(position) => {
                    self.recycle(file);
                    return Ok(Some(SourceEvent::SplitEnd { split, position }));
                }
                Step::Waiting => self.set_aside(split, file)?,
            }
        }
    }

    /// While files are followed, one that can't be read may just not be whole yet.
    fn patient(&self, error: ConnectorError) -> ConnectorError {
        ConnectorError { retry: error.retry || self.options.follow, ..error }
    }

    fn recycle(&mut self, file: OpenFile) {
        if let OpenFile::Lines(lines) = file {
            let mut buffer = lines.into_buffer();
            buffer.truncate(super::lines::BLOCK_BYTES);
            buffer.shrink_to(super::lines::BLOCK_BYTES);
            if self.buffers.len() < OPEN_MAX {
                self.buffers.push(buffer);
            }
        }
    }

    fn set_aside(&mut self, split: SplitId, file: OpenFile) -> ConnectorResult<()> {
        if let OpenFile::Lines(lines) = &file {
            let inode = match self.grown_out.get(&split) {
                Some(tail) => tail.inode,
                None => self.size_of(&split)?.1,
            };
            // What has come since the last read is found at the next look.
            let tail = Tail { position: lines.position(), size: lines.seen(), inode, active: false };
            self.grown_out.insert(split, tail);
        }
        self.recycle(file);
        Ok(())
    }

    fn size_of(&self, split: &SplitId) -> ConnectorResult<(u64, u64)> {
        match self.options.location.file(split)? {
            Location::Local(path) => match std::fs::metadata(&path) {
                Ok(metadata) => Ok((metadata.len(), metadata.ino())),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    Err(ConnectorError::user(format!("file \"{split}\" has vanished while it was followed")))
                }
                Err(error) => Err(io_error("look at", split, &error)),
            },
            Location::Object { .. } => Err(ConnectorError::internal("an object does not grow")),
        }
    }

    /// Finds files that have grown.
    fn look(&mut self) -> ConnectorResult<()> {
        self.looked_at = Instant::now();
        let splits: Vec<SplitId> =
            self.grown_out.iter().filter(|(_, tail)| !tail.active).map(|(split, _)| split.clone()).collect();
        for split in splits {
            let (size, inode) = self.size_of(&split)?;
            let Some(tail) = self.grown_out.get_mut(&split) else { continue };
            if size < tail.position.offset {
                return Err(ConnectorError::user(format!(
                    "file \"{split}\" has shrunk to {size} bytes while it was followed, of which {} had been read",
                    tail.position.offset
                )));
            }
            if inode != tail.inode {
                return Err(ConnectorError::user(format!("file \"{split}\" has been replaced by another while it was followed")));
            }
            if size != tail.size {
                tail.size = size;
                if size > tail.position.offset {
                    tail.active = true;
                    self.waiting.push_back((split, Some(tail.position.to_string())));
                }
            }
        }
        Ok(())
    }
}

impl SourceReader for FileReader {
    fn assign(&mut self, splits: Vec<(SplitId, Option<Position>)>) -> ConnectorResult<()> {
        for (_, position) in &splits {
            if let (Some(position), FileFormat::Lines(Format::Json | Format::Csv(_) | Format::Bytes)) =
                (position, &self.options.format)
            {
                TextPosition::parse(position)?;
            }
        }
        self.waiting.extend(splits);
        Ok(())
    }

    fn next(&mut self, timeout: Duration) -> ConnectorResult<SourceEvent> {
        let deadline = Instant::now() + timeout;
        loop {
            if !self.grown_out.is_empty() && self.looked_at.elapsed() >= LOOK_INTERVAL {
                self.look()?;
            }
            if let Some(event) = self.poll()? {
                return Ok(event);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(SourceEvent::Idle);
            }
            std::thread::sleep(if self.grown_out.is_empty() { left } else { left.min(LOOK_INTERVAL) });
        }
    }
}
