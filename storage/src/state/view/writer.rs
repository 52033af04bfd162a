//! The writing side of a view: applies, completes, flushes.

use super::layer::{Change, Layer};
use super::layout::Layout;
use super::recent::Recent;
use super::scan::stored_count;
use super::{Generation, Generations, ViewReader, ViewShared};
use crate::error::{StorageError, StorageResult};
use crate::state::FlushStats;
use crate::state::database::{BatchWriter, Database, counter_key, counter_value, stored_key};
use crate::state::directory::StoredTable;
use crate::state::known_keys::{self, KnownKeys};
use crate::state::slot_index::SlotIndex;
use arrow::datatypes::SchemaRef;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use thalweg_catalog::hash::hash_bytes;
use thalweg_catalog::{Delta, Epoch, VNode};
use tokio::sync::watch;

/// The state of the writing side.
pub(crate) struct Writer {
    pub(super) layout: Arc<Layout>,
    pub(super) database: Arc<Database>,
    table: Arc<StoredTable>,
    shared: Arc<ViewShared>,
    completed: watch::Sender<Epoch>,
    /// What has changed since the last flush.
    pub(super) current: Recent,
    /// What had changed before it: stored by now, but keys that change often are found here without a read.
    pub(super) previous: Recent,
    /// How many rows there are, with what is not yet complete.
    pub(super) rows: i64,
    /// Nothing is stored: what has not changed is not there.
    pub(super) blank: bool,
    /// With a key: what may be stored. None if the view was restored: anything may.
    pub(super) stored_keys: Option<KnownKeys>,
    pub(super) unmatched: u64,
    /// With a key: the input needs no comparing with what is stored.
    pub(super) trusted: bool,
}

impl Writer {
    pub(super) fn open(
        database: Arc<Database>,
        table: Arc<StoredTable>,
        schema: SchemaRef,
        key: &[usize],
    ) -> StorageResult<Writer> {
        let layout = Arc::new(Layout::new(&table, schema, key)?);
        let blank = database.is_empty(table.table_id)?;
        let (rows, base) = database.view_counter(table.table_id)?;
        let current = Generation::new(base, database.snapshot()?, blank);
        let generations = RwLock::new(Generations { current, previous: None, older: Vec::new() });
        let shared = Arc::new(ViewShared { layout: Arc::clone(&layout), generations, rows: AtomicI64::new(rows) });
        Ok(Writer {
            layout,
            database,
            table,
            shared,
            completed: watch::Sender::new(base),
            current: Recent::default(),
            previous: Recent::default(),
            rows,
            blank,
            stored_keys: blank.then(KnownKeys::default),
            unmatched: 0,
            trusted: false,
        })
    }

    pub(super) fn stored(&self) -> Arc<StoredTable> {
        Arc::clone(&self.table)
    }

    pub(super) fn reader(&self) -> ViewReader {
        ViewReader { shared: Arc::clone(&self.shared), completed: self.completed.subscribe() }
    }

    pub(super) fn unmatched_deletes(&self) -> u64 {
        self.unmatched
    }

    pub(super) fn apply(&mut self, epoch: Epoch, deltas: &[Delta]) -> StorageResult<Delta> {
        if epoch <= *self.completed.borrow() && deltas.iter().any(|d| !d.is_empty()) && !self.is_new() {
            return Err(StorageError::Shape {
                table: self.table.path(),
                reason: format!("changes of epoch {epoch} come after it has been completed"),
            });
        }
        let all = Delta::concat(self.layout.schema(), deltas)?;
        if all.is_empty() {
            return Ok(Delta::empty(Arc::clone(self.layout.schema())));
        }
        if self.layout.keyed { self.apply_keyed(epoch, &all) } else { self.apply_multiset(epoch, &all) }
    }

    /// Nothing has ever been completed.
    fn is_new(&self) -> bool {
        *self.completed.borrow() == Epoch::default()
    }

    /// Shows a finished layer to readers, who look at it once its epoch is complete.
    pub(super) fn publish(&mut self, layer: Layer) {
        if layer.len() > 0 {
            let layer = layer.finish();
            self.current.layers.push(Arc::clone(&layer));
            self.shared.generations.read().current.layers.write().push(layer);
        }
    }

    pub(super) fn complete(&mut self, epoch: Epoch) {
        self.shared.rows.store(self.rows, Ordering::Release);
        self.completed.send_if_modified(|completed| {
            let later = epoch > *completed;
            *completed = (*completed).max(epoch);
            later
        });
    }

    /// Writes the newest version of every key, and begins the next generation.
    pub(super) fn flush(&mut self) -> StorageResult<FlushStats> {
        let epoch = *self.completed.borrow();
        if self.current.layers.iter().any(|layer| layer.epoch() > epoch) {
            return Err(StorageError::Shape {
                table: self.table.path(),
                reason: format!("a flush came before the epoch after {epoch} was complete"),
            });
        }
        // Between the last change and the completed epoch there was none: the new generation can be read from there on.
        let Some(base) = self.current.layers.last().map(|layer| layer.epoch()) else {
            self.refresh()?;
            return Ok(FlushStats::default());
        };
        let database = Arc::clone(&self.database);
        let mut writer = BatchWriter::new(&database);
        if self.layout.keyed {
            self.write_keyed(&mut writer)?
        } else {
            self.write_multiset(&mut writer)?
        }
        writer.put_stored(&counter_key(self.layout.table_id), &counter_value(self.rows, base))?;
        let stats = writer.finish()?;
        self.shared.rows.store(self.rows, Ordering::Release);
        self.blank = database.is_empty(self.layout.table_id)?;
        self.previous = std::mem::take(&mut self.current);
        self.begin(Generation::new(base, database.snapshot()?, self.blank));
        Ok(stats)
    }

