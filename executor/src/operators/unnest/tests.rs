//! Scripts for Unnest.

use crate::testing::{Mode, Rig, Subject, batch, check, weighted};
use thalweg_plan::Operator;

fn unnest() -> Subject {
    Subject::new(Operator::Unnest { column: 1 }, &[("a:int8 b:int8[] c:text", &[0])], "a:int8 b:int8 c:text")
}

#[test]
fn gives_a_row_for_each_item_and_none_for_null_or_empty() {
    check(
        &unnest(),
        "+ 1 [7,8,7] x
         + 2 [] x
         + 3 null x
         +2 4 [null,9] y
         epoch
         = +2 1 7 x
         = + 1 8 x
         = +2 4 9 y
         = +2 4 null y
         - 1 [7,8,7] x
         epoch
         = -2 1 7 x
         = - 1 8 x
         applied
         = +2 4 9 y
         = +2 4 null y",
    );
}

#[test]
fn a_long_list_comes_in_pieces() {
    let items: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let list = format!("[{}]", items.join(","));
    let subject = unnest();
    let mut rig = Rig::new(&subject, Mode::ONE);
    let rows = batch(&subject.inputs[0], &[vec!["1", &list, "x"]]);
    let given = rig.epoch(vec![vec![weighted(rows, &[1])]]).expect("it is unnested");
    assert_eq!(given.len(), 20_000);
}
