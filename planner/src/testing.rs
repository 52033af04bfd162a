//! A small catalog with rows behind it, and queries over it run as batches.

use crate::logical::{LogicalPlanner, Scope, output_schema};
use crate::relation::RelationSource;
use crate::{parse_query, sql_error};
use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::array::{Int16Array, TimestampMicrosecondArray};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{LogicalPlan, TableSource};
use datafusion::physical_plan::collect;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::catalog::{CatalogChange, CatalogTransaction};
use thalweg_catalog::object::{ConnectorSpec, Emit, ObjectDefinition, WatermarkSpec};
use thalweg_catalog::{Catalog, CatalogObject, Column, ObjectId, SqlError, SqlResult, SqlType};

/// The time of all statements in tests: 2024-01-31 10:20:30.5 UTC.
pub(crate) const NOW_US: i64 = 1_706_696_430_500_000;

/// The path of all sessions in tests.
pub(crate) fn path() -> Vec<String> {
    vec!["public".to_string()]
}

fn columns(text: &str) -> Vec<Column> {
    text.split(", ")
        .map(|column| {
            let (name, sql_type) = column.split_once(' ').expect("a name and a type");
            Column::new(name, SqlType::parse(sql_type).expect("a type"))
        })
        .collect()
}

/// An object of the catalog in tests.
pub(crate) fn object(id: u32, name: &str, declared: &str, definition: ObjectDefinition) -> CatalogObject {
    CatalogObject {
        id: ObjectId(ObjectId::FIRST_USER.0 + id),
        schema: "public".into(),
        name: name.into(),
        columns: columns(declared),
        definition,
        sql: String::new(),
        depends_on: vec![],
        comment: None,
        column_comments: BTreeMap::new(),
        created_ms: 0,
    }
}

/// Tables `n` (numbers) and `e` (events), source `bid`, view `v` over `n`, sink `k`.
pub(crate) fn catalog() -> Catalog {
    let connector = ConnectorSpec {
        connector: "file".into(),
        options: BTreeMap::new(),
        encode: None,
        encode_options: BTreeMap::new(),
        includes: vec![],
    };
    let watermark = WatermarkSpec { column: 1, delay_us: 0, idle_timeout_ms: None, max_drift_ms: None };
    let table = |primary_key| ObjectDefinition::Table { primary_key, connector: None, watermark: None };
    let view = ObjectDefinition::View { query: "SELECT id, i4 + 1 FROM n".into() };
    let sink = ObjectDefinition::Sink {
        query: "SELECT * FROM n".into(),
        emit: Emit::Immediate,
        connector: connector.clone(),
        mode: thalweg_catalog::object::SinkMode::AppendOnly,
        key: vec![],
    };
    let source = ObjectDefinition::Source { connector, watermark: Some(watermark) };
    let objects = [
        object(0, "n", "id integer, i2 smallint, i4 integer, i8 bigint, f8 float8, d numeric(10,2), s text", table(vec![0])),
        object(1, "e", "id integer, at timestamp, kind text", table(vec![])),
        object(2, "bid", "auction bigint, at timestamp, price bigint", source),
        object(3, "v", "id integer, next integer", view),
        object(4, "k", "id integer", sink),
        object(5, "short", "id integer, code varchar(3), u uuid, j jsonb", table(vec![])),
    ];
    let changes = objects.into_iter().map(|o| CatalogChange::Create(Box::new(o))).collect();
    Catalog::new().apply(&CatalogTransaction { version: 1, changes }).expect("the catalog takes its objects")
}

fn numbers() -> Vec<ArrayRef> {
    let decimals = vec![Some(150i128), Some(-25), None];
    vec![
        Arc::new(Int32Array::from(vec![1, 2, 3])),
        Arc::new(Int16Array::from(vec![Some(1), Some(2), None])),
        Arc::new(Int32Array::from(vec![Some(10), Some(i32::MAX), None])),
        Arc::new(Int64Array::from(vec![Some(100), Some(i64::MAX), None])),
        Arc::new(Float64Array::from(vec![Some(0.5), Some(0.0), None])),
        Arc::new(Decimal128Array::from(decimals).with_precision_and_scale(10, 2).expect("a type that fits")),
        Arc::new(StringArray::from(vec![Some("a"), Some("B"), None])),
    ]
}

