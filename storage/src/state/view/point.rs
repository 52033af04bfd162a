//! Rows of a view by key.

use super::ViewHold;
use super::layer::{ByteRows, Change};
use crate::error::{StorageError, StorageResult};
use crate::state::database::stored_key;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{and, cast, filter};
use std::collections::HashSet;
use std::sync::Arc;
use thalweg_catalog::VNode;
use thalweg_catalog::hash::hash_columns;

pub(super) fn get(hold: &ViewHold, keys: &[ArrayRef], columns: &[usize]) -> StorageResult<RecordBatch> {
    let layout = &hold.layout;
    if !layout.keyed || keys.len() != layout.key.len() {
        let reason = format!("{} key columns were given, it has {}", keys.len(), if layout.keyed { layout.key.len() } else { 0 });
        return Err(StorageError::Shape { table: "rows".to_string(), reason });
    }
    let keys = cast_keys(hold, keys)?;
    let rows = keys.first().map_or(0, |column| column.len());
    let hashes = hash_columns(&keys, rows)?;
    let encoded = layout.key_codec.encode(&keys, rows)?;
    let mut seen = HashSet::new();
    let (mut found_keys, mut found_values) = (ByteRows::default(), ByteRows::default());
    let mut unknown = Vec::new();
    for (row, hash) in hashes.iter().enumerate() {
        if !seen.insert(encoded.row(row)) {
            continue;
        }
        let stored = stored_key(layout.table_id, VNode::of_hash(*hash), encoded.row(row), &[]);
        let with_vnode = &stored[size_of::<u32>()..];
        let change = hold.layers.iter().rev().find_map(|layer| layer.find(with_vnode).map(|at| layer.change(at)));
        match change {
            Some(Change::Row(Some(value))) => {
                found_keys.push(encoded.row(row));
                found_values.push(value);
            }
            Some(_) => {}
            None if hold.generation.blank => {}
            None => unknown.push((row, stored)),
        }
    }
    let (places, stored): (Vec<_>, Vec<_>) = unknown.into_iter().unzip();
    let snapshot = &hold.generation.snapshot;
    snapshot.database().get_many(&stored, Some(snapshot), |place, value| {
        if let Some(value) = value {
            found_keys.push(encoded.row(places[place]));
            found_values.push(value);
        }
        Ok(())
    })?;
    layout.batch(columns, found_keys.len(), found_keys.iter(), found_values.iter())
}

/// The keys in the key's types, without those that change by being cast: no row has them.
fn cast_keys(hold: &ViewHold, keys: &[ArrayRef]) -> StorageResult<Vec<ArrayRef>> {
    let mut exact: Option<BooleanArray> = None;
    let mut cast_keys = Vec::with_capacity(keys.len());
    for (key, to) in keys.iter().zip(hold.layout.key_types()) {
        if key.data_type() == to {
            cast_keys.push(Arc::clone(key));
            continue;
        }
        let there = cast(key, to)?;
        let same = not_distinct(&cast(&there, key.data_type())?, key)?;
        exact = Some(match exact {
            Some(others) => and(&others, &same)?,
            None => same,
        });
        cast_keys.push(there);
    }
    if let Some(exact) = exact.filter(|exact| exact.true_count() < exact.len()) {
        for key in &mut cast_keys {
            *key = filter(key, &exact)?;
        }
    }
    Ok(cast_keys)
}
