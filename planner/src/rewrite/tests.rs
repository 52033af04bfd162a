//! Names of outputs; windows, run as batches.

use crate::testing::{columns_of, error, rows, value};

fn names(sql: &str) -> Vec<String> {
    let columns = columns_of(sql).unwrap_or_else(|e| panic!("{sql}: {e} {:?}", e.detail));
    columns.iter().map(|c| c.split(' ').next().unwrap_or_default().to_string()).collect()
}

#[test]
fn outputs_are_named_as_in_postgres() {
    for (sql, expected) in [
        ("select 1, 'x', id + 1 from n", vec!["?column?", "?column?", "?column?"]),
        ("select id, n.id, id as x from n", vec!["id", "id", "x"]),
        ("select count(*), max(id), lower(s), coalesce(s, '') from n group by 3, 4", vec!["count", "max", "lower", "coalesce"]),
        ("select id::text, '1'::int, cast(1.5 as numeric(3,1)) from n", vec!["id", "int4", "numeric"]),
        ("select case when true then 1 end, case when true then 1 else id end from n", vec!["case", "id"]),
        ("select extract(year from at), date '2024-01-01', interval '1 day' from e", vec!["extract", "date", "interval"]),
        ("select (select max(id) from n), exists (select 1), array[1]", vec!["max", "exists", "array"]),
        ("select trim(s), substring(s from 1 for 1), position('a' in s) from n", vec!["btrim", "substring", "position"]),
        ("select * from (select max(id) from n) as m", vec!["max"]),
        ("select mod(id, 2), pg_typeof(id) from n", vec!["mod", "pg_typeof"]),
        ("values (1, 2)", vec!["column1", "column2"]),
    ] {
        assert_eq!(names(sql), expected, "{sql}");
    }
}

#[test]
fn a_repeated_name_is_no_error_in_a_query() {
    assert_eq!(value("select id, id, 1, 2 from n where id = 1"), "1|1|1|2");
    assert_eq!(value("select id, * , e.kind, e.id from e where id = 1"), "1|1|1970-01-01T00:00:00|a|a|1");
    assert_eq!(value("select n.id, e.* from n join e on n.id = e.id where e.id = 3"), "3|3|1970-01-01T00:00:10|b");
    assert_eq!(value("select x.kind, x.next from (select *, id + 1 as next from e) x where id = 1"), "a|2");
    assert_eq!(value("select a.id, b.id from n a join n b on a.id = b.id where a.id = 2"), "2|2");
    assert_eq!(
        rows("select x.id from (select a.id, b.id from n a join n b on a.id = b.id) x order by 1").expect("rows").len(),
        3
    );
}

#[test]
fn output_names_can_be_ordered_and_grouped_by() {
    assert_eq!(
        rows("select lower(s), count(*) from n group by lower(s) order by lower(s) nulls first").expect("rows"),
        ["-|1", "a|1", "b|1"]
    );
    assert_eq!(rows("select id % 2, sum(id) from n group by 1 order by sum(id) desc, 1").expect("rows"), ["1|4", "0|2"]);
    assert_eq!(rows("select distinct id % 2 from n order by id % 2").expect("rows"), ["0", "1"]);
    assert_eq!(rows("select id from n order by -id limit 1").expect("rows"), ["3"]);
    assert_eq!(rows("select id from n order by id fetch first 2 rows only").expect("rows"), ["1", "2"]);
    assert_eq!(rows("select max(id) from n having max(id) > 2").expect("rows"), ["3"]);
}

#[test]
fn s16_every_row_falls_into_one_tumbling_window_negative_times_too() {
    let sql = "select id, window_start::text, window_end::text from tumble(e, at, interval '10' second) order by id";
    assert_eq!(
        rows(sql).expect("rows"),
        [
            "1|1970-01-01 00:00:00|1970-01-01 00:00:10",
            "2|1970-01-01 00:00:00|1970-01-01 00:00:10",
            "3|1970-01-01 00:00:10|1970-01-01 00:00:20",
            "4|1969-12-31 23:59:50|1970-01-01 00:00:00",
            "5|1970-01-01 00:00:20|1970-01-01 00:00:30",
        ]
    );
}

#[test]
fn s16_hop_of_one_size_equals_tumble() {
    let hop = "select * from hop(e, at, interval '10 seconds', interval '10 seconds') order by id";
    let tumble = "select * from tumble(e, at, interval '10 seconds') order by id";
    assert_eq!(rows(hop).expect("rows"), rows(tumble).expect("rows"));
}

