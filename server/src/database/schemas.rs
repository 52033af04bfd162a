//! Schemas with all that stands in them.

use super::Database;
use super::definition::{By, rights_of_new};
use std::sync::Arc;
use thalweg_catalog::catalog::TEMPORARY_PREFIX;
use thalweg_catalog::{Catalog, CatalogChange, RoleId, SqlResult, Subject};
use thalweg_planner::statement::{DropObjects, Name};

impl Database {
    /// Makes a schema that belongs to a role, unless it is there.
    ///
    /// # Errors
    /// If it can't be made durable.
    pub async fn make_schema(&self, name: &str, owner: RoleId) -> SqlResult<()> {
        if self.catalog().has_schema(name) {
            return Ok(());
        }
        let make = |catalog: &Arc<Catalog>| {
            let rights = rights_of_new(catalog, Subject::Schema(name.to_string()), owner, None);
            Ok(([CatalogChange::CreateSchema(name.to_string())].into_iter().chain(rights).collect(), ()))
        };
        self.change_catalog_with(make).await
    }

    /// Drops a schema, what stands in it, and what depends on that.
    ///
    /// # Errors
    /// If that can't be made durable.
    pub async fn drop_schema_with_all(&self, name: &str) -> SqlResult<()> {
        let catalog = self.catalog();
        if !catalog.has_schema(name) {
            return Ok(());
        }
        // The last first, so that nothing is dropped before what reads it.
        let inside: Vec<_> = catalog.entries().filter(|object| object.schema == name).collect();
        for object in inside.into_iter().rev() {
            let found = Name { schema: Some(object.schema.clone()), name: object.name.clone(), position: 1 };
            let drop = DropObjects { kind: object.kind(), names: vec![found], if_exists: true, cascade: true };
            self.drop_objects(&drop, &By { role: RoleId::BOOTSTRAP, search_path: vec![] }).await?;
        }
        self.change_catalog(vec![CatalogChange::DropSchema(name.to_string())]).await
    }

    /// Drops temporary tables whose sessions ended with the process before this one.
    pub(super) async fn drop_temporary_leftovers(&self) -> SqlResult<()> {
        let catalog = self.catalog();
        for schema in catalog.schemas().filter(|schema| schema.starts_with(TEMPORARY_PREFIX)) {
            self.drop_schema_with_all(schema).await?;
        }
        Ok(())
    }
}
