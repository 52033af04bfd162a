//! The rows of a side whose copies or partners an epoch has changed, with what they were before it.

use super::change::row_hash;
use hashbrown::HashTable;
use std::ops::Range;
use thalweg_storage::state::Entry;

/// A touched row. Of an [`Entry`], `count` is how many copies there are, `extra` how many partners.
pub(super) struct TouchedRow {
    pub hash: u64,
    key: Range<usize>,
    row: Range<usize>,
    /// It has a NULL key (and is in state because the join is null-aware).
    pub null_key: bool,
    pub before: Entry,
    pub after: Entry,
}

/// Touched rows in the order of their first touch.
#[derive(Default)]
pub(super) struct Touched {
    bytes: Vec<u8>,
    pub rows: Vec<TouchedRow>,
    index: HashTable<usize>,
}

impl Touched {
    /// The touched row; at its first touch it is as `entry` says.
    pub fn touch(&mut self, hash: u64, key: &[u8], row: &[u8], entry: Entry) -> &mut TouchedRow {
        let Touched { bytes, rows, index } = self;
        let whole = row_hash(hash, row);
        let same = |place: &usize| {
            let there = &rows[*place];
            there.hash == hash && &bytes[there.row.clone()] == row && &bytes[there.key.clone()] == key
        };
        let place = match index.find(whole, same) {
            Some(place) => *place,
            None => {
                let start = bytes.len();
                bytes.extend_from_slice(key);
                let middle = bytes.len();
                bytes.extend_from_slice(row);
                let (key, row) = (start..middle, middle..bytes.len());
                rows.push(TouchedRow { hash, key, row, null_key: false, before: entry, after: entry });
                let place = rows.len() - 1;
                index.insert_unique(whole, place, |p| row_hash(rows[*p].hash, &bytes[rows[*p].row.clone()]));
                place
            }
        };
        &mut rows[place]
    }

    /// The key of a touched row.
    pub fn key(&self, row: &TouchedRow) -> &[u8] {
        &self.bytes[row.key.clone()]
    }

    /// The bytes of a touched row.
    pub fn row(&self, row: &TouchedRow) -> &[u8] {
        &self.bytes[row.row.clone()]
    }
}
