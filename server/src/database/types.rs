//! Types that users create.

use super::Database;
use super::definition::{By, Created};
use crate::access::authority::Authority;
use std::sync::Arc;
use thalweg_catalog::{Catalog, CatalogChange, SqlResult};
use thalweg_planner::bind;
use thalweg_planner::statement::{AddLabel, CreateType};

impl Database {
    /// Creates a type.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn create_type(&self, create: &CreateType, by: &By, sql: &str) -> SqlResult<Created> {
        let mut log = self.ddl.lock().await;
        let object = self.bound(by, sql, |context| bind::bind_create_type(create, context))?;
        self.add(&mut log, object, by, None, vec![]).await
    }

    /// Adds a label to an enum type that nothing uses; returns a notice if it has it already.
    ///
    /// # Errors
    /// What is wrong with the label; `0A000` while something uses the type.
    pub async fn add_label(&self, add: &AddLabel, by: &By) -> SqlResult<Option<String>> {
        let make = |catalog: &Arc<Catalog>| {
            let object = bind::find_type(&add.name, catalog, &by.search_path)?;
            Authority::new(Arc::clone(catalog), by.role).check_owner(object)?;
            Ok(match bind::with_label(object, add, catalog.next_id())? {
                Some(labels) => (vec![CatalogChange::SetLabels { id: object.id, labels }], None),
                None => (vec![], Some(format!("enum label \"{}\" already exists, skipping", add.label.value))),
            })
        };
        self.change_catalog_with(make).await.map_err(|e| if e.position.is_some() { e } else { e.at(add.name.position) })
    }
}
