//! What the planner asks of connectors, answered by the connectors' registry.

use std::collections::BTreeMap;
use thalweg_catalog::object::{ConnectorSpec, SinkMode};
use thalweg_catalog::{Column, SqlResult};
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