fn events() -> Vec<ArrayRef> {
    let times = vec![Some(0i64), Some(9_999_999), Some(10_000_000), Some(-1), Some(25_000_000), None];
    vec![
        Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6])),
        Arc::new(TimestampMicrosecondArray::from(times)),
        Arc::new(StringArray::from(vec!["a", "a", "b", "b", "a", "a"])),
    ]
}

/// The rows behind the catalog's tables; other relations are empty.
pub(crate) struct Memory;

impl RelationSource for Memory {
    fn relation(&self, object: &Arc<CatalogObject>) -> SqlResult<Arc<dyn TableSource>> {
        let schema = object.arrow_schema();
        let batch = match object.name.as_str() {
            "n" => RecordBatch::try_new(Arc::clone(&schema), numbers()).expect("columns as declared"),
            "e" => RecordBatch::try_new(Arc::clone(&schema), events()).expect("columns as declared"),
            _ => RecordBatch::new_empty(Arc::clone(&schema)),
        };
        Ok(provider_as_source(Arc::new(MemTable::try_new(schema, vec![vec![batch]]).expect("one schema"))))
    }

    fn system_relation(&self, _schema: &str, _name: &str) -> SqlResult<Option<Arc<dyn TableSource>>> {
        Ok(None)
    }
}

/// The rows of a bound plan, and its schema with the names that a user sees.
pub(crate) fn run_plan(planner: &LogicalPlanner, plan: &LogicalPlan) -> SqlResult<Vec<RecordBatch>> {
    let optimized = planner.optimize_batch(plan, NOW_US)?;
    let schema = Arc::new(output_schema(optimized.schema()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let batches = runtime.block_on(async {
        let state = planner.state();
        let physical = state.query_planner().create_physical_plan(&optimized, state).await.map_err(|e| sql_error(&e))?;
        collect(physical, Arc::new(TaskContext::from(state))).await.map_err(|e| sql_error(&e))
    })?;
    let named = |batch: RecordBatch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()).expect("same types");
    Ok(batches.into_iter().map(named).collect())
}

/// Rows as text, values with a bar between, NULL as `-`.
pub(crate) fn print(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("-");
    let mut rows = vec![];
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("a printable type")).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

/// A query's rows as text.
pub(crate) fn rows(sql: &str) -> SqlResult<Vec<String>> {
    let planner = LogicalPlanner::new();
    let (catalog, path) = (catalog(), path());
    let scope = Scope { catalog: &catalog, relations: &Memory, search_path: &path };
    let bound = planner.plan_query(&*parse_query(sql)?, &scope, &[])?;
    Ok(print(&run_plan(&planner, &bound.plan)?))
}

/// The one value of a query's one row.
pub(crate) fn value(sql: &str) -> String {
    let rows = rows(sql).unwrap_or_else(|e| panic!("{sql}: {} {e} {:?}", e.state.code(), e.detail));
    assert_eq!(rows.len(), 1, "{sql} has one row");
    rows.into_iter().next().unwrap_or_default()
}

/// The error of a query, in planning or in running.
pub(crate) fn error(sql: &str) -> SqlError {
    match rows(sql) {
        Err(error) => error,
        Ok(rows) => panic!("{sql} gives {rows:?}"),
    }
}

/// The names and types of a query's columns.
pub(crate) fn columns_of(sql: &str) -> SqlResult<Vec<String>> {
    let planner = LogicalPlanner::new();
    let (catalog, path) = (catalog(), path());
    let scope = Scope { catalog: &catalog, relations: &Memory, search_path: &path };
    let bound = planner.plan_query(&*parse_query(sql)?, &scope, &[])?;
    Ok(planner.describe(&bound.plan)?.iter().map(|c| format!("{} {}", c.name, c.sql_type)).collect())
}
