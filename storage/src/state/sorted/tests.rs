use super::*;
use crate::state::testing;
use crate::state::{OperatorState, TableSpec};
use crate::worker_store::WorkerStore;
use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;
use thalweg_catalog::ObjectId;
use thalweg_catalog::hash::hash_columns;

fn spec() -> TableSpec {
    TableSpec {
        name: "rows".to_string(),
        key: vec![Field::new("k", DataType::Utf8, true)],
        sub: vec![Field::new("n", DataType::Int64, true)],
        sub_order: vec![(true, true)],
        value: Vec::new(),
    }
}

/// A key or sub-key and its hash.
type Encoded = (u64, Vec<u8>);

fn keys(count: i64) -> Vec<Encoded> {
    let column: ArrayRef = Arc::new((0..count).map(|n| (n > 0).then(|| "k".repeat(n as usize))).collect::<StringArray>());
    let hashes = hash_columns(&[Arc::clone(&column)], count as usize).unwrap();
    let rows = RowCodec::new(&spec().key).unwrap().encode(&[column], count as usize).unwrap();
    hashes.into_iter().enumerate().map(|(row, hash)| (hash, rows.row(row).to_vec())).collect()
}

fn subs(count: i64) -> Vec<Vec<u8>> {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..count));
    let rows = RowCodec::ordered(&spec().sub, &spec().sub_order).unwrap().encode(&[column], count as usize).unwrap();
    (0..count as usize).map(|row| rows.row(row).to_vec()).collect()
}

fn open(path: &Path) -> (WorkerStore, OperatorState, SortedTable) {
    let store = testing::open(path).unwrap();
    let state = store.operator_state(ObjectId(16384), "join");
    let table = state.sorted_table(spec()).unwrap();
    (store, state, table)
}

type Model = BTreeMap<usize, BTreeMap<Vec<u8>, Entry>>;

fn scanned(table: &mut SortedTable, key: &Encoded, after: Option<&[u8]>, rows_max: usize) -> Vec<(Vec<u8>, Entry)> {
    let mut found = Vec::new();
    let visit = |sub: &[u8], entry: Entry| {
        found.push((sub.to_vec(), entry));
        found.len() < rows_max
    };
    match after {
        Some(after) => table.scan_after(key.0, &key.1, after, visit).unwrap(),
        None => table.scan(key.0, &key.1, visit).unwrap(),
    }
    found
}

fn change(table: &mut SortedTable, model: &mut Model, rng: &mut StdRng, keys: &[Encoded], subs: &[Vec<u8>]) {
    let place = rng.random_range(0..keys.len());
    let (hash, key) = &keys[place];
    // The later keys have few entries, the first ones many.
    let sub = &subs[rng.random_range(0..(subs.len() / (place + 1)).max(2))];
    let entries = model.entry(place).or_default();
    match rng.random_range(0..100) {
        0 => {
            table.remove_key(*hash, key).unwrap();
            entries.clear();
        }
        1..20 => {
            let extra = rng.random_range(0..9);
            table.set_extra(*hash, key, sub, extra).unwrap();
            if let Some(entry) = entries.get_mut(sub) {
                entry.extra = extra;
            }
        }
        _ => {
            let before = entries.get(sub).copied().unwrap_or_default();
            let count = if rng.random_range(0..5) < 2 { -before.count } else { rng.random_range(-1..3) };
            let after = Entry { count: before.count + count, extra: before.extra };
            let after = if after.count == 0 { Entry::default() } else { after };
            assert_eq!(table.add(*hash, key, sub, count).unwrap(), (before, after));
            entries.insert(sub.clone(), after);
            entries.retain(|_, entry| entry.count != 0);
        }
    }
}

fn check_key(table: &mut SortedTable, model: &Model, rng: &mut StdRng, keys: &[Encoded], subs: &[Vec<u8>]) {
    let place = rng.random_range(0..keys.len());
    let key = &keys[place];
    let empty = BTreeMap::new();
    let entries = model.get(&place).unwrap_or(&empty);
    let sub = &subs[rng.random_range(0..subs.len())];
    let rows_max = rng.random_range(1..200);
    let mut all = entries.iter().map(|(s, e)| (s.clone(), *e));
    assert_eq!(scanned(table, key, None, rows_max), all.clone().take(rows_max).collect::<Vec<_>>());
    let after = all.clone().filter(|(s, _)| s > sub).take(rows_max).collect::<Vec<_>>();
    assert_eq!(scanned(table, key, Some(sub), rows_max), after);
    assert_eq!(table.get(key.0, &key.1, sub).unwrap(), entries.get(sub).copied().unwrap_or_default());
    assert_eq!(table.last(key.0, &key.1).unwrap(), all.next_back());
    assert_eq!(table.entries(key.0, &key.1).unwrap(), entries.len());
}

