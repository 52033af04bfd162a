use super::*;
use crate::state::{ROWS_BIT, RowCodec, TableSpec, testing};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use std::collections::BTreeMap;
use thalweg_catalog::hash::hash_columns;
use thalweg_catalog::{Delta, Epoch};

const COUNT: i64 = 3000;

fn field(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn spec(name: &str) -> TableSpec {
    TableSpec {
        name: name.to_string(),
        key: vec![field("k", DataType::Int64)],
        sub: Vec::new(),
        sub_order: Vec::new(),
        value: vec![field("sum", DataType::Int64), field("any", DataType::Boolean), field("exact", DataType::Decimal128(38, 10))],
    }
}

fn sorted_spec() -> TableSpec {
    let sub = vec![field("text", DataType::Utf8)];
    TableSpec { sub, sub_order: vec![(true, false)], value: vec![field("copies", DataType::Int64)], ..spec("sides") }
}

fn view_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![field("k", DataType::Int64), field("n", DataType::Int64)]))
}

fn keys_of_worker(worker: usize, workers: usize) -> (Vec<u64>, ArrayRef) {
    let all: ArrayRef = Arc::new(Int64Array::from_iter_values(0..COUNT));
    let hashes = hash_columns(&[Arc::clone(&all)], COUNT as usize).unwrap();
    let own = (0..COUNT as usize).filter(|k| VNode::of_hash(hashes[*k]).worker(workers).0 == worker).collect::<Vec<_>>();
    let keys = Int64Array::from_iter_values(own.iter().map(|k| *k as i64));
    (own.iter().map(|k| hashes[*k]).collect(), Arc::new(keys))
}

/// Fills a group, a sorted, a keyed and an unkeyed view, and a cell table with a worker's share.
fn fill(store: &WorkerStore, worker: usize, workers: usize) {
    let (hashes, keys) = keys_of_worker(worker, workers);
    let numbers = keys.as_primitive::<Int64Type>().values().to_vec();
    let encoded = RowCodec::new(&spec("").key).unwrap().encode(&[Arc::clone(&keys)], numbers.len()).unwrap();
    let state = store.operator_state(ObjectId(1), "aggregate");
    let mut groups = state.group_table(spec("groups")).unwrap();
    let mut slots = Vec::new();
    groups.slots(&hashes, &encoded, &mut slots).unwrap();
    for (slot, k) in slots.iter().zip(&numbers) {
        let value = groups.value_mut(*slot);
        value[..8].copy_from_slice(&(k * 10).to_le_bytes());
        value[8] = u8::from(k % 2 == 0);
        value[9..].copy_from_slice(&i128::from(*k).to_le_bytes());
    }
    groups.end_batch();
    let mut sides = state.sorted_table(sorted_spec()).unwrap();
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let subs = RowCodec::ordered(&sorted_spec().sub, &[(true, false)]).unwrap().encode(&[texts], 2).unwrap();
    for (row, hash) in hashes.iter().enumerate() {
        sides.add(*hash, encoded.row(row), subs.row(0), 2).unwrap();
        sides.add(*hash, encoded.row(row), subs.row(1), 3).unwrap();
    }
    let mut cells = state.cell_table("positions", VNode((worker * 1024 / workers) as u16)).unwrap();
    cells.put(format!("partition {worker}").as_bytes(), b"at 5");
    for (relation, key) in [(2, vec![0]), (3, vec![])] {
        let state = store.operator_state(ObjectId(relation), "materialize");
        let mut view = state.view_table(ObjectId(relation), view_schema(), &key).unwrap();
        let batch = RecordBatch::try_new(view_schema(), vec![Arc::clone(&keys), Arc::clone(&keys)]).unwrap();
        view.apply(Epoch(7), &[Delta::inserts(batch.clone())]).unwrap();
        if key.is_empty() {
            view.apply(Epoch(7), &[Delta::inserts(batch)]).unwrap();
        }
        view.complete(Epoch(7));
        state.flush().unwrap();
    }
    state.flush().unwrap();
}

/// What a store has, added up: groups, sides' copies, rows of the views, cells.
fn contents(store: &WorkerStore) -> [usize; 5] {
    let state = store.operator_state(ObjectId(1), "aggregate");
    let groups = state.group_table(spec("groups")).unwrap();
    let (mut group_count, mut copies) = (0, 0);
    groups
        .for_each(&mut |_, _, value| {
            assert_eq!(
                i128::from_le_bytes(value[9..].try_into().unwrap()) * 10,
                i128::from(value[0]) | i128::from(value[1]) << 8
            );
            group_count += 1;
            Ok(())
        })
        .unwrap();
    let mut sides = state.sorted_table(sorted_spec()).unwrap();
    let mut keys = Vec::new();
    sides
        .for_each_key(&mut |hash, key| {
            keys.push((hash, key.to_vec()));
            Ok(())
        })
        .unwrap();
    for (hash, key) in &keys {
        sides
            .scan(*hash, key, |_, entry| {
                copies += entry.count as usize;
                true
            })
            .unwrap();
    }
    let cells = state.cell_table("positions", VNode(0)).unwrap().entries().unwrap().len();
    let view = |relation: u32, key: &[usize]| {
        let state = store.operator_state(ObjectId(relation), "materialize");
        let reader = state.view_table(ObjectId(relation), view_schema(), key).unwrap().reader();
        assert_eq!(reader.completed(), Epoch(7));
        let scanned = reader.hold(Epoch(7)).unwrap().scan(&[]).map(|b| b.unwrap().num_rows()).sum::<usize>();
        assert_eq!(reader.row_count(), scanned);
        scanned
    };
    [group_count, copies, view(2, &[0]), view(3, &[]), cells]
}

