//! Scripts for Join, and random changes against a recomputation.

mod random;

use crate::testing::{Subject, check, expr, schema};
use arrow::datatypes::Schema;
use thalweg_plan::{JoinBound, JoinType, Operator};

/// A join of `a:int8 x:text` and `b:int8 y:text` on `a = b`, with a further condition.
pub(super) fn join(join_type: JoinType, residual: Option<&str>) -> Subject {
    build(join_type, residual, |_| {})
}

fn build(join_type: JoinType, residual: Option<&str>, change: impl Fn(&mut Operator)) -> Subject {
    let (left, right) = ("a:int8 x:text", "b:int8 y:text");
    let both = Schema::new([schema(left).fields().to_vec(), schema(right).fields().to_vec()].concat());
    let mut operator = Operator::Join {
        join_type,
        on: vec![(0, 0)],
        null_equals_null: false,
        residual: residual.map(|sql| expr(&both, sql)),
        null_aware: false,
        time_key: None,
        bounds: [None, None],
    };
    change(&mut operator);
    let null_aware = matches!(operator, Operator::Join { null_aware: true, .. });
    let by: &[usize] = if null_aware { &[] } else { &[0] };
    let output = if join_type.left_only() { left.to_string() } else { format!("{left} {right}") };
    Subject::new(operator, &[(left, by), (right, by)], &output)
}

#[test]
fn pairs_follow_both_sides() {
    check(
        &join(JoinType::Inner, None),
        "+ 1 a
         + 2 b
         r+ 1 p
         r+ 1 q
         epoch
         = + 1 a 1 p
         = + 1 a 1 q
         r+ 2 r
         - 1 a
         epoch
         = - 1 a 1 p
         = - 1 a 1 q
         = + 2 b 2 r
         + 3 c
         r+ 3 s
         epoch
         = + 3 c 3 s
         - 3 c
         r- 3 s
         epoch
         = - 3 c 3 s",
    );
}

#[test]
fn s18_copies_multiply_and_one_that_goes_takes_its_share() {
    check(
        &join(JoinType::Inner, None),
        "+2 1 a
         r+3 1 p
         epoch
         = +6 1 a 1 p
         - 1 a
         epoch
         = -3 1 a 1 p
         applied
         = +3 1 a 1 p",
    );
    check(
        &join(JoinType::Full, None),
        "+2 1 a
         r+2 2 p
         epoch
         = +2 1 a null null
         = +2 null null 2 p
         r+2 1 q
         - 1 a
         epoch
         = +2 1 a 1 q
         = -2 1 a null null
         r- 1 q
         epoch
         = - 1 a 1 q
         r- 1 q
         epoch
         = - 1 a 1 q
         = + 1 a null null",
    );
}

#[test]
fn s5_no_padded_row_is_given_that_the_same_epoch_takes_back() {
    // That nothing is given and taken back within an epoch is checked by the rig.
    check(
        &join(JoinType::Full, None),
        "+ 1 a
         r+ 1 p
         epoch
         = + 1 a 1 p
         r- 1 p
         r+ 1 q
         epoch
         = - 1 a 1 p
         = + 1 a 1 q
         - 1 a
         + 1 b
         epoch
         = - 1 a 1 q
         = + 1 b 1 q
         r- 1 q
         epoch
         = - 1 b 1 q
         = + 1 b null null
         + 2 c
         - 2 c
         r+ 3 s
         r- 3 s
         epoch",
    );
}

#[test]
fn s24_null_keys_match_nothing_but_are_kept_by_outer_joins() {
    check(
        &join(JoinType::Inner, None),
        "+ null a
         r+ null p
         epoch
         applied",
    );
    check(
        &join(JoinType::Full, None),
        "+2 null a
         r+ null p
         epoch
         = +2 null a null null
         = + null null null p
         - null a
         r- null p
         epoch
         = - null a null null
         = - null null null p",
    );
    let equal = build(JoinType::Inner, None, |operator| {
        if let Operator::Join { null_equals_null, .. } = operator {
            *null_equals_null = true;
        }
    });
    check(
        &equal,
        "+ null a
         r+ null p
         r+ 1 q
         epoch
         = + null a null p",
    );
}

