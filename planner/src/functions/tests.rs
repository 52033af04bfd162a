//! Functions by what they answer.

use crate::testing::{error, value};

#[test]
fn to_char_reads_postgres_patterns() {
    let at = "'2024-03-05 14:07:09.123456'::timestamp";
    for (pattern, expected) in [
        ("YYYY-MM-DD HH24:MI:SS", "2024-03-05 14:07:09"),
        ("HH12:MI AM", "02:07 PM"),
        ("hh:mi pm", "02:07 pm"),
        ("FMMonth FMDDth, YYYY", "March 5th, 2024"),
        ("Month|DAY|Dy|mon", "March    |TUESDAY  |Tue|mar"),
        ("DDD D ID IW IYYY Q WW W", "065 3 2 10 2024 1 10 1"),
        ("MS US SSSS", "123 123456 50829"),
        ("YY Y,YYY CC J", "24 2,024 21 2460375"),
        ("\"day\" DD", "day 05"),
        ("%Y-%m-%d", "2024-03-05"),
        ("%H:%M", "14:07"),
    ] {
        assert_eq!(value(&format!("select to_char({at}, '{pattern}')")), expected, "{pattern}");
    }
    assert_eq!(value("select to_char(null::timestamp, 'YYYY')"), "-");
    assert_eq!(value("select to_char(date '2024-03-05', 'DD.MM.YYYY')"), "05.03.2024");
    assert_eq!(value("select date_format('2024-03-05 01:02:03'::timestamp, 'HH24')"), "01");
    assert_eq!(error("select to_char(1, '999')").state.code(), "42883");
}

#[test]
fn to_char_tells_rows_of_a_batch_apart() {
    let sql = "select string_agg(to_char(at, 'MI:SS'), ',' order by id) from e where id < 6";
    assert_eq!(value(sql), "00:00,00:09,00:10,59:59,00:25");
}

#[test]
fn times_move_between_zones() {
    let sql = "select ('2024-07-01 12:00:00+00'::timestamptz at time zone 'Europe/Berlin')::text";
    assert_eq!(value(sql), "2024-07-01 14:00:00");
    let sql = "select ('2024-01-01 12:00:00'::timestamp at time zone 'Europe/Berlin')::text";
    assert_eq!(value(sql), "2024-01-01 11:00:00+00");
    // An hour that the clocks skip.
    let sql = "select ('2024-03-31 02:30:00'::timestamp at time zone 'Europe/Berlin')::text";
    assert_eq!(value(sql), "2024-03-31 01:30:00+00");
    assert_eq!(error("select now() at time zone 'Nowhere/Land'").state.code(), "22023");
}

#[test]
fn regexp_extract_gives_a_group_or_null() {
    let url = "'https://x/?a=1&channel_id=42&b'";
    assert_eq!(value(&format!("select regexp_extract({url}, '(&|^)channel_id=([^&]*)', 2)")), "42");
    assert_eq!(value("select regexp_extract('abc', 'b(.)')"), "c");
    assert_eq!(value("select regexp_extract('abc', 'x(.)')"), "-");
    assert_eq!(error("select regexp_extract('abc', '(')").state.code(), "22023");
}

#[test]
fn values_carried_by_text_are_checked() {
    assert_eq!(value("select '{6F1F0A526D114B93A6A71A3F9A0D8F4E}'::uuid"), "6f1f0a52-6d11-4b93-a6a7-1a3f9a0d8f4e");
    assert_eq!(value("select '{\"a\": [1]}'::jsonb"), "{\"a\": [1]}");
    assert_eq!(value("select 'abcdef'::varchar(3), 'a'::char(3) || '|'"), "abc|a  |");
}

#[test]
fn the_server_says_what_it_is() {
    assert!(value("select version()").starts_with("PostgreSQL 15."));
    assert_eq!(
        value("select pg_typeof(1), pg_typeof(1.5), pg_typeof('x'::varchar(3)), pg_typeof(now())"),
        "integer|numeric|character varying|timestamp with time zone"
    );
}

#[test]
fn common_functions_of_postgres_are_there() {
    assert_eq!(
        value("select char_length('äb'), split_part('a/b', '/', 2), 'a' || 1, concat('a', null, 2), left('abc', 2)"),
        "2|b|a1|a2|ab"
    );
    assert_eq!(
        value("select abs(-5), round(2.5), round(1.256, 2), floor(1.5), ceil(1.2), power(2, 3), sign(-2)"),
        "5|3|1.26|1|2|8.0|-1.0"
    );
    assert_eq!(value("select date_trunc('hour', '2024-03-05 14:07:09'::timestamp)::text"), "2024-03-05 14:00:00");
    assert_eq!(value("select pg_catalog.lower('A'), greatest(1, 2), nullif(1, 1), coalesce(null, 3)"), "a|2|-|3");
    assert_eq!(
        value("select 'abc' ~ 'b', 'ABC' ilike 'a%', 1 = any(array[1, 2]), 'x' operator(pg_catalog.=) 'x'"),
        "true|true|true|true"
    );
    assert_eq!(value("select count(*) from generate_series(1, 5)"), "5");
}

