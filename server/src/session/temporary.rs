//! Temporary tables: tables in a schema of the session's own, which goes with the session, or at the next start after a crash.

use super::ClientSession;
use crate::database::Database;
use std::sync::Arc;
use thalweg_catalog::catalog::TEMPORARY_PREFIX;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use thalweg_planner::statement::Name;

/// The schema of one session's temporary tables.
pub struct TemporarySchema {
    database: Arc<Database>,
    name: String,
}

impl TemporarySchema {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TemporarySchema {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and the next start does it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (database, name) = (Arc::clone(&self.database), std::mem::take(&mut self.name));
        runtime.spawn(async move {
            if !name.is_empty()
                && let Err(error) = database.drop_schema_with_all(&name).await
            {
                tracing::warn!(schema = name, %error, "could not drop temporary tables");
            }
        });
    }
}

impl ClientSession {
    /// Gives a temporary table's name the session's own schema, which is made if there is none yet.
    pub(super) async fn place_temporary(&mut self, name: &mut Name) -> SqlResult<()> {
        if name.schema.as_ref().is_some_and(|schema| schema != "pg_temp") {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(SqlError::new(SqlState::InvalidTableDefinition, message).at(name.position));
        }
        if self.temporary.is_none() {
            let schema = format!("{TEMPORARY_PREFIX}{}", self.info.process_id);
            let (database, owner) = (Arc::clone(&self.database), self.by().role);
            let made = TemporarySchema { database: Arc::clone(&self.database), name: schema.clone() };
            Self::apart(async move { database.make_schema(&schema, owner).await }).await?;
            self.temporary = Some(made);
        }
        name.schema = self.temporary.as_ref().map(|schema| schema.name.clone());
        Ok(())
    }

    /// Drops the session's temporary tables.
    pub(super) async fn discard_temporary(&mut self) -> SqlResult<()> {
        let Some(mut schema) = self.temporary.take() else { return Ok(()) };
        let (database, name) = (Arc::clone(&self.database), std::mem::take(&mut schema.name));
        Self::apart(async move { database.drop_schema_with_all(&name).await }).await
    }
}