#[test]
fn s25_a_residual_predicate_of_a_left_join_does_not_drop_left_rows() {
    check(
        &join(JoinType::Left, Some("x < y")),
        "+ 1 b
         r+ 1 a
         epoch
         = + 1 b null null
         r+ 1 c
         epoch
         = + 1 b 1 c
         = - 1 b null null
         r- 1 a
         epoch
         r- 1 c
         epoch
         = - 1 b 1 c
         = + 1 b null null",
    );
}

#[test]
fn s27_a_pair_that_can_not_be_judged_is_an_error_that_heals() {
    check(
        &join(JoinType::Left, Some("10 / (a - 1) > 0 and y <> 'z'")),
        "+ 1 a
         + 3 b
         r+ 1 p
         r+ 3 q
         epoch
         = + 1 a null null
         = + 3 b 3 q
         errors
         = +1 a=1, x=a, b=1, y=p: division by zero
         r- 1 p
         epoch
         errors",
    );
}

#[test]
fn semi_and_anti_joins_follow_the_first_and_last_partner() {
    let script = |has: &str, has_not: &str| {
        format!(
            "+2 1 a
             + 2 b
             + null c
             r+ 1 p
             epoch
             {has}
             r+ 1 q
             r- 1 p
             epoch
             r- 1 q
             r+ 2 q
             epoch
             {has_not}"
        )
    };
    check(&join(JoinType::LeftSemi, None), &script("= +2 1 a", "= -2 1 a\n= + 2 b"));
    check(&join(JoinType::LeftAnti, None), &script("= + 2 b\n= + null c", "= +2 1 a\n= - 2 b"));
}

#[test]
fn a_semi_join_with_a_condition_keeps_of_the_right_what_it_needs() {
    check(
        &join(JoinType::LeftSemi, Some("x <> y")),
        "+ 1 a
         + 1 b
         r+ 1 a
         epoch
         = + 1 b
         r+ 1 c
         epoch
         = + 1 a
         r- 1 a
         epoch
         + 1 c
         epoch",
    );
}

fn not_in() -> Subject {
    build(JoinType::LeftAnti, None, |operator| {
        if let Operator::Join { null_aware, .. } = operator {
            *null_aware = true;
        }
    })
}

#[test]
fn s25_not_in_with_nulls_is_as_in_postgres() {
    check(
        &not_in(),
        "+ 1 a
         +2 2 b
         + null c
         epoch
         = + 1 a
         = +2 2 b
         = + null c
         r+ 1 p
         epoch
         = - 1 a
         = - null c
         r+ null q
         epoch
         = -2 2 b
         + 5 e
         epoch
         r- null q
         epoch
         = +2 2 b
         = + 5 e
         r- 1 p
         - 5 e
         epoch
         = + 1 a
         = - 5 e
         = + null c
         - null c
         r+ null z
         epoch
         = - 1 a
         = -2 2 b
         = - null c",
    );
}

#[test]
fn s19_a_retraction_of_a_row_that_is_not_there_is_dropped_and_counted() {
    check(
        &join(JoinType::Left, None),
        "-2 1 a
         r+ 1 p
         r- 2 q
         epoch
         dropped
         = late 0 unmatched 3
         + 1 a
         + 2 b
         epoch
         = + 1 a 1 p
         = + 2 b null null",
    );
}

#[test]
fn s19_rows_below_both_watermarks_are_forgotten_and_late_ones_are_dropped_and_counted() {
    let timed = "t:timestamp x:text";
    let operator = Operator::Join {
        join_type: JoinType::Left,
        on: vec![(0, 0)],
        null_equals_null: false,
        residual: None,
        null_aware: false,
        time_key: Some(0),
        bounds: [None, None],
    };
    let right = "u:timestamp y:text";
    check(
        &Subject::new(operator, &[(timed, &[0]), (right, &[0])], "t:timestamp x:text u:timestamp y:text"),
        "+ 10 a
         + 20 b
         watermark 0 t 15
         epoch
         = + 10 a null null
         = + 20 b null null
         r+ 10 p
         epoch
         = + 10 a 10 p
         = - 10 a null null
         watermark 1 u 12
         epoch
         r- 10 p
         + 11 c
         r+ 12 q
         epoch
         dropped
         = late 2 unmatched 0
         + 12 d
         r+ 20 r
         epoch
         = + 12 d 12 q
         = + 20 b 20 r
         = - 20 b null null",
    );
}

