//! Random changes: after each epoch the result must be what DataFusion computes from scratch.

use super::{Shape, top};
use crate::testing::{Mode, RandomTable, Rig, Subject, oracle, seeded};

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
fn s3_the_first_rows_equal_a_recomputation_after_each_epoch() {
    for seed in 0..4u64 {
        for (offset, limit) in [(0, 1), (2, 3)] {
            let whole = Shape { partition: &[], offset, limit: Some(limit), with_rank: false };
            let sql = format!("select g, v from t order by v desc nulls last, g nulls last limit {limit} offset {offset}");
            compare(&top(whole), &sql, true, seed);
            let ranked = Shape { partition: &[0], offset, limit: Some(limit), with_rank: true };
            let sql = format!(
                "select * from (select g, v, cast(row_number() over (partition by g order by v desc nulls last) as bigint) as rank \
                 from t) where rank > {offset} and rank <= {}",
                offset + limit
            );
            compare(&top(ranked), &sql, true, seed);
            let ranked = Shape { partition: &[0], offset, limit: Some(limit), with_rank: true };
            compare(&top(ranked).append(), &sql, false, seed);
        }
    }
}
