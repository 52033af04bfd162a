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
