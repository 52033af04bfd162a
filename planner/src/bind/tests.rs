//! What a `CREATE` puts into the catalog, and what it is refused for.

use super::*;
use crate::statement::Statement;
use crate::testing::{Memory, catalog, path};
use std::sync::Arc;
use thalweg_catalog::object::{Emit, ObjectDefinition, WatermarkSpec};
use thalweg_catalog::{CatalogObject, SqlType};

/// Knows the connector `gen`, which has columns of its own, and takes all others as they are.
struct Connectors;

impl ConnectorInfo for Connectors {
    fn default_columns(&self, connector: &str, _options: &BTreeMap<String, String>) -> SqlResult<Option<Vec<Column>>> {
        Ok((connector == "gen").then(|| vec![Column::new("n", SqlType::Int8), Column::new("at", SqlType::Timestamp)]))
    }

    fn check_source(&self, spec: &ConnectorSpec, _columns: &[Column]) -> SqlResult<()> {
        Options::new(
            "connector",
            &spec.options.iter().filter(|(name, _)| *name == "tpoic").map(|(a, b)| (a.clone(), b.clone())).collect(),
        )
        .finish()
    }

    fn check_sink(&self, _spec: &ConnectorSpec, _columns: &[Column], _mode: SinkMode, _key: &[usize]) -> SqlResult<()> {
        Ok(())
    }
}

fn bind(sql: &str) -> SqlResult<Option<CatalogObject>> {
    let planner = LogicalPlanner::new();
    let (catalog, path) = (catalog(), path());
    let context = BindContext {
        planner: &planner,
        catalog: &catalog,
        relations: &Memory,
        search_path: &path,
        connectors: &Connectors,
        sql,
        now_ms: 7,
    };
    match crate::parse(sql)?.remove(0).statement {
        Statement::CreateSource(create) => bind_create_source(&create, &context),
        Statement::CreateTable(create) => bind_create_table(&create, &context),
        Statement::CreateView(create) => bind_create_view(&create, &context),
        Statement::CreateMaterializedView(create) => Ok(bind_create_materialized_view(&create, &context)?.map(|b| b.object)),
        Statement::CreateSink(create) => Ok(bind_create_sink(&create, &context)?.map(|b| b.object)),
        other => panic!("{other:?} creates nothing"),
    }
}

fn made(sql: &str) -> CatalogObject {
    let bound = bind(sql).unwrap_or_else(|e| panic!("{sql}: {} {e} {:?}", e.state.code(), e.detail));
    bound.unwrap_or_else(|| panic!("{sql}: the name is taken"))
}

fn columns(object: &CatalogObject) -> Vec<String> {
    object.columns.iter().map(|c| format!("{} {}{}", c.name, c.sql_type, if c.nullable { "" } else { " not null" })).collect()
}

