//! Scripts for TopN.

mod random;

use crate::testing::{Subject, check};
use thalweg_plan::{Operator, SortKey};

pub(super) struct Shape<'a> {
    pub partition: &'a [usize],
    pub offset: u64,
    pub limit: Option<u64>,
    pub with_rank: bool,
}

/// `g:text v:int8`, by `v` descending with NULLs last.
pub(super) fn top(shape: Shape<'_>) -> Subject {
    let operator = Operator::TopN {
        partition: shape.partition.to_vec(),
        order: vec![SortKey { column: 1, descending: true, nulls_first: false }],
        offset: shape.offset,
        limit: shape.limit,
        with_rank: shape.with_rank,
    };
    let output = if shape.with_rank { "g:text v:int8 rank:int8" } else { "g:text v:int8" };
    Subject::new(operator, &[("g:text v:int8", shape.partition)], output)
}

#[test]
fn s20_when_the_first_goes_the_true_next_one_rises() {
    check(
        &top(Shape { partition: &[], offset: 0, limit: Some(2), with_rank: false }),
        "+ a 1
         + b 2
         + c 3
         + d null
         epoch
         = + b 2
         = + c 3
         - c 3
         epoch
         = + a 1
         = - c 3
         - a 1
         - b 2
         epoch
         = - a 1
         = - b 2
         = + d null
         + e 9
         - e 9
         epoch
         applied
         = + d null",
    );
}

#[test]
fn s25_the_limit_holds_for_all_workers_together() {
    check(
        &top(Shape { partition: &[], offset: 1, limit: Some(2), with_rank: false }),
        "+ a 1
         + b 2
         + c 3
         + d 4
         epoch
         = + b 2
         = + c 3
         + e 5
         epoch
         = - b 2
         = + d 4",
    );
}

#[test]
fn s18_copies_take_a_place_each() {
    check(
        &top(Shape { partition: &[0], offset: 1, limit: Some(2), with_rank: false }),
        "+3 a 5
         + a 4
         epoch
         = +2 a 5
         - a 5
         epoch
         = + a 4
         = - a 5
         +5 a 6
         epoch
         = - a 4
         = - a 5
         = +2 a 6
         applied
         = +2 a 6",
    );
}

#[test]
fn ranks_follow_what_rises_and_falls() {
    check(
        &top(Shape { partition: &[0], offset: 0, limit: Some(3), with_rank: true }),
        "+ a 10
         + a 8
         + a 6
         + a 4
         + b 1
         epoch
         = + a 10 1
         = + a 6 3
         = + a 8 2
         = + b 1 1
         - a 10
         epoch
         = - a 10 1
         = + a 4 3
         = + a 6 2
         = - a 6 3
         = + a 8 1
         = - a 8 2
         + a 8
         epoch
         = - a 4 3
         = - a 6 2
         = + a 6 3
         = + a 8 2",
    );
}

#[test]
fn without_a_limit_all_are_ranked() {
    check(
        &top(Shape { partition: &[0], offset: 1, limit: None, with_rank: true }),
        "+ a 3
         + a 2
         + a 1
         epoch
         = + a 1 3
         = + a 2 2
         - a 3
         epoch
         = + a 1 2
         = - a 1 3
         = - a 2 2",
    );
}

#[test]
fn an_append_only_input_gives_the_same() {
    check(
        &top(Shape { partition: &[0], offset: 1, limit: Some(2), with_rank: false }).append(),
        "+ a 1
         + a 2
         +2 a 3
         epoch
         = + a 2
         = + a 3
         + a 0
         + a 2
         epoch
         + a 4
         epoch
         = - a 2
         = + a 3
         applied
         = +2 a 3",
    );
}

#[test]
fn s19_a_retraction_of_a_row_that_is_not_there_is_dropped_and_counted() {
    check(
        &top(Shape { partition: &[0], offset: 0, limit: Some(1), with_rank: false }),
        "+ a 1
         -2 a 5
         epoch
         = + a 1
         dropped
         = late 0 unmatched 2
         + a 5
         epoch
         = - a 1
         = + a 5",
    );
}

#[test]
fn no_place_at_all_shows_nothing() {
    check(
        &top(Shape { partition: &[], offset: 0, limit: Some(0), with_rank: false }),
        "+ a 1
         epoch
         applied",
    );
}