#[test]
fn times_are_read_by_postgres_patterns() {
    for (text, pattern, expected) in [
        ("2024-03-05 14:07:09.5", "YYYY-MM-DD HH24:MI:SS.MS", "2024-03-05 14:07:09.5+00"),
        ("2024-03-01 00:00:00.000000", "YYYY-MM-DD HH24:MI:SS.US", "2024-03-01 00:00:00+00"),
        ("0097/Feb/16 --> 08:14:30", "YYYY/Mon/DD --> HH:MI:SS", "0097-02-16 08:14:30+00"),
        ("97/2/16 8:14:30", "FMYYYY/FMMM/FMDD FMHH:FMMI:FMSS", "0097-02-16 08:14:30+00"),
        ("2011$03!18 23_38_15", "YYYY-MM-DD HH24:MI:SS", "2011-03-18 23:38:15+00"),
        ("1985 January 12", "YYYY FMMonth DD", "1985-01-12 00:00:00+00"),
        (
            "My birthday-> Year: 1976, Month: May, Day: 16",
            "\"My birthday-> Year:\" YYYY, \"Month:\" FMMonth, \"Day:\" DD",
            "1976-05-16 00:00:00+00",
        ),
        ("1,582nd VIII 21", "Y,YYYth FMRM DD", "1582-08-21 00:00:00+00"),
        (
            "15 \"text between quote marks\" 98 54 45",
            "HH24 \"\\\"text between quote marks\\\"\" YY MI SS",
            "1998-01-01 15:54:45+00",
        ),
        ("05121445482000", "MMDDHH24MISSYYYY", "2000-05-12 14:45:48+00"),
        ("2000January09Sunday", "YYYYFMMonthDDFMDay", "2000-01-09 00:00:00+00"),
        ("20000-1116", "YYYY-MMDD", "20000-11-16 00:00:00+00"),
        ("1997 AD 11 16", "YYYY BC MM DD", "1997-11-16 00:00:00+00"),
        ("9-1116", "Y-MMDD", "2009-11-16 00:00:00+00"),
        ("95-1116", "YY-MMDD", "1995-11-16 00:00:00+00"),
        ("995-1116", "YYY-MMDD", "1995-11-16 00:00:00+00"),
        ("2005426", "YYYYWWD", "2005-10-15 00:00:00+00"),
        ("2005300", "YYYYDDD", "2005-10-27 00:00:00+00"),
        ("2005527", "IYYYIWID", "2006-01-01 00:00:00+00"),
        ("2005364", "IYYYIDDD", "2006-01-01 00:00:00+00"),
        ("20050302", "YYYYMMDD", "2005-03-02 00:00:00+00"),
        ("  2005 03 02", "YYYYMMDD", "2005-03-02 00:00:00+00"),
        ("2011-12-18 11:38 PM", "YYYY-MM-DD HH12:MI PM", "2011-12-18 23:38:00+00"),
        ("2011-12-18 12:38 am", "YYYY-MM-DD HH12:MI AM", "2011-12-18 00:38:00+00"),
        ("2011-12-18 11:38 +05:20", "YYYY-MM-DD HH12:MI TZH:TZM", "2011-12-18 06:18:00+00"),
        ("2011-12-18 11:38 -05", "YYYY-MM-DD HH12:MI TZH", "2011-12-18 16:38:00+00"),
        ("2018-11-02 12:34:56.12", "YYYY-MM-DD HH24:MI:SS.FF2", "2018-11-02 12:34:56.12+00"),
        ("2015 063 86399", "YYYY DDD SSSSS", "2015-03-04 23:59:59+00"),
        ("2024 2", "YYYY Q", "2024-01-01 00:00:00+00"),
        ("21 05", "CC YY", "2005-01-01 00:00:00+00"),
        ("2460375", "J", "2024-03-05 00:00:00+00"),
    ] {
        let text = text.replace('\'', "''");
        let sql = format!("select to_timestamp('{text}', '{pattern}')::text");
        assert_eq!(value(&sql), expected, "{text} by {pattern}");
    }
    assert_eq!(
        value("select to_timestamp(1284352323.5)::text, to_timestamp(0)::text"),
        "2010-09-13 04:32:03.5+00|1970-01-01 00:00:00+00"
    );
    assert_eq!(value("select to_timestamp(null, 'YYYY')"), "-");
}

