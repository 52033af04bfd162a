//! What clients really send, over a small catalog: every statement must plan and run, and the main ones give the right rows.

use super::snapshot::{FunctionInfo, RelationSize, SettingInfo, Settings, SystemRelation, SystemSnapshot};
use super::{register, relations, rewrite, touches_system};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Statement, Value, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use thalweg_catalog::object::{ConnectorSpec, Emit, SinkMode};
use thalweg_catalog::{
    Catalog, CatalogChange, CatalogObject, CatalogTransaction, Column, ObjectDefinition, ObjectId, RoleId, SqlError, SqlResult,
    SqlState, SqlType,
};

struct Fixed;

impl Settings for Fixed {
    fn get(&self, name: &str) -> Option<String> {
        self.all().into_iter().find(|setting| setting.name == name).map(|setting| setting.value)
    }

    fn set(&self, name: &str, value: &str, _: bool) -> SqlResult<String> {
        match self.get(name) {
            Some(_) => Ok(value.to_string()),
            None => Err(SqlError::new(SqlState::UndefinedObject, "no such setting")),
        }
    }

    fn all(&self) -> Vec<SettingInfo> {
        let setting = |name: &str, value: &str| SettingInfo {
            name: name.to_string(),
            value: value.to_string(),
            reset_value: value.to_string(),
            kind: "string",
            ..SettingInfo::default()
        };
        vec![
            setting("server_version", "15.0"),
            setting("server_version_num", "150000"),
            setting("search_path", "app, public"),
            setting("max_index_keys", "32"),
            setting("jit", "off"),
            setting("TimeZone", "UTC"),
            setting("default_table_access_method", "heap"),
        ]
    }
}

fn column(name: &str, sql_type: SqlType) -> Column {
    Column::new(name, sql_type)
}

fn connector(name: &str) -> ConnectorSpec {
    ConnectorSpec {
        connector: name.to_string(),
        options: BTreeMap::new(),
        encode: None,
        encode_options: BTreeMap::new(),
        includes: vec![],
    }
}

fn object(id: u32, schema: &str, name: &str, columns: Vec<Column>, definition: ObjectDefinition, on: &[u32]) -> CatalogChange {
    CatalogChange::Create(Box::new(CatalogObject {
        id: ObjectId(id),
        schema: schema.to_string(),
        name: name.to_string(),
        columns,
        definition,
        sql: String::new(),
        depends_on: on.iter().map(|id| ObjectId(*id)).collect(),
        comment: (name == "customers").then(|| "Who buys.".to_string()),
        column_comments: BTreeMap::new(),
        created_ms: 0,
    }))
}

/// A schema `app` with a table of a key, one of two keys, a source, a view, a materialized view and a sink.
pub(crate) fn sample_catalog() -> Catalog {
    let table = |key: &[usize]| ObjectDefinition::Table { primary_key: key.to_vec(), connector: None, watermark: None };
    let id = Column { nullable: false, ..column("id", SqlType::Int8) };
    let customers = vec![
        id.clone(),
        column("name", SqlType::Text),
        column("email", SqlType::Varchar(Some(80))),
        Column { default: Some("0".to_string()), ..column("balance", SqlType::Numeric(Some((12, 2)))) },
        column("tags", SqlType::Array(Box::new(SqlType::Text))),
        column("created", SqlType::TimestampTz),
    ];
    let orders = vec![id, column("line", SqlType::Int4), column("customer_id", SqlType::Int8)];
    let totals = vec![column("customer_id", SqlType::Int8), column("total", SqlType::Numeric(None))];
    let view = || ObjectDefinition::View { query: "SELECT * FROM app.orders".to_string() };
    let changes = vec![
        CatalogChange::CreateSchema("app".to_string()),
        object(16384, "app", "customers", customers, table(&[0]), &[]),
        object(16385, "app", "orders", orders.clone(), table(&[0, 1]), &[]),
        object(
            16386,
            "public",
            "Bids",
            vec![column("price", SqlType::Int8)],
            ObjectDefinition::Source { connector: connector("kafka"), watermark: None },
            &[],
        ),
        object(16387, "app", "v_orders", orders, view(), &[16385]),
        object(
            16388,
            "app",
            "mv_totals",
            totals.clone(),
            ObjectDefinition::MaterializedView {
                query: "SELECT customer_id, sum(total) FROM app.orders GROUP BY 1".to_string(),
                emit: Emit::Immediate,
                key: vec![0],
            },
            &[16385],
        ),
        object(
            16389,
            "app",
            "totals_out",
            totals,
            ObjectDefinition::Sink {
                query: "SELECT * FROM app.mv_totals".to_string(),
                emit: Emit::Immediate,
                connector: connector("file"),
                mode: SinkMode::Upsert,
                key: vec![0],
            },
            &[16388],
        ),
    ];
    Catalog::new().apply(&CatalogTransaction { version: 1, changes }).unwrap()
}

