//! Random changes: after each epoch the result must be what DataFusion computes from scratch.

use super::{interval_join, join, not_in};
use crate::operator::Watermark;
use crate::testing::{Collection, Mode, RandomTable, Rig, Seeded, Subject, batch, oracle, seeded, weighted};
use thalweg_catalog::Delta;
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

/// A side whose times move on and stay above its watermark, below which nothing is taken back either.
struct TimedTable {
    rows: Collection,
    watermark: i64,
    deletes: bool,
}

impl TimedTable {
    fn change(&mut self, subject: &Subject, port: usize, random: &mut Seeded) -> Vec<Delta> {
        let time_of = |row: &str| row.split(' ').nth(1).and_then(|time| time.parse::<i64>().ok());
        let mut changes: Vec<(String, i64)> = Vec::new();
        for _ in 0..random.below(20) {
            let open: Vec<&String> = self.rows.keys().filter(|row| time_of(row).is_none_or(|t| t >= self.watermark)).collect();
            let change = if self.deletes && !open.is_empty() && random.below(3) == 0 {
                (open[random.below(open.len())].clone(), -1)
            } else {
                let time = self.watermark + random.below(25) as i64;
                let time = if random.below(12) == 0 { "null".to_string() } else { time.to_string() };
                (format!("{} {time}", random.below(3)), 1)
            };
            *self.rows.entry(change.0.clone()).or_default() += change.1;
            self.rows.retain(|_, count| *count != 0);
            changes.push(change);
        }
        let rows: Vec<Vec<&str>> = changes.iter().map(|(row, _)| row.split(' ').collect()).collect();
        let weights: Vec<i64> = changes.iter().map(|(_, weight)| *weight).collect();
        vec![weighted(batch(&subject.inputs[port], &rows), &weights)]
    }
}

#[test]
fn joins_that_forget_by_intervals_equal_a_recomputation_over_all_rows_ever() {
    let types = [
        (JoinType::Inner, "inner"),
        (JoinType::Left, "left"),
        (JoinType::Right, "right"),
        (JoinType::Full, "full"),
        (JoinType::LeftSemi, "left semi"),
        (JoinType::LeftAnti, "left anti"),
    ];
    for (seed, (join_type, name)) in types.into_iter().enumerate() {
        for deletes in [false, true] {
            let subject = interval_join(join_type, deletes).churning();
            let subject = if deletes { subject } else { subject.append() };
            let shown = if join_type.left_only() { "a, t" } else { "a, t, b, u" };
            let within = "t <= u and u <= t + interval '10 microseconds'";
            let sql = format!("select {shown} from l {name} join r on a = b and {within}");
            for mode in Mode::all() {
                let mut random = seeded(seed as u64);
                let mut sides = [0, 1].map(|_| TimedTable { rows: Collection::new(), watermark: 0, deletes });
                let mut rig = Rig::new(&subject, mode);
                for epoch in 0..15 {
                    let ports = (0..2).map(|port| sides[port].change(&subject, port, &mut random)).collect();
                    for (port, side) in sides.iter_mut().enumerate() {
                        side.watermark += random.below(12) as i64;
                        rig.watermarks[port].insert(1, Watermark { value: side.watermark, idle: false });
                    }
                    rig.epoch(ports).expect("the epoch runs");
                    let (l, r) = (&subject.inputs[0], &subject.inputs[1]);
                    let expected = oracle(&[("l", l, &sides[0].rows), ("r", r, &sides[1].rows)], &sql);
                    assert_eq!(rig.applied, expected, "{name} deletes {deletes} {mode:?} epoch {epoch}");
                }
            }
        }
    }
}
