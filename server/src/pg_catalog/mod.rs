//! `pg_catalog`: the relations and functions by which Postgres clients find out what there is.
//!
//! In reading order: a [`snapshot`] is what they show, [`oids`] and [`types`] are how things are numbered and named,
//! [`relation`] turns rows of a relation into a table, [`relations`] and [`functions`] are what there is, [`mod@rewrite`] makes
//! the queries of clients plannable. Nothing is kept: rows are made when a statement reads them.

pub mod functions;
pub mod oids;
pub mod relation;
pub mod relations;
pub mod rewrite;
pub mod snapshot;
pub mod types;

use datafusion::catalog::CatalogProvider;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::prelude::SessionContext;
use relation::SystemSchema;
pub use rewrite::{rewrite, touches_system};
pub use snapshot::SystemSnapshot;
use std::sync::Arc;

/// Puts the relations and functions of `pg_catalog` and `information_schema` into a context, as they are at one moment.
///
/// # Errors
/// If the context has no default catalog, or one that takes no schemas.
pub fn register(ctx: &SessionContext, snapshot: &Arc<SystemSnapshot>) -> DataFusionResult<()> {
    let name = ctx.state().config_options().catalog.default_catalog.clone();
    let catalog = ctx
        .catalog(&name)
        .ok_or_else(|| DataFusionError::Configuration(format!("there is no catalog \"{name}\" to register in")))?;
    register_schemas(&*catalog, snapshot)?;
    for function in functions::functions(snapshot) {
        ctx.register_udf(function);
    }
    Ok(())
}

/// Puts the functions of `pg_catalog` into a planning state, as they are at one moment.
///
/// # Errors
/// If a name is taken by an alias of another function.
pub fn install(state: &mut SessionState, snapshot: &Arc<SystemSnapshot>) -> DataFusionResult<()> {
    for function in functions::functions(snapshot) {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}

/// A relation of `pg_catalog` or `information_schema`, if there is one of this name.
pub fn table(schema: &str, name: &str, snapshot: &Arc<SystemSnapshot>) -> Option<Arc<dyn datafusion::catalog::TableProvider>> {
    let relations = match schema {
        "pg_catalog" => relations::RELATIONS,
        "information_schema" => crate::information_schema::RELATIONS,
        _ => return None,
    };
    SystemSchema::new(Arc::clone(snapshot), relations).table_now(name)
}

/// Puts the schemas `pg_catalog` and `information_schema` into a catalog.
///
/// # Errors
/// If the catalog takes no schemas.
pub fn register_schemas(catalog: &dyn CatalogProvider, snapshot: &Arc<SystemSnapshot>) -> DataFusionResult<()> {
    let schema = |relations| Arc::new(SystemSchema::new(Arc::clone(snapshot), relations));
    catalog.register_schema("pg_catalog", schema(relations::RELATIONS))?;
    catalog.register_schema("information_schema", schema(crate::information_schema::RELATIONS))?;
    Ok(())
}

#[cfg(test)]
mod tests;
