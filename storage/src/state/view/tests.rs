use super::*;
use crate::state::{OperatorState, testing};
use crate::worker_store::WorkerStore;
use arrow::array::{Array, AsArray, Float64Array, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{Float64Type, Int64Type, Schema};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;
use thalweg_catalog::ObjectId;

/// A row of the test relation: (k, text, number).
type Row = (i64, Option<String>, i64);

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("text", DataType::Utf8, true),
        Field::new("k", DataType::Int64, false),
        Field::new("n", DataType::Int64, true),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let text = rows.iter().map(|r| r.1.clone()).collect::<StringArray>();
    let k = Int64Array::from_iter_values(rows.iter().map(|r| r.0));
    let n = Int64Array::from_iter_values(rows.iter().map(|r| r.2));
    RecordBatch::try_new(schema(), vec![Arc::new(text), Arc::new(k), Arc::new(n)]).unwrap()
}

fn delta(rows: &[(Row, i64)]) -> Delta {
    let weights = Int64Array::from_iter_values(rows.iter().map(|(_, weight)| *weight));
    Delta::weighted(batch(&rows.iter().map(|(row, _)| row.clone()).collect::<Vec<_>>()), weights)
}

fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let text = batch.column(0).as_string::<i32>();
    let (k, n) = (batch.column(1).as_primitive::<Int64Type>(), batch.column(2).as_primitive::<Int64Type>());
    (0..batch.num_rows())
        .map(|row| (k.value(row), text.is_valid(row).then(|| text.value(row).to_string()), n.value(row)))
        .collect()
}

/// The rows of a delta and what they add up to.
fn net(delta: &Delta) -> BTreeMap<Row, i64> {
    let mut sums = BTreeMap::new();
    for (place, row) in rows_of(delta.batch()).into_iter().enumerate() {
        *sums.entry(row).or_insert(0) += delta.weight(place);
    }
    sums.retain(|_, sum| *sum != 0);
    sums
}

fn row(k: i64, text: &str, n: i64) -> Row {
    (k, Some(text.to_string()), n)
}

fn scanned(hold: &ViewHold) -> Vec<Row> {
    let mut rows = hold.scan(&[0, 1, 2]).flat_map(|batch| rows_of(&batch.unwrap())).collect::<Vec<_>>();
    rows.sort();
    rows
}

struct View {
    store: WorkerStore,
    state: OperatorState,
    table: ViewTable,
    reader: ViewReader,
}

impl View {
    fn open(path: &Path, key: &[usize]) -> View {
        let store = testing::open(path).unwrap();
        let state = store.operator_state(ObjectId(16384), "materialize");
        let table = state.view_table(ObjectId(16384), schema(), key).unwrap();
        let reader = table.reader();
        View { store, state, table, reader }
    }

    fn apply(&mut self, epoch: u64, rows: &[(Row, i64)]) -> BTreeMap<Row, i64> {
        let net = net(&self.table.apply(Epoch(epoch), &[delta(rows)]).unwrap());
        self.table.complete(Epoch(epoch));
        net
    }

    fn read(&self, epoch: u64) -> Vec<Row> {
        scanned(&self.reader.hold(Epoch(epoch)).unwrap())
    }
}

/// Rows with their counts, as of an epoch.
type Rows = BTreeMap<Row, i64>;

fn listed(rows: &Rows) -> Vec<Row> {
    rows.iter().flat_map(|(row, count)| std::iter::repeat_n(row.clone(), *count as usize)).collect()
}

