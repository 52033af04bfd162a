//! Names, errors and their places; parameters; what continuous queries may not do.

use super::{LogicalPlanner, Scope, substitute_parameters};
use crate::parse_query;
use crate::relation::StreamRelations;
use crate::testing::{Memory, catalog, error, path, print, rows, run_plan, value};
use datafusion::scalar::ScalarValue;
use thalweg_catalog::{SqlError, SqlResult, SqlType};

#[test]
fn errors_carry_state_place_and_advice() {
    for (sql, code, position) in [
        ("select amout from n", "42703", Some(8)),
        ("select n.nosuch from n", "42703", Some(8)),
        ("select x.id from n", "42P01", Some(8)),
        ("select id from nosuch", "42P01", Some(16)),
        ("select id from nosuch.n", "42P01", Some(16)),
        ("select nosuch(id) from n", "42883", Some(8)),
        ("select id from n, e", "42702", None),
        ("select id, count(*) from n", "42803", None),
        ("select id from n group by s", "42803", None),
        ("select s + id from n where s > 1 + s", "42883", None),
        ("select id from n where lower(id, id) = 'x'", "42883", None),
        ("select 1 union select 1, 2", "42601", None),
        ("select * from k", "42809", Some(15)),
        ("select (select id, s from n)", "42601", None),
        ("select id from n order by 5", "42P10", None),
        ("select a from (select 1) as t(a, b)", "42P10", None),
        ("with a as (select 1), a as (select 2) select * from a", "42712", None),
        ("select id from n where $1", "42P02", None),
    ] {
        let found = error(sql);
        assert_eq!(found.state.code(), code, "{sql}: {found} {:?}", found.detail);
        if position.is_some() {
            assert_eq!(found.position, position, "{sql}: {found}");
        }
    }
    let found = error("select kinds from e");
    assert_eq!(found.message, "column \"kinds\" does not exist in \"e\"");
    assert_eq!(found.detail.as_deref(), Some("Relation \"e\" has columns id, at, kind."));
    assert_eq!(found.hint.as_deref(), Some("Did you mean \"kind\"?"));
    assert_eq!(error("select * from zzzzzz").hint, None);
    assert_eq!(error("select * from shrt").hint.as_deref(), Some("Did you mean \"short\"?"));
}

