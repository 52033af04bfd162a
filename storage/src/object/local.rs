//! Objects as files in a directory. Synchronous: the caller chooses the thread.
//!
//! Every file is written under another name, synced, and only then given its own, and the directory is synced after that:
//! no crash leaves a part of an object, and no crash takes back one that was put. `object_store`'s own local store has the
//! same atomicity but syncs nothing, which is why this is not it.

use super::{Content, Fetched, FileKind, ObjectInfo, Put, Upload};
use crate::error::{StorageError, StorageResult};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where files are written before they get their names. No object's path can begin with a dot.
const STAGING: &str = ".staging";

/// Large enough that a read is dominated by the disk, small enough for a stack of them in parallel.
const COPY_BUFFER_BYTES: usize = 256 << 10;

pub(super) struct LocalStore {
    root: PathBuf,
    /// Makes staged names differ in one process; [`OpenOptions::create_new`] does between processes.
    staged: AtomicU64,
}

impl LocalStore {
    pub(super) fn open(root: &Path) -> StorageResult<LocalStore> {
        let absolute = std::path::absolute(root).map_err(|e| StorageError::file("find", root, e))?;
        let store = LocalStore { root: absolute, staged: AtomicU64::new(0) };
        create_directories(&store.root.join(STAGING))?;
        Ok(store)
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn put_if_absent(&self, path: &str, bytes: &[u8]) -> StorageResult<Put> {
        let target = self.root.join(path);
        let staged = self.stage(&mut &bytes[..])?;
        let linked = with_directories(&target, || fs::hard_link(&staged.path, &target));
        drop(staged);
        match linked {
            Ok(()) => {
                sync_parent(&target)?;
                Ok(Put::Created)
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                if fs::read(&target).map_err(|e| StorageError::file("read", &target, e))? != bytes {
                    return Ok(Put::Taken);
                }
                // An earlier try that failed after the link: it may have got no further than that.
                sync_file(&target)?;
                sync_parent(&target)?;
                Ok(Put::Created)
            }
            Err(e) => Err(StorageError::file("create", &target, e)),
        }
    }

    pub(super) fn get(&self, path: &str) -> StorageResult<Bytes> {
        let file = self.root.join(path);
        match fs::read(&file) {
            Ok(bytes) => Ok(bytes.into()),
            Err(e) => Err(self.read_error(path, e)),
        }
    }

    fn read_error(&self, path: &str, error: io::Error) -> StorageError {
        match error.kind() {
            ErrorKind::NotFound => StorageError::Missing { path: path.to_string() },
            _ => StorageError::file("read", &self.root.join(path), error),
        }
    }

    pub(super) fn list(&self, folder: &str) -> StorageResult<Vec<ObjectInfo>> {
        let mut found = Vec::new();
        let mut folders = vec![folder.to_string()];
        while let Some(folder) = folders.pop() {
            let directory = self.root.join(&folder);
            let fail = |e| StorageError::file("list", &directory, e);
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                // Nothing was put there yet, or its last object was deleted a moment ago.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(fail(e)),
            };
            for entry in entries {
                let entry = entry.map_err(fail)?;
                let Some(name) = entry.file_name().to_str().map(str::to_string) else { continue };
                let metadata = match entry.metadata() {
                    Ok(metadata) => metadata,
                    Err(e) if e.kind() == ErrorKind::NotFound => continue,
                    Err(e) => return Err(fail(e)),
                };
                let path = format!("{folder}/{name}");
                if metadata.is_dir() {
                    folders.push(path);
                } else {
                    found.push(ObjectInfo { path, size_bytes: metadata.len() });
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    pub(super) fn delete(&self, path: &str) -> StorageResult<()> {
        let file = self.root.join(path);
        match fs::remove_file(&file) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(StorageError::file("delete", &file, e)),
        }
        // Folders go with their last object: each generation has its own, and they would add up. The system refuses to
        // remove one that is not empty, and whoever puts makes it again.
        let mut folder = file.parent();
        while let Some(directory) = folder.filter(|d| *d != self.root) {
            if fs::remove_dir(directory).is_err() {
                break;
            }
            folder = directory.parent();
        }
        Ok(())
    }

    pub(super) fn put_files(&self, uploads: &[Upload]) -> StorageResult<Vec<Content>> {
        let mut contents = Vec::with_capacity(uploads.len());
        let mut parents = BTreeSet::new();
        for upload in uploads {
            contents.push(self.put_file(upload)?);
            parents.insert(parent_of(&self.root.join(&upload.path)).to_path_buf());
        }
        // Once per directory and not per file: this is the dear part of a checkpoint.
        parents.iter().try_for_each(|parent| sync_file(parent))?;
        Ok(contents)
    }

    /// Like `put_files` for one, but the name itself is not yet durable.
    fn put_file(&self, upload: &Upload) -> StorageResult<Content> {
        let target = self.root.join(&upload.path);
        if upload.kind == FileKind::Immutable && self.link(&upload.file, &target)? {
            sync_file(&target)?;
            return content_of(&target).map_err(|e| StorageError::file("read", &target, e));
        }
        let source = File::open(&upload.file).map_err(|e| StorageError::file("read", &upload.file, e))?;
        let mut source = Checksummed::new(source);
        let staged = self.stage(&mut source)?;
        with_directories(&target, || fs::rename(&staged.path, &target)).map_err(|e| StorageError::file("create", &target, e))?;
        Ok(source.content())
    }

    /// Links `target` to `source`. False if these file systems can't.
    fn link(&self, source: &Path, target: &Path) -> StorageResult<bool> {
        let mut linked = with_directories(target, || fs::hard_link(source, target));
        if linked.as_ref().is_err_and(|e| e.kind() == ErrorKind::AlreadyExists) {
            // An earlier try of the same upload. No manifest names it yet.
            fs::remove_file(target).map_err(|e| StorageError::file("replace", target, e))?;
            linked = with_directories(target, || fs::hard_link(source, target));
        }
        match linked {
            Ok(()) => Ok(true),
            Err(e) if cannot_link(&e) => Ok(false),
            Err(e) => Err(StorageError::file("link", source, e)),
        }
    }

    pub(super) fn fetch_file(&self, path: &str, expected: Content, file: &Path, kind: FileKind) -> StorageResult<Fetched> {
        let object = self.root.join(path);
        let source = File::open(&object).map_err(|e| self.read_error(path, e))?;
        if kind == FileKind::Immutable {
            let size_bytes = source.metadata().map_err(|e| self.read_error(path, e))?.len();
            Content { size_bytes, ..expected }.check(expected, path)?;
            match fs::hard_link(&object, file) {
                Ok(()) => return Ok(Fetched::Linked),
                Err(e) if cannot_link(&e) => {}
                Err(e) => return Err(StorageError::file("create", file, e)),
            }
        }
        let mut source = Checksummed::new(source);
        let mut copy = File::create_new(file).map_err(|e| StorageError::file("create", file, e))?;
        copy_all(&mut source, &mut copy).map_err(|e| StorageError::file("copy to", file, e))?;
        source.content().check(expected, path)?;
        Ok(Fetched::Checked)
    }

    pub(super) fn check(&self, path: &str, expected: Content) -> StorageResult<()> {
        content_of(&self.root.join(path)).map_err(|e| self.read_error(path, e))?.check(expected, path)
    }

    /// Writes and syncs a file that has no name of its own yet.
    fn stage(&self, source: &mut dyn Read) -> StorageResult<Staged> {
        let (path, mut file) = loop {
            let name = format!("{}-{}", std::process::id(), self.staged.fetch_add(1, Ordering::Relaxed));
            let path = self.root.join(STAGING).join(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => break (path, file),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) if e.kind() == ErrorKind::NotFound => create_directories(&self.root.join(STAGING))?,
                Err(e) => return Err(StorageError::file("create", &path, e)),
            }
        };
        let staged = Staged { path };
        copy_all(source, &mut file).and_then(|()| file.sync_all()).map_err(|e| StorageError::file("write", &staged.path, e))?;
        Ok(staged)
    }

    /// Removes what a crash left behind. Only for who holds the directory's lock.
    pub(super) fn clear_staging(&self) -> StorageResult<()> {
        let directory = self.root.join(STAGING);
        let fail = |e| StorageError::file("clear", &directory, e);
        for entry in fs::read_dir(&directory).map_err(fail)? {
            fs::remove_file(entry.map_err(fail)?.path()).map_err(fail)?;
        }
        Ok(())
    }
}

/// A file that goes when this does; a file that got its own name by a link keeps that.
struct Staged {
    path: PathBuf,
}

impl Drop for Staged {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove; what remains otherwise is cleared at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Counts and checksums what is read through it.
struct Checksummed<R> {
    inner: R,
    size_bytes: u64,
    hasher: crc32fast::Hasher,
}

impl<R: Read> Checksummed<R> {
    fn new(inner: R) -> Self {
        Checksummed { inner, size_bytes: 0, hasher: crc32fast::Hasher::new() }
    }

    fn content(&self) -> Content {
        Content { size_bytes: self.size_bytes, crc32: self.hasher.clone().finalize() }
    }
}

impl<R: Read> Read for Checksummed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..n]);
        self.size_bytes += n as u64;
        Ok(n)
    }
}

