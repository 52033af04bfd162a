//! The SQL that objects are shown as.

use crate::pg_catalog::relations::key_name;
use crate::pg_catalog::types::quoted;
use thalweg_catalog::{CatalogObject, ObjectDefinition, ObjectKind};

/// The query of a view or a materialized view, closed as Postgres closes it.
pub fn view_definition(object: &CatalogObject) -> Option<String> {
    match &object.definition {
        ObjectDefinition::View { query } | ObjectDefinition::MaterializedView { query, .. } => {
            Some(format!(" {};", query.trim().trim_end_matches(';')))
        }
        _ => None,
    }
}

fn key_columns(object: &CatalogObject) -> Vec<String> {
    object.key().iter().filter_map(|at| object.columns.get(*at)).map(|column| quoted(&column.name)).collect()
}

/// The statement that would make an object's key as an index.
pub fn index_definition(object: &CatalogObject) -> String {
    format!(
        "CREATE UNIQUE INDEX {} ON {}.{} USING btree ({})",
        quoted(&key_name(object)),
        quoted(&object.schema),
        quoted(&object.name),
        key_columns(object).join(", ")
    )
}

/// The name of one column of an object's key, from 1.
pub fn index_column(object: &CatalogObject, number: i64) -> Option<String> {
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    key_columns(object).into_iter().nth(at)
}

/// A table's primary key as a constraint.
pub fn constraint_definition(object: &CatalogObject) -> Option<String> {
    (object.kind() == ObjectKind::Table).then(|| format!("PRIMARY KEY ({})", key_columns(object).join(", ")))
}
