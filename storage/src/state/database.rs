//! The worker's RocksDB and the form of what is stored in it.
//!
//! A stored key is: table id (u32, big-endian), vnode (u16, big-endian), the key's bytes, and for a sorted table the number of the entry. So
//! a table is one range, and a vnode of a table too. Table 0 is the directory, table 1 holds counters. There is no write-ahead
//! log: what makes state durable is the checkpoint, and what was written after it is computed again.
//!
//! Sorted tables have a column family of their own, [`ROWS`]: their values are whole rows, which go to blob files when they are merged
//! for the first time, and are not moved again with each merge of their keys. All else is in [`COLUMN_FAMILY`], where scans are faster.

use super::directory::{Directory, StoredTable, TableEntry};
use crate::error::{ROCKSDB_DISK_FULL, StorageError, StorageResult};
use parking_lot::{Mutex, RwLock};
use rocksdb::{ColumnFamily, DB, DBPinnableSlice, DBRawIterator, FlushOptions, ReadOptions, Snapshot, WriteBatch, WriteOptions};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use thalweg_catalog::{Epoch, VNode};

/// Where the directory of tables is kept.
pub(crate) const DIRECTORY_TABLE: u32 = 0;
/// Where row counts are kept, by table id.
pub(crate) const COUNTER_TABLE: u32 = 1;
/// The first id that is given to a table.
pub(crate) const FIRST_TABLE: u32 = 16;
/// Table id and vnode.
pub(crate) const PREFIX_BYTES: usize = 6;
/// A write to the database is cut at about this many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// How many keys are read at once.
const READ_KEYS: usize = 1024;

/// The name of the column family of all but sorted tables: `rocksdb` reads in batches only from a named one.
pub(crate) const COLUMN_FAMILY: &str = "default";
/// The name of the column family of sorted tables.
pub(crate) const ROWS: &str = "rows";
/// The bit that the ids of sorted tables have, and no others.
pub(crate) const ROWS_BIT: u32 = 1 << 31;

/// Opens RocksDB.
pub(crate) type Opener = Box<dyn Fn() -> StorageResult<DB> + Send>;

/// One worker's database, used by its thread for writing and by any thread for reading.
pub(crate) struct Database {
    /// Empty until the first table: a process without any is spared RocksDB's files and threads.
    db: OnceLock<DB>,
    opener: Mutex<Opener>,
    pub(crate) directory: RwLock<Directory>,
    /// Counts writes, so that a snapshot can be shared while there are none.
    writes: AtomicU64,
    shared: RwLock<Option<(u64, Weak<OwnedSnapshot>)>>,
}

/// The bytes of a stored key.
pub(crate) fn stored_key(table: u32, vnode: VNode, key: &[u8], sub: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(PREFIX_BYTES + key.len() + sub.len());
    push_stored_key(&mut stored, table, vnode, key, sub);
    stored
}

/// Puts a stored key at the end of a buffer.
#[inline]
fn push_stored_key(stored: &mut Vec<u8>, table: u32, vnode: VNode, key: &[u8], sub: &[u8]) {
    stored.extend_from_slice(&table.to_be_bytes());
    stored.extend_from_slice(&vnode.0.to_be_bytes());
    stored.extend_from_slice(key);
    stored.extend_from_slice(sub);
}

/// The first stored key that is greater than all that start with `prefix`; none if there is no such.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let kept = prefix.iter().rposition(|b| *b != u8::MAX)?;
    let mut after = prefix[..=kept].to_vec();
    after[kept] += 1;
    Some(after)
}

/// The vnode of a stored key.
pub(crate) fn vnode_of(stored: &[u8]) -> StorageResult<VNode> {
    match stored.get(4..PREFIX_BYTES) {
        Some(bytes) => Ok(VNode(u16::from_be_bytes([bytes[0], bytes[1]]))),
        None => Err(damaged("a stored key is too short to have a vnode")),
    }
}

/// What is found in the database is not what we write there.
pub(crate) fn damaged(reason: impl Into<String>) -> StorageError {
    StorageError::Corrupt { path: "the state database".to_string(), reason: reason.into() }
}

/// How long to wait until the disk is looked at again.
const DISK_FULL_WAIT: Duration = Duration::from_millis(500);

fn failed(action: &'static str) -> impl Fn(rocksdb::Error) -> StorageError {
    move |source| StorageError::Database { action, source }
}

