//! All rows of a view at an epoch: a merge of the snapshot with the layers.

use super::layer::{ByteRows, Change, Layer};
use super::layout::Layout;
use super::{Generation, PREFIX_BYTES};
use crate::error::StorageResult;
use crate::state::database::damaged;
use arrow::array::RecordBatch;
use std::cmp::Ordering;
use std::sync::Arc;

/// How many rows a batch has at about the most.
const BATCH_ROWS: usize = 8192;

/// What the layers say of a key, all together: the place of the newest change, and for a multiset the sum of all.
struct Resolved {
    layer: u32,
    row: u32,
    count: i64,
}

/// Gives the rows in order of vnode and key. The database is read in pieces, each by an iterator of its own: the snapshot holds only
/// versions, where an open iterator would hold files.
pub(super) struct ViewScan {
    layout: Arc<Layout>,
    generation: Arc<Generation>,
    layers: Vec<Arc<Layer>>,
    columns: Vec<usize>,
    /// The layers' keys in order; none before the first batch.
    resolved: Option<Vec<Resolved>>,
    at_resolved: usize,
    /// A piece of what is stored.
    piece_keys: ByteRows,
    piece_values: ByteRows,
    at_piece: usize,
    /// Where the next piece starts; none when there is no more.
    next_piece: Option<Vec<u8>>,
    /// A row of which there are more copies than fitted into the last batch.
    copies: Option<(Vec<u8>, i64)>,
    failed: bool,
}

/// The rows of the batch that is being made.
#[derive(Default)]
struct Rows {
    keys: ByteRows,
    values: ByteRows,
}

impl ViewScan {
    pub(super) fn new(
        layout: Arc<Layout>,
        generation: Arc<Generation>,
        layers: Vec<Arc<Layer>>,
        columns: Vec<usize>,
    ) -> ViewScan {
        let next_piece = (!generation.blank).then(|| layout.table_id.to_be_bytes().to_vec());
        ViewScan {
            layout,
            generation,
            layers,
            columns,
            resolved: None,
            at_resolved: 0,
            piece_keys: ByteRows::default(),
            piece_values: ByteRows::default(),
            at_piece: 0,
            next_piece,
            copies: None,
            failed: false,
        }
    }

    /// Reads the next piece of what is stored.
    fn read_piece(&mut self) -> StorageResult<()> {
        let Some(start) = self.next_piece.take() else { return Ok(()) };
        self.piece_keys.clear();
        self.piece_values.clear();
        self.at_piece = 0;
        let snapshot = &self.generation.snapshot;
        let prefix = self.layout.table_id.to_be_bytes();
        let (keys, values, next) = (&mut self.piece_keys, &mut self.piece_values, &mut self.next_piece);
        snapshot.database().scan_from(&prefix, &start, Some(snapshot), |stored, value| {
            if keys.len() == BATCH_ROWS {
                *next = Some(stored.to_vec());
                return Ok(false);
            }
            keys.push(stored.get(prefix.len()..).unwrap_or_default());
            values.push(value);
            Ok(true)
        })
    }