#[test]
fn two_workers_state_becomes_three_workers_state() {
    let directory = tempfile::tempdir().unwrap();
    for worker in 0..2 {
        let store = testing::open(&directory.path().join(format!("old {worker}"))).unwrap();
        if worker == 1 {
            // Ids differ between workers; names count.
            store.operator_state(ObjectId(99), "other").cell_table("x", VNode(0)).unwrap();
        }
        fill(&store, worker, 2);
        store.checkpoint(&directory.path().join(format!("copy {worker}"))).unwrap();
    }
    let mut total = [0; 5];
    for worker in 0..3 {
        let store = testing::open(&directory.path().join(format!("new {worker}"))).unwrap();
        for from in 0..2 {
            let copy = directory.path().join(format!("copy {from}"));
            store.import_from(&copy, |vnode| vnode.worker(3).0 == worker).unwrap();
        }
        let own = contents(&store);
        let share = keys_of_worker(worker, 3).0.len();
        // Rows without a key belong to workers by all their columns.
        assert_eq!(own[..3], [share, share * 5, share]);
        total.iter_mut().zip(own).for_each(|(sum, n)| *sum += n);
    }
    assert_eq!(total, [3000, 15_000, 3000, 6000, 2]);
}

#[test]
fn every_state_table_is_readable_with_typed_columns_from_another_thread() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(directory.path()).unwrap();
    fill(&store, 0, 1);
    let reader = store.reader();
    let shown = std::thread::spawn(move || {
        let mut shown = BTreeMap::new();
        for table in reader.tables() {
            let scan = reader.scan_table(table.table_id).unwrap();
            let names = scan.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
            let batches = scan.map(Result::unwrap).collect::<Vec<_>>();
            let rows = batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            shown.insert(format!("{}.{}.{}", table.job, table.operator_path, table.spec.name), (names.join(","), rows, batches));
        }
        shown
    });
    let shown = shown.join().unwrap();
    let heads = shown.iter().map(|(name, (columns, rows, _))| format!("{name}: {columns}: {rows}")).collect::<Vec<_>>();
    let expected = [
        "1.aggregate.groups: k,sum,any,exact: 3000",
        "1.aggregate.positions: name,value: 1",
        "1.aggregate.sides: k,text,copies,extra: 6000",
        "2.materialize.rows: k,n: 3000",
        "3.materialize.rows: k,n,count: 3000",
    ];
    assert_eq!(heads, expected);
    let groups = &shown["1.aggregate.groups"].2[0];
    let (k, sum) = (groups.column(0).as_primitive::<Int64Type>(), groups.column(1).as_primitive::<Int64Type>());
    assert!((0..groups.num_rows()).all(|row| sum.value(row) == k.value(row) * 10));
    assert!((0..groups.num_rows()).all(|row| groups.column(2).as_boolean().value(row) == (k.value(row) % 2 == 0)));
    let sides = &shown["1.aggregate.sides"].2[0];
    assert_eq!(sides.column(1).as_string::<i32>().value(0), "b", "its sub-key descends");
    assert_eq!(sides.column(2).as_primitive::<Int64Type>().value(0), 3);
    assert!(matches!(store.scan_table(5), Err(StorageError::Missing { .. })));
}

#[test]
fn d8_a_dropped_job_leaves_nothing_and_its_ids_are_not_given_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(&directory.path().join("a")).unwrap();
    fill(&store, 0, 1);
    let given = |store: &WorkerStore| store.tables().iter().map(|t| t.table_id & !ROWS_BIT).max().unwrap();
    let before = given(&store);
    for job in 1..4 {
        store.drop_job(ObjectId(job)).unwrap();
    }
    assert!(store.tables().is_empty());
    assert_eq!(store.memory_bytes().values().sum::<usize>(), 0);
    let state = store.operator_state(ObjectId(2), "materialize");
    let view = state.view_table(ObjectId(2), view_schema(), &[0]).unwrap();
    assert_eq!((view.reader().row_count(), view.reader().completed()), (0, Epoch(0)));
    assert!(given(&store) > before);
    store.checkpoint(&directory.path().join("b")).unwrap();
    let copy = testing::open(&directory.path().join("b")).unwrap();
    assert_eq!(copy.tables(), store.tables());
    assert!(copy.scan_table(copy.tables()[0].table_id).unwrap().next().is_none());
}

