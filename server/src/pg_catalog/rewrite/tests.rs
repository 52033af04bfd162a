use super::*;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The statement after rewriting, without the names that its results get.
fn rewritten(sql: &str) -> String {
    rewritten_without(sql, &[])
}

/// The same where these relations have no rows.
fn rewritten_without(sql: &str, empty: &[&str]) -> String {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    rewrite(&mut statement, empty);
    statement.to_string()
}

#[test]
fn a_users_own_query_stays_as_it_is() {
    for sql in ["SELECT 'x'::TEXT, a = ANY(b) FROM t", "SELECT (SELECT max(a) FROM u WHERE u.b = t.b) FROM t"] {
        assert_eq!(rewritten(sql), sql);
    }
}

#[test]
fn relations_get_their_schema_and_their_name_as_an_alias() {
    assert_eq!(
        rewritten("SELECT pg_catalog.pg_class.oid FROM pg_class"),
        "SELECT pg_class.oid FROM pg_catalog.pg_class AS pg_class"
    );
}

#[test]
fn names_are_looked_up_and_oids_are_shown() {
    let from = "FROM pg_catalog.pg_class AS c";
    let check = |expr: &str, expected: &str| {
        assert_eq!(rewritten(&format!("SELECT {expr} AS x {from}")), format!("SELECT {expected} AS \"x\" {from}"));
    };
    check("'pg_class'::pg_catalog.regclass", "_regclass_shown(_regclass_in('pg_class'))");
    check("'pg_class'::regclass::oid", "_regclass_in('pg_class')");
    check("c.oid::regclass", "_regclass_shown(c.oid)");
    check("c.oid::regclass::text", "CAST(_regclass_out(c.oid) AS TEXT)");
    check("c.reloftype::pg_catalog.regtype::pg_catalog.text", "CAST(_regtype_out(c.reloftype) AS TEXT)");
    check("CAST(CAST($1 AS REGCLASS) AS OID)", "_regclass_in($1)");
    check("c.relname::name", "CAST(c.relname AS TEXT)");
    check("'{a,b}'::text[]", "ARRAY['a', 'b']");
    check("'pg_catalog.array_in'::regproc", "_regproc_shown('pg_catalog.array_in')");
}

#[test]
fn operators_lose_their_schema_and_any_becomes_a_search() {
    let from = "FROM pg_catalog.pg_class AS c WHERE";
    let check = |expr: &str, expected: &str| {
        assert_eq!(rewritten(&format!("SELECT 1 AS x {from} {expr}")), format!("SELECT 1 AS \"x\" {from} {expected}"));
    };
    check("c.relname OPERATOR(pg_catalog.~) '^(x)$' COLLATE pg_catalog.default", "c.relname ~ '^(x)$'");
    check("c.relkind = ANY (ARRAY['r', 'v'])", "c.relkind IN ('r', 'v')");
    check("c.relname = ANY (current_schemas(true))", "array_has(current_schemas(true), c.relname)");
    check("c.relname <> ALL ('{a}'::text[])", "NOT (c.relname IN ('a'))");
    check("c.relname LIKE 'pg/_%' ESCAPE '/'", "c.relname LIKE _like_pattern('pg/_%', '/')");
}

#[test]
fn places_in_vectors_begin_at_zero_and_sets_are_spread() {
    let from = "FROM pg_catalog.pg_index AS i";
    let check = |expr: &str, expected: &str| {
        assert_eq!(rewritten(&format!("SELECT {expr} AS x {from}")), format!("SELECT {expected} AS \"x\" {from}"));
    };
    check("i.indkey[0]", "array_element(i.indkey, 0 + 1)");
    check("(information_schema._pg_expandarray(i.indkey)).n", "unnest(_subscripts(i.indkey, 1, 1))");
    check("information_schema._pg_expandarray(i.indkey)", "unnest(_expandarray(i.indkey))");
    check("generate_subscripts(i.indkey, 1)", "unnest(_subscripts(i.indkey, 1, 0))");
}

#[test]
fn a_correlated_subquery_becomes_an_outer_join() {
    assert_eq!(
        rewritten(
            "SELECT a.attname, (SELECT d.adbin FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND adnum = a.attnum) AS def \
             FROM pg_attribute a WHERE a.attnum > 0"
        ),
        "SELECT a.attname, (d__1.adbin) AS \"def\" FROM pg_catalog.pg_attribute a \
         LEFT OUTER JOIN pg_catalog.pg_attrdef AS d__1 ON d__1.adrelid = a.attrelid AND d__1.adnum = a.attnum \
         WHERE a.attnum > 0"
    );
}

#[test]
fn what_reads_relations_without_rows_becomes_empty() {
    let empty = ["pg_policy", "pg_auth_members"];
    assert_eq!(
        rewritten_without(
            "SELECT p.polname, array(SELECT 1 FROM pg_roles WHERE oid = ANY (p.polroles)) AS r FROM pg_policy p WHERE p.x = '{0}'",
            &empty
        ),
        "SELECT p.polname, NULL AS \"r\" FROM (SELECT * FROM pg_catalog.pg_policy WHERE false) p WHERE false"
    );
    let members = "SELECT ARRAY(SELECT m.roleid FROM pg_auth_members m WHERE m.member = r.oid) AS x FROM pg_roles r";
    assert_eq!(rewritten_without(members, &empty), "SELECT array_remove(make_array(''), '') AS \"x\" FROM pg_catalog.pg_roles r");
    assert!(rewritten(members).contains("pg_auth_members"));
}

#[test]
fn the_names_of_a_policys_roles_are_a_call() {
    let sql =
        "SELECT array(SELECT rolname FROM pg_catalog.pg_roles WHERE oid = ANY (p.polroles) ORDER BY 1) AS r FROM pg_policy p";
    assert!(rewritten(sql).contains("_role_names(p.polroles)"), "{}", rewritten(sql));
}

#[test]
fn results_are_named_as_in_postgres_and_each_on_its_own() {
    let names = |sql: &str| {
        let text = rewritten(sql).replace(crate::wire::session::NAME_MARK, "#");
        let list = text.split(" FROM ").next().unwrap().trim_start_matches("SELECT ").to_string();
        list.split(", ").map(|item| item.rsplit('"').nth(1).unwrap_or(item).to_string()).collect::<Vec<_>>()
    };
    assert_eq!(
        names("SELECT NULL, NULL, pg_table_is_visible(c.oid), c.oid, '1'::int4, c.oid::regclass FROM pg_class c"),
        ["?column?", "?column?#2", "pg_table_is_visible", "c.oid", "int4", "oid#2"]
    );
    assert_eq!(names("SELECT c.oid, c.* FROM pg_class c"), ["oid#1", "c.*"]);
}
