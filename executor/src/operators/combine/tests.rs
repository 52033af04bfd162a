//! Scripts for Combine.

use super::*;
use crate::testing::{Subject, batch, check, weighted};
use thalweg_plan::Operator;

fn combine() -> Subject {
    Subject::new(Operator::Combine, &[("a:int8 b:text", &[])], "a:int8 b:text")
}

#[test]
fn gives_the_rows_that_it_gets() {
    check(
        &combine(),
        "+ 1 x
         +2 1 null
         + 2 x
         epoch
         = +2 1 null
         = + 1 x
         = + 2 x
         - 1 x
         + 3 y
         epoch
         = - 1 x
         = + 3 y",
    );
}

/// A thousand rows of ten kinds, of which the first cancels.
fn thousand(subject: &Subject) -> Delta {
    let values: Vec<String> = (0..1000).map(|n| (n % 10).to_string()).collect();
    let rows: Vec<Vec<&str>> = values.iter().map(|a| vec![a.as_str(), "x"]).collect();
    let weights: Vec<i64> = (0..1000).map(|n| if n % 20 == 0 { -1 } else { 1 }).collect();
    weighted(batch(&subject.inputs[0], &rows), &weights)
}

#[test]
fn equal_rows_become_one_and_rows_that_cancel_go() {
    let subject = combine();
    let given = Combine::new(&subject.inputs[0]).unwrap().apply(thousand(&subject)).unwrap();
    let [given] = &given[..] else { panic!("{given:?}") };
    assert_eq!(given.num_rows(), 9);
    assert!((0..9).all(|row| given.weight(row) == 100));
}

#[test]
fn where_rows_differ_the_next_batches_pass_as_they_are() {
    let subject = combine();
    let mut combine = Combine::new(&subject.inputs[0]).unwrap();
    let values: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let rows: Vec<Vec<&str>> = values.iter().map(|a| vec![a.as_str(), "x"]).collect();
    combine.apply(weighted(batch(&subject.inputs[0], &rows), &[1; 100])).unwrap();
    for _ in 0..PASSED {
        assert_eq!(combine.apply(thousand(&subject)).unwrap()[0].num_rows(), 1000);
    }
    assert_eq!(combine.apply(thousand(&subject)).unwrap()[0].num_rows(), 9);
}
