//! Scripts for Aggregate, and random changes against a recomputation.

mod on_close;
mod random;

use crate::testing::{Subject, check, schema};
use thalweg_plan::{AggregateCall, AggregateFunction, Operator};

/// An aggregate from text: `count(*)`, `sum(distinct 1)`, `max(1) where 2`; columns by number.
pub(super) fn call(text: &str, output: &str) -> AggregateCall {
    let (function, rest) = text.split_once('(').expect("a call has parentheses");
    let (argument, filter) = rest.split_once(')').expect("a call has parentheses");
    let function = match function {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "avg" => AggregateFunction::Avg,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "bool_and" => AggregateFunction::BoolAnd,
        "bool_or" => AggregateFunction::BoolOr,
        other => panic!("no such function: {other}"),
    };
    AggregateCall {
        function,
        argument: argument.trim_start_matches("distinct ").parse().ok(),
        distinct: argument.starts_with("distinct "),
        filter: filter.trim_start_matches(" where ").parse().ok(),
        output: schema(&format!("x:{output}")).field(0).data_type().clone(),
        name: text.to_string(),
    }
}

/// An aggregate over `input`, by these columns; calls with the types of their results.
pub(super) fn aggregate(input: &str, keys: &[usize], calls: &[(&str, &str)]) -> Subject {
    with_time(input, keys, calls, None)
}

/// An aggregate with the place of a time among its keys, and whether groups are given when they close.
fn with_time(input: &str, keys: &[usize], calls: &[(&str, &str)], time: Option<(usize, bool)>) -> Subject {
    let columns: Vec<&str> = input.split_whitespace().collect();
    let mut output: Vec<String> = keys.iter().map(|k| columns[*k].to_string()).collect();
    output.extend(calls.iter().enumerate().map(|(place, (_, kind))| format!("x{place}:{kind}")));
    let calls = calls.iter().map(|(text, kind)| call(text, kind)).collect();
    let (time_key, on_close) = (time.map(|time| time.0), time.is_some_and(|time| time.1));
    let operator = Operator::Aggregate { keys: keys.to_vec(), calls, time_key, on_close };
    Subject::new(operator, &[(input, keys)], &output.join(" "))
}

#[test]
fn s6_an_update_is_one_pair_and_one_that_changes_nothing_gives_nothing() {
    check(
        &aggregate("k:text v:int8", &[0], &[("count(*)", "int8"), ("sum(1)", "int8")]),
        "+ a 1
         + a 2
         + b 3
         epoch
         = + a 2 3
         = + b 1 3
         - a 1
         + a 5
         epoch
         = - a 2 3
         = + a 2 7
         - b 3
         + b 3
         epoch
         - a 2
         - a 5
         + a 3
         + a 4
         epoch
         applied
         = + a 2 7
         = + b 1 3",
    );
}

#[test]
fn s17_a_group_without_rows_goes_and_a_global_one_becomes_empty() {
    let calls = [("count(*)", "int8"), ("sum(1)", "int8"), ("max(1)", "int8"), ("bool_or(2)", "bool")];
    check(
        &aggregate("k:text v:int8 b:bool", &[0], &calls),
        "+ a 1 true
         epoch
         = + a 1 1 1 true
         - a 1 true
         epoch
         = - a 1 1 1 true
         + a 2 false
         epoch
         = + a 1 2 2 false",
    );
    check(
        &aggregate("k:text v:int8 b:bool", &[], &calls),
        "epoch
         = + 0 null null null
         + a 1 true
         epoch
         = - 0 null null null
         = + 1 1 1 true
         - a 1 true
         epoch
         = + 0 null null null
         = - 1 1 1 true
         epoch",
    );
}

#[test]
fn a_global_group_with_rows_in_the_first_epoch_is_given_once() {
    check(
        &aggregate("k:text", &[], &[("count(*)", "int8")]),
        "+ a
         epoch
         = + 1
         applied
         = + 1",
    );
}

#[test]
fn s19_more_retractions_than_rows_leave_no_group_and_are_counted() {
    check(
        &aggregate("k:text v:int8", &[0], &[("count(*)", "int8"), ("min(1)", "int8"), ("count(distinct 1)", "int8")]),
        "- a 1
         epoch
         dropped
         = late 0 unmatched 2
         + a 5
         + b 6
         epoch
         = + a 1 5 1
         = + b 1 6 1
         -2 b 6
         epoch
         = - b 1 6 1
         + b 7
         epoch
         = + b 1 7 1",
    );
}