#[test]
fn a_source_has_its_columns_watermark_and_connector() {
    let source = made(
        "create source s (a bigint, \"At\" timestamp not null, watermark for \"At\" as \"At\" - interval '5' second)
         include key as k include offset
         with (connector = 'Kafka', topic = 't', idle_timeout = '30s', max_drift = '1 hour') format plain encode json",
    );
    assert_eq!(columns(&source), ["a bigint", "At timestamp without time zone not null", "k bytea", "_offset bigint"]);
    assert_eq!((source.id.0, source.schema.as_str(), source.created_ms), (16390, "public", 7));
    let ObjectDefinition::Source { connector, watermark } = &source.definition else { panic!("a source") };
    let expected = WatermarkSpec { column: 1, delay_us: 5_000_000, idle_timeout_ms: Some(30_000), max_drift_ms: Some(3_600_000) };
    assert_eq!(watermark.as_ref(), Some(&expected));
    assert_eq!(connector.connector, "kafka");
    assert_eq!(connector.options, BTreeMap::from([("topic".to_string(), "t".to_string())]));
    assert_eq!(connector.includes.iter().map(|i| i.column).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(columns(&made("create source s with (connector = 'gen')")), ["n bigint", "at timestamp without time zone"]);
    let typed = made("create source s (k text) include key as k with (connector = 'kafka') format plain encode json");
    assert_eq!(columns(&typed), ["k text"]);
}

#[test]
fn a_table_has_its_key_and_defaults() {
    let table = made("create table t (a int, b text default 'x' not null, c numeric(5,2) default 1 + 1, primary key (c, a))");
    assert_eq!(columns(&table), ["a integer not null", "b text not null", "c numeric(5,2) not null"]);
    assert_eq!(table.key(), [2, 0]);
    assert_eq!(table.columns[2].default.as_deref(), Some("1 + 1"));
    assert_eq!(made("create table t (a int primary key, at timestamptz default now())").key(), [0]);
    let kept = made("create table t (n bigint primary key, at timestamp) with (connector = 'gen')");
    assert!(kept.connector().is_some() && kept.key() == [0]);
    assert_eq!(bind("create table if not exists n (a int)"), Ok(None));
}

#[test]
fn a_view_has_the_columns_of_its_query() {
    let view = made("create view w (x) as select id, count(*) from n group by id");
    assert_eq!(columns(&view), ["x integer", "count bigint not null"]);
    assert_eq!(view.depends_on.iter().map(|id| id.0).collect::<Vec<_>>(), [16384]);
    let view = made(
        "create materialized view m as select auction, sum(price) as total from tumble(bid, at, interval '10 s') group by auction, window_start emit on window close",
    );
    assert_eq!(columns(&view), ["auction bigint", "total numeric(38,0)"]);
    let ObjectDefinition::MaterializedView { query, emit, .. } = &view.definition else { panic!("a view") };
    assert_eq!(*emit, Emit::OnWindowClose);
    assert!(query.ends_with("group by auction, window_start"), "{query}");
    assert_eq!(made("create materialized view m as select * from v").depends_on.len(), 1);
}

#[test]
fn a_sink_has_a_mode_and_a_key() {
    let mode = |sql: &str| match made(sql).definition {
        ObjectDefinition::Sink { mode, key, query, .. } => (mode, key, query),
        other => panic!("{other:?}"),
    };
    let all = "SELECT * FROM \"public\".\"n\"".to_string();
    assert_eq!(mode("create sink x from n with (connector = 'print')"), (SinkMode::AppendOnly, vec![], all.clone()));
    assert_eq!(
        mode("create sink x from n with (connector = 'print', type = 'upsert')"),
        (SinkMode::Upsert, vec![0], all.clone())
    );
    assert_eq!(
        mode("create sink x from n with (connector = 'print', primary_key = 'i4, id')"),
        (SinkMode::Upsert, vec![2, 0], all.clone())
    );
    assert_eq!(mode("create sink x from n with (connector = 'print', type = 'changelog')"), (SinkMode::Changelog, vec![], all));
    let query = mode("create sink x as select id from e with (connector = 'print', type = 'append-only')").2;
    assert_eq!(query, "select id from e");
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (sql, code, position) in [
        ("create table n (a int)", "42P07", Some(14)),
        ("create table nosuch.t (a int)", "3F000", Some(14)),
        ("create table pg_catalog.t (a int)", "42501", Some(14)),
        ("create table t (a int, a text)", "42701", Some(24)),
        ("create table t (a nosuch)", "42704", Some(19)),
        ("create table t (a serial)", "0A000", Some(19)),
        ("create table t (a numeric(50, 2))", "22023", Some(19)),
        ("create table t (a int, primary key (b))", "42703", Some(37)),
        ("create table t (a int, primary key (a, a))", "42701", Some(40)),
        ("create table t (a int primary key, b int primary key)", "42P16", Some(14)),
        ("create table t (a int default b)", "0A000", None),
        ("create table t (a int default (select 1))", "0A000", None),
        ("create table t (a int default true)", "42804", Some(17)),
        ("create table t (a int, watermark for a as a)", "42804", Some(38)),
        ("create table t (a timestamp, watermark for b as b)", "42703", Some(44)),
        ("create table t (a timestamp, watermark for a as a + interval '1 s')", "0A000", Some(49)),
        ("create table t (a timestamp, watermark for a as a - interval '1 month')", "22023", Some(49)),
        ("create table t (a int) with (idle_timeout = '1s')", "22023", None),
        ("create table t (a int) with (memory = '1MB')", "22023", Some(30)),
        ("create source s (a int)", "22023", Some(15)),
        ("create source s with (connector = 'kafka')", "42P16", Some(15)),
        ("create source s (a int primary key) with (connector = 'kafka')", "0A000", Some(18)),
        ("create source s (a int) with (connector = 'kafka', tpoic = 'x')", "22023", Some(15)),
        ("create view w as select nosuch from n", "42703", Some(25)),
        ("create view w as select 1, 2", "42701", None),
        ("create view w (a, b) as select 1", "42601", Some(19)),
        ("create view w as select $1", "42P02", None),
        ("create materialized view m as select now(), id from n", "0A000", Some(38)),
        ("create materialized view m as select id from n where current_timestamp is null", "0A000", Some(54)),
        ("create materialized view m with (memry = '1MB') as select id from n", "22023", Some(34)),
        ("create materialized view m with (memory = 'much') as select id from n", "22023", Some(34)),
        ("create materialized view m as select * from k", "42809", Some(45)),
        ("create sink x from nosuch with (connector = 'print')", "42P01", Some(20)),
        ("create sink x from e with (connector = 'print', type = 'upsert')", "22023", Some(49)),
        ("create sink x from e with (connector = 'print', type = 'append')", "22023", Some(49)),
        ("create sink x from e with (connector = 'print', primary_key = 'idd')", "42703", Some(49)),
        ("create sink x from e with (type = 'append-only')", "22023", Some(13)),
        ("create sink x as select id, id from e with (connector = 'print')", "42701", Some(13)),
    ] {
        let error = bind(sql).expect_err(sql);
        assert_eq!(error.state.code(), code, "{sql}: {error}");
        if position.is_some() {
            assert_eq!(error.position, position, "{sql}: {error}");
        }
    }
    assert_eq!(
        bind("create table t (a int, primary key (aa))").expect_err("a fault").hint.as_deref(),
        Some("Did you mean \"a\"?")
    );
}

#[test]
fn the_memory_of_a_job_is_read_from_its_statement() {
    let sql = "create materialized view m as select id from n with (memory = '512MB')";
    assert_eq!(job_memory_bytes(sql), Ok(Some(512 << 20)));
    assert_eq!(job_memory_bytes("create materialized view m as select id from n"), Ok(None));
}

#[test]
fn a_renamed_relation_keeps_its_place_in_queries() {
    let catalog = catalog();
    let n: Arc<CatalogObject> = Arc::clone(catalog.resolve("public", "n").expect("a table"));
    let renamed = |text: &str| renamed_query(text, &n, "Numbers").expect("a query");
    assert_eq!(
        renamed("select n.id from n where n.id > 1").as_deref(),
        Some("SELECT n.id FROM \"Numbers\" AS \"n\" WHERE n.id > 1")
    );
    assert_eq!(renamed("select x.id from public.n as x").as_deref(), Some("SELECT x.id FROM public.\"Numbers\" AS x"));
    assert_eq!(renamed("with n as (select 1) select * from n"), None);
    assert_eq!(renamed("select * from e"), None);
    let window = renamed("select * from tumble(n, at, interval '1 s')").expect("a change");
    assert!(window.contains("\"Numbers\""), "{window}");
}
