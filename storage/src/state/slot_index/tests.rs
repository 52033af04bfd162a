use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

#[test]
fn the_index_equals_a_map_under_inserts_and_removals_of_hashes_that_collide() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        // Few distinct hashes in the low bits, and some that are wholly equal.
        let hashes = (0..400).map(|_| rng.random_range(0..6u64) | rng.random_range(0..40u64) << 32).collect::<Vec<_>>();
        let mut index = SlotIndex::with_capacity(seed as usize);
        let mut model = BTreeMap::new();
        for _ in 0..4000 {
            let slot = rng.random_range(0..hashes.len());
            let hash = hashes[slot];
            if model.remove(&slot).is_some() {
                index.remove(hash, slot as u32, |slot| hashes[slot as usize]);
            } else {
                model.insert(slot, hash);
                index.insert(hash, slot as u32, |slot| hashes[slot as usize]);
            }
            let probe = rng.random_range(0..hashes.len());
            let found = index.find(hashes[probe], |slot| slot as usize == probe);
            assert_eq!(found.is_some(), model.contains_key(&probe), "seed {seed}");
            if let Some(guess) = index.guess(hashes[probe]) {
                assert!(model.contains_key(&(guess as usize)));
            }
        }
        assert_eq!(index.len(), model.len());
        assert_eq!(index.slots().map(|s| s as usize).collect::<std::collections::BTreeSet<_>>(), model.into_keys().collect());
    }
}
