//! The catalog of the goldens, and from SQL to optimised plans over it.

use datafusion::logical_expr::LogicalPlan;
use std::collections::BTreeMap;
use thalweg_catalog::catalog::{CatalogChange, CatalogTransaction};
use thalweg_catalog::column::Column;
use thalweg_catalog::object::{CatalogObject, ConnectorSpec, Emit, ObjectDefinition, WatermarkSpec};
use thalweg_catalog::{Catalog, ObjectId, SqlResult, SqlType};
use thalweg_planner::logical::check_distinct_names;
use thalweg_planner::{LogicalPlanner, Scope, StreamRelations, parse_query};

fn columns(text: &str) -> Vec<Column> {
    text.split(", ")
        .map(|c| {
            let (name, sql_type) = c.split_once(' ').expect("a name and a type");
            let (sql_type, nullable) = match sql_type.strip_suffix(" not null") {
                Some(sql_type) => (sql_type, false),
                None => (sql_type, true),
            };
            Column { nullable, ..Column::new(name, SqlType::parse(sql_type).expect("a type")) }
        })
        .collect()
}

fn source(time: Option<usize>) -> ObjectDefinition {
    ObjectDefinition::Source {
        connector: ConnectorSpec {
            connector: "file".into(),
            options: BTreeMap::new(),
            encode: None,
            encode_options: BTreeMap::new(),
            includes: vec![],
        },
        watermark: time.map(|column| WatermarkSpec { column, delay_us: 4_000_000, idle_timeout_ms: None, max_drift_ms: None }),
    }
}

/// Sources of nexmark with watermarks, one without, tables with and without a key, and a view.
pub fn catalog() -> Catalog {
    let table = |primary_key| ObjectDefinition::Table { primary_key, connector: None, watermark: None };
    let view = ObjectDefinition::MaterializedView { query: "…".into(), emit: Emit::Immediate, key: vec![0] };
    let objects = [
        (
            "bid",
            "auction bigint, bidder bigint, price bigint, channel text, url text, dateTime timestamp, extra text",
            source(Some(5)),
        ),
        (
            "auction",
            "id bigint, itemName text, description text, initialBid bigint, reserve bigint, dateTime timestamp, expires timestamp, seller bigint, category bigint, extra text",
            source(Some(5)),
        ),
        (
            "person",
            "id bigint, name text, emailAddress text, creditCard text, city text, state text, dateTime timestamp, extra text",
            source(Some(6)),
        ),
        ("clicks", "user_id bigint, url text, at timestamp", source(None)),
        ("side_input", "key bigint not null, value text", table(vec![0])),
        ("t", "id integer not null, a integer, b text, c numeric(10,2), d double precision, at timestamp", table(vec![0])),
        ("u", "x integer, y text", table(vec![])),
        ("totals", "auction bigint, n bigint", view),
    ];
    let mut changes = vec![];
    for (place, (name, declared, definition)) in objects.into_iter().enumerate() {
        changes.push(CatalogChange::Create(Box::new(CatalogObject {
            id: ObjectId(ObjectId::FIRST_USER.0 + place as u32),
            schema: "public".into(),
            name: name.into(),
            columns: columns(declared),
            definition,
            sql: String::new(),
            depends_on: vec![],
            comment: None,
            column_comments: BTreeMap::new(),
            created_ms: 0,
        })));
    }
    Catalog::new().apply(&CatalogTransaction { version: 1, changes }).expect("the catalog takes its objects")
}

/// The optimised plan of a query, and the columns of a relation made of it.
pub fn plan(sql: &str, catalog: &Catalog, planner: &LogicalPlanner) -> SqlResult<(LogicalPlan, Vec<Column>)> {
    let search_path = ["public".to_string()];
    let scope = Scope { catalog, relations: &StreamRelations, search_path: &search_path };
    let query = parse_query(sql)?;
    let bound = planner.plan_query(&query, &scope, &[])?;
    let columns = planner.describe(&bound.plan)?;
    check_distinct_names(&columns)?;
    Ok((planner.optimize_stream(&bound.plan)?, columns))
}
