use super::*;
use crate::testing::{Harness, columns, spec};

fn made(column: &str, options: &[(&str, &str)], count: &str) -> Vec<String> {
    let options: Vec<_> = [("rows", count)].into_iter().chain(options.iter().copied()).collect();
    Harness::new(&spec("datagen", &options, None), &columns(&[("c", column)])).read("0", None).rows
}

fn refused(column: &str, options: &[(&str, &str)]) -> SqlError {
    crate::registry::source(&spec("datagen", options, None), &columns(&[("c", column)])).err().unwrap()
}

#[test]
fn sequences_count_and_begin_again() {
    let sequence = ("fields.c.kind", "sequence");
    assert_eq!(made("bigint", &[sequence], "3"), ["0", "1", "2"]);
    assert_eq!(made("integer", &[sequence, ("fields.c.start", "5"), ("fields.c.end", "6")], "4"), ["5", "6", "5", "6"]);
    assert_eq!(made("smallint", &[sequence, ("fields.c.start", "32766")], "3"), ["32766", "32767", "32766"]);
    assert_eq!(made("text", &[sequence, ("fields.c.start", "9")], "2"), ["9", "10"]);
    assert_eq!(made("numeric(6,2)", &[sequence, ("fields.c.step", "0.5")], "3"), ["0.00", "0.50", "1.00"]);
    assert_eq!(made("double precision", &[sequence, ("fields.c.step", "0.5")], "2"), ["0.0", "0.5"]);
    assert_eq!(made("date", &[sequence, ("fields.c.start", "2024-02-28")], "3"), ["2024-02-28", "2024-02-29", "2024-03-01"]);
    assert_eq!(
        made("timestamp", &[sequence, ("fields.c.start", "2024-01-01"), ("fields.c.step", "1 minute")], "2"),
        ["2024-01-01T00:00:00", "2024-01-01T00:01:00"]
    );
    assert_eq!(made("bigint", &[sequence, ("fields.c.step", "-1"), ("fields.c.end", "-1")], "3"), ["0", "-1", "0"]);
}

#[test]
fn random_values_stay_in_their_range_and_reach_all_of_it() {
    let mut values = made("integer", &[("fields.c.min", "-1"), ("fields.c.max", "1")], "1000");
    values.sort_unstable();
    values.dedup();
    assert_eq!(values, ["-1", "0", "1"]);
    let whole = [("fields.c.min", "-9223372036854775808"), ("fields.c.max", "9223372036854775807")];
    assert_eq!(made("bigint", &whole, "10").len(), 10);
    assert!(made("text", &[("fields.C.length", "3")], "100").iter().all(|text| text.len() == 3));
    assert!(
        made("uuid", &[], "100")
            .iter()
            .all(|uuid| crate::decode::value::parse_uuid(uuid.as_bytes()).is_ok() && uuid.as_bytes()[14] == b'4')
    );
    assert!(made("timestamptz", &[], "100").iter().all(|time| time.starts_with("2024-")));
    let floats = made("real", &[("fields.c.min", "10"), ("fields.c.max", "20")], "100");
    assert!(floats.iter().all(|value| value.parse().is_ok_and(|value: f64| (10.0..=20.0).contains(&value))));
    assert_ne!(made("bigint", &[("fields.c.seed", "1")], "9"), made("bigint", &[("fields.c.seed", "2")], "9"));
}

#[test]
fn d21_rules_that_can_not_be_followed_are_refused() {
    assert_eq!(refused("bigint", &[("fields.c.knid", "random")]).hint.as_deref(), Some("Did you mean \"kind\"?"));
    assert_eq!(refused("bigint", &[("fields.c.kind", "sequense")]).hint.as_deref(), Some("Did you mean \"sequence\"?"));
    assert_eq!(refused("bigint", &[("fields.x.kind", "random")]).hint.as_deref(), Some("Did you mean \"c\"?"));
    assert_eq!(refused("bigint", &[("row", "5")]).hint.as_deref(), Some("Did you mean \"rows\"?"));
    assert_eq!(refused("bigint", &[("fields.c.length", "5")]).state.code(), "22023");
    assert_eq!(refused("smallint", &[("fields.c.max", "40000")]).state.code(), "22023");
    assert_eq!(refused("bigint", &[("fields.c.min", "2"), ("fields.c.max", "1")]).state.code(), "22023");
    assert_eq!(refused("bigint", &[("fields.c.kind", "sequence"), ("fields.c.step", "0")]).state.code(), "22023");
    assert_eq!(refused("bigint", &[("fields.c.kind", "sequence"), ("fields.c.end", "-5")]).state.code(), "22023");
    assert_eq!(refused("jsonb", &[]).state.code(), "0A000");
    assert_eq!(refused("varchar(3)", &[("fields.c.length", "4")]).state.code(), "22023");
}
