//! Scripts for EmitOnClose.

use crate::operator::Watermark;
use crate::testing::{Subject, check};
use thalweg_plan::Operator;

fn close(time: &str) -> Subject {
    let columns = format!("k:text t:{time}");
    Subject::new(Operator::EmitOnClose { column: 1 }, &[(&columns, &[1])], &columns)
}

#[test]
fn s15_each_time_is_given_once_when_the_watermark_is_past_it() {
    check(
        &close("timestamp"),
        "+ a 10
         + b 20
         epoch
         - a 10
         +2 a 10
         watermark 0 t 10
         epoch
         watermark 0 t 11
         epoch
         = +2 a 10
         + c 20
         epoch
         watermark 0 t end
         epoch
         = + b 20
         = + c 20",
    );
}

#[test]
fn s10_a_later_change_for_a_closed_time_is_dropped_and_counted() {
    check(
        &close("timestamp"),
        "+ a 10
         + b 30
         watermark 0 t 20
         epoch
         = + a 10
         - a 10
         + a 19
         + c 20
         + d null
         epoch
         dropped
         = late 3 unmatched 0
         watermark 0 t 25
         epoch
         = + c 20
         applied
         = + a 10
         = + c 20",
    );
}

#[test]
fn rows_taken_back_in_time_are_never_given() {
    check(
        &close("timestamp"),
        "+ a 10
         epoch
         - a 10
         - b 10
         watermark 0 t 20
         epoch
         dropped
         = late 0 unmatched 1
         applied",
    );
}

#[test]
fn a_day_closes_when_the_watermark_is_past_its_beginning() {
    check(
        &close("date"),
        "+ a 1970-01-02
         + b 1970-01-03
         watermark 0 t 86400000000
         epoch
         watermark 0 t 86400000001
         epoch
         = + a 1970-01-02
         watermark 0 t end
         epoch
         = + b 1970-01-03",
    );
}

#[test]
fn rows_sent_by_other_columns_close_alike() {
    let columns = "k:text t:timestamp";
    let subject = Subject::new(Operator::EmitOnClose { column: 1 }, &[(columns, &[0])], columns);
    check(
        &subject,
        "+ a 10
         + a 20
         + b 10
         epoch
         watermark 0 t 15
         epoch
         = + a 10
         = + b 10
         - a 20
         + a 21
         epoch
         watermark 0 t 25
         epoch
         = + a 21",
    );
}

#[test]
fn more_than_a_piece_closes_whole() {
    use crate::testing::{Mode, Rig, batch, weighted};
    let subject = close("timestamp");
    for mode in Mode::all() {
        let mut rig = Rig::new(&subject, mode);
        let keys: Vec<String> = (0..30_000).map(|n| n.to_string()).collect();
        let rows: Vec<Vec<&str>> = keys.iter().map(|k| vec![k.as_str(), if k.ends_with('1') { "10" } else { "20" }]).collect();
        rig.epoch(vec![vec![weighted(batch(&subject.inputs[0], &rows), &[1; 30_000])]]).expect("rows wait");
        rig.watermarks[0].insert(1, Watermark { value: 15, idle: false });
        assert_eq!(rig.epoch(vec![Vec::new()]).expect("rows close").len(), 3_000);
        rig.watermarks[0].insert(1, Watermark { value: 30, idle: false });
        assert_eq!(rig.epoch(vec![Vec::new()]).expect("rows close").len(), 27_000);
    }
}
