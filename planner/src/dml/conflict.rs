//! `ON CONFLICT … DO NOTHING`: which rows an insert leaves out.

use crate::ast;
use std::collections::BTreeSet;
use thalweg_catalog::{CatalogObject, SqlError, SqlResult, SqlState};

/// Whether an insert leaves out rows whose key is taken.
///
/// # Errors
/// `42P10` for columns that are not the key, `42704` for a constraint that is not there.
pub(super) fn skips_taken(insert: &ast::Insert, table: &CatalogObject) -> SqlResult<bool> {
    let Some(ast::OnInsert::OnConflict(conflict)) = &insert.on else { return Ok(false) };
    match &conflict.conflict_target {
        None => {}
        Some(ast::ConflictTarget::Columns(columns)) => {
            let places = columns.iter().map(|column| super::place_of(table, &crate::parse_fold(column)));
            let places = places.collect::<SqlResult<BTreeSet<usize>>>()?;
            let key: BTreeSet<usize> = table.key().iter().copied().collect();
            if key.is_empty() || places != key {
                let text = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                return Err(
                    SqlError::new(SqlState::InvalidColumnReference, text).with_hint("Name the columns of the primary key.")
                );
            }
        }
        Some(ast::ConflictTarget::OnConstraint(name)) => {
            let given = name.0.last().and_then(|part| part.as_ident()).map(|ident| crate::parse_fold(ident).value);
            if table.key().is_empty() || given != Some(format!("{}_pkey", table.name)) {
                let text = format!("constraint \"{}\" for table \"{}\" does not exist", given.unwrap_or_default(), table.name);
                return Err(SqlError::new(SqlState::UndefinedObject, text));
            }
        }
    }
    Ok(true)
}
