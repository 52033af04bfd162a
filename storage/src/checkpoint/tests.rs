use super::*;
use crate::generation::Generation;
use crate::manifest::JobEntry;
use crate::object::tests::{assert_names, both_kinds, flip, memory, replace};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{DB, Options};
use tempfile::TempDir;
use thalweg_catalog::{Epoch, ObjectId};

pub(crate) async fn open(store: &ObjectStore) -> CheckpointStore {
    try_open(store).await.unwrap()
}

async fn try_open(store: &ObjectStore) -> StorageResult<CheckpointStore> {
    CheckpointStore::open(Arc::new(GenerationClaim::claim_unlocked(store).await?)).await
}

async fn open_at(store: &ObjectStore, number: CheckpointNumber) -> StorageResult<CheckpointStore> {
    CheckpointStore::open_at(Arc::new(GenerationClaim::claim_unlocked(store).await?), number).await
}

pub(crate) fn manifest(attempt: &CheckpointAttempt, epoch: u64, workers: Vec<WorkerFiles>) -> CheckpointManifest {
    CheckpointManifest {
        epoch: Epoch(epoch),
        generation: attempt.number().generation(),
        number: attempt.number(),
        workers,
        jobs: vec![JobEntry { id: ObjectId(16384), fingerprint: "scan>filter".to_string(), since: Epoch(1) }],
        created_ms: epoch,
        catalog_version: 1,
        table_log_segment: 0,
    }
}

pub(crate) const WORKER: WorkerIndex = WorkerIndex(0);

/// Makes a checkpoint of a directory of one worker.
pub(crate) async fn checkpoint(store: &CheckpointStore, epoch: u64, directory: &Path) -> Arc<CheckpointManifest> {
    let attempt = store.begin();
    let previous = store.newest();
    let files = store.upload_worker(&attempt, WORKER, directory, previous.as_deref()).await.unwrap();
    let manifest = manifest(&attempt, epoch, vec![files]);
    store.commit(attempt, manifest).await.unwrap()
}

/// A directory that looks like a database checkpoint.
pub(crate) fn directory_of(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, content) in files {
        fs::write(directory.path().join(name), content).unwrap();
    }
    directory
}

/// Restores into a new directory and gives its files.
pub(crate) async fn restored(store: &CheckpointStore, manifest: &CheckpointManifest) -> StorageResult<BTreeMap<String, String>> {
    let parent = TempDir::new().unwrap();
    let directory = parent.path().join("worker");
    let linked = store.restore_worker(manifest, WORKER, &directory).await?;
    store.check(linked).await?;
    let files = fs::read_dir(&directory).unwrap().map(|entry| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap())
    });
    Ok(files.collect())
}

fn paths(manifest: &CheckpointManifest) -> Vec<&str> {
    manifest.workers[0].files.iter().map(|f| f.path.as_str()).collect()
}

#[tokio::test]
async fn a_database_comes_back_as_it_was_at_the_checkpoint() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let work = TempDir::new().unwrap();
        let database = DB::open_default(work.path().join("live")).unwrap();
        let checkpoints = open(&store).await;
        let mut uploaded = Vec::new();
        for epoch in 1..=4u64 {
            for key in 0..100 {
                database.put(format!("{epoch}-{key}"), epoch.to_le_bytes()).unwrap();
            }
            database.flush().unwrap();
            let directory = work.path().join(format!("checkpoint-{epoch}"));
            Checkpoint::new(&database).unwrap().create_checkpoint(&directory).unwrap();
            let before = store.list(DATA).await.unwrap().iter().filter(|o| o.path.ends_with(".sst")).count();
            checkpoint(&checkpoints, epoch, &directory).await;
            fs::remove_dir_all(&directory).unwrap();
            let after = store.list(DATA).await.unwrap().iter().filter(|o| o.path.ends_with(".sst")).count();
            uploaded.push(after - before);
        }
        assert_eq!(uploaded, [1, 1, 1, 1], "only new table files go up");
        database.put("later", "x").unwrap();
        drop(database);
        let checkpoints = open(&store).await;
        let newest = checkpoints.newest().unwrap();
        assert_eq!((newest.epoch, newest.generation), (Epoch(4), Generation(1)));
        assert_eq!(newest.jobs[0].fingerprint, "scan>filter");
        let restored = work.path().join("restored");
        checkpoints.restore_worker(&newest, WORKER, &restored).await.unwrap();
        let database = DB::open(&Options::default(), &restored).unwrap();
        for epoch in 1..=4u64 {
            assert_eq!(database.get(format!("{epoch}-99")).unwrap().unwrap(), epoch.to_le_bytes());
        }
        assert_eq!(database.get("later").unwrap(), None);
        // The restored database goes on, and what it shares with the store stays as it is.
        database.put("1-0", "changed").unwrap();
        database.compact_range::<&[u8], &[u8]>(None, None);
        drop(database);
        let again = work.path().join("again");
        checkpoints.restore_worker(&newest, WORKER, &again).await.unwrap();
        assert_eq!(DB::open(&Options::default(), &again).unwrap().get("1-0").unwrap().unwrap(), 1u64.to_le_bytes());
    }
}

#[tokio::test]
async fn a_table_file_is_known_by_more_than_its_name_and_size() {
    let store = memory();
    let checkpoints = open(&store).await;
    let first = checkpoint(&checkpoints, 1, directory_of(&[("8.sst", "aaaa"), ("CURRENT", "5")]).path()).await;
    let second = checkpoint(&checkpoints, 2, directory_of(&[("8.sst", "aaaa"), ("CURRENT", "5")]).path()).await;
    assert_eq!(paths(&first)[0], paths(&second)[0], "the table file is shared");
    assert_ne!(paths(&first)[1], paths(&second)[1], "a file that can change is not");
    // A database that was built anew can give the same name to another file of the same size.
    let third = checkpoint(&checkpoints, 3, directory_of(&[("8.sst", "bbbb"), ("CURRENT", "5")]).path()).await;
    assert_ne!(paths(&second)[0], paths(&third)[0]);
    assert_eq!(restored(&checkpoints, &third).await.unwrap()["8.sst"], "bbbb");
}

