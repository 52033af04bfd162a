use super::*;
use crate::object::tests::{assert_names, memory};

#[test]
fn d7_numbers_grow_over_generations() {
    let last_of_old = CheckpointNumber::new(Generation(7), 999_999_999);
    let fence = CheckpointNumber::new(Generation(8), 0);
    assert!(last_of_old < fence && fence < CheckpointNumber::new(Generation(8), 1));
    assert_eq!(fence.to_string(), "8000000000");
    assert_eq!(last_of_old.generation(), Generation(7));
    assert!(fence.is_fence() && !last_of_old.is_fence());
}

#[test]
fn d6_a_catalog_from_before_the_checkpoint_is_missed() {
    let mut manifest = CheckpointManifest {
        epoch: Epoch(1),
        generation: Generation(1),
        number: CheckpointNumber::new(Generation(1), 1),
        workers: Vec::new(),
        jobs: Vec::new(),
        created_ms: 0,
        catalog_version: 0,
        table_log_segment: 0,
    };
    manifest.check_catalog(&Catalog::new()).unwrap();
    manifest.catalog_version = 3;
    assert_names(manifest.check_catalog(&Catalog::new()), "catalog/log/00000000000000000003.json");
}

async fn put_fence(store: &ObjectStore, generation: u64, basis: Option<CheckpointNumber>) {
    let fence = Fence { generation: Generation(generation), basis };
    store.put_if_absent(&fence.path(), fence.seal().unwrap()).await.unwrap();
}

#[tokio::test]
async fn d4_only_what_fences_let_through_counts() {
    let number = |generation, counter| CheckpointNumber::new(Generation(generation), counter);
    let store = memory();
    // Which checkpoints are there is told by names alone, so there is no need for content.
    for n in [number(1, 1), number(1, 2), number(1, 3), number(3, 1), number(5, 4), number(5, 5)] {
        store.put_if_absent(&n.path(), "manifest".into()).await.unwrap();
    }
    put_fence(&store, 1, None).await;
    put_fence(&store, 2, Some(number(1, 2))).await;
    put_fence(&store, 3, Some(number(1, 2))).await;
    put_fence(&store, 4, Some(number(3, 1))).await;
    put_fence(&store, 5, Some(number(3, 1))).await;
    let lineage = Lineage::read(&store).await.unwrap();
    assert_eq!(lineage.checkpoints, [number(5, 5), number(5, 4), number(3, 1), number(1, 2), number(1, 1)]);
    assert_eq!(lineage.disowned, [number(1, 3)]);
    assert_eq!(lineage.fences.len(), 5);
}
