//! `CREATE …` to catalog objects: names are placed, types settled, options sorted out.
//!
//! What comes out is ready for the catalog: ids, columns, definitions, dependencies. For views and sinks the optimised plan
//! comes with it, to be lowered.

mod columns;
mod query;
mod relation;
mod rename;
mod types;

use crate::logical::LogicalPlanner;
use crate::relation::RelationSource;
use crate::statement::Name;
use std::collections::BTreeMap;
use thalweg_catalog::catalog::{SYSTEM_SCHEMAS, TEMPORARY_PREFIX, name_taken};
use thalweg_catalog::object::{ConnectorSpec, SinkMode};
use thalweg_catalog::options::Options;
use thalweg_catalog::{Catalog, Column, SqlError, SqlResult, SqlState, suggest};

pub use query::{
    BoundQueryObject, bind_create_materialized_view, bind_create_sink, bind_create_table_as, bind_create_view, job_memory_bytes,
};
pub use relation::{bind_create_source, bind_create_table};
pub use rename::renamed_query;
pub use types::{bind_create_type, find_type, with_label};

/// What the planner must know of connectors.
pub trait ConnectorInfo {
    /// The columns of a source for which none were declared; none if the connector does not know them.
    ///
    /// # Errors
    /// Options that are unknown or wrong.
    fn default_columns(&self, connector: &str, options: &BTreeMap<String, String>) -> SqlResult<Option<Vec<Column>>>;

    /// Refuses a source that can't be: unknown connector, options, columns. Does no I/O.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check_source(&self, spec: &ConnectorSpec, columns: &[Column]) -> SqlResult<()>;

    /// Refuses a sink that can't be. Does no I/O.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check_sink(&self, spec: &ConnectorSpec, columns: &[Column], mode: SinkMode, key: &[usize]) -> SqlResult<()>;
}

/// What a `CREATE` is bound against.
#[derive(Clone, Copy)]
pub struct BindContext<'a> {
    /// Plans the queries of views and sinks.
    pub planner: &'a LogicalPlanner,
    /// The objects there are.
    pub catalog: &'a Catalog,
    /// The session's relations, for plain views; what runs for good reads catalog objects alone.
    pub relations: &'a dyn RelationSource,
    /// The schemas that unqualified names are looked up and created in.
    pub search_path: &'a [String],
    /// The connectors.
    pub connectors: &'a dyn ConnectorInfo,
    /// The statement's text.
    pub sql: &'a str,
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
}

/// The schema and name that something is to be created under.
///
/// # Errors
/// `3F000` for a schema that is not there, `42501` for one of the system's, `42P07` or `42710` for a name that is taken. None if a
/// relation has it and `if_not_exists`.
pub fn place_name(name: &Name, if_not_exists: bool, context: &BindContext<'_>) -> SqlResult<Option<(String, String)>> {
    let schema = place_schema(name, context)?;
    if context.catalog.find_type(&schema, &name.name).is_some() {
        return Err(name_taken(&name.name, false).at(name.position));
    }
    if context.catalog.find(&schema, &name.name).is_none() {
        return Ok(Some((schema, name.name.clone())));
    }
    if if_not_exists { Ok(None) } else { Err(name_taken(&name.name, true).at(name.position)) }
}

/// The schema that something of this name is to be created in.
fn place_schema(name: &Name, context: &BindContext<'_>) -> SqlResult<String> {
    let schema = match &name.schema {
        Some(schema) => schema.clone(),
        None => {
            let lasting = context.search_path.iter().filter(|schema| !schema.starts_with(TEMPORARY_PREFIX));
            lasting.into_iter().find(|schema| context.catalog.has_schema(schema)).cloned().ok_or_else(|| {
                SqlError::new(SqlState::InvalidSchemaName, "no schema has been selected to create in").at(name.position)
            })?
        }
    };
    if SYSTEM_SCHEMAS.contains(&schema.as_str()) {
        return Err(
            SqlError::new(SqlState::InsufficientPrivilege, format!("permission denied for schema {schema}")).at(name.position)
        );
    }
    if !context.catalog.has_schema(&schema) {
        return Err(SqlError::new(SqlState::InvalidSchemaName, format!("schema \"{schema}\" does not exist")).at(name.position));
    }
    Ok(schema)
}

/// The object that a name stands for: in its schema, or the first of the path that has it.
///
/// # Errors
/// `42P01` with the nearest name.
pub fn find_object<'a>(
    name: &Name,
    catalog: &'a Catalog,
    search_path: &[String],
) -> SqlResult<&'a std::sync::Arc<thalweg_catalog::CatalogObject>> {
    if let Some(schema) = &name.schema {
        return catalog.resolve(schema, &name.name).map_err(|e| e.at(name.position));
    }
    if let Some(found) = search_path.iter().find_map(|schema| catalog.find(schema, &name.name)) {
        return Ok(found);
    }
    let schema = search_path.first().map_or(thalweg_catalog::catalog::DEFAULT_SCHEMA, String::as_str);
    let missing = |error: SqlError| SqlError { message: format!("relation \"{}\" does not exist", name.name), ..error };
    catalog.resolve(schema, &name.name).map_err(|e| missing(e).at(name.position))
}

/// The connector of a `WITH` clause, taken out of its options.
fn take_connector(options: &mut BTreeMap<String, String>, kind: &str, position: usize) -> SqlResult<String> {
    options.remove("connector").map(|c| c.to_lowercase()).ok_or_else(|| {
        let error = SqlError::invalid_parameter(format!("a {kind} needs the option \"connector\"")).at(position);
        match options.keys().find(|name| suggest::nearest(name, ["connector"]).is_some()) {
            Some(near) => error.with_hint(format!("Write connector instead of {near}.")),
            None => error.with_hint("Add connector = '…' to the WITH clause."),
        }
    })
}

/// A duration of a `WITH` clause in milliseconds, taken out of its options.
fn take_duration(options: &mut BTreeMap<String, String>, name: &'static str, owner: &str) -> SqlResult<Option<u64>> {
    match options.remove(name) {
        None => Ok(None),
        Some(text) => Options::new(owner, &BTreeMap::from([(name.to_string(), text)])).duration_ms(name),
    }
}

#[cfg(test)]
mod tests;
