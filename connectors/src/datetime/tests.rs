use super::*;

fn timestamp(us: i64) -> String {
    let mut out = vec![];
    write_timestamp(&mut out, us, b' ');
    String::from_utf8(out).unwrap()
}

#[test]
fn every_day_of_a_thousand_years_reads_back_as_written() {
    for days in days_of_date(1600, 1, 1)..days_of_date(2600, 1, 1) {
        let (year, month, day) = date_of_days(days);
        assert_eq!(days_of_date(year, month, day), days);
        let mut text = vec![];
        write_date(&mut text, days);
        assert_eq!(parse_date(&text), Ok(days as i32), "{}", String::from_utf8_lossy(&text));
    }
    assert_eq!(days_of_date(1970, 1, 1), 0);
    assert_eq!(days_of_date(2000, 2, 29), 11_016);
}

#[test]
fn timestamps_read_with_either_separator_fractions_and_zones() {
    let base = 1_706_745_540 * SECOND_US;
    for (text, expected) in [
        ("2024-01-31 23:59:00", base),
        ("2024-01-31T23:59:00", base),
        ("2024-01-31T23:59", base),
        ("2024-01-31 23:59:00.5", base + 500_000),
        ("2024-01-31 23:59:00.123456", base + 123_456),
        ("2024-01-31 23:59:00.1234565", base + 123_457),
        ("2024-01-31 23:59:00.9999999", base + SECOND_US),
        ("2024-01-31", base - 86_340 * SECOND_US),
        ("1969-12-31 23:59:59.999999", -1),
    ] {
        assert_eq!(parse_timestamp(text.as_bytes()), Ok(expected), "{text}");
    }
    assert_eq!(parse_timestamp(b"2024-01-31T23:59:00+02:00"), Ok(base), "a timestamp ignores a zone");
    for text in ["2024-02-01T01:59:00+02:00", "2024-02-01 01:59:00+02", "2024-02-01T01:59:00+0200", "2024-01-31T23:59:00Z"] {
        assert_eq!(parse_timestamp_tz(text.as_bytes()), Ok(base), "{text}");
    }
}

#[test]
fn impossible_times_are_refused() {
    for text in ["2023-02-29", "2024-13-01", "2024-00-10", "2024-01-32", "2024-01-31 24:00:01", "2024-01-31 23:60:00"] {
        assert_eq!(parse_timestamp(text.as_bytes()), Err(Misfit::Range), "{text}");
    }
    for text in ["", "2024", "2024-1-1", "24-01-01", "2024-01-31x", "2024-01-31 ", "2024-01-31 2:00", "2024-01-31 23:59:00 CET"] {
        assert_eq!(parse_timestamp(text.as_bytes()), Err(Misfit::Syntax), "{text}");
    }
    assert_eq!(parse_timestamp(b"999999-01-01"), Err(Misfit::Range));
    assert_eq!(parse_timestamp(b"2024-01-31 24:00:00"), parse_timestamp(b"2024-02-01"));
}

#[test]
fn timestamps_are_written_without_zeros_at_the_end() {
    assert_eq!(timestamp(0), "1970-01-01 00:00:00");
    assert_eq!(timestamp(-1), "1969-12-31 23:59:59.999999");
    assert_eq!(timestamp(500_000), "1970-01-01 00:00:00.5");
    assert_eq!(timestamp(1), "1970-01-01 00:00:00.000001");
    assert_eq!(timestamp(253_402_300_800 * SECOND_US), "10000-01-01 00:00:00");
}
