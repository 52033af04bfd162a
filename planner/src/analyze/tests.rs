//! Numbers as Postgres has them: types of results, exactness, errors rather than wrapped values.

use crate::testing::{columns_of, error, rows, value};

#[test]
fn results_have_the_types_of_postgres() {
    for (sql, expected) in [
        ("select 1", "?column? integer"),
        ("select 3000000000", "?column? bigint"),
        ("select 1.5", "?column? numeric(2,1)"),
        ("select 'x'", "?column? text"),
        ("select null", "?column? text"),
        ("select true", "?column? boolean"),
        ("select i4 + 1 as x from n", "x integer"),
        ("select i2 + 1 as x from n", "x integer"),
        ("select i8 + 1 as x from n", "x bigint"),
        ("select i4 / 2 as x from n", "x integer"),
        ("select count(*) from n", "count bigint"),
        ("select sum(i2) from n", "sum bigint"),
        ("select sum(i4) from n", "sum bigint"),
        ("select sum(i8) from n", "sum numeric(38,0)"),
        ("select sum(d) from n", "sum numeric(20,2)"),
        ("select sum(f8) from n", "sum double precision"),
        ("select sum(case when i4 > 1 then 1 else 0 end) from n", "sum bigint"),
        ("select avg(i4) from n", "avg numeric(36,16)"),
        ("select avg(i8) from n", "avg numeric(36,16)"),
        ("select avg(d) from n", "avg numeric(24,16)"),
        ("select avg(f8) from n", "avg double precision"),
        ("select min(i4) from n", "min integer"),
        ("select coalesce(i4, 0) as x from n", "x integer"),
        ("select row_number() over (order by id) from n", "row_number bigint"),
        ("select sum(i8) over () from n", "sum numeric(38,0)"),
        ("select 1 union all select 2", "?column? integer"),
        ("values (1, 'a')", "column1 integer"),
        ("select '2024-01-01'::timestamptz", "timestamptz timestamp with time zone"),
        ("select now()", "now timestamp with time zone"),
        ("select current_date", "current_date date"),
        ("select '6f1f0a52-6d11-4b93-a6a7-1a3f9a0d8f4e'::uuid", "uuid uuid"),
        ("select 'abc'::varchar(2)", "varchar character varying(2)"),
        ("select bool_and(i4 > 0), every(i4 > 0) from n", "bool_and boolean"),
    ] {
        let columns = columns_of(sql).unwrap_or_else(|e| panic!("{sql}: {e} {:?}", e.detail));
        assert_eq!(columns[0], expected, "{sql}");
    }
}

#[test]
fn s26_sums_and_averages_are_exact() {
    assert_eq!(value("select sum(i8), sum(i4), sum(d) from n"), "9223372036854775907|2147483657|1.25");
    assert_eq!(value("select avg(i4) from (values (1), (2), (2)) as t(i4)"), "1.6666666666666666");
    assert_eq!(value("select avg(d) from n"), "0.6250000000000000");
    assert_eq!(value("select sum(i8) from n where false"), "-");
    assert_eq!(value("select 9223372036854775807 - 1"), "9223372036854775806");
    assert_eq!(value("select 0.1 + 0.2"), "0.3");
    assert_eq!(value("select 1.0 / 3"), "0.3333333333333333");
    assert_eq!(value("select i8 = 9223372036854775806 from n where id = 2"), "false");
}

#[test]
fn s26_overflow_is_an_error() {
    for sql in [
        "select i4 + 1 from n",
        "select i4 * i4 from n",
        "select i8 + 1 from n",
        "select i8 * 2 from n",
        "select - (i8 + 1) from n",
        "select 9223372036854775807 + 1",
        "select 2147483647 + 1",
        "select (-2147483647 - 1) - 1",
        "select id from n where i4 + 1 > 0",
        "select sum(i4 * 2) from n",
        "select a.id from n a join n b on a.i4 + b.i4 > 0",
        "select cast(3000000000 as integer)",
    ] {
        let error = error(sql);
        assert_eq!(error.state.code(), "22003", "{sql}: {error}");
    }
    assert_eq!(error("select i4 + 1 from n").message, "integer out of range");
    assert_eq!(error("select i8 + 1 from n").message, "bigint out of range");
}

#[test]
fn s26_division_by_zero_is_an_error() {
    for sql in [
        "select 1 / 0",
        "select i4 / 0 from n",
        "select i4 % 0 from n",
        "select 1 / f8 from n",
        "select 1.5 / 0",
        "select mod(5, 0)",
    ] {
        assert_eq!(error(sql).state.code(), "22012", "{sql}");
    }
    // What is not evaluated does no harm.
    assert_eq!(rows("select case when f8 = 0 then 0 else 1 / f8 end from n where f8 is not null").expect("rows"), ["2.0", "0.0"]);
}

#[test]
fn integers_divide_to_integers() {
    assert_eq!(value("select 7 / 2, -7 / 2, 7 % 3, mod(-7, 3), 2 ^ 10"), "3|-3|1|-1|1024.0");
}

#[test]
fn casts_round_and_print_as_in_postgres() {
    assert_eq!(value("select 1.5::int, (-1.5)::int, 2.4::bigint, 2.5::float8::int"), "2|-2|2|2");
    assert_eq!(value("select '2024-01-31 10:00:00.5'::timestamp::text"), "2024-01-31 10:00:00.5");
    assert_eq!(value("select '2024-01-31 10:00:00+02'::timestamptz::text"), "2024-01-31 08:00:00+00");
    assert_eq!(value("select 1::float8::text, 0.1::float8::text, 1e20::float8::text"), "1|0.1|1e+20");
    assert_eq!(value("select true::text, 12::text, 1.50::text"), "true|12|1.50");
    for (sql, code) in [
        ("select 'x'::int", "22P02"),
        ("select 'x'::timestamp", "22007"),
        ("select 'x'::uuid", "22P02"),
        ("select '{'::json", "22P02"),
        ("select 'x'::numeric(50,2)", "22023"),
        ("select 1::nosuch", "42704"),
    ] {
        let error = error(sql);
        assert_eq!(error.state.code(), code, "{sql}: {error}");
    }
    assert_eq!(error("select 'x'::int").message, "invalid input syntax for type integer: \"x\"");
}

#[test]
fn recursive_queries_keep_the_types_of_their_first_term() {
    let sql = "with recursive t(n) as (select 1 union all select n + 1 from t where n < 3) select sum(n) from t";
    assert_eq!(value(sql), "6");
}

#[test]
fn s25_not_in_with_nulls_gives_nothing() {
    assert_eq!(rows("select id from n where id not in (select i4 from n)").expect("rows").len(), 0);
    assert_eq!(
        rows("select id from n where id not in (select i4 from n where i4 is not null) order by 1").expect("rows"),
        ["1", "2", "3"]
    );
}
