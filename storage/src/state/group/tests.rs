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

fn spec(key: DataType) -> TableSpec {
    TableSpec {
        name: "groups".to_string(),
        key: vec![Field::new("k", key, true)],
        sub: Vec::new(),
        sub_order: Vec::new(),
        value: vec![Field::new("sum", DataType::Int64, false)],
    }
}

/// A group table with a sum for each key, and its store.
struct Sums {
    state: OperatorState,
    table: GroupTable,
    codec: RowCodec,
    store: WorkerStore,
}

impl Sums {
    fn open(path: &Path, key: DataType) -> Sums {
        let store = testing::open(path).unwrap();
        let state = store.operator_state(ObjectId(16384), "aggregate");
        let table = state.group_table(spec(key.clone())).unwrap();
        Sums { state, table, codec: RowCodec::new(&spec(key).key).unwrap(), store }
    }

    fn slots(&mut self, keys: &ArrayRef) -> Vec<Slot> {
        let hashes = hash_columns(std::slice::from_ref(keys), keys.len()).unwrap();
        let encoded = self.codec.encode(std::slice::from_ref(keys), keys.len()).unwrap();
        let mut slots = Vec::new();
        self.table.slots(&hashes, &encoded, &mut slots).unwrap();
        slots
    }

    fn add(&mut self, keys: &ArrayRef, amounts: &[i64]) {
        let slots = self.slots(keys);
        for (slot, amount) in slots.into_iter().zip(amounts) {
            let sum = number(self.table.value(slot)) + amount;
            self.table.value_mut(slot).copy_from_slice(&sum.to_le_bytes());
        }
        self.table.end_batch();
    }

    fn all(&self) -> BTreeMap<Vec<u8>, i64> {
        let mut all = BTreeMap::new();
        self.table
            .for_each(&mut |_, key, value| {
                assert!(all.insert(key.to_vec(), number(value)).is_none(), "a group is visited once");
                Ok(())
            })
            .unwrap();
        all
    }
}

fn number(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().unwrap())
}

fn integers(keys: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(keys))
}

/// Random sums and removals under flushes, evictions and restarts, against a map.
fn check_against_a_map(seed: u64, key_type: DataType, key: impl Fn(Option<i64>) -> Option<String>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let mut sums = Sums::open(&directory.path().join("0"), key_type.clone());
    let mut model: BTreeMap<Option<i64>, i64> = BTreeMap::new();
    let keys_of = |keys: &[Option<i64>]| -> ArrayRef {
        match key_type {
            DataType::Int64 => Arc::new(Int64Array::from(keys.to_vec())),
            _ => Arc::new(keys.iter().map(|k| key(*k)).collect::<StringArray>()),
        }
    };
    for round in 1..400 {
        let keys = (0..rng.random_range(0..60)).map(|_| Some(rng.random_range(0..500)).filter(|k| *k > 0)).collect::<Vec<_>>();
        let slots = sums.slots(&keys_of(&keys));
        for (slot, key) in slots.iter().zip(&keys) {
            assert_eq!(number(sums.table.value(*slot)), model.get(key).copied().unwrap_or(0), "seed {seed} round {round}");
            if rng.random_range(0..10) < 7 {
                let sum = model.entry(*key).or_insert(0);
                *sum += rng.random_range(-5..50);
                sums.table.value_mut(*slot).copy_from_slice(&sum.to_le_bytes());
            }
        }
        // Removed groups are distinct, as an aggregate finds them: by what it has seen in the batch.
        let distinct = keys.iter().zip(&slots).map(|(k, s)| (*k, *s)).collect::<BTreeMap<_, _>>();
        for (key, slot) in distinct {
            if rng.random_range(0..10) < 3 {
                sums.table.remove(slot);
                model.remove(&key);
            }
        }
        sums.table.end_batch();
        match rng.random_range(0..20) {
            0..4 => {
                sums.state.flush().unwrap();
            }
            4..7 => sums.state.shrink(rng.random_range(0..20_000)).unwrap(),
            7 => {
                sums.store.freeze();
                sums.state.shrink(0).unwrap();
                sums.store.thaw();
            }
            8 => {
                sums.state.flush().unwrap();
                let copy = directory.path().join(round.to_string());
                sums.store.checkpoint(&copy).unwrap();
                sums = Sums::open(&copy, key_type.clone());
            }
            _ => {}
        }
        if round % 20 == 0 {
            let distinct = model.keys().copied().collect::<Vec<_>>();
            let encoded = sums.codec.encode(&[keys_of(&distinct)], distinct.len()).unwrap();
            let sums_of = model.values().enumerate();
            let expected = sums_of.map(|(row, sum)| (encoded.row(row).to_vec(), *sum)).collect::<BTreeMap<_, _>>();
            let all = sums.all();
            let odd = all.iter().filter(|(key, sum)| expected.get(*key) != Some(sum)).collect::<Vec<_>>();
            let missing = expected.keys().filter(|key| !all.contains_key(*key)).collect::<Vec<_>>();
            assert!(odd.is_empty() && missing.is_empty(), "seed {seed} round {round}: odd {odd:?}, missing {missing:?}");
        }
    }
}

#[test]
fn groups_equal_a_map_under_flushes_evictions_and_restarts() {
    for seed in 0..6 {
        check_against_a_map(seed, DataType::Int64, |_| None);
    }
}

#[test]
fn groups_with_keys_of_any_length_equal_a_map_too() {
    for seed in 10..16 {
        check_against_a_map(seed, DataType::Utf8, |k| k.map(|k| "key ".repeat(k as usize % 30) + &k.to_string()));
    }
}