#[test]
fn dates_are_read_by_postgres_patterns() {
    for (text, pattern, expected) in [
        ("2011x 12x 18", "YYYYxMMxDD", "2011-12-18"),
        ("4 Dec 2000", "DD Mon YYYY", "2000-12-04"),
        ("1 4 1902", "Q MM YYYY", "1902-04-01"),
        ("3 4 21 01", "W MM CC YY", "2001-04-15"),
        ("2458872", "J", "2020-01-23"),
        ("2016-02-29", "YYYY-MM-DD", "2016-02-29"),
        ("2000 12 25 junk", "YYYY MM DD", "2000-12-25"),
    ] {
        assert_eq!(value(&format!("select to_date('{text}', '{pattern}')")), expected, "{text} by {pattern}");
    }
    assert_eq!(
        value("select pg_typeof(to_date('2020', 'YYYY')), pg_typeof(to_timestamp('2020', 'YYYY'))"),
        "date|timestamp with time zone"
    );
}

#[test]
fn times_that_do_not_fit_their_pattern_are_refused() {
    for (text, pattern, state, message) in [
        ("x", "YYYY", "22007", "invalid value \"x\" for \"YYYY\""),
        ("19971", "YYYYMMDD", "22007", "source string too short for \"MM\" formatting field"),
        ("199711)24", "YYYYMMDD", "22007", "invalid value \")2\" for \"DD\""),
        ("Friday 1-January-1999", "DY DD MON YYYY", "22007", "invalid value \"da\" for \"DD\""),
        ("2005527", "YYYYIWID", "22007", "invalid combination of date conventions"),
        ("1997-11-Jan-16", "YYYY-MM-Mon-DD", "22007", "conflicting values for \"Mon\" field in formatting string"),
        ("10000000000", "FMYYYY", "22008", "value for \"YYYY\" in source string is out of range"),
        ("2016-13-10", "YYYY-MM-DD", "22008", "date/time field value out of range: \"2016-13-10\""),
        ("2015-02-29", "YYYY-MM-DD", "22008", "date/time field value out of range: \"2015-02-29\""),
        ("2016-06-13 25:00:00", "YYYY-MM-DD HH24:MI:SS", "22008", "date/time field value out of range: \"2016-06-13 25:00:00\""),
        ("2016-06-13 15:50", "YYYY-MM-DD HH:MI", "22007", "hour \"15\" is invalid for the 12-hour clock"),
        ("2015 366", "YYYY DDD", "22008", "date/time field value out of range: \"2015 366\""),
        ("2011-12-18 xyz", "YYYY-MM-DD TZ", "0A000", "formatting field \"TZ\" is only supported in to_char"),
        (
            "2011-12-18 11:38 +19",
            "YYYY-MM-DD HH12:MI TZH",
            "22009",
            "time zone displacement out of range: \"2011-12-18 11:38 +19\"",
        ),
    ] {
        let error = error(&format!("select to_timestamp('{text}', '{pattern}')"));
        assert_eq!((error.state.code(), error.message.as_str()), (state, message), "{text} by {pattern}");
    }
    assert_eq!(error("select to_timestamp('2020-01-01')").state.code(), "42883");
}

#[test]
fn numbers_are_read_by_postgres_patterns() {
    for (text, pattern, expected) in [
        ("-34,338,492", "99G999G999", "-34338492"),
        ("-34,338,492.654,878", "99G999G999D999G999", "-34338492.654878"),
        ("<564646.654564>", "999999.999999PR", "-564646.654564"),
        ("0.00001-", "9.999999S", "-0.00001"),
        ("5.01-", "FM9.999999MI", "-5.01"),
        ("5 4 4 4 4 8 . 7 8", "9 9 9 9 9 9 . 9 9", "544448.78"),
        (".01", "FM9.99", "0.01"),
        ("0", "99.99", "0"),
        (".-01", "S99.99", "-0.01"),
        (" . 0 1-", " 9 9 . 9 9 S", "-0.01"),
        ("34,50", "999,99", "3450"),
        ("123,000", "999G", "123"),
        ("123456", "999G999", "123456"),
        ("$1,234.56", "L99,999.99", "1234.56"),
        ("1234.56", "L99,999.99", "1234.56"),
        ("42nd", "99th", "42"),
        ("12-", "999", "12"),
        ("12345", "99V999", "12.345"),
    ] {
        assert_eq!(value(&format!("select to_number('{text}', '{pattern}')::text")), expected, "{text} by {pattern}");
    }
    assert_eq!(error("select to_number('abc', '999')").state.code(), "22P02");
    assert_eq!(error("select to_number('12345', '99.99')").state.code(), "22003");
    assert_eq!(error("select to_number('12', '9.9.9')").state.code(), "42601");
    assert_eq!(error("select to_number('XII', 'RN')").state.code(), "0A000");
}
