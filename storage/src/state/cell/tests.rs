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
    assert_eq!(cells.entries().unwrap(), entries);
    assert_eq!((cells.get(b"1").unwrap(), cells.get(b"2").unwrap()), (Some(b"one".to_vec()), None));
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
    assert_eq!(cells.get(b"1").unwrap(), Some(b"one".to_vec()));
    cells.put(b"1", b"uno");
    assert_eq!(state.flush().unwrap().entries, 2, "the old place is cleared");
    cells.remove(b"1");
    assert_eq!(state.flush().unwrap().entries, 1);
    assert!(store.scan_table(store.tables()[0].table_id).unwrap().next().is_none());
}

#[test]
fn after_a_rescale_all_former_workers_values_of_a_name_are_given_until_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let merged = testing::open(&directory.path().join("merged")).unwrap();
    for vnode in [1, 2] {
        let path = directory.path().join(vnode.to_string());
        let store = testing::open(&path).unwrap();
        let state = store.operator_state(ObjectId(1), "source");
        state.cell_table("positions", VNode(vnode)).unwrap().put(b"same", &vnode.to_be_bytes());
        state.flush().unwrap();
        let copy = directory.path().join(format!("copy {vnode}"));
        store.checkpoint(&copy).unwrap();
        merged.import_from(&copy, |_| true).unwrap();
    }
    let state = merged.operator_state(ObjectId(1), "source");
    let mut cells = state.cell_table("positions", VNode(1)).unwrap();
    let former = |vnode: u16| (b"same".to_vec(), vnode.to_be_bytes().to_vec());
    assert_eq!(cells.entries().unwrap(), [former(1), former(2)]);
    cells.put(b"same", &1u16.to_be_bytes());
    state.flush().unwrap();
    assert_eq!(cells.entries().unwrap(), [former(1)]);
    assert_eq!(merged.scan_table(merged.tables()[0].table_id).unwrap().map(|b| b.unwrap().num_rows()).sum::<usize>(), 1);
}

#[test]
fn d18_a_large_value_leaves_memory_when_it_is_stored_and_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(&directory.path().join("a")).unwrap();
    let state = store.operator_state(ObjectId(1), "sink");
    let mut cells = state.cell_table("log", VNode(5)).unwrap();
    let large = vec![7; KEPT_BYTES_MAX + 1];
    cells.put(b"1", &large);
    cells.put(b"2", b"small");
    let stored = cells.stored(b"1");
    assert_eq!(stored.read().unwrap(), None, "it has not been flushed");
    assert!(state.memory_bytes() > large.len());
    state.flush().unwrap();
    assert!(state.memory_bytes() < 1000, "{} bytes are held", state.memory_bytes());
    assert_eq!(std::thread::spawn(move || stored.read().unwrap()).join().unwrap(), Some(large.clone()));
    assert_eq!(cells.entries().unwrap(), [(b"1".to_vec(), large), (b"2".to_vec(), b"small".to_vec())]);
    store.checkpoint(&directory.path().join("b")).unwrap();
    cells.remove(b"1");
    state.flush().unwrap();
    assert_eq!((cells.names(), cells.stored(b"1").read().unwrap()), (vec![b"2".to_vec()], None));

    let state = testing::open(&directory.path().join("b")).unwrap().operator_state(ObjectId(1), "sink");
    let cells = state.cell_table("log", VNode(5)).unwrap();
    assert_eq!(cells.names(), [b"1", b"2"]);
    assert!(state.memory_bytes() < 1000, "{} bytes are held after a restart", state.memory_bytes());
}
