//! Isolation levels. `READ COMMITTED` reads each statement at an epoch of its own. `REPEATABLE READ` reads all at the epoch of its
//! first, and refuses to change rows that others have changed since. `SERIALIZABLE` refuses to commit changes when anything that it
//! has read was changed since, table by table: what it has done is what it would have done alone, at the moment of its commit.

use super::ClientSession;
use super::transaction::Transaction;
use crate::database::moment::Moment;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use thalweg_executor::Unchanged;
use thalweg_planner::Statement;

/// Whether a statement looks at data, after which its transaction's level is fixed.
pub fn sees_data(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Truncate(_)
            | Statement::Copy(_)
            | Statement::Declare(_)
            | Statement::Execute { .. }
            | Statement::CreateTableAs(_)
    )
}

impl ClientSession {
    /// The level of a transaction, which is a block or not.
    fn isolation(&self, is_block: bool) -> String {
        let setting = if is_block { "transaction_isolation" } else { "default_transaction_isolation" };
        self.settings.get(setting).unwrap_or_default()
    }

    /// The moment that the transaction sees, if it sees one throughout. A statement that is a transaction by itself sees one
    /// anyway.
    pub(super) fn moment(&mut self) -> Option<Arc<Moment>> {
        let sees_one = matches!(self.isolation(self.in_block()).as_str(), "repeatable read" | "serializable");
        let transaction = self.transaction.as_mut().filter(|_| sees_one)?;
        Some(Arc::clone(transaction.moment.get_or_insert_default()))
    }

    /// Refuses another level for a transaction that has begun to read.
    pub(super) fn check_isolation(&self, level: &str) -> SqlResult<()> {
        let has_read = self.transaction.as_ref().is_some_and(|t| t.began_to_read);
        if !has_read || !self.in_block() || self.isolation(true) == level {
            return Ok(());
        }
        let text = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
        Err(SqlError::new(SqlState::ActiveSqlTransaction, text))
    }

    /// What must not have changed for a transaction's changes to be committed.
    ///
    /// # Errors
    /// `0A000` if that can't be told, since it has read what comes from outside.
    pub(super) fn depends_on(&self, transaction: &Transaction) -> SqlResult<Option<Unchanged>> {
        let moment = transaction.moment.as_ref().filter(|_| self.isolation(transaction.explicit) == "serializable");
        let Some((moment, since)) = moment.and_then(|moment| Some((moment, moment.epoch()?))) else { return Ok(None) };
        Ok(Some(Unchanged { since, tables: moment.tables(&self.database.catalog())? }))
    }
}
