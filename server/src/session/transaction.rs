//! Transactions of a session.

use super::ClientSession;
use super::notify::Deed;
use super::settings::SessionSettings;
use crate::wire::session::{Outcome, Severity};
use std::collections::BTreeMap;
use thalweg_catalog::{Delta, ObjectId, SqlError, SqlResult, SqlState};
use thalweg_planner::statement::TransactionModes;
use tokio::sync::OwnedMutexGuard;

/// What a transaction has done so far.
pub struct Transaction {
    /// Whether it is a block that the client began.
    pub explicit: bool,
    /// Whether something in it has failed.
    pub failed: bool,
    /// Settings that last until its end.
    pub local: Vec<String>,
    /// The settings from before it.
    before: SessionSettings,
    writes: Vec<(ObjectId, Delta)>,
    locks: BTreeMap<ObjectId, OwnedMutexGuard<()>>,
    /// What is done at its commit, beside its writes.
    deeds: Vec<Deed>,
    savepoints: Vec<Savepoint>,
}

struct Savepoint {
    name: String,
    writes: usize,
    deeds: usize,
    settings: SessionSettings,
}

impl Transaction {
    /// A new one.
    pub fn new(explicit: bool, settings: &SessionSettings) -> Transaction {
        Transaction {
            explicit,
            failed: false,
            local: vec![],
            before: settings.clone(),
            writes: vec![],
            locks: BTreeMap::new(),
            deeds: vec![],
            savepoints: vec![],
        }
    }

    /// What it has written, by table.
    pub fn written(&self) -> BTreeMap<ObjectId, Vec<Delta>> {
        let mut written: BTreeMap<ObjectId, Vec<Delta>> = BTreeMap::new();
        for (table, delta) in &self.writes {
            written.entry(*table).or_default().push(delta.clone());
        }
        written
    }

    /// Whether it has written to a table.
    pub fn has_written(&self, table: ObjectId) -> bool {
        self.writes.iter().any(|(written, _)| *written == table)
    }

    /// Adds a write, and holds the table's lock until the end.
    pub fn add(&mut self, table: ObjectId, delta: Delta, lock: Option<OwnedMutexGuard<()>>) {
        if let Some(lock) = lock {
            self.locks.insert(table, lock);
        }
        if !delta.is_empty() {
            self.writes.push((table, delta));
        }
    }

    /// Adds something to be done at its commit; what is there already is done once.
    pub fn add_deed(&mut self, deed: Deed) {
        if !matches!(deed, Deed::Notify(_)) || !self.deeds.contains(&deed) {
            self.deeds.push(deed);
        }
    }

    /// Whether it holds a table's lock.
    pub fn holds(&self, table: ObjectId) -> bool {
        self.locks.contains_key(&table)
    }

    /// Something in it has failed: nothing of it will be written, so nobody need wait for it. With savepoints it may go on from
    /// one, and keeps what it holds.
    pub fn fail(&mut self) {
        self.failed = true;
        if self.savepoints.is_empty() {
            self.writes.clear();
            self.locks.clear();
        }
    }
}

impl ClientSession {
    pub(super) fn begin(&mut self, modes: &TransactionModes, start: bool) -> SqlResult<Outcome> {
        if self.in_block() {
            self.notice(Severity::Warning, SqlState::ActiveSqlTransaction, "there is already a transaction in progress");
        } else {
            match &mut self.transaction {
                // What stood before BEGIN in the same query belongs to the block.
                Some(transaction) => transaction.explicit = true,
                None => self.transaction = Some(Transaction::new(true, &self.settings)),
            }
            self.start_modes()?;
        }
        self.set_modes(modes)?;
        Ok(Outcome::Tag(if start { "START TRANSACTION" } else { "BEGIN" }.into()))
    }

    fn start_modes(&mut self) -> SqlResult<()> {
        let read_only = self.settings.get("default_transaction_read_only")?;
        let isolation = self.settings.get("default_transaction_isolation")?;
        self.settings.set("transaction_read_only", Some(&read_only))?;
        self.settings.set("transaction_isolation", Some(&isolation))?;
        let deferrable = self.settings.get("default_transaction_deferrable")?;
        self.settings.set("transaction_deferrable", Some(&deferrable))?;
        Ok(())
    }

