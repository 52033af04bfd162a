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

#[test]
fn s25_memberships_have_three_truth_values_wherever_they_stand() {
    let found = rows("select id, id in (select i4 / 10 from n), id not in (select i4 from n) from n order by 1").expect("rows");
    assert_eq!(found, ["1|true|-", "2|-|-", "3|-|-"]);
    assert_eq!(rows("select id from n where id not in (select i4 from n) or id = 3").expect("rows"), ["3"]);
    assert_eq!(rows("select id from n where not (id in (select i4 from n) and id < 3) order by 1").expect("rows"), ["3"]);
    assert_eq!(rows("select id from n where id <> all (select i4 from n)").expect("rows").len(), 0);
    assert_eq!(rows("select id from n where id < any (select i4 from n) order by 1").expect("rows"), ["1", "2", "3"]);
    assert_eq!(value("select count(*) from n where (id > all (select i4 from n)) is null"), "0");
    // Correlated: the subquery of 3 is NULL alone.
    let sql = "select a.id from n a where a.id not in (select b.i4 from n b where b.id = a.id) order by 1";
    assert_eq!(rows(sql).expect("rows"), ["1", "2"]);
    // In an aggregate's argument, and in a condition of a join.
    assert_eq!(value("select sum(case when id in (select i2 from n) then 1 else 0 end) from n"), "2");
    assert_eq!(value("select count(*) from n a join n b on a.id = b.id and (a.id in (select i2 from n) or b.id = 3)"), "3");
}

#[test]
fn exists_can_be_a_value() {
    let sql = "select a.id, exists (select 1 from n b where b.i2 > a.id), not exists (select 1 from n b where b.id = a.id + 2) from n a order by 1";
    assert_eq!(rows(sql).expect("rows"), ["1|true|false", "2|false|true", "3|false|true"]);
}

#[test]
fn s18_set_operations_count_copies() {
    let (left, right) = ("(values (1), (1), (1), (2), (null), (null)) as l(x)", "(values (1), (null), (3)) as r(x)");
    for (operation, expected) in [
        ("except all", vec!["1", "1", "2", "-"]),
        ("except", vec!["2"]),
        ("intersect all", vec!["1", "-"]),
        ("intersect", vec!["1", "-"]),
    ] {
        let sql = format!("select x from {left} {operation} select x from {right} order by x");
        assert_eq!(rows(&sql).expect("rows"), expected, "{operation}");
    }
    assert_eq!(columns_of("select 1 except select 2.5").expect("columns"), ["?column? numeric(11,1)"]);
    assert_eq!(columns_of("select i4 from n intersect all select i8 from n").expect("columns"), ["i4 bigint"]);
    assert_eq!(value("select n.id, n.id as again from n except select 1, 1 except select 2, 2"), "3|3");
}

#[test]
fn d22_a_scalar_subquery_of_several_rows_is_an_error() {
    for sql in [
        "select (select id from n)",
        "select id from n where i4 = (select i4 from n)",
        "select a.id, (select b.id from n b where b.id > a.id) from n a",
    ] {
        let error = error(sql);
        assert!(["21000", "0A000"].contains(&error.state.code()), "{sql}: {} {error}", error.state.code());
    }
    assert_eq!(error("select (select id from n)").state.code(), "21000");
    assert_eq!(error("select (select b.id from n b where b.i2 = a.i2 or b.i2 is null) from n a").state.code(), "0A000");
    let sql = "select a.id, (select b.i4 from n b where b.id = a.id) from n a order by 1";
    assert_eq!(rows(sql).expect("rows"), ["1|10", "2|2147483647", "3|-"]);
    // What nobody asks for does no harm.
    let sql = "select v.x, (select t.y from (values (1, 1), (2, 2), (2, 3)) as t(x, y) where t.x = v.x) from (values (1), (9)) as v(x) order by 1";
    assert_eq!(rows(sql).expect("rows"), ["1|1", "9|-"]);
    assert_eq!(value("select (select id from n where id = 9)"), "-");
}

#[test]
fn correlated_counts_stand_beside_each_other() {
    let sql = "select a.id, (select count(*) from n b where b.i2 = a.id), (select count(*) + 1 from n b where b.i2 = a.id + 1) from n a order by 1";
    assert_eq!(rows(sql).expect("rows"), ["1|1|2", "2|1|1", "3|0|1"]);
    let sql = "select id from n a where (select count(*) from n b where b.i2 = a.id) = 0 and (select count(*) from n b where b.i2 = a.id) < 1";
    assert_eq!(rows(sql).expect("rows"), ["3"]);
}

#[test]
fn s26_sums_of_numerics_that_do_not_fit_are_errors() {
    let huge = "'99999999999999999999999999999999999999'::numeric(38,0)";
    let rows_of = |values: &str| format!("(values {values}) as v(g, x)");
    for sql in [
        format!("select sum(x) from {}", rows_of(&format!("(1, {huge}), (1, {huge})"))),
        format!("select g, sum(x) from {} group by g", rows_of(&format!("(1, {huge}), (1, {huge}), (2, 1)"))),
        format!("select sum(x) from {}", rows_of(&format!("(1, {huge}), (1, 1)"))),
        format!("select sum(distinct x) from {}", rows_of(&format!("(1, {huge}), (1, 1), (1, 1)"))),
        format!("select sum(x) over (order by g) from {}", rows_of(&format!("(1, {huge}), (2, {huge})"))),
        format!("select x * x from {}", rows_of(&format!("(1, {huge})"))),
        format!("select x + x from {}", rows_of(&format!("(1, {huge})"))),
    ] {
        assert_eq!(error(&sql).state.code(), "22003", "{sql}");
    }
    let sql = format!(
        "select g, sum(x), sum(distinct x) from {} group by g order by g",
        rows_of("(1, 1.5), (1, 1.5), (2, null), (3, 2)")
    );
    assert_eq!(rows(&sql).expect("rows"), ["1|3.0|1.5", "2|-|-", "3|2.0|2.0"]);
    assert_eq!(value("select sum(d) filter (where id = 1) from n"), "1.50");
}

#[test]
fn times_are_rounded_to_the_digits_of_a_cast() {
    assert_eq!(value("select '2024-01-01 10:11:12.56789'::timestamp(2)"), "2024-01-01T10:11:12.570");
    assert_eq!(value("select cast('10:11:12.5' as time(0))"), "10:11:13");
    assert_eq!(value("select timestamp(0) '1999-12-31 23:59:58.5'"), "1999-12-31T23:59:58");
    assert_eq!(value("select '2024-01-01 10:11:12.123456'::timestamp(6)"), "2024-01-01T10:11:12.123456");
}

#[test]
fn rows_are_numbered_and_summed_in_an_order_of_bytes() {
    let sql = "select id, row_number() over (order by encode(s::bytea, 'hex')::bytea desc nulls last, id),
                      sum(id) over (order by encode(s::bytea, 'hex')::bytea nulls first) from n order by id";
    let of_text = sql.replace("encode(s::bytea, 'hex')::bytea", "s");
    assert_eq!(rows(sql).expect("rows"), rows(&of_text).expect("rows"));
}

#[test]
fn a_text_cast_to_bytea_is_hexadecimal_after_its_mark() {
    assert_eq!(value("select '\\x01ff'::bytea, 'abc'::bytea, cast('\\x' as bytea)"), "01ff|616263|");
}
