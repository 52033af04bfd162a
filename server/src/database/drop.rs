//! `DROP`: objects go with all that depends on them, in one transaction of the catalog, and then their jobs.

use super::Database;
use super::definition::{By, described, wrong_kind};
use crate::access::authority::Authority;
use std::sync::Arc;
use thalweg_catalog::{
    Catalog, CatalogChange, CatalogObject, CatalogTransaction, ObjectId, ObjectKind, SqlError, SqlResult, SqlState,
};
use thalweg_planner::bind;
use thalweg_planner::statement::DropObjects;
use thalweg_storage::CatalogLog;

/// What is to go.
pub struct Dropping {
    /// Objects.
    pub objects: Vec<Arc<CatalogObject>>,
    /// Schemas, which must be empty by then.
    pub schemas: Vec<String>,
    /// Whether what depends on the objects goes too; otherwise nothing may.
    pub cascade: bool,
}

impl Database {
    /// Drops objects; returns notices for those that were not there.
    ///
    /// # Errors
    /// `42P01`, `42704`, `42809`, `2BP01`: what keeps them from being dropped.
    pub async fn drop_objects(&self, drop: &DropObjects, by: &By) -> SqlResult<Vec<String>> {
        let mut log = self.ddl.lock().await;
        let catalog = self.catalog();
        let (authority, search_path) = (Authority::new(Arc::clone(&catalog), by.role), by.search_path.as_slice());
        let mut notices = vec![];
        let mut wanted: Vec<Arc<CatalogObject>> = vec![];
        for name in &drop.names {
            let found = match drop.kind {
                ObjectKind::Type => bind::find_type(name, &catalog, search_path),
                _ => bind::find_object(name, &catalog, search_path),
            };
            let is_missing = |error: &SqlError| matches!(error.state, SqlState::UndefinedTable | SqlState::UndefinedObject);
            match found {
                Ok(object) if object.kind() == drop.kind => {
                    authority.check_drop(object)?;
                    wanted.push(Arc::clone(object));
                }
                Ok(object) => return Err(wrong_kind(object, drop.kind).at(name.position)),
                Err(error) if drop.if_exists && is_missing(&error) => {
                    notices.push(format!("{} \"{}\" does not exist, skipping", drop.kind, name.name));
                }
                Err(error) if is_missing(&error) => {
                    let text = format!("{} \"{}\" does not exist", drop.kind, name.name);
                    return Err(SqlError { message: text, ..error });
                }
                Err(error) => return Err(error),
            }
        }
        let dropping = Dropping { objects: wanted, schemas: vec![], cascade: drop.cascade };
        notices.extend(self.drop_all(&mut log, dropping, search_path, |_| Ok((vec![], ()))).await?.0);
        Ok(notices)
    }

    /// Drops what `choose` chooses, and changes what `more` then finds in the catalog without it: all or nothing. Gives notices of
    /// what else went, and what `more` gave.
    ///
    /// # Errors
    /// Theirs, and `2BP01` for what can't be dropped.
    pub async fn drop_with<T>(
        &self,
        by: &By,
        choose: impl FnOnce(&Arc<Catalog>) -> SqlResult<Dropping>,
        more: impl FnOnce(&Arc<Catalog>) -> SqlResult<(Vec<CatalogChange>, T)>,
    ) -> SqlResult<(Vec<String>, T)> {
        let mut log = self.ddl.lock().await;
        let dropping = choose(&self.catalog())?;
        self.drop_all(&mut log, dropping, &by.search_path, more).await
    }

    async fn drop_all<T>(
        &self,
        log: &mut CatalogLog,
        dropping: Dropping,
        search_path: &[String],
        more: impl FnOnce(&Arc<Catalog>) -> SqlResult<(Vec<CatalogChange>, T)>,
    ) -> SqlResult<(Vec<String>, T)> {
        let catalog = self.catalog();
        let (going, notices) = with_dependents(&catalog, &dropping, search_path)?;
        let ids: Vec<ObjectId> = going.iter().map(|o| o.id).collect();
        let schemas = dropping.schemas.into_iter().map(CatalogChange::DropSchema);
        let mut changes: Vec<CatalogChange> = ids.iter().map(|id| CatalogChange::Drop(*id)).chain(schemas).collect();
        let without = catalog.apply(&CatalogTransaction { version: catalog.version() + 1, changes: changes.clone() })?;
        let (further, result) = more(&Arc::new(without))?;
        changes.extend(further);
        if !changes.is_empty() {
            self.commit(log, changes).await?;
        }
        self.engine.drop_jobs(&ids).await;
        for object in going {
            self.plans.write().remove(&object.id);
            self.lineage.write().remove(&object.id);
            self.locks.forget(object.id);
            self.written.lock().remove(&object.id);
            self.note("drop", Some(object.id), format!("{} \"{}\" dropped", object.kind(), object.name));
        }
        Ok((notices, result))
    }
}

/// Whether columns that a relation was declared with are of a type.
fn holds_type(object: &CatalogObject, id: ObjectId) -> bool {
    matches!(object.kind(), ObjectKind::Table | ObjectKind::Source) && object.depends_on.contains(&id)
}

/// Lines of what depends on an object: of a type, the columns that are of it.
fn depending(dependent: &CatalogObject, on: &CatalogObject, search_path: &[String]) -> Vec<String> {
    let (user, used) = (described(dependent, search_path), described(on, search_path));
    if !holds_type(dependent, on.id) {
        return vec![format!("{user} depends on {used}")];
    }
    let columns = dependent.columns.iter().filter(|column| column.sql_type.enums().iter().any(|of| of.id == on.id));
    columns.map(|column| format!("column {} of {user} depends on {used}", column.name)).collect()
}

/// What goes, what reads before what is read, with notices of what goes beside what was named.
fn with_dependents(
    catalog: &Catalog,
    dropping: &Dropping,
    search_path: &[String],
) -> SqlResult<(Vec<Arc<CatalogObject>>, Vec<String>)> {
    let wanted = &dropping.objects;
    let is_wanted = |object: &Arc<CatalogObject>| wanted.iter().any(|w| w.id == object.id);
    let mut going: Vec<Arc<CatalogObject>> = vec![];
    for object in wanted {
        let dependents = catalog.dependents_deep(object.id);
        let outside: Vec<_> = dependents.iter().filter(|d| !is_wanted(d)).collect();
        if !outside.is_empty() && !dropping.cascade {
            let lines: Vec<String> = outside.iter().rev().flat_map(|d| depending(d, object, search_path)).collect();
            return Err(SqlError::new(
                SqlState::DependentObjectsStillExist,
                format!("cannot drop {} because other objects depend on it", described(object, search_path)),
            )
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        if let Some(user) = outside.iter().find(|d| holds_type(d, object.id)) {
            // Postgres drops the columns alone, and a table without them goes on.
            return Err(SqlError::unsupported(format!(
                "cannot drop {} because a column of {} is of it",
                described(object, search_path),
                described(user, search_path)
            ))
            .with_hint("Columns cannot be dropped: drop the relation first."));
        }
        going.extend(dependents);
        going.push(Arc::clone(object));
    }
    // What reads has a greater id than what it reads.
    going.sort_by_key(|o| std::cmp::Reverse(o.id));
    going.dedup_by_key(|o| o.id);
    let others: Vec<_> = going.iter().filter(|o| !is_wanted(o)).collect();
    let notices = match others.as_slice() {
        [] => vec![],
        [one] => vec![format!("drop cascades to {}", described(one, search_path))],
        more => vec![format!("drop cascades to {} other objects", more.len())],
    };
    Ok((going, notices))
}