pub(crate) fn snapshot() -> Arc<SystemSnapshot> {
    Arc::new(SystemSnapshot {
        catalog: Arc::new(sample_catalog()),
        user: "ada".to_string(),
        session_user: "ada".to_string(),
        role: RoleId::BOOTSTRAP,
        login: (RoleId::BOOTSTRAP, "ada".to_string()),
        gate: None,
        database: "thalweg".to_string(),
        search_path: vec!["app".to_string(), "public".to_string()],
        process_id: 7,
        settings: Arc::new(Fixed),
        relations: vec![SystemRelation {
            schema: "thalweg".to_string(),
            name: "jobs".to_string(),
            columns: vec![column("id", SqlType::Int8)],
        }],
        functions: Arc::new(vec![FunctionInfo {
            name: "lower".to_string(),
            kind: 'f',
            arguments: "text".to_string(),
            result: "text".to_string(),
            description: Some("Lowercases.".to_string()),
        }]),
        activity: vec![],
        prepared: vec![],
        cursors: vec![],
        notified: Arc::default(),
        connections: None,
        sizes: BTreeMap::from([(16384, RelationSize { rows: 3, bytes: 20_000 })]),
    })
}

fn context() -> SessionContext {
    let config = SessionConfig::new().with_information_schema(false).with_target_partitions(1);
    let mut config = config.with_create_default_catalog_and_schema(true);
    config.options_mut().sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
    config.options_mut().sql_parser.map_string_types_to_utf8view = false;
    let ctx = SessionContext::new_with_config(config);
    register(&ctx, &snapshot()).unwrap();
    ctx
}

/// Puts literals in the places of parameters.
struct Literals<'a>(&'a [String]);

impl VisitorMut for Literals<'_> {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut Value) -> ControlFlow<()> {
        if let Value::Placeholder(name) = value {
            let number: usize = name.trim_start_matches('$').parse().unwrap();
            *value = Value::SingleQuotedString(self.0[number - 1].clone());
        }
        ControlFlow::Continue(())
    }
}

fn parse(sql: &str) -> Statement {
    Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap_or_else(|error| panic!("{error}: {sql}")).remove(0)
}

async fn run(ctx: &SessionContext, mut statement: Statement) -> Result<Vec<RecordBatch>, String> {
    rewrite(&mut statement, &relations::security::empty_now(&sample_catalog()));
    let shown = statement.to_string();
    let explain = |step: &str, error: datafusion::error::DataFusionError| format!("{step}: {error}\n    {shown}");
    let plan = ctx
        .state()
        .statement_to_plan(DfStatement::Statement(Box::new(statement)))
        .await
        .map_err(|error| explain("plan", error))?;
    let frame = ctx.execute_logical_plan(plan).await.map_err(|error| explain("plan", error))?;
    frame.collect().await.map_err(|error| explain("run", error))
}

