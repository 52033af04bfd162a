use super::*;
use crate::clock::Clock;
use std::path::Path;
use thalweg_storage::worker_store::WorkerStoreOptions;
use tokio::runtime::Handle;

fn context(path: &Path) -> WorkerContext {
    let store = WorkerStore::open(path, WorkerStoreOptions::default()).unwrap();
    WorkerContext::new(0, 1, Arc::new(Shared::new(1, Clock::after(Epoch(0)), Handle::current())), store)
}

/// The positions that a copy of the worker's database holds.
fn copied(context: &WorkerContext, to: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    context.store.checkpoint(to).unwrap();
    let copy = WorkerStore::open(to, WorkerStoreOptions::default()).unwrap();
    copy.operator_state(ObjectId::FIRST_USER, "source").cell_table("positions", VNode(0)).unwrap().entries().unwrap()
}

#[tokio::test]
async fn d1_an_end_that_comes_while_a_checkpoint_is_made_is_in_the_next_one_only() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&directory.path().join("database"));
    let state = context.store.operator_state(ObjectId::FIRST_USER, "source");
    let mut cells = state.cell_table("positions", VNode(0)).unwrap();
    let (first, _) = context.shared.clock.tick(10, true);
    cells.put(b"0", b"the end");
    context.flush_ended(&state).unwrap();
    context.flush_waiting(Some(first));
    assert_eq!(copied(&context, &directory.path().join("first")), vec![]);
    context.shared.clock.end_checkpoint(first);
    // The worker may meet the next checkpoint before it has had time for anything else.
    let (second, _) = context.shared.clock.tick(20, true);
    context.flush_waiting(Some(second));
    let expected = vec![(b"0".to_vec(), b"the end".to_vec())];
    assert_eq!(copied(&context, &directory.path().join("second")), expected);
}

#[tokio::test]
async fn d8_what_waits_to_be_written_goes_with_its_job() {
    let directory = tempfile::tempdir().unwrap();
    let context = context(&directory.path().join("database"));
    let state = context.store.operator_state(ObjectId::FIRST_USER, "source");
    let mut cells = state.cell_table("positions", VNode(0)).unwrap();
    let (checkpoint, _) = context.shared.clock.tick(10, true);
    cells.put(b"0", b"the end");
    context.flush_ended(&state).unwrap();
    context.shared.clock.end_checkpoint(checkpoint);
    context.drop_job(ObjectId::FIRST_USER).unwrap();
    context.flush_waiting(None);
    assert!(context.store.tables().is_empty());
    assert_eq!(copied(&context, &directory.path().join("copy")), vec![]);
}