impl Database {
    /// A database that is opened when it is needed; at once unless it `is_new`, to read its directory.
    pub(crate) fn new(opener: Opener, is_new: bool) -> StorageResult<Arc<Database>> {
        let database = Database {
            db: OnceLock::new(),
            opener: Mutex::new(opener),
            directory: RwLock::new(Directory::default()),
            writes: AtomicU64::new(0),
            shared: RwLock::new(None),
        };
        if is_new {
            return Ok(Arc::new(database));
        }
        let mut entries = Vec::new();
        database.scan_prefix(&DIRECTORY_TABLE.to_be_bytes(), |key, value| {
            entries.push(TableEntry::from_json(&key[4..], value)?);
            Ok(true)
        })?;
        *database.directory.write() = Directory::new(entries)?;
        Ok(Arc::new(database))
    }

    /// The table of this name, with an id; written down if it is new. `wanted.table_id` is ignored.
    pub(crate) fn register(&self, wanted: TableEntry) -> StorageResult<Arc<StoredTable>> {
        let registered = self.directory.write().register(wanted)?;
        if registered.changed {
            let (key, entry) = (directory_key(&registered.table.path()), registered.table.to_json()?);
            self.write(|batch| batch.put(&key, &entry))?;
        }
        Ok(registered.table)
    }

    /// RocksDB's own handle; opens the database if it is not open yet.
    pub(crate) fn raw(&self) -> StorageResult<&DB> {
        if let Some(db) = self.db.get() {
            return Ok(db);
        }
        let open = self.opener.lock();
        if let Some(db) = self.db.get() {
            return Ok(db);
        }
        let db = open()?;
        Ok(self.db.get_or_init(|| db))
    }

    /// RocksDB's own handle, if the database is open.
    pub(crate) fn raw_if_open(&self) -> Option<&DB> {
        self.db.get()
    }

    /// The column family that these stored keys, or prefixes of them, are in.
    fn family(&self, stored: &[u8]) -> StorageResult<&ColumnFamily> {
        let in_rows = stored.first().is_some_and(|first| u32::from(*first) & (ROWS_BIT >> 24) != 0);
        self.named(if in_rows { ROWS } else { COLUMN_FAMILY })
    }

    fn named(&self, name: &str) -> StorageResult<&ColumnFamily> {
        self.raw()?.cf_handle(name).ok_or_else(|| damaged(format!("the column family {name} is missing")))
    }

    /// Writes out what is in the database's memory.
    pub(crate) fn flush(&self) -> StorageResult<()> {
        let families = [self.named(COLUMN_FAMILY)?, self.named(ROWS)?];
        self.raw()?.flush_cfs_opt(&[&families[0], &families[1]], &FlushOptions::default()).map_err(failed("flush"))
    }

    /// Deletes all that a table has stored.
    pub(crate) fn delete_table(&self, table: u32) -> StorageResult<()> {
        let (start, end) = (table.to_be_bytes(), (table + 1).to_be_bytes());
        let family = self.family(&start)?;
        self.write(|batch| batch.delete_range_cf(family, start, end))
    }

