use super::*;
use crate::object::tests::{assert_names, both_kinds, flip, memory, replace};
use thalweg_catalog::{CatalogObject, ObjectDefinition, ObjectId};

async fn open(store: &ObjectStore) -> (CatalogLog, Catalog) {
    try_open(store).await.unwrap()
}

async fn try_open(store: &ObjectStore) -> StorageResult<(CatalogLog, Catalog)> {
    CatalogLog::open(Arc::new(GenerationClaim::claim_unlocked(store).await?)).await
}

fn create(catalog: &Catalog, name: &str) -> CatalogChange {
    CatalogChange::Create(Box::new(CatalogObject {
        id: catalog.next_id(),
        schema: "public".to_string(),
        name: name.to_string(),
        columns: Vec::new(),
        definition: ObjectDefinition::View { query: "SELECT 1".to_string() },
        sql: format!("CREATE VIEW {name} AS SELECT 1"),
        depends_on: Vec::new(),
        comment: None,
        column_comments: std::collections::BTreeMap::new(),
        created_ms: 0,
    }))
}

async fn commit_views(log: &mut CatalogLog, mut catalog: Catalog, names: std::ops::Range<usize>) -> Catalog {
    for name in names {
        let change = create(&catalog, &format!("v{name}"));
        catalog = log.commit(&catalog, vec![change]).await.unwrap();
    }
    catalog
}

/// All but the version, which each start moves on.
fn content(catalog: &Catalog) -> CatalogSnapshot {
    CatalogSnapshot { version: 0, ..catalog.snapshot() }
}

#[tokio::test]
async fn the_catalog_comes_back_as_it_was_committed() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let (mut log, catalog) = open(&store).await;
        let catalog = commit_views(&mut log, catalog, 0..5).await;
        let drop_one = CatalogChange::Drop(ObjectId(ObjectId::FIRST_USER.0 + 1));
        let set = CatalogChange::Setting { name: "workers".to_string(), value: Some("4".to_string()) };
        let catalog = log.commit(&catalog, vec![drop_one, set]).await.unwrap();
        let (_, again) = open(&store).await;
        assert_eq!(content(&again), content(&catalog));
        assert_eq!(again.version(), catalog.version() + 1, "a start takes a version as its fence");
    }
}

#[tokio::test]
async fn d8_an_id_is_not_given_out_again_after_a_restart() {
    let store = memory();
    let (mut log, catalog) = open(&store).await;
    let catalog = commit_views(&mut log, catalog, 0..1).await;
    let dropped = log.commit(&catalog, vec![CatalogChange::Drop(ObjectId::FIRST_USER)]).await.unwrap();
    let (_, again) = open(&store).await;
    assert_eq!(again.next_id(), dropped.next_id());
    assert_eq!(again.next_id(), ObjectId(ObjectId::FIRST_USER.0 + 1));
}

#[tokio::test]
async fn d5_old_records_go_and_the_catalog_stays() {
    let store = memory();
    let (mut log, catalog) = open(&store).await;
    let catalog = commit_views(&mut log, catalog, 0..400).await;
    assert!(store.list(LOG).await.unwrap().len() as u64 <= 2 * SNAPSHOT_EVERY);
    assert_eq!(store.list(SNAPSHOTS).await.unwrap().len(), 2);
    let (mut log, again) = open(&store).await;
    assert_eq!(content(&again), content(&catalog));
    let more = commit_views(&mut log, again, 400..500).await;
    assert_eq!(content(&open(&store).await.1), content(&more));
}

#[tokio::test]
async fn d4_a_stale_process_commits_nothing() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let (mut stale, catalog) = open(&store).await;
        let (mut log, newer) = open(&store).await;
        let refused = stale.commit(&catalog, vec![create(&catalog, "lost")]).await;
        assert!(matches!(refused, Err(StorageError::Fenced { .. })), "{refused:?}");
        let newer = commit_views(&mut log, newer, 0..1).await;
        assert_eq!(content(&open(&store).await.1), content(&newer));
    }
}

