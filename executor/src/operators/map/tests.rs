//! Scripts for Map.

use crate::testing::{Subject, check, expr, schema};
use datafusion::physical_expr::PhysicalExpr;
use std::sync::Arc;
use thalweg_plan::{MapExpr, Operator};

fn map(input: &str, predicate: Option<&str>, exprs: &[&str], output: &str) -> Subject {
    let columns = schema(input);
    let compiled = |sql: &str| -> Arc<dyn PhysicalExpr> { expr(&columns, sql) };
    let exprs = exprs.iter().map(|sql| MapExpr { expr: compiled(sql), name: sql.to_string() });
    let operator = Operator::Map { predicate: predicate.map(compiled), exprs: exprs.collect() };
    Subject::new(operator, &[(input, &[0])], output)
}

#[test]
fn keeps_rows_for_which_the_predicate_is_true_and_not_null() {
    let subject = map("a:int8 b:text", Some("a > 1"), &["b", "a * 10"], "b:text x:int8");
    check(
        &subject,
        "+ 1 x
         + 2 y
         + null z
         +3 3 x
         epoch
         = +3 x 30
         = + y 20
         - 2 y
         -2 3 x
         epoch
         = -2 x 30
         = - y 20
         applied
         = + x 30",
    );
}

#[test]
fn computes_columns_only_for_rows_that_are_kept() {
    let subject = map("a:int8", Some("a <> 0"), &["10 / a"], "x:int8");
    check(
        &subject,
        "+ 0
         + 5
         epoch
         = + 2
         errors",
    );
}

#[test]
fn s27_a_row_at_fault_is_reported_and_heals_and_the_others_go_on() {
    let subject = map("a:int8 b:int8", None, &["a", "a / b"], "a:int8 x:int8");
    check(
        &subject,
        "+ 6 2
         + 1 0
         +2 5 0
         + 8 4
         epoch
         = + 6 3
         = + 8 2
         errors
         = +1 a=1, b=0: division by zero
         = +2 a=5, b=0: division by zero
         - 1 0
         - 6 2
         epoch
         = - 6 3
         -2 5 0
         epoch
         errors
         applied
         = + 8 2",
    );
}

#[test]
fn s26_a_value_out_of_range_is_an_error_of_the_row() {
    let subject = map("a:int8", None, &["cast(a as int)"], "x:int4");
    check(
        &subject,
        "+ 3000000000
         + 1
         epoch
         = + 1
         errors
         = +1 a=3000000000: Can't cast value 3000000000 to type Int32",
    );
}

#[test]
fn s27_many_rows_at_fault_in_one_batch_are_all_found() {
    use crate::testing::{Mode, Rig, batch, weighted};
    let subject = map("a:int8 b:int8", None, &["a / b"], "x:int8");
    let texts: Vec<(String, String)> = (0..1000).map(|n| (n.to_string(), (n % 7).to_string())).collect();
    let rows: Vec<Vec<&str>> = texts.iter().map(|(a, b)| vec![a.as_str(), b.as_str()]).collect();
    let mut rig = Rig::new(&subject, Mode::ONE);
    let given = rig.epoch(vec![vec![weighted(batch(&subject.inputs[0], &rows), &[1; 1000])]]).expect("the job goes on");
    let bad = (0..1000).filter(|n| n % 7 == 0).count();
    assert_eq!(given.values().sum::<i64>(), 1000 - bad as i64);
    assert_eq!(rig.errors().len(), bad);
}
