//! Groups that are given when they close.

use super::{check, with_time};

#[test]
fn s15_a_group_is_given_once_when_it_closes() {
    check(
        &with_time("t:timestamp k:text v:int8", &[0, 1], &[("sum(2)", "int8"), ("max(2)", "int8")], Some((0, true))),
        "+ 10 a 1
         + 20 a 2
         + 20 b 7
         epoch
         + 10 a 4
         - 20 a 2
         + 20 a 3
         - 20 b 7
         watermark 0 t 20
         epoch
         = + 10 a 5 4
         + 10 a 9
         + 20 b 8
         epoch
         dropped
         = late 1 unmatched 0
         - 20 b 8
         + 20 b 6
         watermark 0 t end
         epoch
         = + 20 a 3 3
         = + 20 b 6 6
         applied
         = + 10 a 5 4
         = + 20 a 3 3
         = + 20 b 6 6",
    );
}