#[test]
fn a_retraction_may_come_before_its_insert_in_one_epoch() {
    check(
        &aggregate("k:text v:int8", &[0], &[("count(distinct 1)", "int8"), ("max(1)", "int8")]),
        "- a 9
         + a 9
         + a 3
         epoch
         = + a 1 3
         dropped
         = late 0 unmatched 0",
    );
}

#[test]
fn s20_when_the_extreme_goes_the_true_next_one_shows() {
    let calls = [("min(1)", "int8"), ("max(1)", "int8"), ("min(2)", "text"), ("max(2)", "text")];
    let subject = aggregate("k:text v:int8 s:text", &[0], &calls);
    check(
        &subject,
        "+ a 1 x
         + a 5 y
         + a 9 z
         + a null null
         epoch
         = + a 1 9 x z
         - a 9 z
         - a 1 x
         epoch
         = - a 1 9 x z
         = + a 5 5 y y
         - a 5 y
         epoch
         = - a 5 5 y y
         = + a null null null null",
    );
    check(
        &subject.append(),
        "+ a 4 m
         epoch
         = + a 4 4 m m
         + a 5 l
         + a 3 n
         + b null null
         epoch
         = + a 3 5 l n
         = - a 4 4 m m
         = + b null null null null
         + a 4 m
         epoch",
    );
}

#[test]
fn extremes_of_every_type_are_kept() {
    let types = [
        ("int4", "-7", "12"),
        ("bool", "false", "true"),
        ("date", "1969-12-31", "1970-01-05"),
        ("timestamp", "-5", "7"),
        ("float8", "-1.5", "NaN"),
        ("numeric20_2", "-1.25", "100.00"),
        ("text", "a", "b"),
    ];
    for (kind, least, greatest) in types {
        let subject = || aggregate(&format!("k:int8 v:{kind}"), &[0], &[("min(1)", kind), ("max(1)", kind)]);
        let script = format!(
            "+ 1 null
             + 2 {greatest}
             + 1 {least}
             + 2 {least}
             epoch
             = + 1 {least} {least}
             = + 2 {least} {greatest}"
        );
        check(&subject(), &script);
        check(&subject().append(), &script);
    }
}

#[test]
fn s24_null_is_a_group_and_zeros_and_nans_are_one_each() {
    check(
        &aggregate("k:float8", &[0], &[("count(*)", "int8")]),
        "+ null
         + null
         + 0.0
         + -0.0
         + NaN
         + NaN
         epoch
         = + 0.0 2
         = + NaN 2
         = + null 2",
    );
}

#[test]
fn distinct_counts_a_value_once_as_long_as_a_copy_is_there() {
    check(
        &aggregate("k:text v:int8", &[0], &[("count(distinct 1)", "int8"), ("sum(distinct 1)", "int8"), ("count(1)", "int8")]),
        "+2 a 5
         + a 6
         + a null
         epoch
         = + a 2 11 3
         - a 5
         epoch
         = + a 2 11 2
         = - a 2 11 3
         - a 5
         epoch
         = + a 1 6 1
         = - a 2 11 2",
    );
}

#[test]
fn distinct_alone_gives_each_key_once() {
    check(
        &aggregate("a:int8 b:text", &[0, 1], &[]),
        "+2 1 x
         + 1 y
         + null x
         epoch
         = + 1 x
         = + 1 y
         = + null x
         - 1 x
         epoch
         - 1 x
         - null x
         epoch
         = - 1 x
         = - null x",
    );
}

#[test]
fn a_filter_decides_what_an_aggregate_sees() {
    check(
        &aggregate(
            "k:text v:int8 b:bool",
            &[0],
            &[("count(*) where 2", "int8"), ("sum(1) where 2", "int8"), ("count(*)", "int8"), ("max(1) where 2", "int8")],
        ),
        "+ a 1 true
         + a 7 false
         + a 9 null
         + b 1 false
         epoch
         = + a 1 1 3 1
         = + b 0 null 1 null
         - a 1 true
         + a 4 true
         epoch
         = - a 1 1 3 1
         = + a 1 4 3 4",
    );
}

#[test]
fn s26_too_large_a_sum_is_an_error_of_its_group_and_heals() {
    check(
        &aggregate("k:text v:int8", &[0], &[("sum(1)", "int8"), ("count(*)", "int8")]),
        "+ a 9223372036854775807
         + b 1
         epoch
         = + a 9223372036854775807 1
         = + b 1 1
         + a 1
         epoch
         = - a 9223372036854775807 1
         errors
         = +1 k=a: bigint out of range
         + a 1
         epoch
         errors
         = +1 k=a: bigint out of range
         -2 a 1
         epoch
         = + a 9223372036854775807 1
         errors",
    );
}