#[test]
fn while_frozen_eviction_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(&directory.path().join("a")).unwrap();
    let state = store.operator_state(ObjectId(1), "aggregate");
    let mut groups = state.group_table(spec("groups")).unwrap();
    let (hashes, keys) = keys_of_worker(0, 1);
    let encoded = RowCodec::new(&spec("").key).unwrap().encode(&[keys], hashes.len()).unwrap();
    let mut write = |rows: std::ops::Range<usize>| {
        let mut slots = Vec::new();
        groups.slots(&hashes, &encoded, &mut slots).unwrap();
        rows.for_each(|row| groups.value_mut(slots[row]).fill(1));
        groups.end_batch();
        groups.len_hot()
    };
    write(0..2000);
    state.flush().unwrap();
    store.freeze();
    assert!(store.is_frozen());
    // The next epoch's changes, which the checkpoint must not see.
    write(1900..3000);
    state.shrink(0).unwrap();
    store.checkpoint(&directory.path().join("b")).unwrap();
    store.thaw();
    let copy = testing::open(&directory.path().join("b")).unwrap();
    let rows = |store: &WorkerStore| {
        let table = store.tables()[0].table_id;
        store.scan_table(table).unwrap().map(|b| b.unwrap().num_rows()).sum::<usize>()
    };
    assert_eq!(rows(&copy), 2000);
    assert_eq!(store.statistics()[0].hot_entries, 1100, "what is dirty stays");
    state.shrink(0).unwrap();
    assert_eq!((rows(&store), store.statistics()[0].hot_entries), (3000, 0));
}

#[test]
fn d6_a_damaged_database_is_an_error_and_not_an_empty_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let store = testing::open(&path).unwrap();
    fill(&store, 0, 1);
    let copy = directory.path().join("b");
    store.checkpoint(&copy).unwrap();
    let table = std::fs::read_dir(&copy).unwrap().map(|f| f.unwrap().path()).find(|p| p.extension().is_some_and(|e| e == "sst"));
    let table = table.unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    std::fs::remove_file(&table).unwrap();
    let missing = testing::open(&copy).and_then(|s| s.scan_table(16)?.collect::<StorageResult<Vec<_>>>());
    assert!(missing.is_err());
    bytes.iter_mut().skip(10).step_by(500).for_each(|b| *b ^= 0x40);
    std::fs::write(&table, &bytes).unwrap();
    let damaged = testing::open(&copy).and_then(|s| s.scan_table(16)?.collect::<StorageResult<Vec<_>>>());
    assert!(damaged.is_err());
}

#[test]
fn counts_that_are_not_numbers_are_not_merged() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(directory.path()).unwrap();
    store.database.write(|batch| batch.put(b"\0\0\0\x20broken", b"not a number")).unwrap();
    let mut writer = BatchWriter::new(&store.database);
    writer.add(0x20, VNode(u16::from_be_bytes(*b"br")), b"oken", 1).unwrap();
    writer.finish().unwrap();
    assert!(store.database.get(b"\0\0\0\x20broken").is_err());
}

#[test]
fn merged_rows_lie_in_blob_files_and_are_in_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("a"), directory.path().join("b"));
    let subs = |count: i64| {
        let texts: ArrayRef = Arc::new((0..count).map(|n| Some(format!("{n:0100}"))).collect::<StringArray>());
        RowCodec::ordered(&sorted_spec().sub, &[(true, false)]).unwrap().encode(&[texts], count as usize).unwrap()
    };
    let store = testing::open(&first).unwrap();
    let state = store.operator_state(ObjectId(1), "join");
    let mut table = state.sorted_table(sorted_spec()).unwrap();
    let (hashes, key) = keys_of_worker(0, 1);
    let keys = RowCodec::new(&sorted_spec().key).unwrap().encode(&[key], hashes.len()).unwrap();
    let rows = subs(50);
    for row in 0..rows.len() {
        table.add(hashes[0], keys.row(0), rows.row(row), 1).unwrap();
    }
    state.flush().unwrap();
    let db = store.database.raw().unwrap();
    let family = db.cf_handle(ROWS).unwrap();
    store.database.flush().unwrap();
    db.compact_range_cf(family, None::<&[u8]>, None::<&[u8]>);
    store.checkpoint(&second).unwrap();
    let names = std::fs::read_dir(&second).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.into_iter().any(|name| name.ends_with(".blob")));
    let copy = testing::open(&second).unwrap();
    let mut table = copy.operator_state(ObjectId(1), "join").sorted_table(sorted_spec()).unwrap();
    let mut found = Vec::new();
    table
        .scan(hashes[0], keys.row(0), |sub, _| {
            found.push(sub.to_vec());
            true
        })
        .unwrap();
    let mut expected = (0..50).map(|row| rows.row(row).to_vec()).collect::<Vec<_>>();
    expected.sort();
    assert_eq!(found, expected);
}
