//! What a transaction reads that sees one moment throughout: `REPEATABLE READ` and `SERIALIZABLE`.

use super::{Database, engine_error};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_catalog::{Catalog, Epoch, ObjectDefinition, ObjectId, SqlError, SqlResult, SqlState};
use thalweg_executor::Reading;
use tokio::sync::OnceCell;

/// The moment, which is chosen when a relation is read first.
#[derive(Default)]
pub struct Moment {
    kept: OnceCell<thalweg_executor::Moment>,
    read: Mutex<BTreeSet<ObjectId>>,
}

impl Moment {
    /// Relations at the moment, which is not before `at_least` if it is chosen now.
    ///
    /// # Errors
    /// If a relation's job has failed, or it was not there at the moment.
    pub async fn read(&self, database: &Database, relations: &[ObjectId], at_least: Epoch) -> SqlResult<Reading> {
        let catalog = database.catalog();
        if relations.is_empty() {
            return database.engine().read(relations, at_least).await.map_err(|e| engine_error(&e, &catalog));
        }
        self.read.lock().extend(relations);
        let choose = || {
            let all: Vec<ObjectId> = catalog.objects().filter(|object| object.is_kept()).map(|object| object.id).collect();
            async move { database.engine().moment(relations, &all, at_least).await }
        };
        let kept = self.kept.get_or_try_init(choose).await.map_err(|e| engine_error(&e, &catalog))?;
        kept.read(relations).await.map_err(|e| engine_error(&e, &catalog))
    }

    /// The epoch, once it is chosen.
    pub fn epoch(&self) -> Option<Epoch> {
        self.kept.get().map(thalweg_executor::Moment::epoch)
    }

    /// The tables that what was read depends on.
    ///
    /// # Errors
    /// `0A000` if it depends on a source: what comes from outside waits for nobody.
    pub fn tables(&self, catalog: &Arc<Catalog>) -> SqlResult<BTreeSet<ObjectId>> {
        let mut open: Vec<ObjectId> = self.read.lock().iter().copied().collect();
        let (mut seen, mut tables) = (BTreeSet::new(), BTreeSet::new());
        while let Some(id) = open.pop() {
            let Some(object) = catalog.get(id).filter(|_| seen.insert(id)) else { continue };
            if object.connector().is_some() {
                return Err(SqlError::unsupported(
                    "a serializable transaction cannot write after reading what comes from a source",
                )
                .with_detail(format!("Rows of \"{}\" come from outside, and wait for no transaction.", object.name))
                .with_hint("Use REPEATABLE READ."));
            }
            if matches!(object.definition, ObjectDefinition::Table { .. }) {
                tables.insert(id);
            }
            open.extend(&object.depends_on);
        }
        Ok(tables)
    }
}

/// What a transaction is told that changes what another has changed since its moment.
pub fn conflict(what: &str) -> SqlError {
    SqlError::new(SqlState::SerializationFailure, format!("could not serialize access due to {what}"))
        .with_hint("The transaction might succeed if it is run again.")
}