fn copy_all(source: &mut dyn Read, target: &mut dyn Write) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BUFFER_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => target.write_all(&buffer[..n])?,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn content_of(path: &Path) -> io::Result<Content> {
    let mut source = Checksummed::new(File::open(path)?);
    copy_all(&mut source, &mut io::sink())?;
    Ok(source.content())
}

/// Whether a link failed because there are none here (other file system, or one without links).
fn cannot_link(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EXDEV | libc::EPERM | libc::ENOTSUP | libc::EMLINK | libc::ENOSYS))
}

/// Tries `name` again after making the directory of `target`, as often as someone else removes it in between.
fn with_directories(target: &Path, name: impl Fn() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..8 {
        match name() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                create_directories(parent_of(target)).map_err(|e| io::Error::other(e.to_string()))?;
            }
            result => return result,
        }
    }
    name()
}

fn parent_of(path: &Path) -> &Path {
    path.parent().expect("every object is below the root")
}

/// Makes a directory and those above it, each durable before anything is put in it.
fn create_directories(directory: &Path) -> StorageResult<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let above = directory.parent().filter(|p| !p.as_os_str().is_empty());
    if let Some(above) = above {
        create_directories(above)?;
    }
    match fs::create_dir(directory) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        Err(e) => return Err(StorageError::file("create", directory, e)),
    }
    above.map_or(Ok(()), sync_file)
}

fn sync_parent(path: &Path) -> StorageResult<()> {
    sync_file(parent_of(path))
}

/// Syncs a file or a directory.
fn sync_file(path: &Path) -> StorageResult<()> {
    File::open(path).and_then(|f| f.sync_all()).map_err(|e| StorageError::file("sync", path, e))
}
