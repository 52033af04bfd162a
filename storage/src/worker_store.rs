//! The database of one worker: opened, frozen, copied for a checkpoint, filled from others after a rescale.
//!
//! One RocksDB instance for each worker, used by its thread; other threads read through [`StoreReader`] and views. It has no
//! write-ahead log: a checkpoint flushes it and links its files into a directory, and that is what survives.
//!
//! Between a checkpoint's first flush and its copy the store is frozen: an operator that is ahead of the checkpoint's epoch
//! must not have its later state written, so eviction then drops only what is clean.

use crate::error::{StorageError, StorageResult};
use crate::state::{
    BatchWriter, COLUMN_FAMILY, Database, FlushStats, OperatorState, PREFIX_BYTES, ROWS, StateTables, StoreReader, StoredTable,
    TableKind, TableScan, TableStatistics, counter_key, counter_value, damaged, directory_key, vnode_of,
};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType, LogLevel, MergeOperands,
    Options, WriteBufferManager,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use thalweg_catalog::{ObjectId, VNode};

/// How a worker's database is set up.
#[derive(Clone, Copy, Debug)]
pub struct WorkerStoreOptions {
    /// What its block cache and write buffers take together, in bytes. Operators' hot state comes on top.
    pub memory_bytes: usize,
    /// How many files it keeps open.
    pub open_files_max: i32,
    /// How many threads flush and compact in the background.
    pub background_threads: i32,
}

impl Default for WorkerStoreOptions {
    fn default() -> WorkerStoreOptions {
        WorkerStoreOptions { memory_bytes: 64 << 20, open_files_max: 256, background_threads: 2 }
    }
}

/// One worker's database. Cheap to clone; not `Send`.
#[derive(Clone)]
pub struct WorkerStore {
    database: Arc<Database>,
    frozen: Rc<Cell<bool>>,
    states: Rc<RefCell<Vec<Weak<StateTables>>>>,
}

fn database_error(action: &'static str) -> impl Fn(rocksdb::Error) -> StorageError {
    move |source| StorageError::Database { action, source }
}

/// Counts add up: the only values that are merged are the row counts of multisets.
fn add_counts(_: &[u8], existing: Option<&[u8]>, more: &MergeOperands) -> Option<Vec<u8>> {
    let number = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).map(i64::from_le_bytes).ok();
    let start = existing.map_or(Some(0), number)?;
    let sum = more.iter().try_fold(start, |sum, operand| sum.checked_add(number(operand)?))?;
    Some(sum.to_le_bytes().to_vec())
}

/// Values from this size on go to blob files, of the column family of rows.
const BLOB_BYTES_MIN: u64 = 64;
/// What share of the blob files, the oldest, is written anew when keys that point there are merged: what is no longer pointed to goes, and
/// small files become large ones.
const BLOB_REWRITTEN: f64 = 0.1;
/// Values are in blob files from this level on: what a checkpoint writes each second is small, and would be as many files.
const BLOB_LEVEL: (&str, &str) = ("blob_file_starting_level", "1");

/// The options of the column family of rows.
fn rows_options(general: &Options) -> Options {
    let mut rows = general.clone();
    rows.set_enable_blob_files(true);
    rows.set_min_blob_size(BLOB_BYTES_MIN);
    rows.set_blob_file_size(64 << 20);
    rows.set_blob_compression_type(DBCompressionType::Lz4);
    rows.set_enable_blob_gc(true);
    rows.set_blob_gc_age_cutoff(BLOB_REWRITTEN);
    rows
}