#[test]
fn views_stand_for_their_queries() {
    assert_eq!(rows("select v.next from v where id = 1").expect("rows"), ["11"]);
    assert_eq!(error("select nosuch from v").position, Some(8));
    let (catalog, path) = (catalog(), path());
    let scope = Scope { catalog: &catalog, relations: &StreamRelations, search_path: &path };
    let depends = |sql: &str| {
        let bound = LogicalPlanner::new().plan_query(&parse_query(sql).expect("a query"), &scope, &[]).expect("a plan");
        bound.depends_on.iter().map(|id| catalog.get(*id).expect("an object").name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(depends("select * from v join bid on id = auction"), ["bid", "v"]);
    assert_eq!(depends("with n as (select 1) select * from n, e"), ["e"]);
    assert_eq!(depends("select * from e where id in (select id from n)"), ["n", "e"]);
}

#[test]
fn the_path_decides_what_a_bare_name_means() {
    let catalog = catalog();
    let query = parse_query("select * from n").expect("a query");
    let plan = |path: &[&str]| {
        let path: Vec<String> = path.iter().map(ToString::to_string).collect();
        let scope = Scope { catalog: &catalog, relations: &Memory, search_path: &path };
        LogicalPlanner::new().plan_query(&query, &scope, &[]).map(|_| ())
    };
    assert_eq!(plan(&["$user", "public"]), Ok(()));
    assert_eq!(plan(&["app"]).map_err(|e| e.state.code()), Err("42P01"));
    assert_eq!(rows("select count(*) from thalweg.public.n").expect("rows"), ["3"]);
}

fn parameters(sql: &str, declared: &[Option<SqlType>]) -> SqlResult<Vec<String>> {
    let (catalog, path) = (catalog(), path());
    let scope = Scope { catalog: &catalog, relations: &Memory, search_path: &path };
    let (_, types) = LogicalPlanner::new().plan_with_parameters(&*parse_query(sql)?, &scope, declared)?;
    Ok(types.iter().map(ToString::to_string).collect())
}

#[test]
fn types_of_parameters_follow_from_their_use() {
    for (sql, expected) in [
        ("select $1::int + $2, $3", vec!["integer", "integer", "text"]),
        ("select * from n where i8 = $1 and s like $2", vec!["bigint", "text"]),
        ("select * from n where i4 in ($1, $2)", vec!["integer", "integer"]),
        ("select * from e where at between $1 and $2", vec!["timestamp without time zone"; 2]),
        ("select * from n where d > $1", vec!["numeric"]),
        ("select * from n order by id limit $1 offset $2", vec!["bigint", "bigint"]),
        ("select $1::uuid", vec!["uuid"]),
        ("select $1::inet, '1.1.1.1'::cidr = $2", vec!["inet", "cidr"]),
        ("select 1", vec![]),
    ] {
        assert_eq!(parameters(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}")), expected, "{sql}");
    }
    assert_eq!(parameters("select $1", &[Some(SqlType::Int8)]).expect("types"), ["bigint"]);
}

fn with_values(sql: &str, values: &[ScalarValue]) -> SqlResult<Vec<String>> {
    let (catalog, path) = (catalog(), path());
    let scope = Scope { catalog: &catalog, relations: &Memory, search_path: &path };
    let planner = LogicalPlanner::new();
    let (bound, _) = planner.plan_with_parameters(&*parse_query(sql)?, &scope, &[])?;
    let plan = substitute_parameters(bound.plan, values)?;
    let types: Vec<String> = planner.describe(&plan)?.iter().map(|c| c.sql_type.to_string()).collect();
    let rows = print(&run_plan(&planner, &plan)?);
    Ok([types, rows].concat())
}

#[test]
fn values_of_parameters_keep_their_types() {
    let int4 = |v| ScalarValue::Int32(Some(v));
    let int8 = |v| ScalarValue::Int64(Some(v));
    assert_eq!(with_values("select $1::int + $2", &[int4(1), int4(2)]).expect("rows"), ["integer", "3"]);
    assert_eq!(with_values("select $1::bigint", &[int8(5)]).expect("rows"), ["bigint", "5"]);
    let sql = "select id from n where i8 >= $1 order by id limit $2";
    assert_eq!(with_values(sql, &[int8(1), int8(1)]).expect("rows"), ["integer", "1"]);
    assert_eq!(with_values("select $1", &[ScalarValue::Utf8(None)]).expect("rows"), ["text", "-"]);
    assert_eq!(with_values("select $2::int", &[int4(1)]).map_err(|e| e.state.code()), Err("42P18"));
}

fn stream(sql: &str) -> Result<String, SqlError> {
    let (catalog, path) = (catalog(), path());
    let scope = Scope { catalog: &catalog, relations: &StreamRelations, search_path: &path };
    let planner = LogicalPlanner::new();
    let bound = planner.plan_query(&*parse_query(sql)?, &scope, &[])?;
    Ok(planner.optimize_stream(&bound.plan)?.display_indent().to_string())
}

#[test]
fn s21_functions_that_depend_on_more_than_their_arguments_are_refused_in_continuous_queries() {
    for sql in [
        "select now() from n",
        "select id from n where random() < 0.5",
        "select id from e where at > current_timestamp",
        "select current_date from e",
        "select gen_random_uuid() from e",
        "select id, (select random()) from n",
    ] {
        let error = stream(sql).expect_err(sql);
        assert_eq!(error.state.code(), "0A000", "{sql}: {error}");
        assert!(error.hint.is_some(), "{sql}");
    }
    assert_eq!(value("select now()::text"), "2024-01-31 10:20:30.5+00");
}

#[test]
fn continuous_queries_are_decorrelated_and_pruned() {
    let plan = stream("select id from n where exists (select 1 from e where e.id = n.id) and i4 > 3").expect("a plan");
    assert!(plan.contains("LeftSemi Join: n.id = ") && !plan.contains("Subquery:"), "{plan}");
    assert!(plan.contains("TableScan: n projection=[id, i4]"), "{plan}");
    let plan =
        stream("select window_start, count(*) from hop(bid, at, interval '5 s', interval '10 s') group by 1").expect("a plan");
    assert!(plan.contains("hop_starts(bid.at, Int64(5000000), Int64(10000000), Int64(0))"), "{plan}");
    assert!(plan.contains("Unnest"), "{plan}");
}

#[test]
fn count_distinct_stays_one_aggregate_in_continuous_queries() {
    let plan = stream("select i4, count(distinct s) from n group by i4").expect("a plan");
    assert_eq!(plan.matches("Aggregate:").count(), 1, "{plan}");
}

#[test]
fn s17_a_group_of_a_constant_goes_with_its_rows() {
    assert_eq!(rows("select 'x', count(*) from n where id < 0 group by 1").expect("rows"), Vec::<String>::new());
    assert_eq!(rows("select 'x', count(*) from n group by 1").expect("rows"), ["x|3"]);
}

#[test]
fn a_filter_of_an_aggregate_that_is_null_takes_no_row() {
    assert_eq!(value("select count(*) filter (where s <> 'zzz'), count(*) filter (where null) from n"), "2|0");
    assert_eq!(
        rows("select id % 1, count(*) filter (where s <> 'zzz'), sum(id) filter (where null) from n group by 1").expect("rows"),
        ["0|2|-"]
    );
    assert_eq!(value("select max(c) from (select count(*) filter (where s <> 'zzz') over () as c from n) as w"), "2");
}

#[test]
fn aggregates_of_a_value_and_of_its_cast_are_two() {
    assert_eq!(value("select sum(id), sum(id::float8 / 2), max(id::text), max(id) from n"), "6|3.0|3|3");
    assert_eq!(
        value("select sum(0::smallint) as a, sum(0.5::float8) as b, count(distinct id), count(distinct id::text) from n"),
        "0|1.5|3|3"
    );
    assert_eq!(
        rows("select sum(id::bigint) from n group by id having sum(id::bigint) > 1 order by sum(id::bigint) desc").expect("rows"),
        ["3", "2"]
    );
    assert_eq!(value("select max(id), max(id::text) from n having max(id::text) = '3'"), "3|3");
}

#[test]
fn the_first_of_distinct_values_may_be_null() {
    assert_eq!(rows("select distinct s from n order by 1 nulls first limit 1").expect("rows"), ["-"]);
}