    /// With nothing to write, only lets go of the old snapshot: it would keep old versions of every other table's keys.
    fn refresh(&mut self) -> StorageResult<()> {
        let snapshot = self.database.snapshot()?;
        self.previous = Recent::default();
        let mut generations = self.shared.generations.write();
        generations.previous = None;
        if !Arc::ptr_eq(&generations.current.snapshot, &snapshot) {
            let (base, blank) = (generations.current.base, self.blank);
            generations.current = Generation::new(base, snapshot, blank);
        }
        Ok(())
    }

    fn begin(&mut self, next: Arc<Generation>) {
        let mut generations = self.shared.generations.write();
        generations.older.retain(|generation| generation.strong_count() > 0);
        if let Some(previous) = &generations.previous {
            let previous: Weak<Generation> = Arc::downgrade(previous);
            generations.older.push(previous);
        }
        let previous = std::mem::replace(&mut generations.current, Arc::clone(&next));
        previous.last.get_or_init(|| next.base);
        generations.previous = Some(previous);
    }

    fn write_keyed(&mut self, writer: &mut BatchWriter<'_>) -> StorageResult<()> {
        for (hash, key, value) in self.current.versions() {
            let vnode = VNode::of_hash(hash);
            match value {
                Some(value) => {
                    if let Some(stored) = &mut self.stored_keys {
                        stored.insert(hash);
                    }
                    writer.put(self.layout.table_id, vnode, key, &[], value)?;
                }
                // A key that came and went since the last flush is deleted in vain; to find that out would cost more.
                None => writer.delete(self.layout.table_id, vnode, key, &[])?,
            }
        }
        Ok(())
    }

    /// Adds up each row's counts. Rows that only came are written without being read; of those that went, the stored count tells
    /// whether any is left.
    fn write_multiset(&mut self, writer: &mut BatchWriter<'_>) -> StorageResult<()> {
        let table = self.layout.table_id;
        let mut less = Vec::new();
        for (key, sum) in self.sum_counts() {
            let (vnode, bare) = split_vnode(key);
            match sum {
                sum if sum > 0 && self.blank => writer.put(table, vnode, bare, &[], &sum.to_le_bytes())?,
                sum if sum > 0 => writer.add(table, vnode, bare, sum)?,
                sum if sum < 0 => less.push((stored_key(table, vnode, bare, &[]), sum)),
                _ => {}
            }
        }
        let (keys, sums): (Vec<_>, Vec<_>) = less.into_iter().unzip();
        self.database.get_many(&keys, None, |place, value| {
            let left = value.map_or(Ok(0), stored_count)? + sums[place];
            if left < 0 {
                self.unmatched += left.unsigned_abs();
                self.rows -= left;
            }
            if left > 0 { writer.put_stored(&keys[place], &left.to_le_bytes()) } else { writer.delete_stored(&keys[place]) }
        })
    }

    /// Each changed row (with its vnode), and its changes added up.
    fn sum_counts(&self) -> Vec<(&[u8], i64)> {
        let layers = &self.current.layers;
        let mut index = SlotIndex::with_capacity(layers.iter().map(|l| l.len()).sum());
        let mut sums: Vec<(&[u8], i64)> = Vec::new();
        for layer in layers {
            for row in 0..layer.len() {
                let (Change::Count(count), key) = (layer.change(row), layer.key(row)) else { continue };
                let hash = hash_bytes(key);
                match index.find(hash, |slot| sums[slot as usize].0 == key) {
                    Some(slot) => sums[slot as usize].1 += count,
                    None => {
                        index.insert(hash, sums.len() as u32, |slot| hash_bytes(sums[slot as usize].0));
                        sums.push((key, count));
                    }
                }
            }
        }
        sums
    }

    pub(super) fn evict(&mut self, bytes: usize) {
        known_keys::within(&mut self.stored_keys, bytes);
        if self.memory_bytes() > bytes {
            self.previous = Recent::default();
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let layers = |layers: &[Arc<Layer>]| layers.iter().map(|layer| layer.memory_bytes()).sum::<usize>();
        let previous = self.shared.generations.read().previous.as_ref().map_or(0, |g| layers(&g.layers.read()));
        layers(&self.current.layers)
            + previous
            + self.stored_keys.as_ref().map_or(0, KnownKeys::memory_bytes)
            + self.current.index_bytes()
            + self.previous.index_bytes()
    }

    pub(super) fn hot_entries(&self) -> usize {
        self.current.layers.iter().map(|layer| layer.len()).sum()
    }
}

/// A layer's key in its two parts.
fn split_vnode(key: &[u8]) -> (VNode, &[u8]) {
    let (vnode, bare) = key.split_at(size_of::<VNode>());
    (VNode(u16::from_be_bytes([vnode[0], vnode[1]])), bare)
}