#[tokio::test]
async fn d4_a_record_put_while_fenced_is_met_by_the_fence() {
    // The stale process put its record after the newer claim but before the newer process got to its fence.
    let store = memory();
    let old = Arc::new(GenerationClaim::claim_unlocked(&store).await.unwrap());
    let (_, catalog) = CatalogLog::open(Arc::clone(&old)).await.unwrap();
    let transaction = CatalogTransaction { version: catalog.version() + 1, changes: vec![create(&catalog, "late")] };
    let path = record_path(transaction.version);
    let record = seal(RECORD_KIND, &path, &Record { generation: old.generation(), transaction }).unwrap();
    let newer = Arc::new(GenerationClaim::claim_unlocked(&store).await.unwrap());
    store.put_if_absent(&path, record).await.unwrap();
    let (_, seen) = CatalogLog::open(newer).await.unwrap();
    assert!(seen.find("public", "late").is_some(), "what is in the log before the fence counts for everyone");
    // And a process whose own generation is older than the log's last is the stale one.
    assert!(matches!(CatalogLog::open(old).await, Err(StorageError::Fenced { .. })));
}

#[tokio::test]
async fn changes_that_the_catalog_refuses_leave_nothing() {
    let store = memory();
    let (mut log, catalog) = open(&store).await;
    let catalog = commit_views(&mut log, catalog, 0..1).await;
    let refused = log.commit(&catalog, vec![create(&catalog, "ok"), create(&catalog, "v0")]).await;
    assert!(matches!(refused, Err(StorageError::Refused(e)) if e.state == SqlState::DuplicateTable));
    let next = log.commit(&catalog, vec![create(&catalog, "v1")]).await.unwrap();
    let stale = log.commit(&catalog, vec![create(&catalog, "v2")]).await;
    assert!(matches!(stale, Err(StorageError::Refused(e)) if e.state == SqlState::SerializationFailure));
    assert_eq!(content(&open(&store).await.1), content(&next));
}

#[tokio::test]
async fn d6_a_damaged_record_is_named() {
    let store = memory();
    let (mut log, catalog) = open(&store).await;
    commit_views(&mut log, catalog, 0..4).await;
    let path = record_path(3);
    let whole = store.get(&path).await.unwrap();
    for bit in (0..whole.len() * 8).step_by(7) {
        flip(&store, &path, bit).await;
        assert_names(try_open(&store).await, &path);
        replace(&store, &path, &whole).await;
    }
    replace(&store, &path, &whole[..whole.len() / 2]).await;
    assert_names(try_open(&store).await, &path);
    replace(&store, &path, &store.get(&record_path(2)).await.unwrap()).await;
    assert_names(try_open(&store).await, &path);
    store.delete(vec![path.clone()]).await.unwrap();
    assert_names(try_open(&store).await, &path);
}

#[tokio::test]
async fn d6_a_damaged_snapshot_is_made_good_from_the_log_or_named() {
    let store = memory();
    let (mut log, catalog) = open(&store).await;
    let catalog = commit_views(&mut log, catalog, 0..150).await;
    let [before, newest] = log.snapshots;
    assert_eq!([before, newest], [64, 128]);
    flip(&store, &snapshot_path(newest), 100).await;
    assert_eq!(content(&open(&store).await.1), content(&catalog));
    flip(&store, &snapshot_path(before), 100).await;
    assert_names(try_open(&store).await, &snapshot_path(newest));
    store.delete(vec![snapshot_path(newest), snapshot_path(before)]).await.unwrap();
    assert_names(try_open(&store).await, &record_path(1));
}

#[tokio::test]
async fn d6_a_store_that_lost_its_catalog_does_not_start_empty() {
    for path in ["checkpoint/manifest/00000000001000000001.json", "table_log/segment/00000000000000000000.log"] {
        let store = memory();
        store.put_if_absent(path, "1".into()).await.unwrap();
        assert_names(try_open(&store).await, &record_path(1));
    }
}

#[tokio::test]
async fn a_commit_that_was_abandoned_stops_the_log_until_it_is_opened_again() {
    let (_directory, stores) = both_kinds();
    let store = &stores[0];
    let (mut log, catalog) = open(store).await;
    let change = vec![create(&catalog, "v0")];
    {
        let mut commit = Box::pin(log.commit(&catalog, change.clone()));
        assert!(futures::poll!(commit.as_mut()).is_pending());
    }
    assert!(matches!(log.commit(&catalog, change).await, Err(StorageError::Poisoned { .. })));
    let (mut log, catalog) = open(store).await;
    let name = format!("after{}", catalog.version());
    log.commit(&catalog, vec![create(&catalog, &name)]).await.unwrap();
}
