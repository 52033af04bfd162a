//! Random changes: after each epoch the result must be what DataFusion computes from scratch.

use super::aggregate;
use crate::testing::{Mode, RandomTable, Rig, Subject, oracle, seeded};

/// Each aggregate with the type of its result and the same in SQL.
const CALLS: &[(&str, &str, &str)] = &[
    ("count(*)", "int8", "count(*)"),
    ("count(1)", "int8", "count(v)"),
    ("sum(1)", "int8", "sum(v)"),
    ("min(1)", "int8", "min(v)"),
    ("max(1)", "int8", "max(v)"),
    ("min(2)", "text", "min(s)"),
    ("max(2)", "text", "max(s)"),
    ("count(distinct 1)", "int8", "count(distinct v)"),
    ("sum(distinct 1)", "int8", "sum(distinct v)"),
    ("count(distinct 2) where 3", "int8", "count(distinct s) filter (where b)"),
    ("sum(1) where 3", "int8", "sum(v) filter (where b)"),
    ("max(2) where 3", "text", "max(s) filter (where b)"),
    ("bool_and(3)", "bool", "bool_and(b)"),
    ("bool_or(3)", "bool", "bool_or(b)"),
    ("sum(4)", "numeric38_2", "sum(d)"),
    ("max(4)", "numeric20_2", "max(d)"),
    ("sum(distinct 4)", "numeric38_2", "sum(distinct d)"),
];

const INPUT: &str = "k:text v:int8 s:text b:bool d:numeric20_2";

fn compare(subject: &Subject, sql: &str, deletes: bool, seed: u64) {
    for mode in Mode::all() {
        let mut random = seeded(seed);
        let mut table = RandomTable::new(&subject.inputs[0], deletes);
        let mut rig = Rig::new(subject, mode);
        for epoch in 0..12 {
            let deltas = table.change(&mut random);
            rig.epoch(vec![deltas]).expect("the epoch runs");
            let expected = oracle(&[("t", &subject.inputs[0], &table.rows)], sql);
            assert!(
                rig.applied == expected,
                "seed {seed} {mode:?} epoch {epoch}: {sql}\n{:?}\nbut not\n{expected:?}",
                rig.applied
            );
        }
    }
}

#[test]
fn s3_groups_equal_a_recomputation_after_each_epoch() {
    for seed in 0..4u64 {
        let mut random = seeded(seed);
        let picked = random.pick(CALLS, 6);
        let calls: Vec<(&str, &str)> = picked.iter().map(|c| (c.0, c.1)).collect();
        let shown: Vec<&str> = picked.iter().map(|c| c.2).collect();
        let by = [(vec![0], "k"), (vec![0, 3], "k, b"), (vec![], "")];
        let (keys, names) = &by[seed as usize % 3];
        let sql = if names.is_empty() {
            format!("select {} from t", shown.join(", "))
        } else {
            format!("select {names}, {} from t group by {names}", shown.join(", "))
        };
        compare(&aggregate(INPUT, keys, &calls), &sql, true, seed);
        compare(&aggregate(INPUT, keys, &calls).append(), &sql, false, seed);
    }
}