#[test]
fn without_keys_every_row_meets_every_other() {
    let operator = Operator::Join {
        join_type: JoinType::Inner,
        on: Vec::new(),
        null_equals_null: false,
        residual: None,
        null_aware: false,
        time_key: None,
        bounds: [None, None],
    };
    check(
        &Subject::new(operator, &[("a:int8", &[]), ("b:int8", &[])], "a:int8 b:int8"),
        "+ 1
         + null
         r+ 7
         r+ 8
         epoch
         = + 1 7
         = + 1 8
         = + null 7
         = + null 8
         r- 7
         epoch
         = - 1 7
         = - null 7",
    );
}

#[test]
fn d18_a_row_with_many_partners_comes_in_pieces() {
    use crate::testing::{Mode, Rig, batch, weighted};
    for join_type in [JoinType::Inner, JoinType::Full, JoinType::LeftSemi] {
        let subject = join(join_type, None);
        for mode in Mode::all() {
            let mut rig = Rig::new(&subject, mode);
            let names: Vec<String> = (0..30_000).map(|n| format!("p{n}")).collect();
            let rows: Vec<Vec<&str>> = names.iter().map(|n| vec!["1", n.as_str()]).collect();
            let partners = weighted(batch(&subject.inputs[1], &rows), &[1; 30_000]);
            let one = weighted(batch(&subject.inputs[0], &[vec!["1", "a"]]), &[1]);
            rig.epoch(vec![vec![], vec![partners.clone()]]).expect("the right comes");
            rig.epoch(vec![vec![one.clone()], vec![]]).expect("the left comes");
            let pairs = if join_type.left_only() { 1 } else { 30_000 };
            assert_eq!(rig.applied.len(), pairs);
            rig.epoch(vec![vec![], vec![partners.negate()]]).expect("the right goes");
            assert_eq!(rig.applied.len(), usize::from(join_type == JoinType::Full));
            rig.epoch(vec![vec![], vec![partners]]).expect("the right comes again");
            assert_eq!(rig.applied.len(), pairs);
            assert!(rig.largest <= 2 * crate::operator::PIECE_ROWS, "no piece is much larger than it should be");
        }
    }
}

/// Orders and payments within ten microseconds after: `t <= u and u <= t + 10`.
fn interval_join(join_type: JoinType, own: bool) -> Subject {
    let (left, right) = ("a:int8 t:timestamp", "b:int8 u:timestamp");
    let both = Schema::new([schema(left).fields().to_vec(), schema(right).fields().to_vec()].concat());
    let operator = Operator::Join {
        join_type,
        on: vec![(0, 0)],
        null_equals_null: false,
        residual: Some(expr(&both, "t <= u and u <= t + interval '10 microseconds'")),
        null_aware: false,
        time_key: None,
        bounds: [
            Some(JoinBound { column: 1, other: 1, shift_us: 10, own }),
            Some(JoinBound { column: 1, other: 1, shift_us: 0, own }),
        ],
    };
    let output = if join_type.left_only() { left.to_string() } else { format!("{left} {right}") };
    Subject::new(operator, &[(left, &[0]), (right, &[0])], &output)
}

#[test]
fn a_row_whose_interval_is_over_is_forgotten_and_one_that_comes_late_but_within_its_watermark_still_meets_all() {
    check(
        &interval_join(JoinType::Left, false),
        "+ 1 20
         + 1 30
         + 1 null
         r+ 1 25
         epoch
         = + 1 20 1 25
         = + 1 30 null null
         = + 1 null null null
         watermark 1 u 35
         epoch
         + 1 21
         r+ 1 36
         epoch
         = + 1 21 1 25
         = + 1 30 1 36
         = - 1 30 null null
         watermark 0 t 40
         epoch
         r+ 1 36
         epoch
         = + 1 30 1 36
         r- 1 25
         r+ 1 34
         epoch
         dropped
         = late 2 unmatched 0",
    );
}

#[test]
fn a_row_that_can_be_taken_back_is_kept_until_its_own_watermark_has_passed_it() {
    check(
        &interval_join(JoinType::Inner, true),
        "+ 1 20
         r+ 1 25
         epoch
         = + 1 20 1 25
         watermark 1 u 90
         epoch
         - 1 20
         epoch
         = - 1 20 1 25
         watermark 0 t 90
         epoch
         + 1 95
         r+ 1 96
         epoch
         = + 1 95 1 96
         dropped
         = late 0 unmatched 0",
    );
}