    /// Writes what the transaction has collected, and ends it.
    pub(super) async fn commit(&mut self) -> SqlResult<()> {
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        self.end_local(&transaction);
        let Transaction { writes, locks, deeds, .. } = transaction;
        if !writes.is_empty() {
            let epoch = self.database.write(writes).await?;
            self.seen = self.seen.max(epoch);
        }
        drop(locks);
        self.carry_out(deeds);
        self.end_cursors(true);
        Ok(())
    }

    /// Ends the transaction without its writes, and with the settings from before it.
    pub(super) fn roll_back(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            self.settings = transaction.before;
        }
        self.end_cursors(false);
    }

    fn end_local(&mut self, transaction: &Transaction) {
        for name in &transaction.local {
            let before = transaction.before.get(name).ok();
            // The value was the setting's before, so it is a good one.
            let _ = self.settings.set(name, before.as_deref());
        }
        for name in ["transaction_read_only", "transaction_isolation", "transaction_deferrable"] {
            let _ = self.settings.set(name, None);
        }
    }

    pub(super) async fn commit_block(&mut self, chain: bool) -> SqlResult<Outcome> {
        if !self.in_block() {
            self.notice(Severity::Warning, SqlState::NoActiveSqlTransaction, "there is no transaction in progress");
            self.commit().await?;
            return Ok(Outcome::Tag("COMMIT".into()));
        }
        let failed = self.transaction.as_ref().is_some_and(|t| t.failed);
        if failed {
            self.roll_back();
        } else {
            self.commit().await?;
        }
        self.chain(chain)?;
        Ok(Outcome::Tag(if failed { "ROLLBACK" } else { "COMMIT" }.into()))
    }

    pub(super) fn rollback_block(&mut self, chain: bool) -> SqlResult<Outcome> {
        if self.in_block() {
            self.roll_back();
            self.chain(chain)?;
        } else {
            self.notice(Severity::Warning, SqlState::NoActiveSqlTransaction, "there is no transaction in progress");
            self.roll_back();
        }
        Ok(Outcome::Tag("ROLLBACK".into()))
    }

    fn chain(&mut self, chain: bool) -> SqlResult<()> {
        if chain {
            self.transaction = Some(Transaction::new(true, &self.settings));
            self.start_modes()?;
        }
        Ok(())
    }

    pub(super) fn savepoint(&mut self, name: &str) -> SqlResult<Outcome> {
        let settings = self.settings.clone();
        let transaction = self.block("SAVEPOINT")?;
        transaction.savepoints.push(Savepoint {
            name: name.to_string(),
            writes: transaction.writes.len(),
            deeds: transaction.deeds.len(),
            settings,
        });
        Ok(Outcome::Tag("SAVEPOINT".into()))
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> SqlResult<Outcome> {
        let transaction = self.block("RELEASE SAVEPOINT")?;
        let place = find_savepoint(transaction, name)?;
        transaction.savepoints.truncate(place);
        Ok(Outcome::Tag("RELEASE".into()))
    }

    pub(super) fn rollback_to(&mut self, name: &str) -> SqlResult<Outcome> {
        let transaction = self.block("ROLLBACK TO SAVEPOINT")?;
        let place = find_savepoint(transaction, name)?;
        transaction.savepoints.truncate(place + 1);
        let savepoint = &transaction.savepoints[place];
        let settings = savepoint.settings.clone();
        transaction.writes.truncate(savepoint.writes);
        transaction.deeds.truncate(savepoint.deeds);
        transaction.failed = false;
        self.settings = settings;
        Ok(Outcome::Tag("ROLLBACK".into()))
    }

    fn block(&mut self, what: &str) -> SqlResult<&mut Transaction> {
        self.transaction.as_mut().filter(|t| t.explicit).ok_or_else(|| {
            SqlError::new(SqlState::NoActiveSqlTransaction, format!("{what} can only be used in transaction blocks"))
        })
    }
}

fn find_savepoint(transaction: &Transaction, name: &str) -> SqlResult<usize> {
    let missing = || SqlError::new(SqlState::InvalidSavepoint, format!("savepoint \"{name}\" does not exist"));
    transaction.savepoints.iter().rposition(|s| s.name == name).ok_or_else(missing)
}