/// Random changes, with flushes, restarts, and readers that hold old epochs for a while.
fn check_against_a_model(seed: u64, key: &[usize], trust: bool, next: impl Fn(&mut StdRng, &Rows) -> Vec<(Row, i64)>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path| {
        let mut view = View::open(path, key);
        if trust {
            view.table.trust_input();
        }
        view
    };
    let mut view = open(&directory.path().join("0"));
    let mut rows = Rows::new();
    let mut history = BTreeMap::from([(0, rows.clone())]);
    let mut holds: Vec<ViewHold> = Vec::new();
    for epoch in 1..250u64 {
        let changes = next(&mut rng, &rows);
        let before = rows.clone();
        for (row, weight) in &changes {
            *rows.entry(row.clone()).or_insert(0) += weight;
        }
        rows.retain(|_, count| *count != 0);
        let mut expected = rows.clone();
        for (row, count) in before {
            *expected.entry(row).or_insert(0) -= count;
        }
        expected.retain(|_, count| *count != 0);
        assert!(view.reader.hold(Epoch(epoch)).is_none(), "not yet complete");
        assert_eq!(view.apply(epoch, &changes), expected, "seed {seed} epoch {epoch}");
        history.insert(epoch, rows.clone());
        assert_eq!(view.reader.row_count() as i64, rows.values().sum::<i64>());
        if rng.random_range(0..4) == 0 {
            let back = rng.random_range(0..5).min(epoch);
            holds.extend(view.reader.hold(Epoch(epoch - back)));
        }
        match rng.random_range(0..12) {
            0..3 => {
                view.state.flush().unwrap();
            }
            3 => view.state.shrink(0).unwrap(),
            4 => {
                view.state.flush().unwrap();
                let copy = directory.path().join(epoch.to_string());
                view.store.checkpoint(&copy).unwrap();
                view = open(&copy);
                assert_eq!(view.reader.row_count() as i64, rows.values().sum::<i64>());
                assert!(view.reader.completed() <= Epoch(epoch));
                view.table.complete(Epoch(epoch));
            }
            _ => {}
        }
        assert_eq!(view.read(epoch), listed(&rows), "seed {seed} epoch {epoch}");
        if holds.len() > 6 || epoch == 249 {
            for hold in holds.drain(..) {
                assert_eq!(scanned(&hold), listed(&history[&hold.epoch().0]), "seed {seed} epoch {}", hold.epoch());
            }
        }
    }
}

#[test]
fn s3_a_keyed_view_reads_exactly_the_state_at_each_held_epoch() {
    let next = |rng: &mut StdRng, rows: &Rows| {
        let mut changes = BTreeMap::new();
        for _ in 0..rng.random_range(0..20) {
            changes.insert(rng.random_range(0..80i64), rng.random_range(0..4));
        }
        let mut out = Vec::new();
        for (k, kind) in changes {
            let old = rows.keys().find(|r| r.0 == k);
            out.extend(old.map(|old| (old.clone(), -1)));
            if kind > 0 {
                let passing = row(k, "passing", 1);
                out.extend([(passing.clone(), 1), (row(k, "x", rng.random_range(0..5)), 1), (passing, -1)]);
            }
        }
        // In no order.
        for place in (1..out.len()).rev() {
            out.swap(place, rng.random_range(0..=place));
        }
        out
    };
    for seed in 0..6 {
        check_against_a_model(seed, &[1], false, next);
        check_against_a_model(seed, &[1], true, next);
    }
}

#[test]
fn s18_a_multiset_counts_its_rows_at_each_held_epoch() {
    let next = |rng: &mut StdRng, rows: &Rows| {
        let mut out = Vec::new();
        for _ in 0..rng.random_range(0..20) {
            let new = (rng.random_range(0..40i64), None, rng.random_range(0..3));
            let have = rows.get(&new).copied().unwrap_or(0) + out.iter().filter(|(r, _)| *r == new).map(|(_, w)| w).sum::<i64>();
            let weight = if rng.random() { rng.random_range(1..4) } else { -rng.random_range(0..=have) };
            out.push((new, weight));
        }
        out
    };
    for seed in 0..6 {
        check_against_a_model(seed, &[], false, next);
    }
}

#[test]
fn s6_an_update_is_one_pair_and_one_that_changes_nothing_gives_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(directory.path(), &[1]);
    let (a, b, c) = (row(1, "a", 1), row(1, "b", 1), row(1, "c", 1));
    let first = view.table.apply(Epoch(1), &[Delta::inserts(batch(&[a.clone(), row(2, "x", 0)]))]).unwrap();
    assert!(first.weights().is_none(), "inserts only carry no weights");
    view.table.complete(Epoch(1));
    for flushed in [false, true] {
        if flushed {
            view.state.flush().unwrap();
        }
        let epoch = if flushed { 10 } else { 2 };
        // The new row before the old one's delete, with a row in between that comes and goes.
        let changes = [(b.clone(), 1), (a.clone(), -1), (c.clone(), 1), (c.clone(), -1)];
        let out = view.table.apply(Epoch(epoch), &[delta(&changes[..2]), delta(&changes[2..])]).unwrap();
        view.table.complete(Epoch(epoch));
        assert_eq!((rows_of(out.batch()), out.weight(0), out.weight(1)), (vec![a.clone(), b.clone()], -1, 1));
        assert!(view.apply(epoch + 1, &[(b.clone(), -1), (b.clone(), 1)]).is_empty());
        assert!(view.apply(epoch + 2, &[(b.clone(), 1)]).is_empty());
        assert_eq!(view.apply(epoch + 3, &[(a.clone(), 1)]).len(), 2);
    }
}