#[tokio::test]
async fn restoring_needs_an_empty_directory() {
    let checkpoints = open(&memory()).await;
    let manifest = checkpoint(&checkpoints, 1, directory_of(&[("8.sst", "aaaa")]).path()).await;
    let full = directory_of(&[("9.sst", "of another time")]);
    assert!(checkpoints.restore_worker(&manifest, WORKER, full.path()).await.is_err());
    let unknown = TempDir::new().unwrap();
    checkpoints.restore_worker(&manifest, WorkerIndex(9), unknown.path()).await.unwrap();
}

#[tokio::test]
async fn d6_each_damaged_or_missing_file_is_named_at_restore_or_by_the_check_after_it() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let checkpoints = open(&store).await;
        let files = directory_of(&[("8.sst", "table"), ("9.sst", "another"), ("CURRENT", "5"), ("MANIFEST-5", "6")]);
        let manifest = checkpoint(&checkpoints, 1, files.path()).await;
        for path in paths(&manifest) {
            let whole = store.get(path).await.unwrap();
            flip(&store, path, 3).await;
            assert_names(restored(&checkpoints, &manifest).await, path);
            replace(&store, path, &whole[1..]).await;
            assert_names(restored(&checkpoints, &manifest).await, path);
            store.delete(vec![path.to_string()]).await.unwrap();
            assert_names(restored(&checkpoints, &manifest).await, path);
            replace(&store, path, &whole).await;
        }
        restored(&checkpoints, &manifest).await.unwrap();
    }
}

#[tokio::test]
async fn d6_a_damaged_manifest_is_named_and_an_older_one_is_taken_only_when_asked() {
    let store = memory();
    let checkpoints = open(&store).await;
    let first = checkpoint(&checkpoints, 1, directory_of(&[("8.sst", "first")]).path()).await;
    let second = checkpoint(&checkpoints, 2, directory_of(&[("9.sst", "second")]).path()).await;
    let path = second.number.path();
    let whole = store.get(&path).await.unwrap();
    for bit in (0..whole.len() * 8).step_by(5) {
        flip(&store, &path, bit).await;
        assert_names(try_open(&store).await, &path);
        replace(&store, &path, &whole).await;
    }
    replace(&store, &path, b"").await;
    assert_names(try_open(&store).await, &path);
    assert_names(open_at(&store, second.number).await, &path);
    let fallen_back = open_at(&store, first.number).await.unwrap();
    assert_eq!(fallen_back.newest().unwrap(), first);
    // From now on the older one is where the store goes on from, without being asked again.
    let again = open(&store).await;
    assert_eq!(again.newest().unwrap(), first);
    let third = checkpoint(&again, 3, directory_of(&[("8.sst", "first")]).path()).await;
    assert_eq!(open(&store).await.newest().unwrap(), third);
    assert_names(open_at(&store, second.number).await, &path);
}

#[tokio::test]
async fn d7_numbers_are_never_used_twice() {
    let store = memory();
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let checkpoints = open(&store).await;
        let failed = checkpoints.begin();
        assert!(seen.insert(failed.number()));
        drop(failed);
        let files = directory_of(&[("8.sst", "x")]);
        assert!(seen.insert(checkpoint(&checkpoints, 1, files.path()).await.number));
        assert!(seen.insert(checkpoints.begin().number()));
    }
    assert!(seen.iter().zip(seen.iter().skip(1)).all(|(a, b)| a < b));
}

#[tokio::test]
async fn d7_an_attempt_that_failed_is_no_checkpoint() {
    let store = memory();
    let checkpoints = open(&store).await;
    let first = checkpoint(&checkpoints, 1, directory_of(&[("8.sst", "x")]).path()).await;
    let attempt = checkpoints.begin();
    checkpoints.upload_worker(&attempt, WORKER, directory_of(&[("9.sst", "y")]).path(), None).await.unwrap();
    assert!(checkpoints.upload_worker(&attempt, WorkerIndex(1), Path::new("/no/such/directory"), None).await.is_err());
    drop(attempt);
    assert_eq!(open(&store).await.newest().unwrap(), first);
}

#[tokio::test]
async fn d4_a_stale_process_commits_no_checkpoint() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let stale = open(&store).await;
        let first = checkpoint(&stale, 1, directory_of(&[("8.sst", "x")]).path()).await;
        let attempt = stale.begin();
        let files = stale.upload_worker(&attempt, WORKER, directory_of(&[("8.sst", "y")]).path(), None).await.unwrap();
        let late = manifest(&attempt, 2, vec![files]);
        let checkpoints = open(&store).await;
        assert_eq!(checkpoints.newest().unwrap(), first);
        let refused = stale.commit(attempt, late.clone()).await;
        assert!(matches!(refused, Err(StorageError::Fenced { ours: 1, theirs: 2 })), "{refused:?}");
        // Even if it had got past the look before the put.
        store.put_if_absent(&late.number.path(), late.seal().unwrap()).await.unwrap();
        assert_eq!(open(&store).await.newest().unwrap(), first);
    }
}

#[tokio::test]
async fn a_new_store_has_no_checkpoint() {
    let checkpoints = open(&memory()).await;
    assert_eq!(checkpoints.newest(), None);
    assert_eq!(checkpoints.collect_garbage().await.unwrap().checkpoints_kept, 0);
}
