//! Rows that are kept for as long as somebody may want to see them again: in memory while they are few, then in a file that has
//! no name and is gone with them, or with the process.

use crate::error::{StorageError, StorageResult};
use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows by their place from 0, in the order in which they came.
pub struct SpilledRows {
    directory: PathBuf,
    memory_max_bytes: usize,
    pieces: Vec<Piece>,
    rows: usize,
    memory_bytes: usize,
    file: Option<File>,
    file_bytes: u64,
    /// The piece that was read last, by its first row: rows are often asked for one by one.
    last_read: Option<(usize, RecordBatch)>,
}

struct Piece {
    /// The place of its first row.
    start: usize,
    rows: usize,
    place: Place,
}

enum Place {
    Memory(RecordBatch),
    File { offset: u64, bytes: usize },
}

impl SpilledRows {
    /// No rows yet. What does not fit into `memory_max_bytes` goes to a file in `directory`.
    pub fn new(directory: &Path, memory_max_bytes: usize) -> SpilledRows {
        SpilledRows {
            directory: directory.to_path_buf(),
            memory_max_bytes,
            pieces: vec![],
            rows: 0,
            memory_bytes: 0,
            file: None,
            file_bytes: 0,
            last_read: None,
        }
    }

    /// How many rows have come.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether the next call may wait for a disk.
    pub fn may_block(&self) -> bool {
        self.file.is_some() || self.memory_bytes > self.memory_max_bytes / 2
    }

    /// Adds rows.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn push(&mut self, batch: RecordBatch) -> StorageResult<()> {
        let piece = Piece { start: self.rows, rows: batch.num_rows(), place: Place::Memory(batch) };
        self.rows += piece.rows;
        self.memory_bytes += piece.memory_bytes();
        self.pieces.push(piece);
        if self.memory_bytes > self.memory_max_bytes { self.spill() } else { Ok(()) }
    }

    /// Rows `from..to`, as far as they are there and not forgotten.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn slice(&mut self, from: usize, to: usize) -> StorageResult<Vec<RecordBatch>> {
        let first = self.pieces.partition_point(|piece| piece.start + piece.rows <= from);
        let mut slices = vec![];
        for place in first..self.pieces.len() {
            let (start, rows) = (self.pieces[place].start, self.pieces[place].rows);
            let (begin, end) = (from.max(start), to.min(start + rows));
            if begin >= end {
                break;
            }
            slices.push(self.batch(place)?.slice(begin - start, end - begin));
        }
        Ok(slices)
    }

    /// Forgets the rows before a place, as far as whole batches of them can go.
    pub fn forget(&mut self, before: usize) {
        let count = self.pieces.partition_point(|piece| piece.start + piece.rows <= before);
        let freed: usize = self.pieces.drain(..count).map(|piece| piece.memory_bytes()).sum();
        self.memory_bytes -= freed;
    }

    /// Puts everything but the newest rows into the file.
    fn spill(&mut self) -> StorageResult<()> {
        let newest = self.pieces.len().saturating_sub(1);
        for place in 0..newest {
            let Place::Memory(batch) = &self.pieces[place].place else { continue };
            let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
            writer.write(batch)?;
            let bytes = writer.into_inner()?;
            let offset = self.file_bytes;
            self.file()?.write_all_at(&bytes, offset).map_err(|e| self.failed("write", e))?;
            self.file_bytes += bytes.len() as u64;
            self.memory_bytes -= self.pieces[place].memory_bytes();
            self.pieces[place].place = Place::File { offset, bytes: bytes.len() };
        }
        Ok(())
    }

    /// The file, which has a name for as long as it takes to open it.
    fn file(&mut self) -> StorageResult<&File> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if self.file.is_none() {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = self.directory.join(format!("rows-{}-{number}.tmp", std::process::id()));
            let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
            let file = opened.map_err(|e| self.failed("create", e))?;
            std::fs::remove_file(&path).map_err(|e| self.failed("unlink", e))?;
            return Ok(self.file.insert(file));
        }
        self.file.as_ref().ok_or_else(|| StorageError::Missing { path: self.directory.display().to_string() })
    }

    fn batch(&mut self, place: usize) -> StorageResult<RecordBatch> {
        let piece = &self.pieces[place];
        let (offset, bytes) = match &piece.place {
            Place::Memory(batch) => return Ok(batch.clone()),
            Place::File { offset, bytes } => (*offset, *bytes),
        };
        let start = piece.start;
        if let Some((_, batch)) = self.last_read.as_ref().filter(|(last, _)| *last == start) {
            return Ok(batch.clone());
        }
        let mut encoded = vec![0; bytes];
        self.file()?.read_exact_at(&mut encoded, offset).map_err(|e| self.failed("read", e))?;
        let damaged = || StorageError::corrupt(&self.directory.display().to_string(), "spilled rows are not what was written");
        let batch = StreamReader::try_new(encoded.as_slice(), None)?.next().ok_or_else(damaged)??;
        self.last_read = Some((start, batch.clone()));
        Ok(batch)
    }

    fn failed(&self, action: &'static str, source: std::io::Error) -> StorageError {
        StorageError::File { action, path: format!("{}/rows-….tmp", self.directory.display()), source }
    }
}

impl Piece {
    fn memory_bytes(&self) -> usize {
        match &self.place {
            Place::Memory(batch) => batch.get_array_memory_size(),
            Place::File { .. } => 0,
        }
    }
}

#[cfg(test)]
mod tests;