#[test]
fn s22_the_last_insert_of_a_key_wins_and_a_delete_of_another_row_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(directory.path(), &[1]);
    let (a, b) = (row(1, "a", 1), row(1, "b", 1));
    view.apply(1, &[(a.clone(), 1), (b.clone(), 1)]);
    assert_eq!(view.read(1), std::slice::from_ref(&b));
    assert!(view.apply(2, &[(a.clone(), -1)]).is_empty());
    assert_eq!((view.read(2), view.table.unmatched_deletes()), (vec![b.clone()], 1));
    // The delete of the one competitor in the epoch of the other's insert.
    view.apply(3, &[(a.clone(), 1), (row(1, "z", 0), -1)]);
    assert_eq!(view.read(3), std::slice::from_ref(&a));
    assert_eq!(view.apply(4, &[(a.clone(), -1)]).len(), 1);
    assert!(view.read(4).is_empty());
    view.apply(5, &[(row(9, "none", 0), -1)]);
    assert!(view.read(5).is_empty());
}

#[test]
fn s19_a_multiset_never_has_fewer_copies_than_none() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(directory.path(), &[]);
    view.apply(1, &[(row(1, "a", 1), -2), (row(2, "b", 1), 3)]);
    assert_eq!(view.read(1).len(), 3);
    view.state.flush().unwrap();
    assert_eq!((view.table.unmatched_deletes(), view.reader.row_count()), (2, 3));
    view.apply(2, &[(row(1, "a", 1), 1)]);
    assert_eq!(view.read(2).len(), 4);
}

#[test]
fn point_lookups_find_rows_in_layers_and_on_disk_by_keys_of_other_types() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(directory.path(), &[1]);
    view.apply(1, &(0..1000).map(|k| (row(k, "old", k), 1)).collect::<Vec<_>>());
    view.state.flush().unwrap();
    view.apply(2, &[(row(5, "old", 5), -1), (row(6, "new", 0), 1)]);
    let hold = view.reader.hold(Epoch(2)).unwrap();
    let found = |keys: ArrayRef, columns: &[usize]| hold.get(&[keys], columns).unwrap();
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![5, 6, 7, 7, 5000]));
    let mut rows = rows_of(&found(keys, &[0, 1, 2]));
    rows.sort();
    assert_eq!(rows, [row(6, "new", 0), row(7, "old", 7)]);
    let narrow: ArrayRef = Arc::new(Int32Array::from(vec![Some(7), None]));
    let only_key = found(narrow, &[1]);
    assert_eq!(only_key.column(0).as_primitive::<Int64Type>().values(), &[7]);
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![7.0, 8.5, 1e300]));
    assert_eq!(found(doubles, &[]).num_rows(), 1, "8.5 is no key, though it would be cast to 8");
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["9", "x"]));
    assert_eq!(found(texts, &[2]).column(0).as_primitive::<Int64Type>().values(), &[9]);
    assert!(hold.get(&[], &[0]).is_err());
    let old = view.reader.hold(Epoch(1)).unwrap();
    assert_eq!(rows_of(&old.get(&[Arc::new(Int64Array::from(vec![5]))], &[0, 1, 2]).unwrap()), [row(5, "old", 5)]);
}

#[test]
fn a_scan_gives_batches_of_the_asked_columns_and_many_copies_in_pieces() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(directory.path(), &[]);
    view.apply(1, &(0..20_000).map(|k| ((k, None, 1), 1)).collect::<Vec<_>>());
    view.state.flush().unwrap();
    view.apply(2, &[((7, None, 1), 29_999), ((8, None, 1), -1)]);
    let hold = view.reader.hold(Epoch(2)).unwrap();
    let (mut rows, mut sevens) = (0, 0);
    for batch in hold.scan(&[1]) {
        let batch = batch.unwrap();
        assert!(batch.num_columns() == 1 && (1..=8192).contains(&batch.num_rows()));
        rows += batch.num_rows();
        sevens += batch.column(0).as_primitive::<Int64Type>().values().iter().filter(|k| **k == 7).count();
    }
    assert_eq!((rows, sevens), (19_998 + 30_000, 30_000));
    assert_eq!(hold.scan(&[]).map(|b| b.unwrap().num_rows()).sum::<usize>(), 49_998);
    assert!(hold.scan(&[9]).next().unwrap().is_err());
}

#[test]
fn s24_negative_zero_is_given_out_as_it_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(directory.path()).unwrap();
    let state = store.operator_state(ObjectId(1), "v");
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("x", DataType::Float64, true)]));
    let mut table = state.view_table(ObjectId(1), Arc::clone(&schema), &[0]).unwrap();
    let batch = RecordBatch::try_new(schema, vec![Arc::new(Float64Array::from(vec![-0.0, 0.0, f64::NAN, -f64::NAN]))]).unwrap();
    let out = table.apply(Epoch(1), &[Delta::inserts(batch)]).unwrap();
    let values = out.batch().column(0).as_primitive::<Float64Type>();
    assert_eq!(values.len(), 2);
    assert!(values.values().iter().all(|v| v.is_nan() || v.is_sign_positive()));
}

