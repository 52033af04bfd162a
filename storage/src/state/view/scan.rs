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

/// Where a row of the batch that is being made stands.
#[derive(Clone, Copy)]
enum Source {
    Piece(u32),
    Layer { layer: u32, row: u32 },
}

/// Gives the rows in order of vnode and key. The database is read in pieces, each by an iterator of its own: the snapshot holds only
/// versions, where an open iterator would hold files. A batch has rows of one piece, so that none is copied twice.
pub(super) struct ViewScan {
    layout: Arc<Layout>,
    generation: Arc<Generation>,
    layers: Vec<Arc<Layer>>,
    columns: Vec<usize>,
    /// The layers' keys in order; none before the first batch.
    resolved: Option<Vec<Resolved>>,
    at_resolved: usize,
    /// A piece of what is stored: keys from the vnode on.
    piece_keys: ByteRows,
    piece_values: ByteRows,
    at_piece: usize,
    /// Where the next piece starts; none when there is no more.
    next_piece: Option<Vec<u8>>,
    /// A row of which there are more copies than fitted into the last batch.
    copies: Option<(Source, i64)>,
    failed: bool,
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
            if stored.len() < PREFIX_BYTES {
                return Err(damaged("a stored key is too short to have a vnode"));
            }
            keys.push(&stored[prefix.len()..]);
            values.push(value);
            Ok(true)
        })
    }

    /// The rows of the next batch; none at the end.
    fn pick(&mut self) -> StorageResult<Vec<Source>> {
        let resolved = self.resolved.take().unwrap_or_else(|| resolve(&self.layers));
        let mut rows = Vec::with_capacity(BATCH_ROWS);
        if let Some((source, count)) = self.copies.take() {
            self.push_copies(&mut rows, source, count);
        }
        while rows.len() < BATCH_ROWS {
            if self.at_piece == self.piece_keys.len() && self.next_piece.is_some() {
                if !rows.is_empty() {
                    break;
                }
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
            let stored = (order != Ordering::Greater).then_some(self.at_piece);
            self.push_row(&mut rows, stored, changed.filter(|_| order != Ordering::Less))?;
            self.at_piece += usize::from(order != Ordering::Greater);
            self.at_resolved += usize::from(order != Ordering::Less);
        }
        self.resolved = Some(resolved);
        Ok(rows)
    }

    /// Adds what is left of a key when what is stored and what has changed are put together.
    fn push_row(&mut self, rows: &mut Vec<Source>, stored: Option<usize>, changed: Option<&Resolved>) -> StorageResult<()> {
        let source = match (changed, stored) {
            (Some(r), _) => Source::Layer { layer: r.layer, row: r.row },
            (None, Some(at)) => Source::Piece(at as u32),
            (None, None) => return Ok(()),
        };
        if !self.layout.keyed {
            let before = stored.map_or(Ok(0), |at| stored_count(self.piece_values.get(at)))?;
            self.push_copies(rows, source, before + changed.map_or(0, |r| r.count));
            return Ok(());
        }
        let is_deleted = changed.is_some_and(|r| {
            let change = self.layers[r.layer as usize].change(r.row as usize);
            !matches!(change, Change::Row(Some(_)))
        });
        if !is_deleted {
            rows.push(source);
        }
        Ok(())
    }

    fn push_copies(&mut self, rows: &mut Vec<Source>, source: Source, count: i64) {
        let room = (BATCH_ROWS - rows.len()) as i64;
        rows.extend((0..count.min(room)).map(|_| source));
        if count > room {
            self.copies = Some((source, count - room));
        }
    }

    fn batch(&self, rows: &[Source]) -> StorageResult<RecordBatch> {
        let keys = rows.iter().map(|source| match *source {
            // Without the vnode.
            Source::Piece(at) => &self.piece_keys.get(at as usize)[PREFIX_BYTES - size_of::<u32>()..],
            Source::Layer { layer, row } => self.layers[layer as usize].bare_key(row as usize),
        });
        let values = rows.iter().map(|source| match *source {
            Source::Piece(at) => self.piece_values.get(at as usize),
            Source::Layer { layer, row } => match self.layers[layer as usize].change(row as usize) {
                Change::Row(Some(value)) => value,
                Change::Row(None) | Change::Count(_) => &[],
            },
        });
        self.layout.batch(&self.columns, rows.len(), keys, values)
    }
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
        let batch = self.pick().and_then(|rows| self.batch(&rows));
        self.failed = batch.is_err();
        match batch {
            Ok(batch) if batch.num_rows() == 0 => None,
            other => Some(other),
        }
    }
}
