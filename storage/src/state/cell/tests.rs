use super::*;
use crate::state::testing;
use thalweg_catalog::ObjectId;

#[test]
fn values_come_back_after_a_restart_and_removed_ones_do_not() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(&directory.path().join("a")).unwrap();
    let state = store.operator_state(ObjectId(1), "source");
    let mut cells = state.cell_table("positions", VNode(5)).unwrap();
    cells.put(b"1", b"old");
    cells.put(b"2", b"two");
    state.flush().unwrap();
    cells.put(b"1", b"one");
    cells.put(b"3", b"");
    cells.remove(b"2");
    cells.remove(b"none");
    cells.put(b"4", b"four");
    cells.remove(b"4");
    assert_eq!(state.flush().unwrap().entries, 3);
    cells.put(b"1", b"one");
    assert_eq!(state.flush().unwrap().entries, 0, "what changes nothing is not written");
    store.checkpoint(&directory.path().join("b")).unwrap();
    cells.put(b"1", b"later");

    let store = testing::open(&directory.path().join("b")).unwrap();
    let cells = store.operator_state(ObjectId(1), "source").cell_table("positions", VNode(5)).unwrap();
    let entries = vec![(b"1".to_vec(), b"one".to_vec()), (b"3".to_vec(), b"".to_vec())];
    assert_eq!(cells.entries(), entries);
    assert_eq!((cells.get(b"1"), cells.get(b"2")), (Some(b"one".to_vec()), None));
}

#[test]
fn a_value_moves_to_its_new_owner_when_it_is_next_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(&directory.path().join("a")).unwrap();
    let state = store.operator_state(ObjectId(1), "source");
    state.cell_table("positions", VNode(700)).unwrap().put(b"1", b"one");
    state.flush().unwrap();
    store.checkpoint(&directory.path().join("b")).unwrap();

    let store = testing::open(&directory.path().join("c")).unwrap();
    store.import_from(&directory.path().join("b"), |vnode| vnode.0 >= 512).unwrap();
    let state = store.operator_state(ObjectId(1), "source");
    let mut cells = state.cell_table("positions", VNode(900)).unwrap();
    assert_eq!(cells.get(b"1"), Some(b"one".to_vec()));
    cells.put(b"1", b"uno");
    assert_eq!(state.flush().unwrap().entries, 2, "the old place is cleared");
    cells.remove(b"1");
    assert_eq!(state.flush().unwrap().entries, 1);
    assert!(store.scan_table(store.tables()[0].table_id).unwrap().next().is_none());
}

#[test]
fn names_of_former_workers_that_clash_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let merged = testing::open(&directory.path().join("merged")).unwrap();
    for vnode in [1, 2] {
        let path = directory.path().join(vnode.to_string());
        let store = testing::open(&path).unwrap();
        let state = store.operator_state(ObjectId(1), "source");
        state.cell_table("positions", VNode(vnode)).unwrap().put(b"same", b"x");
        state.flush().unwrap();
        let copy = directory.path().join(format!("copy {vnode}"));
        store.checkpoint(&copy).unwrap();
        merged.import_from(&copy, |_| true).unwrap();
    }
    let opened = merged.operator_state(ObjectId(1), "source").cell_table("positions", VNode(1));
    assert!(matches!(opened, Err(StorageError::Shape { .. })));
}