/// The options of the database as a whole and of the column family of all but rows.
fn rocksdb_options(options: &WorkerStoreOptions) -> Options {
    let cache = Cache::new_lru_cache(options.memory_bytes);
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&cache);
    blocks.set_bloom_filter(10.0, false);
    blocks.set_whole_key_filtering(true);
    // Indexes and filters are in the cache too, so that the budget holds however much there is on disk.
    blocks.set_cache_index_and_filter_blocks(true);
    blocks.set_cache_index_and_filter_blocks_with_high_priority(true);
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(true);
    // In pieces: a whole filter of half a megabyte read for one key would push everything else out of a small cache.
    blocks.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    blocks.set_partition_filters(true);
    blocks.set_metadata_block_size(4 << 10);
    blocks.set_pin_top_level_index_and_filter(true);
    blocks.set_block_size(4 << 10);
    blocks.set_format_version(5);

    // Write buffers are charged to the cache. They take a quarter of it at most, in pieces that allow one to be written out
    // while the next is filled.
    let buffers = options.memory_bytes / 4;
    let mut rocksdb = Options::default();
    rocksdb.set_write_buffer_manager(&WriteBufferManager::new_write_buffer_manager_with_cache(buffers, false, cache));
    rocksdb.set_write_buffer_size((buffers / 2).clamp(1 << 20, 64 << 20));
    rocksdb.set_max_write_buffer_number(3);
    rocksdb.create_if_missing(true);
    rocksdb.create_missing_column_families(true);
    rocksdb.set_block_based_table_factory(&blocks);
    // The first level is written anew soon: compressing it would cost more than it saves.
    rocksdb.set_compression_per_level(&[DBCompressionType::None, DBCompressionType::Lz4]);
    rocksdb.set_level_zero_file_num_compaction_trigger(8);
    rocksdb.set_level_compaction_dynamic_level_bytes(true);
    rocksdb.set_target_file_size_base(16 << 20);
    rocksdb.set_max_bytes_for_level_base(64 << 20);
    rocksdb.set_merge_operator_associative("thalweg.count", add_counts);
    rocksdb.set_max_background_jobs(options.background_threads);
    rocksdb.set_max_open_files(options.open_files_max);
    // A checkpoint copies the manifest, where all else is linked: keep it short.
    rocksdb.set_max_manifest_file_size(256 << 10);
    rocksdb.set_keep_log_file_num(2);
    rocksdb.set_max_log_file_size(1 << 20);
    rocksdb.set_log_level(LogLevel::Warn);
    rocksdb.set_stats_dump_period_sec(0);
    rocksdb.set_stats_persist_period_sec(0);
    rocksdb
}

/// Makes copies of a worker's database.
pub struct StoreCopier {
    database: Arc<Database>,
}

impl StoreCopier {
    /// Puts a copy of the database, as it is now, into a directory that must not exist yet and is on the same file system: files are
    /// linked, not copied. The copy can be opened, and opened by [`WorkerStore::import_from`]. What is in the database's memory is written out
    /// first, which takes a while: nothing that must not be in the copy may be written until then.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn copy(&self, directory: &Path) -> StorageResult<()> {
        let Some(db) = self.database.raw_if_open() else {
            return std::fs::create_dir(directory).map_err(|e| StorageError::file("create", directory, e));
        };
        self.database.flush()?;
        let checkpoint = Checkpoint::new(db).map_err(database_error("begin a checkpoint"))?;
        checkpoint.create_checkpoint(directory).map_err(database_error("write a checkpoint"))
    }
}

impl WorkerStore {
    /// Opens the database in this directory, which is made if it is not there, when the first table is asked for.
    ///
    /// # Errors
    /// If RocksDB can't open it, or it is not one of ours.
    pub fn open(path: &Path, options: WorkerStoreOptions) -> StorageResult<WorkerStore> {
        let general = rocksdb_options(&options);
        let rows = rows_options(&general);
        let is_new = !path.join("CURRENT").exists();
        let path = path.to_path_buf();
        let open = move || {
            let families = [(COLUMN_FAMILY, general.clone()), (ROWS, rows.clone())];
            let families = families.map(|(name, options)| ColumnFamilyDescriptor::new(name, options));
            let db = DB::open_cf_descriptors(&general, &path, families).map_err(database_error("open"))?;
            if let Some(rows) = db.cf_handle(ROWS) {
                db.set_options_cf(rows, &[BLOB_LEVEL]).map_err(database_error("set up"))?;
            }
            Ok(db)
        };
        Ok(WorkerStore {
            database: Database::new(Box::new(open), is_new)?,
            frozen: Rc::new(Cell::new(false)),
            states: Rc::new(RefCell::new(Vec::new())),
        })
    }

    /// The state of an operator. The path tells it from the job's other operators, in this release and the next.
    pub fn operator_state(&self, job: ObjectId, operator_path: &str) -> OperatorState {
        let state = OperatorState::new(Arc::clone(&self.database), job, operator_path, Rc::clone(&self.frozen));
        let mut states = self.states.borrow_mut();
        states.retain(|state| state.strong_count() > 0);
        states.push(Rc::downgrade(state.tables()));
        state
    }

    /// Deletes all that a job has stored. Its operators must be gone: what they still flushed would stay behind.
    ///
    /// # Errors
    /// If the database refuses.
    pub fn drop_job(&self, job: ObjectId) -> StorageResult<()> {
        let gone = self.database.directory.write().remove_job(job);
        if gone.is_empty() {
            return Ok(());
        }
        gone.iter().try_for_each(|table| self.database.delete_table(table.table_id))?;
        self.database.write(|batch| {
            for table in &gone {
                batch.delete(counter_key(table.table_id));
                batch.delete(directory_key(&table.path()));
            }
        })
    }

    /// Begins a checkpoint: until [`thaw`](Self::thaw), only flushes write.
    pub fn freeze(&self) {
        self.frozen.set(true);
    }

