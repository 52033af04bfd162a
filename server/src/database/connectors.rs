//! What the planner asks of connectors, answered by the connectors' registry.

use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_catalog::object::{ConnectorSpec, SinkMode};
use thalweg_catalog::{CatalogObject, Column, SqlError, SqlResult, SqlState};
use thalweg_connectors::SourceContext;
use thalweg_connectors::registry;
use thalweg_planner::bind::ConnectorInfo;

/// The connectors that this program has.
pub struct Connectors;

impl ConnectorInfo for Connectors {
    fn default_columns(&self, connector: &str, options: &BTreeMap<String, String>) -> SqlResult<Option<Vec<Column>>> {
        registry::default_columns(connector, options)
    }

    fn check_source(&self, spec: &ConnectorSpec, columns: &[Column]) -> SqlResult<()> {
        registry::source(spec, columns).map(drop)
    }

    fn check_sink(&self, spec: &ConnectorSpec, columns: &[Column], mode: SinkMode, key: &[usize]) -> SqlResult<()> {
        registry::sink(spec, columns, mode, key, "new sink").map(drop)
    }
}

/// How long the outside may take to answer when a source is declared.
const CHECK_MAX: Duration = Duration::from_secs(15);

/// Looks whether what a new source or table is to read is there.
///
/// # Errors
/// What is missing; `08006` if there is no answer in time.
pub async fn check_outside(object: &CatalogObject) -> SqlResult<()> {
    let Some(spec) = object.connector() else { return Ok(()) };
    let context = SourceContext {
        name: object.name.clone(),
        job: object.id.to_string(),
        columns: object.columns.clone(),
        projection: (0..object.columns.len()).collect(),
        time: None,
        runtime: tokio::runtime::Handle::current(),
    };
    let source = registry::source(spec, &object.columns)?;
    tokio::time::timeout(CHECK_MAX, source.check(context)).await.unwrap_or_else(|_| {
        let text = format!("what \"{}\" is to read did not answer within {} seconds", object.name, CHECK_MAX.as_secs());
        Err(SqlError::new(SqlState::ConnectionFailure, text).with_hint("Try again once it can be reached."))
    })
}