#[test]
fn d18_a_million_integer_groups_take_at_most_a_hundred_bytes_each() {
    let directory = tempfile::tempdir().unwrap();
    let mut sums = Sums::open(directory.path(), DataType::Int64);
    for start in (0..1_000_000).step_by(8192) {
        let keys = integers(start..(start + 8192).min(1_000_000));
        sums.add(&keys, &vec![1; keys.len()]);
    }
    assert_eq!(sums.table.len_hot(), 1_000_000);
    let each = sums.state.memory_bytes() / 1_000_000;
    assert!((20..=100).contains(&each), "{each} bytes each");
    sums.state.flush().unwrap();
    sums.state.shrink(10 << 20).unwrap();
    assert!(sums.state.memory_bytes() <= 10 << 20);
}

#[test]
fn d18_two_million_keys_under_a_small_budget_give_the_right_counts() {
    const KEYS: i64 = 2_000_000;
    let directory = tempfile::tempdir().unwrap();
    let mut sums = Sums::open(directory.path(), DataType::Int64);
    let mut add = |keys: Vec<i64>| {
        for piece in keys.chunks(8192) {
            sums.add(&integers(piece.iter().copied()), &vec![1; piece.len()]);
            sums.state.shrink(32 << 20).unwrap();
            assert!(sums.state.memory_bytes() <= 32 << 20);
        }
    };
    add((0..KEYS).collect());
    // Every fifth key again, in another order: most of them have been evicted.
    add((0..KEYS / 5).map(|n| n * 7919 % (KEYS / 5) * 5).collect());
    let mut counts = [0; 3];
    sums.table
        .for_each(&mut |_, _, value| {
            counts[number(value) as usize] += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(counts, [0, KEYS / 5 * 4, KEYS / 5]);
}

#[test]
fn a_group_that_was_made_but_not_written_is_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let mut sums = Sums::open(directory.path(), DataType::Int64);
    sums.slots(&integers([1, 2, 1]));
    sums.table.end_batch();
    assert_eq!((sums.table.len_hot(), sums.state.flush().unwrap()), (0, FlushStats::default()));
    assert!(sums.all().is_empty());
}

#[test]
fn a_key_that_comes_back_in_the_batch_in_which_it_was_removed_gets_another_slot() {
    let directory = tempfile::tempdir().unwrap();
    let mut sums = Sums::open(directory.path(), DataType::Int64);
    sums.add(&integers([1]), &[5]);
    for flushed in [false, true] {
        if flushed {
            sums.state.flush().unwrap();
        }
        let before = sums.slots(&integers([1]))[0];
        sums.table.remove(before);
        let after = sums.slots(&integers([1, 1]));
        assert_eq!(after[0], after[1]);
        assert_ne!(after[0], before);
        assert_eq!(number(sums.table.value(after[0])), 0);
        sums.table.value_mut(after[0]).copy_from_slice(&7i64.to_le_bytes());
        sums.table.end_batch();
        assert_eq!(sums.all().into_values().collect::<Vec<_>>(), [7]);
    }
    sums.state.flush().unwrap();
    assert_eq!(sums.all().into_values().collect::<Vec<_>>(), [7]);
}

#[test]
fn state_1_a_flush_in_the_middle_of_a_batch_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut sums = Sums::open(directory.path(), DataType::Int64);
    sums.slots(&integers([1]));
    let state = sums.state.clone();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| state.flush())).is_err());
    sums.table.end_batch();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sums.table.value(Slot(0)).len())).is_err());
    sums.state.flush().unwrap();
}

#[test]
fn odd_shapes_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut sums = Sums::open(directory.path(), DataType::Int64);
    let wide = RowCodec::new(&[Field::new("k", DataType::Utf8, true)]).unwrap();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["not an integer"]));
    let encoded = wide.encode(&[text], 1).unwrap();
    assert!(matches!(sums.table.slots(&[1], &encoded, &mut Vec::new()), Err(StorageError::Shape { .. })));
    assert!(matches!(sums.table.slots(&[1, 2], &encoded, &mut Vec::new()), Err(StorageError::Shape { .. })));
    sums.table.end_batch();
    let mut text_value = spec(DataType::Int64);
    text_value.name = "texts".to_string();
    text_value.value = vec![Field::new("v", DataType::Utf8, true)];
    assert!(matches!(sums.state.group_table(text_value), Err(StorageError::Shape { .. })));
    assert!(matches!(sums.state.group_table(spec(DataType::Int64)), Err(StorageError::Shape { .. })), "registered twice");
    let again = sums.store.operator_state(ObjectId(16384), "aggregate");
    let other = again.group_table(spec(DataType::Utf8)).map(|_| ()).unwrap_err();
    assert_eq!(
        other.to_string(),
        "state table \"16384/aggregate/groups\" was registered in another form: its key is (Int64), not (Utf8)"
    );
    let mut narrow = spec(DataType::Int64);
    narrow.value = vec![Field::new("sum", DataType::Int32, false)];
    assert!(matches!(again.group_table(narrow), Err(StorageError::Shape { .. })));
    assert!(again.group_table(spec(DataType::Int64)).is_ok());
}

#[test]
fn a_key_stored_under_a_hash_that_is_not_its_own_is_found_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut sums = Sums::open(directory.path(), DataType::Int64);
    let encoded = sums.codec.encode(&[integers([1])], 1).unwrap();
    let mut slots = Vec::new();
    sums.table.slots(&[0], &encoded, &mut slots).unwrap();
    sums.table.value_mut(slots[0]).fill(1);
    sums.table.end_batch();
    sums.state.flush().unwrap();
    sums.state.shrink(0).unwrap();
    assert!(matches!(sums.table.for_each(&mut |_, _, _| Ok(())), Err(StorageError::Shape { .. })));
}
