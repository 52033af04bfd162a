use super::*;
use crate::object::tests::{Flaky, both_kinds, memory};
use std::collections::BTreeSet;
use tempfile::TempDir;

#[tokio::test]
async fn d4_a_newer_claim_fences_the_older() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let old = GenerationClaim::claim_unlocked(&store).await.unwrap();
        assert_eq!(old.generation(), Generation(1));
        assert_eq!(old.publish("log/1", "old".into()).await.unwrap(), Put::Created);
        let new = GenerationClaim::claim_unlocked(&store).await.unwrap();
        assert_eq!(new.generation(), Generation(2));
        let refused = old.publish("log/2", "old".into()).await;
        assert!(matches!(refused, Err(StorageError::Fenced { ours: 1, theirs: 2 })), "{refused:?}");
        assert_eq!(new.publish("log/2", "new".into()).await.unwrap(), Put::Created);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn d4_of_racing_claims_one_is_left() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let racers = (0..8).map(|_| {
            let store = store.clone();
            tokio::spawn(async move { GenerationClaim::claim_unlocked(&store).await.ok() })
        });
        let claims: Vec<_> = futures::future::try_join_all(racers).await.unwrap().into_iter().flatten().collect();
        let generations: BTreeSet<_> = claims.iter().map(GenerationClaim::generation).collect();
        assert_eq!(generations.len(), claims.len(), "no generation is claimed twice");
        let mut valid = Vec::new();
        for claim in &claims {
            if claim.check().await.is_ok() {
                valid.push(claim.generation());
            }
        }
        assert_eq!(valid, [Generation(8)]);
    }
}

#[tokio::test]
async fn d4_a_claim_between_the_look_and_the_put_is_seen_after_the_put() {
    let flaky = Flaky::new();
    let claim = GenerationClaim::claim(&flaky.store()).await.unwrap();
    *flaky.rival.lock() = Some(("log/1", path_of(Generation(2))));
    let refused = claim.publish("log/1", "ours".into()).await;
    assert!(matches!(refused, Err(StorageError::Fenced { ours: 1, theirs: 2 })), "{refused:?}");
}

#[tokio::test]
async fn d4_a_second_server_on_a_directory_is_told_at_once() {
    let directory = TempDir::new().unwrap();
    let store = ObjectStore::local(directory.path()).unwrap();
    let first = GenerationClaim::claim(&store).await.unwrap();
    let error = GenerationClaim::claim(&store).await.unwrap_err();
    let told = format!("\"{}\" is in use by another server (process {})", directory.path().display(), std::process::id());
    assert_eq!(error.to_string(), told);
    first.check().await.unwrap();
    drop(first);
    assert_eq!(GenerationClaim::claim(&store).await.unwrap().generation(), Generation(2));
}

#[tokio::test]
async fn d5_old_claims_do_not_add_up() {
    let store = memory();
    for start in 1..=100 {
        assert_eq!(GenerationClaim::claim(&store).await.unwrap().generation(), Generation(start));
    }
    assert_eq!(store.list(FOLDER).await.unwrap().len() as u64, GENERATIONS_KEPT);
}

#[test]
fn numbers_are_read_from_names() {
    assert_eq!(number_in("a/b/00000000000000000007.json"), Some(7));
    assert_eq!(number_in("00000000000000000042"), Some(42));
    for path in ["a/7", "a/0000000000000000000x", "a/99999999999999999999", "a/", ""] {
        assert_eq!(number_in(path), None, "{path}");
    }
}