#[test]
fn entries_equal_a_map_of_maps_under_flushes_evictions_and_restarts() {
    let (keys, subs) = (keys(12), subs(300));
    for seed in 0..6 {
        let mut rng = StdRng::seed_from_u64(seed);
        let directory = tempfile::tempdir().unwrap();
        let (mut store, mut state, mut table) = open(&directory.path().join("0"));
        let mut model = Model::new();
        for round in 1..500 {
            for _ in 0..rng.random_range(0..40) {
                change(&mut table, &mut model, &mut rng, &keys, &subs);
            }
            check_key(&mut table, &model, &mut rng, &keys, &subs);
            match rng.random_range(0..20) {
                0..4 => {
                    state.flush().unwrap();
                }
                4..7 => state.shrink(rng.random_range(0..20_000)).unwrap(),
                7 => {
                    store.freeze();
                    state.shrink(0).unwrap();
                    store.thaw();
                }
                8 => {
                    state.flush().unwrap();
                    let copy = directory.path().join(round.to_string());
                    store.checkpoint(&copy).unwrap();
                    (store, state, table) = open(&copy);
                }
                _ => {}
            }
            if round % 25 == 0 {
                let mut found = Vec::new();
                table
                    .for_each_key(&mut |hash, key| {
                        found.push((hash, key.to_vec()));
                        Ok(())
                    })
                    .unwrap();
                found.sort();
                let live = model.iter().filter(|(_, entries)| !entries.is_empty());
                let mut expected = live.map(|(place, _)| keys[*place].clone()).collect::<Vec<_>>();
                expected.sort();
                assert_eq!(found, expected, "seed {seed} round {round}");
            }
        }
    }
}

#[test]
fn a_probe_in_vain_of_a_restored_table_reads_the_database_once() {
    let directory = tempfile::tempdir().unwrap();
    let (store, state, mut table) = open(&directory.path().join("a"));
    let (keys, subs) = (keys(3), subs(2));
    let known = |table: &SortedTable| table.keys.borrow().find(keys[2].0, &keys[2].1).is_some();
    table.add(keys[1].0, &keys[1].1, &subs[0], 1).unwrap();
    state.shrink(0).unwrap();
    assert_eq!(table.entries(keys[2].0, &keys[2].1).unwrap(), 0);
    assert!(!known(&table), "it is known without a read that there is nothing");
    store.checkpoint(&directory.path().join("b")).unwrap();
    let (_store, state, mut table) = open(&directory.path().join("b"));
    assert_eq!(table.entries(keys[2].0, &keys[2].1).unwrap(), 0);
    assert!(known(&table), "that there is nothing is remembered");
    assert_eq!(state.flush().unwrap(), FlushStats::default());
    assert_eq!(table.entries(keys[1].0, &keys[1].1).unwrap(), 1);
}

#[test]
fn memory_is_given_back_when_entries_go() {
    let directory = tempfile::tempdir().unwrap();
    let (_store, state, mut table) = open(directory.path());
    let (keys, subs) = (keys(2), subs(10_000));
    let (hash, key) = &keys[1];
    let before = state.memory_bytes();
    for sub in &subs {
        table.add(*hash, key, sub, 1).unwrap();
    }
    let full = state.memory_bytes() - before;
    assert!((10_000 * 40..10_000 * 160).contains(&full), "{full} bytes for 10,000 entries");
    state.flush().unwrap();
    for sub in &subs {
        table.add(*hash, key, sub, -1).unwrap();
    }
    state.flush().unwrap();
    assert!(state.memory_bytes() - before < 4096, "{} bytes for none", state.memory_bytes() - before);
}

#[test]
fn d18_a_key_with_very_many_entries_flushes_only_what_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (_store, state, mut table) = open(directory.path());
    let (keys, subs) = (keys(2), subs(100_000));
    let (hash, key) = &keys[1];
    for sub in &subs {
        table.add(*hash, key, sub, 1).unwrap();
    }
    assert_eq!(state.flush().unwrap().entries, 100_000);
    table.set_extra(*hash, key, &subs[5], 3).unwrap();
    table.set_extra(*hash, key, &subs[5], 4).unwrap();
    table.set_extra(*hash, key, &subs[6], 0).unwrap();
    assert_eq!(state.flush().unwrap().entries, 1);
}

#[test]
fn a_row_that_takes_another_s_place_is_one_write() {
    let directory = tempfile::tempdir().unwrap();
    let (store, state, mut table) = open(&directory.path().join("a"));
    let (keys, subs) = (keys(3), subs(1000));
    for (hash, key, count) in [(keys[1].0, &keys[1].1, 3), (keys[2].0, &keys[2].1, 500)] {
        for sub in &subs[..count] {
            table.add(hash, key, sub, 1).unwrap();
        }
        state.flush().unwrap();
        table.add(hash, key, &subs[0], -1).unwrap();
        table.add(hash, key, &subs[count], 1).unwrap();
        assert_eq!(state.flush().unwrap().entries, 1);
        table.add(hash, key, &subs[1], -1).unwrap();
        assert_eq!(state.flush().unwrap().entries, 1);
        table.add(hash, key, &subs[count + 1], 1).unwrap();
        assert_eq!(state.flush().unwrap().entries, 1);
    }
    let hot = [1, 2].map(|n| scanned(&mut table, &keys[n], None, 1000));
    store.checkpoint(&directory.path().join("b")).unwrap();
    let (_store, _state, mut table) = open(&directory.path().join("b"));
    assert_eq!([1, 2].map(|n| scanned(&mut table, &keys[n], None, 1000)), hot);
    assert_eq!(hot.map(|entries| entries.len()), [3, 500]);
}