    /// Writes the batch that `fill` makes, without a log. Waits while the disk is full, and has it made again then: what is in it is
    /// nowhere else, and nobody who needs state could go on.
    pub(crate) fn write(&self, fill: impl Fn(&mut WriteBatch)) -> StorageResult<()> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        loop {
            let mut batch = WriteBatch::default();
            fill(&mut batch);
            match self.raw()?.write_opt(batch, &options) {
                Err(error) if error.as_ref().contains(ROCKSDB_DISK_FULL) => {
                    tracing::error!(%error, "the disk with the state is full; waiting for room");
                    std::thread::sleep(DISK_FULL_WAIT);
                }
                written => {
                    self.writes.fetch_add(1, Ordering::Release);
                    return written.map_err(failed("write"));
                }
            }
        }
    }

    /// Reads a key, not of a sorted table.
    pub(crate) fn get(&self, key: &[u8]) -> StorageResult<Option<DBPinnableSlice<'_>>> {
        self.raw()?.get_pinned(key).map_err(failed("read a key"))
    }

    /// Reads many keys, none of sorted tables, and gives each place with what was found.
    pub(crate) fn get_many(
        &self,
        keys: &[Vec<u8>],
        snapshot: Option<&OwnedSnapshot>,
        mut found: impl FnMut(usize, Option<&[u8]>) -> StorageResult<()>,
    ) -> StorageResult<()> {
        let family = self.named(COLUMN_FAMILY)?;
        let mut options = ReadOptions::default();
        if let Some(snapshot) = snapshot {
            options.set_snapshot(&snapshot.snapshot);
        }
        for (piece, keys) in keys.chunks(READ_KEYS).enumerate() {
            let values = self.raw()?.batched_multi_get_cf_opt(family, keys, false, &options);
            for (place, value) in values.into_iter().enumerate() {
                let value = value.map_err(failed("read keys"))?;
                found(piece * READ_KEYS + place, value.as_deref())?;
            }
        }
        Ok(())
    }

    /// Visits what is stored under a prefix, in order, until the visitor returns false.
    pub(crate) fn scan_prefix(&self, prefix: &[u8], visit: impl FnMut(&[u8], &[u8]) -> StorageResult<bool>) -> StorageResult<()> {
        self.scan_from(prefix, prefix, None, visit)
    }

    /// Like `scan_prefix`, from `start` on, at a snapshot if one is given.
    pub(crate) fn scan_from(
        &self,
        prefix: &[u8],
        start: &[u8],
        snapshot: Option<&OwnedSnapshot>,
        mut visit: impl FnMut(&[u8], &[u8]) -> StorageResult<bool>,
    ) -> StorageResult<()> {
        let mut iterator = self.iterator(prefix, snapshot)?;
        iterator.seek(start);
        while let Some((key, value)) = iterator.item() {
            if !visit(key, value)? {
                return Ok(());
            }
            iterator.next();
        }
        iterator.status().map_err(failed("scan"))
    }

    fn iterator(&self, prefix: &[u8], snapshot: Option<&OwnedSnapshot>) -> StorageResult<DBRawIterator<'_>> {
        let mut options = ReadOptions::default();
        if let Some(snapshot) = snapshot {
            options.set_snapshot(&snapshot.snapshot);
        }
        options.set_iterate_lower_bound(prefix);
        if let Some(end) = after_prefix(prefix) {
            options.set_iterate_upper_bound(end);
        }
        Ok(self.raw()?.raw_iterator_cf_opt(self.family(prefix)?, options))
    }

    /// Whether a table has no entries.
    pub(crate) fn is_empty(&self, table: u32) -> StorageResult<bool> {
        let mut empty = true;
        self.scan_prefix(&table.to_be_bytes(), |_, _| {
            empty = false;
            Ok(false)
        })?;
        Ok(empty)
    }

    /// How many rows a view has stored, and as of which epoch.
    pub(crate) fn view_counter(&self, table: u32) -> StorageResult<(i64, Epoch)> {
        match self.get(&counter_key(table))? {
            None => Ok((0, Epoch::default())),
            Some(value) => match <[u8; 16]>::try_from(&*value).map(u128::from_le_bytes) {
                Ok(both) => Ok((both as u64 as i64, Epoch((both >> 64) as u64))),
                Err(_) => Err(damaged("a counter does not have 16 bytes")),
            },
        }
    }

    /// What is stored now, whatever is written later.
    pub(crate) fn snapshot(self: &Arc<Database>) -> StorageResult<Arc<OwnedSnapshot>> {
        let writes = self.writes.load(Ordering::Acquire);
        if let Some((at, snapshot)) = &*self.shared.read()
            && *at == writes
            && let Some(snapshot) = snapshot.upgrade()
        {
            return Ok(snapshot);
        }
        let snapshot = Arc::new(OwnedSnapshot::new(self)?);
        *self.shared.write() = Some((writes, Arc::downgrade(&snapshot)));
        Ok(snapshot)
    }
}

/// Where the directory entry of a table is kept.
pub(crate) fn directory_key(path: &str) -> Vec<u8> {
    [DIRECTORY_TABLE.to_be_bytes().as_slice(), path.as_bytes()].concat()
}

/// A view's row count and epoch as they are stored.
pub(crate) fn counter_value(rows: i64, epoch: Epoch) -> [u8; 16] {
    (u128::from(epoch.0) << 64 | u128::from(rows as u64)).to_le_bytes()
}

/// Where the counter of a table is kept.
pub(crate) fn counter_key(table: u32) -> [u8; 8] {
    let mut key = [0; 8];
    key[..4].copy_from_slice(&COUNTER_TABLE.to_be_bytes());
    key[4..].copy_from_slice(&table.to_be_bytes());
    key
}

/// A snapshot that keeps its database open, so that it can be held by any thread for as long as it takes.
pub(crate) struct OwnedSnapshot {
    // Dropped before the database: fields are dropped in order.
    snapshot: Snapshot<'static>,
    database: Arc<Database>,
}

impl OwnedSnapshot {
    fn new(database: &Arc<Database>) -> StorageResult<OwnedSnapshot> {
        let database = Arc::clone(database);
        // SAFETY: the reference lives in a snapshot that is dropped before `database`, which owns what it points to at an address
        // that does not change, and that is never lent with its claimed lifetime: `database()` and reads borrow from `self`.
        let db = unsafe { &*std::ptr::from_ref(database.raw()?) };
        Ok(OwnedSnapshot { snapshot: db.snapshot(), database })
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }
}

