//! Reads several files: in turn, or always the one whose time is furthest behind.
//!
//! Without that, files that follow each other in time would hold the watermark back until the last of them was begun, and all state with it.

use super::compression::Compression;
use super::lines::{LineFile, LineFileOptions, TextPosition};
use super::location::{Location, io_error};
use super::options::{FileFormat, FileSourceOptions};
use super::parquet::ParquetFile;
use crate::decode::{Decoder, Format};
use crate::error::{ConnectorError, ConnectorResult};
use crate::source::{Position, SourceBatch, SourceContext, SourceEvent, SourceReader, SplitId};
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::{cast, min};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// So many files are open at once.
const OPEN_MAX: usize = 8;

/// How many records are read of a file to learn where its times begin.
const FIRST_RECORDS: usize = 64;

/// How often files are looked at that may have grown: after a twentieth of the time for which none has, within these. So what is
/// added often is seen at once, and a file that rests costs next to nothing.
const LOOK_INTERVALS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
const LOOKS_IN_A_REST: u32 = 20;
/// The time that looking at a file may take on average, so that many of them are looked at less often.
const LOOK_TIME_OF_A_FILE: Duration = Duration::from_micros(50);

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
    waiting: VecDeque<Waiting>,
    open: VecDeque<Reading>,
    /// Files that have been read to their end and may grow.
    grown_out: BTreeMap<SplitId, Tail>,
    looked_at: Instant,
    /// When a file was found to have grown last.
    grew_at: Instant,
    /// Room for blocks of files that are opened.
    buffers: Vec<Vec<u8>>,
}

/// A file that is to be read on.
struct Waiting {
    split: SplitId,
    position: Option<Position>,
    /// The least time of the rows that were read of it last; none before the first.
    time: Option<i64>,
}

/// A file that is being read.
struct Reading {
    file: OpenFile,
    /// Where it is to be read on if it is closed now.
    at: Waiting,
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
            grew_at: Instant::now(),
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

    /// The next rows or end among the files; none if there is nothing to read.
    fn poll(&mut self) -> ConnectorResult<Option<SourceEvent>> {
        loop {
            let next = if self.context.time.is_some() { self.furthest_behind()? } else { self.next_in_turn()? };
            let Some(Reading { mut file, mut at }) = next else { return Ok(None) };
            let is_alone = self.open.is_empty() && self.waiting.is_empty();
            let records = if self.context.time.is_none() || at.time.is_some() || is_alone { usize::MAX } else { FIRST_RECORDS };
            let step = match &mut file {
                OpenFile::Lines(lines) => lines.read(records),
                OpenFile::Parquet(parquet) => parquet.read(),
            };
            match step.map_err(|error| self.patient(error))? {
                Step::Rows(batch) => {
                    at.position = Some(batch.position.clone());
                    at.time = self.context.time.map(|place| least_time(batch.batch.column(place)).unwrap_or(i64::MIN));
                    self.open.push_back(Reading { file, at });
                    return Ok(Some(SourceEvent::Rows(batch)));
                }
                Step::End(position) => {
                    self.recycle(file);
                    return Ok(Some(SourceEvent::SplitEnd { split: at.split, position }));
                }
                Step::Waiting => self.set_aside(at.split, file)?,
            }
        }
    }

    /// The open file that was read longest ago.
    fn next_in_turn(&mut self) -> ConnectorResult<Option<Reading>> {
        while self.open.len() < OPEN_MAX {
            let Some(at) = self.waiting.pop_front() else { break };
            let reading = self.resume(at)?;
            self.open.push_back(reading);
        }
        Ok(self.open.pop_front())
    }

    /// The file with the earliest time; one of which nothing is known comes before all others.
    fn furthest_behind(&mut self) -> ConnectorResult<Option<Reading>> {
        let open = (0..self.open.len()).min_by_key(|place| self.open[*place].at.time);
        let waiting = (0..self.waiting.len()).min_by_key(|place| self.waiting[*place].time);
        let is_open = match (open, waiting) {
            (Some(open), Some(waiting)) => self.open[open].at.time <= self.waiting[waiting].time,
            (open, _) => open.is_some(),
        };
        if is_open {
            return Ok(open.and_then(|place| self.open.remove(place)));
        }
        let Some(at) = waiting.and_then(|place| self.waiting.remove(place)) else { return Ok(None) };
        if self.open.len() >= OPEN_MAX
            && let Some(ahead) = (0..self.open.len()).max_by_key(|place| self.open[*place].at.time)
            && let Some(closed) = self.open.remove(ahead)
        {
            self.recycle(closed.file);
            self.waiting.push_back(closed.at);
        }
        Ok(Some(self.resume(at)?))
    }

    fn resume(&mut self, at: Waiting) -> ConnectorResult<Reading> {
        let file = self.open(at.split.clone(), at.position.clone()).map_err(|error| self.patient(error))?;
        Ok(Reading { file, at })
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

    /// How long to wait from one look at files that may have grown to the next.
    fn look_interval(&self) -> Duration {
        let (least, most) = LOOK_INTERVALS;
        let least = least.max(LOOK_TIME_OF_A_FILE * self.grown_out.len() as u32);
        (self.grew_at.elapsed() / LOOKS_IN_A_REST).clamp(least.min(most), most)
    }

    /// Finds files that have grown.
    fn look(&mut self) -> ConnectorResult<()> {
        self.looked_at = Instant::now();
        if self.look_interval() == LOOK_INTERVALS.1 {
            // They rest: their blocks are large.
            self.buffers = vec![];
        }
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
                self.grew_at = Instant::now();
                if size > tail.position.offset {
                    tail.active = true;
                    self.waiting.push_back(Waiting { split, position: Some(tail.position.to_string()), time: None });
                }
            }
        }
        Ok(())
    }
}

/// The least time of a column in microseconds since 1970; none if there is none.
fn least_time(column: &ArrayRef) -> Option<i64> {
    let zone = if let DataType::Timestamp(_, zone) = column.data_type() { zone.clone() } else { None };
    let times = cast(column, &DataType::Timestamp(TimeUnit::Microsecond, zone)).ok()?;
    min(times.as_primitive::<TimestampMicrosecondType>())
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
        self.waiting.extend(splits.into_iter().map(|(split, position)| Waiting { split, position, time: None }));
        Ok(())
    }

    fn next(&mut self, timeout: Duration) -> ConnectorResult<SourceEvent> {
        let deadline = Instant::now() + timeout;
        loop {
            let interval = self.look_interval();
            if !self.grown_out.is_empty() && self.looked_at.elapsed() >= interval {
                self.look()?;
            }
            if let Some(event) = self.poll()? {
                return Ok(event);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(SourceEvent::Idle);
            }
            std::thread::sleep(if self.grown_out.is_empty() { left } else { left.min(interval) });
        }
    }
}