#[test]
fn old_generations_go_once_nobody_holds_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(directory.path(), &[1]);
    view.apply(1, &[(row(1, "a", 1), 1)]);
    let hold = view.reader.hold(Epoch(1)).unwrap();
    for epoch in 2..5 {
        view.apply(epoch, &[(row(epoch as i64, "a", 1), 1)]);
        view.state.flush().unwrap();
    }
    assert!(view.reader.hold(Epoch(1)).is_some(), "as long as someone holds that generation");
    assert!(view.reader.hold(Epoch(3)).is_some(), "the one before the last flush stays");
    drop(hold);
    assert!(view.reader.hold(Epoch(1)).is_none());
    assert!(view.reader.hold(Epoch(99)).is_none());
    view.table.complete(Epoch(10));
    assert_eq!(view.state.flush().unwrap(), FlushStats::default());
    assert_eq!(view.read(7).len(), 4, "an idle view's state is that of its last change");
}

#[test]
fn a_view_whose_input_has_ended_is_readable_at_every_epoch_since_its_last_change() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(&directory.path().join("a"), &[1]);
    view.apply(4, &[(row(1, "a", 1), 1)]);
    view.table.complete(Epoch::END);
    for _ in 0..3 {
        view.state.flush().unwrap();
    }
    assert_eq!((view.read(4).len(), view.read(9).len(), view.read(u64::MAX).len()), (1, 1, 1));
    view.store.checkpoint(&directory.path().join("b")).unwrap();
    let mut view = View::open(&directory.path().join("b"), &[1]);
    assert_eq!(view.reader.completed(), Epoch(4));
    view.apply(5, &[(row(2, "b", 1), 1)]);
    assert_eq!(view.read(5).len(), 2);
}

#[test]
fn changes_that_come_too_late_and_flushes_that_come_too_early_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(directory.path(), &[1]);
    view.apply(5, &[(row(1, "a", 1), 1)]);
    assert!(view.table.apply(Epoch(5), &[delta(&[(row(2, "b", 1), 1)])]).is_err());
    view.table.apply(Epoch(6), &[delta(&[(row(2, "b", 1), 1)])]).unwrap();
    assert!(view.state.flush().is_err());
    view.table.complete(Epoch(6));
    view.table.complete(Epoch(3));
    assert_eq!(view.reader.completed(), Epoch(6));
    view.state.flush().unwrap();
    assert!(spec(&schema(), &[3]).is_err());
    assert!(spec(&schema(), &[0, 0]).is_err());
}

#[test]
fn readers_on_other_threads_see_whole_epochs_while_the_writer_goes_on() {
    const KEYS: i64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let mut view = View::open(directory.path(), &[1]);
    // Every epoch gives all keys the same number.
    let all = |n: i64| (0..KEYS).map(|k| row(k, "t", n)).collect::<Vec<_>>();
    view.table.apply(Epoch(1), &[Delta::inserts(batch(&all(1)))]).unwrap();
    view.table.complete(Epoch(1));
    let reader = view.reader.clone();
    let check = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (mut last, mut reads) = (0, 0);
        while last < 300 {
            runtime.block_on(reader.wait(Epoch(last + 1)));
            let Some(hold) = reader.hold(reader.completed()) else { continue };
            last = hold.epoch().0;
            let rows = scanned(&hold);
            assert_eq!(rows, (0..KEYS).map(|k| row(k, "t", last as i64)).collect::<Vec<_>>());
            reads += 1;
        }
        reads
    });
    for epoch in 2..=300 {
        let changes = all(epoch - 1).into_iter().map(|r| (r, -1)).chain(all(epoch).into_iter().map(|r| (r, 1)));
        view.table.apply(Epoch(epoch as u64), &[delta(&changes.collect::<Vec<_>>())]).unwrap();
        view.table.complete(Epoch(epoch as u64));
        if epoch % 7 == 0 {
            view.state.flush().unwrap();
        }
    }
    assert!(check.join().unwrap() > 0);
}

#[test]
fn waiting_for_a_view_that_is_gone_ends() {
    let directory = tempfile::tempdir().unwrap();
    let view = View::open(directory.path(), &[1]);
    let reader = view.reader.clone();
    drop(view);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(reader.wait(Epoch(1)));
    assert!(reader.hold(Epoch(1)).is_none());
}
