use super::*;
use arrow::array::{ArrayRef, Int64Array};
use std::sync::Arc;
use thalweg_catalog::hash::hash_columns;

#[test]
fn every_inserted_key_is_known_and_few_others_are() {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..400_000));
    let hashes = hash_columns(&[column], 400_000).unwrap();
    let (inserted, others) = hashes.split_at(200_000);
    let mut known = KnownKeys::default();
    assert!(!known.may_contain(inserted[0]));
    inserted.iter().for_each(|hash| known.insert(*hash));
    assert!(inserted.iter().all(|hash| known.may_contain(*hash)));
    let wrong = others.iter().filter(|hash| known.may_contain(**hash)).count();
    assert!(wrong < 200_000 / 25, "{wrong} of 200,000");
    assert!(known.memory_bytes() < 200_000 * 10);
}
