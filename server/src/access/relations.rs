//! What queries read, with the rights of who asks in between.

use super::authority::{Authority, denied};
use datafusion::logical_expr::TableSource;
use std::sync::Arc;
use thalweg_catalog::security::Predefined;
use thalweg_catalog::{CatalogObject, ObjectId, SqlError, SqlResult};
use thalweg_planner::{ReadRights, RelationSource, StreamRelations};

/// Relations for the queries of views and sinks, as far as who creates them may read.
pub struct CheckedRelations<'a>(pub &'a Authority);

impl RelationSource for CheckedRelations<'_> {
    fn relation(&self, object: &Arc<CatalogObject>) -> SqlResult<Arc<dyn TableSource>> {
        StreamRelations.relation(object)
    }

    fn system_relation(&self, schema: &str, name: &str) -> SqlResult<Option<Arc<dyn TableSource>>> {
        StreamRelations.system_relation(schema, name)
    }

    fn rights(&self, object: &Arc<CatalogObject>, view: Option<ObjectId>) -> SqlResult<ReadRights> {
        let rights = self.0.read_rights(object, view, true)?;
        if rights.rows.is_some() {
            // Policies may change while what is kept does not.
            let text = format!("cannot keep rows of table \"{}\", of which policies hide some", object.name);
            return Err(SqlError::unsupported(text)
                .with_hint("Read them with a plain view, or have a role create this that no policy is for."));
        }
        Ok(rights)
    }

    fn check_function(&self, name: &str) -> SqlResult<()> {
        self.0.check_function(name)
    }
}

/// Refuses system relations that show what users keep, or secrets of the system, to those who may not see them.
///
/// # Errors
/// `42501`.
pub fn check_system(authority: &Authority, schema: &str, name: &str) -> SqlResult<()> {
    let security = authority.security();
    let has = |predefined| security.has_predefined(authority.role, predefined);
    let allowed = match (schema, name) {
        ("thalweg_state", _) | ("thalweg", "errors") => has(Predefined::ReadAllData),
        ("thalweg", "settings" | "audit" | "sessions") | ("pg_catalog", "pg_hba_file_rules") => has(Predefined::Monitor),
        ("pg_catalog", "pg_authid" | "pg_shadow") => authority.is_superuser(),
        _ => true,
    };
    if allowed { Ok(()) } else { Err(denied(if schema == "pg_catalog" { "table" } else { "relation" }, name)) }
}
