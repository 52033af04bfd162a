use super::*;
use arrow::array::{Float64Array, Int64Array};

fn hashes_of(columns: Vec<ArrayRef>) -> Vec<u64> {
    let rows = columns[0].len();
    hash_columns(&columns, rows).unwrap()
}

#[test]
fn s24_values_that_are_equal_hash_alike() {
    let floats = hashes_of(vec![Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]))]);
    assert_eq!(floats[0], floats[1]);
    assert_eq!(floats[2], floats[3]);
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![7]));
    let narrow = cast(&wide, &DataType::Int16).unwrap();
    assert_eq!(hashes_of(vec![wide]), hashes_of(vec![narrow]));
}

#[test]
fn the_hash_is_the_same_in_every_release() {
    let ints: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(42), None]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "thalweg", ""]));
    assert_eq!(hashes_of(vec![ints.clone()]), [0xb456bcfc34c2cb2c, 0x810879608e4259cc, 0x9e3779b97f4a7c15]);
    assert_eq!(hashes_of(vec![ints, texts])[0], mix(0xb456bcfc34c2cb2cu64.wrapping_mul(COMBINE) ^ xxh3_64(b"a")));
}

#[test]
fn every_vnode_gets_its_share() {
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let mut counts = vec![0; crate::VNODES as usize];
    for hash in hashes_of(vec![keys]) {
        counts[crate::VNode::of_hash(hash).0 as usize] += 1;
    }
    assert!(counts.iter().all(|c| (40..180).contains(c)), "about 98 each");
}