/// The rows of a query, fields separated by bars.
async fn rows(sql: &str) -> Vec<String> {
    let batches = run(&context(), parse(sql)).await.unwrap();
    let mut rows = vec![];
    for batch in &batches {
        let options = FormatOptions::default().with_null("NULL");
        let columns: Vec<_> =
            batch.columns().iter().map(|array| ArrayFormatter::try_new(array.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

/// The statements of a recording, each with its parameters.
fn recorded(text: &str) -> Vec<(String, Vec<String>)> {
    let mut statements: Vec<(String, Vec<String>)> = vec![];
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("-- [") {
            let parameters = head.split_once("parameters: ").map(|(_, list)| parameters_of(list)).unwrap_or_default();
            statements.push((String::new(), parameters));
        } else if let Some((sql, _)) = statements.last_mut() {
            sql.push_str(line);
            sql.push('\n');
        }
    }
    statements.retain(|(sql, _)| !sql.trim().is_empty());
    statements
}

/// The values of `$1 = 'a', $2 = 'b'`, in order.
fn parameters_of(list: &str) -> Vec<String> {
    let mut values = vec![];
    let mut rest = list;
    while let Some((_, after)) = rest.split_once(" = ") {
        let Some(quoted) = after.strip_prefix('\'') else {
            values.push(String::new());
            rest = after;
            continue;
        };
        let end = quoted.find("', $").unwrap_or_else(|| quoted.rfind('\'').unwrap_or(quoted.len()));
        values.push(quoted[..end].replace("''", "'"));
        rest = &quoted[end..];
    }
    values
}

/// Runs every statement of a recording that reads system relations; what could not be run.
async fn failures(text: &str) -> (usize, Vec<String>) {
    let ctx = context();
    let (mut count, mut failed) = (0, vec![]);
    for (sql, parameters) in recorded(text) {
        let Ok(mut parsed) = Parser::parse_sql(&PostgreSqlDialect {}, &sql) else { continue };
        for statement in &mut parsed {
            if !matches!(statement, Statement::Query(_)) || !touches_system(statement) {
                continue;
            }
            let _ = VisitMut::visit(statement, &mut Literals(&parameters));
            count += 1;
            if let Err(error) = run(&ctx, statement.clone()).await {
                failed.push(format!("{error}\n    FROM {sql}"));
            }
        }
    }
    (count, failed)
}

#[tokio::test]
async fn every_recorded_question_of_clients_is_answered() {
    let recordings = [
        ("psql", include_str!("captures/psql.sql")),
        ("pgjdbc", include_str!("captures/pgjdbc.sql")),
        ("sqlalchemy", include_str!("captures/sqlalchemy.sql")),
        ("psqlodbc", include_str!("captures/psqlodbc.sql")),
        ("pgcli", include_str!("captures/pgcli.sql")),
    ];
    for (client, text) in recordings {
        let (count, failed) = failures(text).await;
        assert!(count > 10, "{client} asks more than {count} questions");
        assert!(failed.is_empty(), "{client}: {}", failed.join("\n"));
    }
}

#[tokio::test]
async fn relations_are_spread_by_their_own_arrays() {
    assert_eq!(
        rows(
            "SELECT i.indrelid, k.key, k.place FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(key, place) \
             WHERE i.indrelid = 16385 ORDER BY k.place"
        )
        .await,
        ["16385|1|1", "16385|2|2"]
    );
    assert_eq!(
        rows(
            "SELECT a.attname FROM pg_catalog.pg_constraint AS con CROSS JOIN unnest(con.conkey) conkeys \
             JOIN pg_catalog.pg_attribute a ON a.attnum = conkeys AND a.attrelid = con.conrelid \
             WHERE con.conrelid = 'orders'::regclass ORDER BY 1"
        )
        .await,
        ["id", "line"]
    );
}

#[tokio::test]
async fn relations_are_listed_with_their_kinds() {
    assert_eq!(
        rows(
            "SELECT n.nspname, c.relname, c.relkind, pg_catalog.pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c \
             LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
             WHERE c.relkind IN ('r','p','v','m','S','f','') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' \
             AND n.nspname <> 'information_schema' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2"
        )
        .await,
        [
            "app|customers|r|ada",
            "app|mv_totals|m|ada",
            "app|orders|r|ada",
            "app|totals_out|f|ada",
            "app|v_orders|v|ada",
            "public|Bids|f|ada",
        ]
    );
}

#[tokio::test]
async fn columns_show_types_keys_and_defaults() {
    assert_eq!(
        rows(
            "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), (SELECT pg_catalog.pg_get_expr(d.adbin, \
             d.adrelid, true) FROM pg_catalog.pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND \
             a.atthasdef), a.attnotnull FROM pg_catalog.pg_attribute a WHERE a.attrelid = '16384' AND a.attnum > 0 \
             AND NOT a.attisdropped ORDER BY a.attnum"
        )
        .await,
        [
            "id|bigint|NULL|true",
            "name|text|NULL|false",
            "email|character varying(80)|NULL|false",
            "balance|numeric(12,2)|0|false",
            "tags|text[]|NULL|false",
            "created|timestamp with time zone|NULL|false",
        ]
    );
    assert_eq!(
        rows(
            "SELECT c2.relname, i.indisprimary, pg_catalog.pg_get_indexdef(i.indexrelid, 0, true), \
             pg_catalog.pg_get_constraintdef(con.oid, true), contype FROM pg_catalog.pg_class c, pg_catalog.pg_class c2, \
             pg_catalog.pg_index i LEFT JOIN pg_catalog.pg_constraint con ON (conrelid = i.indrelid AND conindid = \
             i.indexrelid AND contype IN ('p','u','x')) WHERE c.oid = '16385' AND c.oid = i.indrelid AND i.indexrelid = c2.oid"
        )
        .await,
        ["orders_pkey|true|CREATE UNIQUE INDEX orders_pkey ON app.orders USING btree (id, line)|PRIMARY KEY (id, line)|p"]
    );
}

#[tokio::test]
async fn key_columns_come_in_their_order() {
    assert_eq!(
        rows(
            "SELECT a.attname, (information_schema._pg_expandarray(i.indkey)).n AS seq, \
             information_schema._pg_expandarray(i.indkey) AS keys, a.attnum FROM pg_index i \
             JOIN pg_attribute a ON a.attrelid = i.indrelid WHERE i.indrelid = 16385 AND a.attnum = 2 ORDER BY seq"
        )
        .await
        .len(),
        2
    );
    assert_eq!(
        rows(
            "SELECT result.name, result.seq FROM (SELECT a.attname AS name, (information_schema._pg_expandarray(i.indkey)).n \
             AS seq, information_schema._pg_expandarray(i.indkey) AS keys, a.attnum AS num FROM pg_catalog.pg_index i \
             JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid WHERE i.indrelid = 16385) result \
             WHERE result.num = (result.keys).x ORDER BY result.seq"
        )
        .await,
        ["id|1", "line|2"]
    );
}

#[tokio::test]
async fn views_depend_on_what_they_read_by_their_rules() {
    assert_eq!(
        rows(
            "SELECT DISTINCT v.relname, t.relname FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid \
             JOIN pg_class v ON v.oid = r.ev_class JOIN pg_class t ON t.oid = d.refobjid \
             WHERE d.classid = 'pg_rewrite'::regclass AND v.oid <> t.oid ORDER BY 1, 2"
        )
        .await,
        ["mv_totals|orders", "v_orders|orders"]
    );
    assert_eq!(
        rows("SELECT pg_get_viewdef('app.v_orders'::regclass), obj_description('customers'::regclass, 'pg_class')").await,
        [" SELECT * FROM app.orders;|Who buys."]
    );
}

#[tokio::test]
async fn types_and_their_arrays_find_each_other() {
    assert_eq!(
        rows(
            "SELECT t.typname, t.oid, e.typname, t.typreceive FROM pg_type t JOIN pg_type e ON t.typelem = e.oid \
             WHERE t.oid IN (1007, 1185, 1231) ORDER BY t.oid"
        )
        .await,
        ["_int4|1007|int4|array_recv", "_timestamptz|1185|timestamptz|array_recv", "_numeric|1231|numeric|array_recv"]
    );
    assert_eq!(rows("SELECT oid::regtype::text FROM pg_type WHERE oid = to_regtype('numeric')").await, ["numeric"]);
    assert_eq!(rows("SELECT count(*) FROM pg_type t WHERE t.oid = to_regtype('hstore')").await, ["0"]);
    assert_eq!(
        rows("SELECT typname, typtype, typrelid FROM pg_type WHERE typrelid = 'app.customers'::regclass").await,
        ["customers|c|16384"]
    );
}

#[tokio::test]
async fn every_oid_is_given_once_and_every_relation_can_be_read() {
    for relation in ["pg_class", "pg_type", "pg_namespace", "pg_constraint", "pg_proc"] {
        let twice = format!("SELECT oid, count(*) FROM {relation} GROUP BY oid HAVING count(*) > 1");
        assert_eq!(rows(&twice).await, Vec::<String>::new(), "{relation}");
    }
    for (schema, groups) in
        [("pg_catalog", super::relations::RELATIONS), ("information_schema", crate::information_schema::RELATIONS)]
    {
        for relation in groups.iter().copied().flatten() {
            rows(&format!("SELECT * FROM {schema}.{}", relation.name)).await;
        }
    }
    let missing = "SELECT a.attrelid FROM pg_attribute a WHERE NOT EXISTS (SELECT 1 FROM pg_class c WHERE c.oid = a.attrelid)";
    assert_eq!(rows(missing).await, Vec::<String>::new());
    let untyped =
        "SELECT DISTINCT a.atttypid FROM pg_attribute a WHERE NOT EXISTS (SELECT 1 FROM pg_type t WHERE t.oid = a.atttypid)";
    assert_eq!(rows(untyped).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_information_schema_shows_the_same() {
    assert_eq!(
        rows("SELECT table_name, table_type, is_insertable_into FROM information_schema.tables WHERE table_schema = 'app' ORDER BY 1").await,
        [
            "customers|BASE TABLE|YES",
            "mv_totals|BASE TABLE|NO",
            "orders|BASE TABLE|YES",
            "totals_out|FOREIGN|NO",
            "v_orders|VIEW|NO",
        ]
    );
    assert_eq!(
        rows(
            "SELECT c.column_name, c.data_type, c.is_nullable, k.constraint_name FROM information_schema.columns c \
             LEFT JOIN information_schema.key_column_usage k ON k.table_name = c.table_name AND k.column_name = c.column_name \
             WHERE c.table_name = 'customers' ORDER BY c.ordinal_position LIMIT 2"
        )
        .await,
        ["id|bigint|NO|customers_pkey", "name|text|YES|NULL"]
    );
}

#[tokio::test]
async fn functions_about_the_session_answer() {
    assert_eq!(
        rows(
            "SELECT pg_catalog.current_schemas(true), current_database(), current_schema(), pg_backend_pid(), \
             current_setting('max_index_keys'), current_setting('nope', true), quote_ident('Bids'), \
             format('%I.%I', 'app', 'Bids'), pg_size_pretty(20480), has_table_privilege('customers', 'SELECT')"
        )
        .await,
        ["[pg_catalog, app, public]|thalweg|app|7|32|NULL|\"Bids\"|app.\"Bids\"|20 kB|true"]
    );
    let error = run(&context(), parse("SELECT 'nope'::pg_catalog.regclass")).await.unwrap_err();
    assert!(error.contains("relation \"nope\" does not exist"), "{error}");
}
