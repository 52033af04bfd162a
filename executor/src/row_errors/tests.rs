use super::*;

fn error(row: &str, count: i64) -> ErrorRow {
    ErrorRow {
        job: ObjectId(1),
        operator: "map".into(),
        split: None,
        position: None,
        reason: "division by zero".into(),
        row: row.into(),
        count,
        first_seen_ms: 0,
    }
}

#[test]
fn s27_an_error_goes_with_its_row() {
    let log = ErrorLog::default();
    log.report(error("a", 2));
    log.report(error("b", 1));
    log.report(error("a", -1));
    assert_eq!(log.rows(), [error("a", 1), error("b", 1)]);
    log.report(error("a", -1));
    assert_eq!(log.rows(), [error("b", 1)]);
    assert_eq!(log.total(ObjectId(1)), 3);
}

#[test]
fn the_row_of_an_error_that_was_cut_takes_no_other_with_it() {
    let mut errors = JobErrors::default();
    for row in 0..=ERRORS_MAX {
        errors.add(error(&row.to_string(), 1));
    }
    assert_eq!((errors.rows.len(), errors.counts), (ERRORS_MAX, ErrorCounts { total: ERRORS_MAX as u64 + 1, cut: 1 }));
    assert_eq!(errors.add(error("0", -1)), [None, None]);
    assert_eq!((errors.rows.len(), errors.counts.cut), (ERRORS_MAX, 0));
}
