use super::*;

fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = vec![];
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn s26_integers_and_decimals_are_written_to_the_last_digit() {
    assert_eq!(text(|out| write_integer(out, i64::MIN)), "-9223372036854775808");
    assert_eq!(text(|out| write_integer(out, 0)), "0");
    let decimal = |value, scale, trim| text(|out| write_decimal(out, value, scale, trim));
    assert_eq!(decimal(1250, 2, false), "12.50");
    assert_eq!(decimal(1250, 2, true), "12.5");
    assert_eq!(decimal(1200, 2, true), "12");
    assert_eq!(decimal(0, 10, true), "0");
    assert_eq!(decimal(-5, 2, false), "-0.05");
    assert_eq!(decimal(7, 0, true), "7");
    assert_eq!(
        decimal(99_999_999_999_999_999_999_999_999_999_999_999_999, 38, false),
        "0.99999999999999999999999999999999999999"
    );
    assert_eq!(decimal(i128::MIN, 0, false), i128::MIN.to_string());
}

#[test]
fn floats_read_back_as_they_were() {
    for value in [0.1, 1.0, -2.5e-7, 1e300, 123_456_789.125, f64::MIN_POSITIVE, 1e15, -0.0] {
        let written = text(|out| write_float(out, value));
        assert_eq!(written.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{written}");
    }
    assert_eq!(text(|out| write_float(out, 0.1f32)), "0.1");
}

#[test]
fn intervals_are_written_as_postgres_does() {
    let interval = |months, days, us: i64| text(|out| write_interval(out, IntervalMonthDayNano::new(months, days, us * 1000)));
    assert_eq!(interval(14, 3, 14_706_700_000), "1 year 2 mons 3 days 04:05:06.7");
    assert_eq!(interval(0, 0, 0), "00:00:00");
    assert_eq!(interval(0, 1, 0), "1 day");
    assert_eq!(interval(-1, 0, -1), "-1 mons -00:00:00.000001");
}
