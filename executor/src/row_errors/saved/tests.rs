use super::*;
use std::path::Path;
use thalweg_storage::state::testing;

const JOB: ObjectId = ObjectId(7);

fn by(worker: u32, workers: u32) -> SavedBy {
    SavedBy { worker, workers, vnode: VNode(3) }
}

fn error(row: &str, count: i64) -> ErrorRow {
    ErrorRow {
        job: JOB,
        operator: "map".into(),
        split: None,
        position: None,
        reason: "division by zero".into(),
        row: row.into(),
        count,
        first_seen_ms: 5,
    }
}

/// What a checkpoint in this directory shows when it is restored: rows with their counts, and the total.
fn restored(directory: &Path, by: SavedBy) -> (Vec<(String, i64)>, u64) {
    let log = ErrorLog::default();
    let store = testing::open(directory).unwrap();
    SavedErrors::restore(&store, JOB, by, &log).unwrap().expect("errors were saved");
    (log.rows().into_iter().map(|e| (e.row, e.count)).collect(), log.total(JOB))
}

#[test]
fn s27_a_checkpoint_holds_the_errors_of_its_epochs_and_no_later_ones() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(&directory.path().join("a")).unwrap();
    let mut saved = SavedErrors::new(&store, JOB, by(0, 1)).unwrap();
    saved.report(error("before", 1), false);
    saved.report(error("healed", 1), false);
    saved.report(error("healed", -1), false);
    saved.report(error("after", 1), true);
    saved.flush().unwrap();
    store.checkpoint(&directory.path().join("b")).unwrap();
    assert_eq!(restored(&directory.path().join("b"), by(0, 1)), (vec![("before".into(), 1)], 2));

    // What was later then is in the next.
    saved.flush().unwrap();
    store.checkpoint(&directory.path().join("c")).unwrap();
    let both = vec![("before".into(), 1), ("after".into(), 1)];
    assert_eq!(restored(&directory.path().join("c"), by(0, 1)), (both, 3));
}

#[test]
fn errors_of_former_workers_are_one_worker_s_after_a_rescale() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(&directory.path().join("a")).unwrap();
    for (worker, count) in [(0, 2), (1, -1)] {
        let mut saved = SavedErrors::new(&store, JOB, by(worker, 2)).unwrap();
        saved.report(error("one", count), false);
        saved.flush().unwrap();
    }
    store.checkpoint(&directory.path().join("b")).unwrap();
    drop(store);
    assert_eq!(restored(&directory.path().join("b"), by(0, 1)), (vec![("one".into(), 1)], 2));
}

#[test]
fn a_job_without_errors_has_no_state_for_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = testing::open(directory.path()).unwrap();
    assert!(SavedErrors::restore(&store, JOB, by(0, 1), &ErrorLog::default()).unwrap().is_none());
}