#[test]
fn s26_decimals_are_exact_beyond_128_bits() {
    let most = "99999999999999999999999999999999999999";
    check(
        &aggregate("k:text v:numeric38_0", &[0], &[("sum(1)", "numeric38_0"), ("avg(1)", "numeric38_0")]),
        &format!(
            "+ a {most}
             epoch
             = + a {most} {most}
             +3 a {most}
             epoch
             = - a {most} {most}
             errors
             = +1 k=a: numeric field overflow
             -3 a {most}
             epoch
             = + a {most} {most}
             errors
             - a {most}
             + a 1
             + a -1
             epoch
             = + a 0 0
             = - a {most} {most}"
        ),
    );
}

#[test]
fn s26_an_average_keeps_the_scale_of_its_output() {
    check(
        &aggregate("k:text v:numeric20_2", &[0], &[("avg(1)", "numeric38_6"), ("sum(1)", "numeric38_2")]),
        "+ a 1.00
         + a 0.00
         + a 0.00
         + b -2.00
         + b 0.00
         + b 0.00
         epoch
         = + a 0.333333 1.00
         = + b -0.666666 -2.00",
    );
}

#[test]
fn sums_of_floats_leave_nothing_behind_when_their_values_go() {
    check(
        &aggregate("k:text v:float8", &[0], &[("sum(1)", "float8"), ("avg(1)", "float8")]),
        "+ a 0.1
         + a 10000000000000000.0
         + a null
         epoch
         = + a 1e16 5000000000000000.0
         - a 10000000000000000.0
         epoch
         = + a 0.1 0.1
         = - a 1e16 5000000000000000.0
         + a NaN
         epoch
         = - a 0.1 0.1
         = + a NaN NaN
         - a NaN
         + a inf
         epoch
         = - a NaN NaN
         = + a inf inf
         - a inf
         - a 0.1
         epoch
         = - a inf inf
         = + a null null",
    );
}

#[test]
fn truths_are_counted_back() {
    check(
        &aggregate("k:text b:bool", &[0], &[("bool_and(1)", "bool"), ("bool_or(1)", "bool")]),
        "+ a true
         + a false
         + a null
         + b null
         epoch
         = + a false true
         = + b null null
         - a false
         epoch
         = - a false true
         = + a true true
         - a true
         epoch
         = + a null null
         = - a true true",
    );
}

#[test]
fn s19_a_closed_time_is_forgotten_and_its_late_rows_are_dropped_and_counted() {
    check(
        &with_time("t:timestamp k:text v:int8", &[0, 1], &[("sum(2)", "int8"), ("max(2)", "int8")], Some((0, false))),
        "+ 10 a 1
         + 20 a 2
         + null a 3
         epoch
         = + 10 a 1 1
         = + 20 a 2 2
         = + null a 3 3
         + 10 a 4
         watermark 0 t 20
         epoch
         = - 10 a 1 1
         = + 10 a 5 4
         - 10 a 1
         + 19 b 1
         + 20 a 5
         - null a 3
         epoch
         = - 20 a 2 2
         = + 20 a 7 5
         = - null a 3 3
         dropped
         = late 2 unmatched 0
         watermark 0 t end
         epoch
         applied
         = + 10 a 5 4
         = + 20 a 7 5",
    );
}

#[test]
fn more_groups_than_a_piece_are_all_given() {
    use crate::testing::{Mode, Rig, batch, weighted};
    let subject = aggregate("k:int8", &[0], &[("count(*)", "int8")]);
    for mode in Mode::all() {
        let mut rig = Rig::new(&subject, mode);
        let keys: Vec<String> = (0..30_000).map(|n| n.to_string()).collect();
        let rows: Vec<Vec<&str>> = keys.iter().map(|k| vec![k.as_str()]).collect();
        let all = weighted(batch(&subject.inputs[0], &rows), &[1; 30_000]);
        assert_eq!(rig.epoch(vec![vec![all.clone()]]).expect("groups are made").len(), 30_000);
        assert_eq!(rig.epoch(vec![vec![all.negate()]]).expect("groups go").values().sum::<i64>(), -30_000);
        assert!(rig.applied.is_empty());
    }
}

#[test]
fn a_retraction_of_an_append_only_input_is_refused() {
    use crate::error::OperatorError;
    use crate::testing::{Mode, Rig, batch, weighted};
    let subject = aggregate("k:int8 v:int8", &[0], &[("max(1)", "int8")]).append();
    let mut rig = Rig::new(&subject, Mode::ONE);
    let gone = weighted(batch(&subject.inputs[0], &[vec!["1", "2"]]), &[-1]);
    assert!(matches!(rig.epoch(vec![vec![gone]]), Err(OperatorError::Invariant("APPEND-1", _))));
}