    fn fill(&mut self, rows: &mut Rows) -> StorageResult<()> {
        let resolved = self.resolved.take().unwrap_or_else(|| resolve(&self.layers));
        if let Some((key, count)) = self.copies.take() {
            self.push_copies(rows, &key, count);
        }
        while rows.keys.len() < BATCH_ROWS {
            if self.at_piece == self.piece_keys.len() && self.next_piece.is_some() {
                self.read_piece()?;
            }
            let stored = (self.at_piece < self.piece_keys.len()).then(|| self.piece_keys.get(self.at_piece));
            let changed = resolved.get(self.at_resolved);
            let order = match (stored, changed) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(key), Some(r)) => key.cmp(self.layers[r.layer as usize].key(r.row as usize)),
            };
            self.push_row(
                rows,
                (order != Ordering::Greater).then_some(self.at_piece),
                changed.filter(|_| order != Ordering::Less),
            )?;
            self.at_piece += usize::from(order != Ordering::Greater);
            self.at_resolved += usize::from(order != Ordering::Less);
        }
        self.resolved = Some(resolved);
        Ok(())
    }

    /// Adds what is left of a key when what is stored and what has changed are put together.
    fn push_row(&mut self, rows: &mut Rows, stored: Option<usize>, changed: Option<&Resolved>) -> StorageResult<()> {
        let layers = self.layers.clone();
        let change = changed.map(|r| (&layers[r.layer as usize], r));
        if self.layout.keyed {
            match (change, stored) {
                (Some((layer, r)), _) => {
                    if let Change::Row(Some(value)) = layer.change(r.row as usize) {
                        rows.keys.push(layer.bare_key(r.row as usize));
                        rows.values.push(value);
                    }
                }
                (None, Some(at)) => {
                    rows.keys.push(bare(self.piece_keys.get(at))?);
                    rows.values.push(self.piece_values.get(at));
                }
                (None, None) => {}
            }
            return Ok(());
        }
        let before = stored.map_or(Ok(0), |at| stored_count(self.piece_values.get(at)))?;
        let count = before + change.map_or(0, |(_, r)| r.count);
        let key = match (change, stored) {
            (Some((layer, r)), _) => layer.bare_key(r.row as usize).to_vec(),
            (None, Some(at)) => bare(self.piece_keys.get(at))?.to_vec(),
            (None, None) => return Ok(()),
        };
        self.push_copies(rows, &key, count);
        Ok(())
    }

    fn push_copies(&mut self, rows: &mut Rows, key: &[u8], count: i64) {
        let room = (BATCH_ROWS - rows.keys.len()) as i64;
        for _ in 0..count.min(room) {
            rows.keys.push(key);
            rows.values.push(&[]);
        }
        if count > room {
            self.copies = Some((key.to_vec(), count - room));
        }
    }
}

/// A stored key of this table without the vnode.
fn bare(key: &[u8]) -> StorageResult<&[u8]> {
    key.get(PREFIX_BYTES - size_of::<u32>()..).ok_or_else(|| damaged("a stored key is too short to have a vnode"))
}

/// How many copies of a row are stored.
pub(super) fn stored_count(value: &[u8]) -> StorageResult<i64> {
    match <[u8; 8]>::try_from(value) {
        Ok(bytes) => Ok(i64::from_le_bytes(bytes)),
        Err(_) => Err(damaged(format!("a count of rows has {} bytes instead of 8", value.len()))),
    }
}

/// The layers' changes by key. Each layer is sorted once for all scans, and a stable sort merges such runs.
fn resolve(layers: &[Arc<Layer>]) -> Vec<Resolved> {
    let mut all = Vec::with_capacity(layers.iter().map(|l| l.len()).sum());
    for (place, layer) in layers.iter().enumerate() {
        all.extend(layer.order().iter().map(|row| (place as u32, *row)));
    }
    let key = |&(layer, row): &(u32, u32)| layers[layer as usize].key(row as usize);
    all.sort_by(|a, b| key(a).cmp(key(b)));
    let mut resolved: Vec<Resolved> = Vec::with_capacity(all.len());
    for (layer, row) in all {
        let count = match layers[layer as usize].change(row as usize) {
            Change::Count(count) => count,
            Change::Row(_) => 0,
        };
        match resolved.last_mut() {
            // Equal keys stand oldest first.
            Some(last) if key(&(last.layer, last.row)) == key(&(layer, row)) => {
                *last = Resolved { layer, row, count: last.count + count };
            }
            _ => resolved.push(Resolved { layer, row, count }),
        }
    }
    resolved
}

impl Iterator for ViewScan {
    type Item = StorageResult<RecordBatch>;

    fn next(&mut self) -> Option<StorageResult<RecordBatch>> {
        if self.failed {
            return None;
        }
        let mut rows = Rows::default();
        let batch = self
            .fill(&mut rows)
            .and_then(|()| self.layout.batch(&self.columns, rows.keys.len(), rows.keys.iter(), rows.values.iter()));
        self.failed = batch.is_err();
        match batch {
            Ok(batch) if batch.num_rows() == 0 => None,
            other => Some(other),
        }
    }
}
