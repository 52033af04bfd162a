use super::*;
use crate::checkpoint::tests::{WORKER, checkpoint, directory_of, manifest, open, restored};
use crate::manifest::MANIFESTS;
use crate::object::ObjectStore;
use crate::object::tests::{both_kinds, memory};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Writes the files of a database that gains a table file at each step, merges four into one now and then, and
/// rewrites its small files.
fn grow(directory: &Path, step: usize) {
    let table = |n: usize| directory.join(format!("{n:06}.sst"));
    fs::write(table(step), format!("table {step}")).unwrap();
    if step % 8 == 7 {
        (step - 7..step).for_each(|n| fs::remove_file(table(n)).unwrap_or(()));
    }
    if step % 64 == 63 {
        (0..step).for_each(|n| fs::remove_file(table(n)).unwrap_or(()));
    }
    fs::write(directory.join("CURRENT"), format!("MANIFEST-{step}")).unwrap();
}

fn files_of(directory: &Path) -> std::collections::BTreeMap<String, String> {
    let entries = fs::read_dir(directory).unwrap().map(|e| e.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), fs::read_to_string(e.path()).unwrap())).collect()
}

async fn sizes(store: &ObjectStore) -> (usize, usize) {
    (store.list(DATA).await.unwrap().len(), store.list(MANIFESTS).await.unwrap().len())
}

#[tokio::test]
async fn d5_the_store_stays_small_over_a_thousand_checkpoints() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let mut checkpoints = open(&store).await;
        let database = TempDir::new().unwrap();
        // The rules are the same for both; in a directory each checkpoint waits for the disk.
        let steps = if store.local_root().is_some() { 200 } else { 1000 };
        for step in 0..steps {
            if step % 50 == 49 {
                // A restart.
                checkpoints = open(&store).await;
                assert_eq!(restored(&checkpoints, &checkpoints.newest().unwrap()).await.unwrap(), files_of(database.path()));
            }
            grow(database.path(), step);
            let manifest = checkpoint(&checkpoints, step as u64 + 1, database.path()).await;
            let stats = checkpoints.collect_garbage().await.unwrap();
            assert!(stats.checkpoints_kept <= CHECKPOINTS_KEPT);
            let (data, manifests) = sizes(&store).await;
            // At most 22 live at once, some more in the two checkpoints before.
            assert!(data <= 40, "{data} objects after {step} checkpoints");
            assert!(manifests <= CHECKPOINTS_KEPT + 4, "{manifests} manifests after {step} checkpoints");
            if step % 97 == 0 {
                assert_eq!(restored(&checkpoints, &manifest).await.unwrap(), files_of(database.path()));
            }
        }
    }
}

#[tokio::test]
async fn d5_every_kept_checkpoint_can_be_restored() {
    let store = memory();
    let checkpoints = open(&store).await;
    let database = TempDir::new().unwrap();
    let mut committed = Vec::new();
    for step in 0..40 {
        grow(database.path(), step);
        committed.push((checkpoint(&checkpoints, step as u64 + 1, database.path()).await, files_of(database.path())));
        checkpoints.collect_garbage().await.unwrap();
        for (manifest, files) in committed.iter().rev().take(CHECKPOINTS_KEPT) {
            assert_eq!(restored(&checkpoints, manifest).await.unwrap(), *files);
        }
        if let Some((old, _)) = committed.iter().rev().nth(CHECKPOINTS_KEPT) {
            assert!(restored(&checkpoints, old).await.is_err(), "the small files of an old checkpoint are gone");
        }
    }
}

#[tokio::test]
async fn d5_files_of_an_attempt_under_way_stay_and_those_of_a_failed_one_go() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let checkpoints = open(&store).await;
        checkpoint(&checkpoints, 1, directory_of(&[("1.sst", "a")]).path()).await;
        let attempt = checkpoints.begin();
        let files = directory_of(&[("1.sst", "a"), ("2.sst", "b")]);
        let uploaded = checkpoints.upload_worker(&attempt, WORKER, files.path(), None).await.unwrap();
        assert_eq!(checkpoints.collect_garbage().await.unwrap().objects_deleted, 0);
        let manifest = manifest(&attempt, 2, vec![uploaded]);
        let second = checkpoints.commit(attempt, manifest).await.unwrap();
        assert_eq!(checkpoints.collect_garbage().await.unwrap().objects_deleted, 0);
        let failed = checkpoints.begin();
        checkpoints.upload_worker(&failed, WORKER, files.path(), None).await.unwrap();
        drop(failed);
        // Not yet: it looks like an attempt of another process that may still commit it.
        assert_eq!(checkpoints.collect_garbage().await.unwrap().objects_deleted, 0);
        checkpoint(&checkpoints, 3, files.path()).await;
        assert_eq!(checkpoints.collect_garbage().await.unwrap().objects_deleted, 2);
        assert_eq!(restored(&checkpoints, &second).await.unwrap().len(), 2);
    }
}

#[tokio::test]
async fn d5_what_a_killed_process_uploaded_goes_after_the_next_checkpoint() {
    let store = memory();
    let files = directory_of(&[("1.sst", "a"), ("CURRENT", "1")]);
    let killed = open(&store).await;
    checkpoint(&killed, 1, files.path()).await;
    let attempt = killed.begin();
    killed.upload_worker(&attempt, WORKER, files.path(), None).await.unwrap();
    std::mem::forget(attempt);
    let checkpoints = open(&store).await;
    checkpoint(&checkpoints, 2, files.path()).await;
    checkpoints.collect_garbage().await.unwrap();
    assert_eq!(sizes(&store).await.0, 3, "one table file and the small file of each checkpoint");
}

#[tokio::test]
async fn d4_a_stale_process_deletes_nothing() {
    let store = memory();
    let stale = open(&store).await;
    let database = TempDir::new().unwrap();
    for step in 0..5 {
        grow(database.path(), step);
        checkpoint(&stale, step as u64 + 1, database.path()).await;
    }
    let checkpoints = open(&store).await;
    let before = sizes(&store).await;
    assert!(matches!(stale.collect_garbage().await, Err(StorageError::Fenced { .. })));
    assert_eq!(sizes(&store).await, before);
    restored(&checkpoints, &checkpoints.newest().unwrap()).await.unwrap();
}