/// Collects writes and hands them to the database some megabytes at a time, in order of their keys: the database's buffer
/// takes a key that follows the one before it at a fraction of the cost of a key anywhere.
pub(crate) struct BatchWriter<'a> {
    database: &'a Database,
    /// Keys and values, one after another.
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    pub(crate) stats: super::FlushStats,
}

/// A write that waits for its batch.
struct Waiting {
    /// The first bytes of the key, which decide the order of most.
    start: u128,
    /// Where key and value are.
    at: usize,
    key_bytes: u32,
    value_bytes: u32,
    write: Write,
}

#[derive(Clone, Copy)]
enum Write {
    Put,
    Delete,
    /// Adds to a count.
    Merge,
}

impl Waiting {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at..][..self.key_bytes as usize]
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at + self.key_bytes as usize..][..self.value_bytes as usize]
    }
}

/// The first bytes of a key as a number that orders as they do; a key that ends before is as if zeros followed.
fn start_of(key: &[u8]) -> u128 {
    let mut start = [0; size_of::<u128>()];
    let length = key.len().min(start.len());
    start[..length].copy_from_slice(&key[..length]);
    u128::from_be_bytes(start)
}

impl<'a> BatchWriter<'a> {
    pub(crate) fn new(database: &'a Database) -> BatchWriter<'a> {
        BatchWriter { database, bytes: Vec::new(), waiting: Vec::new(), stats: super::FlushStats::default() }
    }

    pub(crate) fn put(&mut self, table: u32, vnode: VNode, key: &[u8], sub: &[u8], value: &[u8]) -> StorageResult<()> {
        let at = self.begin(table, vnode, key, sub);
        self.end(at, Write::Put, value)
    }

    pub(crate) fn delete(&mut self, table: u32, vnode: VNode, key: &[u8], sub: &[u8]) -> StorageResult<()> {
        let at = self.begin(table, vnode, key, sub);
        self.end(at, Write::Delete, &[])
    }

    /// Adds to a count, which starts from 0.
    pub(crate) fn add(&mut self, table: u32, vnode: VNode, key: &[u8], count: i64) -> StorageResult<()> {
        let at = self.begin(table, vnode, key, &[]);
        self.end(at, Write::Merge, &count.to_le_bytes())
    }

    pub(crate) fn put_stored(&mut self, stored: &[u8], value: &[u8]) -> StorageResult<()> {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(stored);
        self.end(at, Write::Put, value)
    }

    pub(crate) fn delete_stored(&mut self, stored: &[u8]) -> StorageResult<()> {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(stored);
        self.end(at, Write::Delete, &[])
    }

    /// Puts a stored key where the next write's is; gives where it starts.
    fn begin(&mut self, table: u32, vnode: VNode, key: &[u8], sub: &[u8]) -> usize {
        let at = self.bytes.len();
        push_stored_key(&mut self.bytes, table, vnode, key, sub);
        at
    }

    /// Completes the write whose key starts at `at` and is the last in `bytes`.
    fn end(&mut self, at: usize, write: Write, value: &[u8]) -> StorageResult<()> {
        let key = &self.bytes[at..];
        let (start, key_bytes) = (start_of(key), key.len() as u32);
        self.bytes.extend_from_slice(value);
        self.waiting.push(Waiting { start, at, key_bytes, value_bytes: value.len() as u32, write });
        self.stats.entries += 1;
        self.stats.bytes += (self.bytes.len() - at) as u64;
        if self.bytes.len() >= BATCH_BYTES { self.hand_over() } else { Ok(()) }
    }

    fn hand_over(&mut self) -> StorageResult<()> {
        let bytes = &self.bytes;
        // Stable: writes of one key keep their order.
        self.waiting.sort_by(|a, b| a.start.cmp(&b.start).then_with(|| a.key(bytes).cmp(b.key(bytes))));
        let Some(first) = self.waiting.first() else { return Ok(()) };
        // A writer is of one table.
        let family = self.database.family(first.key(bytes))?;
        let waiting = &self.waiting;
        self.database.write(|batch| {
            for waiting in waiting {
                let (key, value) = (waiting.key(bytes), waiting.value(bytes));
                match waiting.write {
                    Write::Put => batch.put_cf(family, key, value),
                    Write::Delete => batch.delete_cf(family, key),
                    Write::Merge => batch.merge_cf(family, key, value),
                }
            }
        })?;
        self.bytes.clear();
        self.waiting.clear();
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(mut self) -> StorageResult<super::FlushStats> {
        if !self.waiting.is_empty() {
            self.hand_over()?;
        }
        Ok(self.stats)
    }
}
