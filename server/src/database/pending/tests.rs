use super::*;
use crate::database::change::{Change, Kind, change_of, encoded_rows};
use arrow::array::{Int32Array, Int64Array, RecordBatch};
use std::collections::BTreeMap;
use thalweg_catalog::{Column, ObjectDefinition, ObjectId, SqlState, SqlType};

fn table() -> Arc<CatalogObject> {
    Arc::new(CatalogObject {
        id: ObjectId(20_000),
        schema: "public".into(),
        name: "t".into(),
        columns: vec![Column { nullable: false, ..Column::new("id", SqlType::Int4) }],
        definition: ObjectDefinition::Table { primary_key: vec![0], connector: None, watermark: None },
        sql: String::new(),
        depends_on: vec![],
        comment: None,
        column_comments: BTreeMap::new(),
        created_ms: 0,
    })
}

fn rows(table: &CatalogObject, ids: &[i32]) -> RecordBatch {
    RecordBatch::try_new(change::unchecked_schema(table), vec![Arc::new(Int32Array::from(ids.to_vec()))]).unwrap()
}

fn insert(pending: &mut Pending, ids: &[i32], kept: usize) -> SqlResult<Change> {
    let table = Arc::clone(&pending.table);
    let change = change_of(&Kind::Insert, &table, &rows(&table, ids), pending, None)?;
    pending.add(change.delta.clone(), kept)?;
    Ok(change)
}

#[test]
fn a_row_costs_the_same_whatever_the_transaction_wrote_before() {
    const COUNT: i32 = 4096;
    let mut pending = Pending::new(&table());
    let (mut before, mut each) = (encoded_rows(), vec![]);
    for id in 0..COUNT {
        insert(&mut pending, &[id], 0).unwrap();
        each.push(encoded_rows() - before);
        before = encoded_rows();
        assert!(pending.len() <= 13, "{} writes after {id}", pending.len());
    }
    assert!(each.iter().all(|count| *count == each[0]), "{each:?}");
    assert_eq!(pending.writes().iter().map(Delta::num_rows).sum::<usize>(), COUNT as usize);
    assert_eq!(insert(&mut pending, &[7], 0).map(drop).unwrap_err().state, SqlState::UniqueViolation);
}

#[test]
fn what_is_taken_back_is_free_again() {
    let mut pending = Pending::new(&table());
    insert(&mut pending, &[1, 2], 0).unwrap();
    let savepoint = pending.len();
    for id in 3..40 {
        insert(&mut pending, &[id], savepoint).unwrap();
    }
    assert_eq!(pending.writes()[0].num_rows(), 2, "writes before a savepoint stay apart");
    pending.take_back(savepoint).unwrap();
    assert!(!pending.has(&key(&pending, 3)) && pending.has(&key(&pending, 2)));
    insert(&mut pending, &[3], 0).unwrap();
    assert_eq!(insert(&mut pending, &[2], 0).map(drop).unwrap_err().state, SqlState::UniqueViolation);
}

#[test]
fn a_key_that_was_deleted_can_be_added() {
    let mut pending = Pending::new(&table());
    insert(&mut pending, &[1], 0).unwrap();
    let schema = pending.table.arrow_schema();
    let gone = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![1]))]).unwrap();
    pending.add(Delta::weighted(gone, Int64Array::from(vec![-1])), 0).unwrap();
    assert!(pending.has(&key(&pending, 1)), "its row is known all the same");
    assert_eq!(pending.net_of(&key(&pending, 1)), 0);
    insert(&mut pending, &[1], 0).unwrap();
}

fn key(pending: &Pending, id: i32) -> Key {
    let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(vec![id]))];
    Arc::clone(&change::encoded_keys(&pending.table, &columns).unwrap()[0])
}
