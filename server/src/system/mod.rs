//! The system's own relations: what runs, how far it is, what went wrong, what depends on what; and every state table.
//!
//! Each is built whole when a statement names it, from what the engine knows at that moment.

mod access;
mod build;
mod objects;
mod running;
mod state;

use crate::database::Database;
use crate::pg_catalog::SystemSnapshot;
use crate::session::settings::SessionSettings;
use crate::wire::connections::Connections;
use arrow::array::RecordBatch;
use datafusion::datasource::{DefaultTableSource, MemTable};
use datafusion::logical_expr::TableSource;
use std::sync::Arc;
use thalweg_catalog::{Catalog, SqlError, SqlResult, SqlState, SqlType, suggest};

/// The relations of schema `thalweg`, with what each tells.
pub const RELATIONS: [(&str, &str); 15] = [
    ("jobs", "what keeps tables, materialized views and sinks, and how it fares"),
    ("operators", "rows, time and state of each operator on each worker"),
    ("checkpoints", "the last checkpoints"),
    ("freshness", "how far each relation is"),
    ("sources", "the splits of sources, with positions"),
    ("sinks", "the guarantee and progress of sinks"),
    ("errors", "rows that could not be read or computed"),
    ("ddl_progress", "jobs that still read what their inputs held"),
    ("lineage", "which objects are made from which"),
    ("lineage_columns", "which columns are made from which"),
    ("settings", "settings of the process"),
    ("sessions", "connections"),
    ("events", "what happened lately"),
    ("audit", "who came in, and what they changed"),
    ("secrets", "the names of secrets, and who owns them"),
];

/// The system relations as one statement of one session sees them.
pub struct SystemRelations {
    database: Arc<Database>,
    catalog: Arc<Catalog>,
    connections: Option<Arc<Connections>>,
    session: Arc<SessionSettings>,
    snapshot: Arc<SystemSnapshot>,
}

impl SystemRelations {
    /// For a session with these settings.
    pub fn new(
        database: &Arc<Database>,
        catalog: Arc<Catalog>,
        connections: Option<Arc<Connections>>,
        session: Arc<SessionSettings>,
        snapshot: Arc<SystemSnapshot>,
    ) -> SystemRelations {
        SystemRelations { database: Arc::clone(database), catalog, connections, session, snapshot }
    }

    /// The relation of this name, if the system has it.
    ///
    /// # Errors
    /// If it can't be built.
    pub fn relation(&self, schema: &str, name: &str) -> SqlResult<Option<Arc<dyn TableSource>>> {
        match schema {
            "thalweg" => self.own(name)?.map(source_of).transpose(),
            "thalweg_state" => state::relation(&self.database, &self.catalog, name),
            "pg_catalog" | "information_schema" => Ok(crate::pg_catalog::table(schema, name, &self.snapshot)
                .map(|t| Arc::new(DefaultTableSource::new(t)) as Arc<dyn TableSource>)),
            _ => Ok(None),
        }
    }

    fn own(&self, name: &str) -> SqlResult<Option<RecordBatch>> {
        let (database, catalog) = (&self.database, &*self.catalog);
        Ok(Some(match name {
            "jobs" => running::jobs(database, catalog)?,
            "operators" => running::operators(database, catalog)?,
            "checkpoints" => running::checkpoints(database)?,
            "freshness" => running::freshness(database, catalog)?,
            "sources" => running::sources(database, catalog)?,
            "sinks" => running::sinks(database, catalog)?,
            "errors" => running::errors(database, catalog)?,
            "ddl_progress" => running::ddl_progress(database, catalog)?,
            "lineage" => objects::lineage(catalog)?,
            "lineage_columns" => objects::lineage_columns(database, catalog)?,
            "settings" => objects::settings(database, &self.session)?,
            "sessions" => objects::sessions(self.connections.as_deref())?,
            "events" => objects::events(database, catalog)?,
            "audit" => access::audit(database)?,
            "secrets" => access::secrets(catalog, &self.snapshot)?,
            other => {
                let error = SqlError::new(SqlState::UndefinedTable, format!("relation \"thalweg.{other}\" does not exist"));
                return Err(error.with_hint(suggest::hint(other, RELATIONS.iter().map(|(name, _)| *name))));
            }
        }))
    }
}

/// The columns of a relation of schema `thalweg`.
pub fn columns(name: &str) -> Vec<thalweg_catalog::Column> {
    let columns: &[(&str, SqlType)] = match name {
        "jobs" => &running::JOBS,
        "operators" => &running::OPERATORS,
        "checkpoints" => &running::CHECKPOINTS,
        "freshness" => &running::FRESHNESS,
        "sources" => &running::SOURCES,
        "sinks" => &running::SINKS,
        "errors" => &running::ERRORS,
        "ddl_progress" => &running::DDL_PROGRESS,
        "lineage" => &objects::LINEAGE,
        "lineage_columns" => &objects::LINEAGE_COLUMNS,
        "settings" => &objects::SETTINGS,
        "sessions" => &objects::SESSIONS,
        "events" => &objects::EVENTS,
        "audit" => &access::AUDIT,
        "secrets" => &access::SECRETS,
        _ => &[],
    };
    columns.iter().map(|(name, sql_type)| thalweg_catalog::Column::new(*name, sql_type.clone())).collect()
}

fn source_of(batch: RecordBatch) -> SqlResult<Arc<dyn TableSource>> {
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).map_err(|e| thalweg_planner::sql_error(&e))?;
    Ok(Arc::new(DefaultTableSource::new(Arc::new(table))))
}