#[test]
fn s16_hop_gives_a_row_for_each_window_that_holds_the_time() {
    let sql = "select id, window_start::text from hop(e, at, interval '5 seconds', interval '10 seconds') where id in (1, 2, 4) order by 1, 2";
    assert_eq!(
        rows(sql).expect("rows"),
        [
            "1|1969-12-31 23:59:55",
            "1|1970-01-01 00:00:00",
            "2|1970-01-01 00:00:00",
            "2|1970-01-01 00:00:05",
            "4|1969-12-31 23:59:50",
            "4|1969-12-31 23:59:55",
        ]
    );
    // A size that is no multiple of the slide: three seconds back and forth.
    let sql = "select id, count(*) from hop(e, at, interval '4 seconds', interval '10 seconds') group by id order by id";
    assert_eq!(rows(sql).expect("rows"), ["1|3", "2|3", "3|2", "4|2", "5|3"]);
}

#[test]
fn windows_take_aliases_offsets_subqueries_and_flinks_form() {
    assert_eq!(rows("select w.id from tumble(e, at, interval '10 seconds') as w where w.window_start > '1970-01-01 00:00:05'::timestamp order by 1").expect("rows"), ["3", "5"]);
    assert_eq!(
        rows(
            "select e.kind, count(*) from tumble(public.e, at, interval '1' minute) group by e.kind, window_start order by 1, 2"
        )
        .expect("rows"),
        ["a|3", "b|1", "b|1"]
    );
    assert_eq!(
        value("select window_start::text from tumble(e, at, interval '10 seconds', interval '3 seconds') where id = 1"),
        "1969-12-31 23:59:53"
    );
    assert_eq!(value("select count(*) from tumble((select * from e where kind = 'a'), at, interval '10 seconds')"), "3");
    let flink = "select count(*) from table(tumble(table e, descriptor(at), interval '10' second))";
    assert_eq!(value(flink), "5");
    assert_eq!(value("with x as (select * from e) select count(*) from hop(x, at, interval '5 s', interval '10 s')"), "10");
}

#[test]
fn s16_bad_window_arguments_are_refused_when_the_query_is_read() {
    for (sql, code) in [
        ("select * from tumble(e, at, interval '0 seconds')", "22023"),
        ("select * from tumble(e, at, interval '-1 seconds')", "22023"),
        ("select * from tumble(e, at, interval '1 month')", "22023"),
        ("select * from hop(e, at, interval '20 seconds', interval '10 seconds')", "22023"),
        ("select * from hop(e, at, interval '1 microsecond', interval '10 seconds')", "22023"),
        ("select * from tumble(e, at, id)", "22023"),
        ("select * from tumble(e, at)", "42601"),
        ("select * from hop(e, at, interval '1 second')", "42601"),
        ("select * from tumble(e, id + 1, interval '1 second')", "42601"),
        ("select * from tumble(e, kind, interval '1 second')", "42804"),
        ("select * from tumble(e, nosuch, interval '1 second')", "42703"),
        ("select * from tumble(nosuch, at, interval '1 second')", "42P01"),
    ] {
        let error = error(sql);
        assert_eq!(error.state.code(), code, "{sql}: {error}");
    }
    assert_eq!(error("select * from tumble(e, at, interval '0 seconds')").position, Some(15));
}

#[test]
fn clauses_that_would_be_ignored_are_refused() {
    for sql in [
        "select * from n for update",
        "select * into x from n",
        "select * from n tablesample system (10)",
        "select * from n for system_time as of '2024-01-01'",
        "select * from unnest(array[1]) with ordinality",
        "select s collate \"de_DE\" from n",
        "select id from n order by id fetch first 1 row with ties",
    ] {
        let error = error(sql);
        assert!(["0A000", "42601"].contains(&error.state.code()), "{sql}: {} {error}", error.state.code());
        assert!(error.position.is_some(), "{sql}");
    }
    assert_eq!(value("select s collate \"C\" from n where id = 1"), "a");
}

#[test]
fn distinct_from_binds_tighter_than_not_and_and_or() {
    for (written, meant) in [
        ("1 is distinct from 2 and false", "(1 is distinct from 2) and false"),
        ("1 is not distinct from 2 or true", "(1 is not distinct from 2) or true"),
        ("false and 1 is distinct from 2 or true", "(false and (1 is distinct from 2)) or true"),
        ("not 1 is distinct from 2 and false", "(not (1 is distinct from 2)) and false"),
        ("1 is distinct from 2 and false or true", "((1 is distinct from 2) and false) or true"),
        ("true is distinct from (false and true)", "true is distinct from (false and true)"),
        ("null is distinct from 2 and 3 is not distinct from 3 and false", "false"),
        ("not 2 is distinct from 2 and 3 is distinct from 2 + 1 or false", "false"),
    ] {
        assert_eq!(value(&format!("select {written}")), value(&format!("select {meant}")), "{written}");
    }
}
