//! Segments as files that one thread appends to.

use super::format::{self, Scan};
use super::{Append, Failure, GROUP_BYTES_MAX, Segment, Sender, Shared, Writer, segment_path};
use crate::error::{StorageError, StorageResult};
use crate::object::Put;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use thalweg_catalog::CrashPoint;

/// What the writer needs of a file. A trait so that a test can have it fail.
pub(super) trait LogFile: Send {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
}

impl LogFile for File {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// Opens an existing segment to append to.
pub(super) type Open = Box<dyn Fn(&Path) -> io::Result<Box<dyn LogFile>> + Send>;

/// How segments are written.
pub(super) struct Files {
    pub(super) open: Open,
    /// A segment of this size is followed by the next.
    pub(super) segment_bytes: u64,
}

impl Default for Files {
    fn default() -> Files {
        let open: Open = Box::new(|path| Ok(Box::new(File::options().write(true).open(path)?)));
        Files { open, segment_bytes: 64 << 20 }
    }
}

struct SegmentWriter {
    shared: Arc<Shared>,
    files: Files,
    file: Box<dyn LogFile>,
    path: PathBuf,
    number: u64,
    /// Where the next frame goes: behind all that is durable.
    end: u64,
}

/// Starts the thread that appends to segment `number`, which is there and empty.
pub(super) fn start(shared: Arc<Shared>, number: u64, files: Files) -> StorageResult<(Sender, Writer)> {
    let path = file_of(&shared, number);
    let file = (files.open)(&path).map_err(|e| StorageError::file("append to", &path, e))?;
    let writer = SegmentWriter { shared, files, file, path, number, end: format::HEADER_BYTES as u64 };
    let (sender, receiver) = mpsc::channel();
    let thread = thread::Builder::new().name("table-log".to_string()).spawn(move || writer.run(&receiver));
    let thread = thread.map_err(|e| StorageError::file("start a thread for", Path::new(super::SEGMENTS), e))?;
    Ok((Sender::Thread(sender), Writer::Thread(thread)))
}

fn file_of(shared: &Shared, number: u64) -> PathBuf {
    let root = shared.claim.store().local_root().expect("segments are files in a local store only");
    root.join(segment_path(number))
}

impl SegmentWriter {
    fn run(mut self, receiver: &mpsc::Receiver<Append>) {
        while let Ok(first) = receiver.recv() {
            let mut bytes = first.record.len();
            let mut group = vec![first];
            while bytes < GROUP_BYTES_MAX {
                let Ok(next) = receiver.try_recv() else { break };
                bytes += next.record.len();
                group.push(next);
            }
            let result = match self.shared.broken() {
                Some(failure) => Err(failure),
                None => self.write(&group),
            };
            self.shared.answer(group, result);
            CrashPoint::AfterAcknowledgement.pass();
        }
    }

    fn write(&mut self, group: &[Append]) -> Result<(), Failure> {
        if self.end >= self.files.segment_bytes {
            // Nothing of the group is written yet, so it alone fails.
            self.rotate().map_err(|e| Failure::of_one_write(&e))?;
        }
        let frame = format::frame(group.iter().map(|a| a.record.as_slice()));
        if let Err(error) = self.file.write_at(&frame, self.end) {
            return Err(self.take_back(error));
        }
        CrashPoint::BeforeTableLogSync.pass();
        let synced = self.file.sync().map_err(|e| StorageError::file("sync", &self.path, e));
        // After the sync, GENERATION-1: whoever takes over after this look finds the frame.
        let checked = synced.and_then(|()| self.shared.claim.check_blocking().unwrap_or(Ok(())));
        checked.map_err(|e| self.shared.break_with(&e))?;
        CrashPoint::AfterTableLogSync.pass();
        self.end += frame.len() as u64;
        let last_epoch = group.last().map(|a| a.epoch);
        let generation = self.shared.claim.generation();
        self.shared.segments.lock().insert(self.number, Segment { generation, last_epoch, bytes: self.end });
        if let Err(error) = self.file.write_at(&format::mark(self.end), format::MARK_AT) {
            // The frame is durable all the same, and the mark may be behind.
            tracing::warn!(%error, path = %self.path.display(), "could not mark what is acknowledged");
        }
        Ok(())
    }

    /// A write that failed (a full disk) leaves the log as it was, if what it wrote can be removed.
    fn take_back(&mut self, error: io::Error) -> Failure {
        let error = StorageError::file("append to", &self.path, error);
        match self.file.cut(self.end) {
            Ok(()) => Failure::of_one_write(&error),
            Err(_) => self.shared.break_with(&error),
        }
    }

    fn rotate(&mut self) -> StorageResult<()> {
        // From now on the segment ends where its mark says.
        self.file
            .write_at(&format::mark(self.end), format::MARK_AT)
            .map_err(|e| StorageError::file("mark the end of", &self.path, e))?;
        self.file.sync().map_err(|e| {
            let error = StorageError::file("sync", &self.path, e);
            self.shared.break_with(&error);
            error
        })?;
        let number = self.number + 1;
        let generation = self.shared.claim.generation();
        let store = self.shared.claim.store();
        let put = store.put_if_absent_blocking(&segment_path(number), &format::header(generation, number));
        if put.unwrap_or(Ok(Put::Taken))? == Put::Taken {
            // Only another process can have done that.
            let error = self.shared.claim.check_blocking().and_then(Result::err);
            let error = error.unwrap_or_else(|| StorageError::corrupt(&segment_path(number), "another process put it"));
            self.shared.break_with(&error);
            return Err(error);
        }
        let path = file_of(&self.shared, number);
        self.file = (self.files.open)(&path).map_err(|e| StorageError::file("append to", &path, e))?;
        (self.path, self.number, self.end) = (path, number, format::HEADER_BYTES as u64);
        self.shared.segments.lock().insert(number, Segment { generation, last_epoch: None, bytes: self.end });
        Ok(())
    }
}

/// Leaves the newest segment of an earlier process as its scan found it: without the torn tail, and marked as whole.
pub(super) fn settle_tail(path: &Path, scan: &Scan) -> StorageResult<()> {
    let fail = |e| StorageError::file("cut the torn tail of", path, e);
    let file = File::options().write(true).open(path).map_err(fail)?;
    if scan.torn {
        tracing::info!(path = %path.display(), at = scan.bytes, "cutting off a write that a crash interrupted");
        file.set_len(scan.bytes).map_err(fail)?;
    }
    file.write_all_at(&format::mark(scan.bytes), format::MARK_AT).and_then(|()| file.sync_all()).map_err(fail)
}