    /// Ends what [`freeze`](Self::freeze) began.
    pub fn thaw(&self) {
        self.frozen.set(false);
    }

    /// Whether a checkpoint is under way.
    pub fn is_frozen(&self) -> bool {
        self.frozen.get()
    }

    /// What makes copies of the database, on any thread.
    pub fn copier(&self) -> StoreCopier {
        StoreCopier { database: Arc::clone(&self.database) }
    }

    /// Copies the database: see [`StoreCopier::copy`].
    ///
    /// # Errors
    /// If the database refuses.
    pub fn checkpoint(&self, directory: &Path) -> StorageResult<()> {
        self.copier().copy(directory)
    }

    /// Copies what another worker has stored, of the vnodes that `keep` picks. The number of workers has changed, and each takes from
    /// all former ones what is now its share. To be called before any operator state is opened.
    ///
    /// # Errors
    /// If the other database can't be read, or has a table of the same name in another shape.
    pub fn import_from(&self, other: &Path, keep: impl Fn(VNode) -> bool) -> StorageResult<FlushStats> {
        let options = rocksdb_options(&WorkerStoreOptions::default());
        let other = other.to_path_buf();
        let open = move || {
            let families = [COLUMN_FAMILY, ROWS].map(|name| ColumnFamilyDescriptor::new(name, options.clone()));
            DB::open_cf_descriptors_read_only(&options, &other, families, false).map_err(database_error("open"))
        };
        let from = Database::new(Box::new(open), false)?;
        let tables = from.directory.read().tables().cloned().collect::<Vec<_>>();
        let mut total = FlushStats::default();
        for table in tables {
            let own = self.database.register((*table).clone())?;
            let copied = self.import_table(&from, &table, &own, &keep)?;
            total.entries += copied.entries;
            total.bytes += copied.bytes;
        }
        Ok(total)
    }

    fn import_table(
        &self,
        from: &Database,
        theirs: &StoredTable,
        own: &StoredTable,
        keep: &impl Fn(VNode) -> bool,
    ) -> StorageResult<FlushStats> {
        let mut writer = BatchWriter::new(&self.database);
        let mut rows = 0;
        from.scan_prefix(&theirs.table_id.to_be_bytes(), |stored, value| {
            let vnode = vnode_of(stored)?;
            if keep(vnode) {
                let rest = &stored[PREFIX_BYTES..];
                writer.put(own.table_id, vnode, rest, &[], value)?;
                rows += match own.kind {
                    TableKind::Multiset => {
                        let bytes = <[u8; 8]>::try_from(value).map_err(|_| damaged("a count of rows does not have 8 bytes"))?;
                        i64::from_le_bytes(bytes)
                    }
                    _ => 1,
                };
            }
            Ok(true)
        })?;
        if matches!(own.kind, TableKind::View | TableKind::Multiset) {
            let (_, epoch) = from.view_counter(theirs.table_id)?;
            let (before, own_epoch) = self.database.view_counter(own.table_id)?;
            let counter = counter_value(before + rows, epoch.max(own_epoch));
            writer.put_stored(&counter_key(own.table_id), &counter)?;
        }
        writer.finish()
    }

    /// Reads state tables, also from other threads.
    pub fn reader(&self) -> StoreReader {
        StoreReader::new(Arc::clone(&self.database))
    }

    /// All tables, by job, operator and name.
    pub fn tables(&self) -> Vec<Arc<StoredTable>> {
        self.reader().tables()
    }

    /// What a table holds, as of the last flush.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn scan_table(&self, table_id: u32) -> StorageResult<TableScan> {
        self.reader().scan_table(table_id)
    }

    /// What each table of each operator holds in memory.
    pub fn statistics(&self) -> Vec<TableStatistics> {
        self.states.borrow().iter().filter_map(Weak::upgrade).flat_map(|state| state.statistics()).collect()
    }

    /// The memory that operators' tables hold, by job, in bytes.
    pub fn memory_bytes(&self) -> HashMap<ObjectId, usize> {
        let mut jobs = HashMap::new();
        for state in self.states.borrow().iter().filter_map(Weak::upgrade) {
            *jobs.entry(state.job()).or_default() += state.statistics().iter().map(|t| t.memory_bytes).sum::<usize>();
        }
        jobs
    }

    /// The memory that the database itself holds: block cache with write buffers, in bytes.
    pub fn database_bytes(&self) -> usize {
        let property = |db: &DB, name: &str| db.property_int_value(name).ok().flatten().unwrap_or(0) as usize;
        self.database.raw_if_open().map_or(0, |db| property(db, "rocksdb.block-cache-usage"))
    }
}

#[cfg(test)]
mod tests;
