use super::*;
use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use std::sync::Arc;

fn batch(from: i64, rows: i64) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from_iter_values(from..from + rows))]).unwrap()
}

fn numbers(batches: &[RecordBatch]) -> Vec<i64> {
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[test]
fn rows_are_found_in_memory_and_in_the_file_alike() {
    let directory = tempfile::tempdir().unwrap();
    let mut rows = SpilledRows::new(directory.path(), 20_000);
    for piece in 0..100 {
        rows.push(batch(piece * 100, 100)).unwrap();
        assert!(rows.memory_bytes <= 20_000, "{} bytes in memory", rows.memory_bytes);
    }
    assert_eq!((rows.rows(), rows.may_block()), (10_000, true));
    for (from, to) in [(0, 1), (99, 101), (0, 10_000), (5_050, 5_250), (9_999, 20_000), (10_000, 10_001)] {
        let expected: Vec<i64> = (from as i64..to.min(10_000) as i64).collect();
        assert_eq!(numbers(&rows.slice(from, to).unwrap()), expected, "{from}..{to}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file has no name");
}

#[test]
fn what_is_forgotten_takes_no_memory() {
    let directory = tempfile::tempdir().unwrap();
    let mut rows = SpilledRows::new(directory.path(), 1 << 20);
    for piece in 0..10 {
        rows.push(batch(piece * 10, 10)).unwrap();
        rows.forget(piece as usize * 10 + 5);
        assert_eq!(rows.pieces.len(), 1);
    }
    assert_eq!(numbers(&rows.slice(95, 99).unwrap()), [95, 96, 97, 98]);
    rows.forget(100);
    assert_eq!((rows.memory_bytes, rows.rows()), (0, 100));
    assert_eq!(rows.slice(90, 100).unwrap(), Vec::<RecordBatch>::new());
}
