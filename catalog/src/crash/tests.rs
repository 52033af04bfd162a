use super::*;
use std::collections::BTreeSet;

#[test]
fn a_point_is_armed_for_the_time_that_is_named() {
    assert_eq!(parse("before-flush"), Ok((CrashPoint::BeforeFlush, 1)));
    assert_eq!(parse("in-garbage:12"), Ok((CrashPoint::InGarbage, 12)));
}

#[test]
fn d21_what_is_no_point_is_refused_with_the_nearest_one() {
    let error = parse("befor-flush").unwrap_err();
    assert!(error.contains("Did you mean \"before-flush\"?"), "{error}");
    let error = parse("whenever").unwrap_err();
    assert!(CrashPoint::ALL.iter().all(|point| error.contains(point.name())), "{error}");
    assert!(parse("before-flush:0").is_err());
    assert!(parse("before-flush:often").is_err());
}

#[test]
fn no_two_points_have_one_name() {
    let names: BTreeSet<_> = CrashPoint::ALL.iter().map(|point| point.name()).collect();
    assert_eq!(names.len(), CrashPoint::ALL.len());
}
