//! Random changes: after each epoch the result must be what DataFusion computes from scratch.

use super::{join, not_in};
use crate::testing::{Collection, Mode, RandomTable, Rig, Subject, oracle, seeded};
use thalweg_plan::JoinType;

fn compare(subject: &Subject, expected: impl Fn(&Collection, &Collection) -> Collection, deletes: bool, seed: u64) {
    for mode in Mode::all() {
        let mut random = seeded(seed);
        let mut left = RandomTable::new(&subject.inputs[0], deletes);
        let mut right = RandomTable::new(&subject.inputs[1], deletes);
        let mut rig = Rig::new(subject, mode);
        for epoch in 0..12 {
            let ports = match random.below(4) {
                0 => vec![left.change(&mut random), Vec::new()],
                1 => vec![Vec::new(), right.change(&mut random)],
                _ => vec![left.change(&mut random), right.change(&mut random)],
            };
            rig.epoch(ports).expect("the epoch runs");
            let expected = expected(&left.rows, &right.rows);
            assert!(
                rig.applied == expected,
                "seed {seed} {mode:?} epoch {epoch}:\n{:?}\nshould be\n{expected:?}\nwith left {:?}\nand right {:?}",
                rig.applied,
                left.rows,
                right.rows
            );
        }
    }
}

#[test]
fn s3_joins_of_every_type_equal_a_recomputation_after_each_epoch() {
    let types = [
        (JoinType::Inner, "inner"),
        (JoinType::Left, "left"),
        (JoinType::Right, "right"),
        (JoinType::Full, "full"),
        (JoinType::LeftSemi, "left semi"),
        (JoinType::LeftAnti, "left anti"),
    ];
    for (seed, (join_type, name)) in types.into_iter().enumerate() {
        for residual in [None, Some("x <= y")] {
            let condition = residual.map_or(String::new(), |r| format!(" and {r}"));
            let shown = if join_type.left_only() { "a, x" } else { "a, x, b, y" };
            let sql = format!("select {shown} from l {name} join r on a = b{condition}");
            let subject = join(join_type, residual).churning();
            let (l, r) = (subject.inputs[0].clone(), subject.inputs[1].clone());
            let expected = |left: &Collection, right: &Collection| oracle(&[("l", &l, left), ("r", &r, right)], &sql);
            compare(&subject, expected, true, seed as u64);
            compare(&join(join_type, residual).append().churning(), expected, false, seed as u64);
        }
    }
}

/// `a not in (select b from r)`, by its definition: true for none, not true where equal or unknown.
fn rows_not_in(left: &Collection, right: &Collection) -> Collection {
    let key = |row: &str| row.split(' ').next().unwrap_or_default().to_string();
    let keys: Vec<String> = right.keys().map(|row| key(row)).collect();
    let passes = |row: &str| keys.is_empty() || (key(row) != "null" && keys.iter().all(|k| k != "null" && *k != key(row)));
    left.iter().filter(|(row, _)| passes(row)).map(|(row, count)| (row.clone(), *count)).collect()
}

#[test]
fn s25_not_in_equals_its_definition_after_each_epoch() {
    for seed in 0..6 {
        compare(&not_in(), rows_not_in, true, seed);
    }
}
