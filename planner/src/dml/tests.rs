//! Data changes as plans of rows.

use super::*;
use crate::statement::Statement;
use crate::testing::{Memory, NOW_US, catalog, path, print, run_plan};

/// The rows that a change is about, after the table's columns and parameter types are settled.
fn change(sql: &str) -> SqlResult<(BoundChange, Vec<String>)> {
    let planner = LogicalPlanner::new();
    let (catalog, path) = (catalog(), path());
    let scope = Scope { catalog: &catalog, relations: &Memory, search_path: &path };
    let statement = crate::parse(sql)?.remove(0).statement;
    let bound = match &statement {
        Statement::Insert(insert) => bind_insert(&planner, insert, &scope, &[])?,
        Statement::Update(update) => bind_update(&planner, update, &scope, &[])?,
        Statement::Delete(delete) => bind_delete(&planner, delete, &scope, &[])?,
        other => panic!("{other:?} changes nothing"),
    };
    if !bound.parameters.is_empty() {
        return Ok((bound, vec![]));
    }
    let rows = print(&run_plan(&planner, &bound.plan)?);
    Ok((bound, rows))
}

fn rows(sql: &str) -> Vec<String> {
    change(sql).unwrap_or_else(|e| panic!("{sql}: {} {e} {:?}", e.state.code(), e.detail)).1
}

fn code(sql: &str) -> (String, Option<usize>) {
    let error = change(sql).map(|(_, rows)| rows).expect_err(sql);
    (error.state.code().to_string(), error.position)
}

#[test]
fn an_insert_gives_the_columns_of_the_table() {
    assert_eq!(rows("insert into e values (1, '2024-01-01 00:00:00', 'x')"), ["1|2024-01-01T00:00:00|x"]);
    assert_eq!(rows("insert into e (kind, id) values ('x', 1), (default, 2)"), ["1|-|x", "2|-|-"]);
    assert_eq!(rows("insert into e values (7)"), ["7|-|-"]);
    assert_eq!(rows("insert into e default values"), ["-|-|-"]);
    assert_eq!(rows("insert into n (id, d, i8) values (1.6, 2, 3)"), ["2|-|-|3|-|2.00|-"]);
    assert_eq!(rows("insert into e (id) select i8 from n where id = 1"), ["100|-|-"]);
}

#[test]
fn s25_insert_select_binds_by_position() {
    assert_eq!(rows("insert into e (kind, id) select s, id from n where id = 1"), ["1|-|a"]);
    assert_eq!(rows("insert into e (kind, id) select s as id, id as kind from n where id = 2"), ["2|-|B"]);
}

#[test]
fn values_are_checked_against_their_columns() {
    for (sql, expected, position) in [
        ("insert into e values (1, now(), 'x', 2)", "42601", Some(23)),
        ("insert into e (id, kind) values (1)", "42601", Some(34)),
        ("insert into e (id, nosuch) values (1, 2)", "42703", Some(20)),
        ("insert into e (id, id) values (1, 2)", "42701", Some(20)),
        ("insert into nosuch values (1)", "42P01", Some(13)),
        ("insert into bid values (1)", "42809", Some(13)),
        ("insert into v values (1)", "42809", Some(13)),
        ("insert into e (id) select s from n", "42804", None),
        ("insert into e (id) values (true)", "42804", None),
        ("insert into e (id) values ('x')", "22P02", None),
        ("insert into e (id) values (3000000000)", "22003", None),
        ("insert into short (code) values ('abcd')", "22001", None),
        ("insert into short (u) values ('x')", "22P02", None),
        ("insert into short (j) values ('{')", "22P02", None),
        ("update e set nosuch = 1", "42703", Some(14)),
        ("update e set id = 1, id = 2", "42601", Some(22)),
        ("update e set id = kind", "42804", None),
        ("update e set id = 1 from n", "0A000", Some(8)),
        ("delete from nosuch", "42P01", Some(13)),
    ] {
        let found = code(sql);
        assert_eq!(found.0, expected, "{sql}");
        if position.is_some() {
            assert_eq!(found.1, position, "{sql}");
        }
    }
    assert_eq!(rows("insert into short (code) values ('abc   ')"), ["-|abc|-|-"]);
}

#[test]
fn an_update_gives_old_and_new_columns() {
    let sql = "update e set kind = upper(kind) || id, id = default where id = 3";
    assert_eq!(rows(sql), ["3|1970-01-01T00:00:10|b|-|1970-01-01T00:00:10|B3"]);
    assert_eq!(rows("update n as x set i4 = x.i4 - 1 where x.i4 > 100")[0].split('|').nth(9), Some("2147483646"));
    assert_eq!(rows("update e set at = '2024-01-01' where id = 1"), ["1|1970-01-01T00:00:00|a|1|2024-01-01T00:00:00|a"]);
    assert_eq!(
        rows("update e set id = (select max(id) from n) where id = 1"),
        ["1|1970-01-01T00:00:00|a|3|1970-01-01T00:00:00|a"]
    );
}

#[test]
fn a_delete_gives_the_rows_that_go_once() {
    assert_eq!(rows("delete from e where kind = 'b' and id = 3"), ["3|1970-01-01T00:00:10|b"]);
    assert_eq!(rows("delete from n using e where n.id = e.id and n.id = 1").len(), 1);
    assert_eq!(rows("delete from n using e where e.kind = 'a' and n.id = 1").len(), 1);
    assert_eq!(rows("delete from e").len(), 6);
}

#[test]
fn parameters_have_the_types_of_their_columns() {
    let types = |sql: &str| {
        let (bound, _) = change(sql).expect("a plan");
        bound.parameters.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(types("insert into n (id, d, s) values ($1, $2, $3)"), ["integer", "numeric(10,2)", "text"]);
    assert_eq!(types("update n set i8 = $1 where id = $2"), ["bigint", "integer"]);
    assert_eq!(types("delete from e where at < $1"), ["timestamp without time zone"]);
}

#[test]
fn returning_is_over_the_columns_of_the_table() {
    let planner = LogicalPlanner::new();
    let catalog = catalog();
    let returning = |sql: &str| {
        let (bound, _) = change(sql)?;
        let plan = bound.returning.expect("a returning");
        returning_exprs(&planner, &plan, &bound.table, NOW_US)
    };
    let found = returning("insert into e values (1) returning id, id + 1, upper(kind) as k, *, now()").expect("expressions");
    let names: Vec<String> = found.columns.iter().map(|c| format!("{} {}", c.name, c.sql_type)).collect();
    assert_eq!(names[..3], ["id integer", "?column? integer", "k text"]);
    assert_eq!((names.len(), found.exprs.len()), (7, 7));
    let table = catalog.resolve("public", "e").expect("a table");
    let batch = arrow::array::RecordBatch::new_empty(table.arrow_schema());
    for expr in &found.exprs {
        assert!(expr.evaluate(&batch).is_ok());
    }
    assert_eq!(returning("delete from e as x returning x.kind").expect("expressions").exprs.len(), 1);
    assert_eq!(returning("delete from e returning max(id)").map(|_| ()).map_err(|e| e.state.code()), Err("0A000"));
    assert_eq!(change("delete from e returning nosuch").map(|_| ()).map_err(|e| e.state.code()), Err("42703"));
}
