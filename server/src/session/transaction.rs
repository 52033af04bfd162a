//! Transactions of a session.

use super::ClientSession;
use super::notify::Deed;
use super::settings::SessionSettings;
use crate::database::locks::{Holder, Locks};
use crate::database::moment::Moment;
use crate::database::pending::Pending;
use crate::wire::session::{Outcome, Severity};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, Delta, Epoch, ObjectId, SqlError, SqlResult, SqlState};
use thalweg_planner::statement::TransactionModes;

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
    writes: BTreeMap<ObjectId, Pending>,
    /// Whether it has looked at data.
    pub began_to_read: bool,
    /// The moment that it sees, if it sees one throughout.
    pub moment: Option<Arc<Moment>>,
    /// What it keeps others from changing until it ends.
    holder: Option<Arc<Holder>>,
    /// What is done at its commit, beside its writes.
    deeds: Vec<Deed>,
    savepoints: Vec<Savepoint>,
}

struct Savepoint {
    name: String,
    /// How many writes there were to each table.
    writes: BTreeMap<ObjectId, usize>,
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
            writes: BTreeMap::new(),
            began_to_read: false,
            moment: None,
            holder: None,
            deeds: vec![],
            savepoints: vec![],
        }
    }

    /// What it has written, by table.
    pub fn written(&self) -> BTreeMap<ObjectId, Vec<Delta>> {
        let written = self.writes.iter().filter(|(_, pending)| !pending.is_empty());
        written.map(|(table, pending)| (*table, pending.writes().to_vec())).collect()
    }

    /// What it has written to a table.
    pub fn pending(&self, table: &Arc<CatalogObject>) -> Pending {
        self.writes.get(&table.id).cloned().unwrap_or_else(|| Pending::new(table))
    }

    /// Whether it has written to a table.
    pub fn has_written(&self, table: ObjectId) -> bool {
        self.writes.get(&table).is_some_and(|pending| !pending.is_empty())
    }

    /// Adds a write.
    ///
    /// # Errors
    /// If the write is of other columns than the table.
    pub fn add(&mut self, table: &Arc<CatalogObject>, delta: Delta) -> SqlResult<()> {
        if delta.is_empty() {
            return Ok(());
        }
        let kept = self.savepoints.last().and_then(|savepoint| savepoint.writes.get(&table.id)).copied().unwrap_or(0);
        self.writes.entry(table.id).or_insert_with(|| Pending::new(table)).add(delta, kept)
    }

    /// What it holds, until its end.
    pub fn holder(&mut self, locks: &Arc<Locks>) -> &Arc<Holder> {
        self.holder.get_or_insert_with(|| locks.holder())
    }

    /// Adds something to be done at its commit; what is there already is done once.
    pub fn add_deed(&mut self, deed: Deed) {
        if !matches!(deed, Deed::Notify(_)) || !self.deeds.contains(&deed) {
            self.deeds.push(deed);
        }
    }

    /// Something in it has failed: nothing of it will be written, so nobody need wait for it. With savepoints it may go on from
    /// one, and keeps what it holds.
    pub fn fail(&mut self) {
        self.failed = true;
        if self.savepoints.is_empty() {
            self.writes.clear();
            if let Some(holder) = self.holder.take() {
                holder.give_up();
            }
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
        match self.write_all(&transaction).await {
            Ok(epoch) => self.seen = self.seen.max(epoch),
            Err(error) => {
                self.settings = transaction.before;
                self.end_cursors(false);
                return Err(error);
            }
        }
        self.end_local(&transaction);
        self.carry_out(transaction.deeds);
        self.end_cursors(true);
        Ok(())
    }

    /// Writes what a transaction has collected. Returns the epoch, 0 if that is nothing.
    async fn write_all(&self, transaction: &Transaction) -> SqlResult<Epoch> {
        let written = transaction.written();
        if written.is_empty() {
            return Ok(Epoch::default());
        }
        let unless = self.depends_on(transaction)?;
        let holder = transaction.holder.clone().unwrap_or_else(|| self.database.locks().holder());
        let writes = written.into_iter().flat_map(|(table, deltas)| deltas.into_iter().map(move |delta| (table, delta)));
        self.database.write(writes.collect(), holder, unless).await
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
            let next = self.settings.get(&format!("default_{name}")).ok();
            let _ = self.settings.set(name, next.as_deref());
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
            writes: transaction.writes.iter().map(|(table, pending)| (*table, pending.len())).collect(),
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
        for (table, pending) in &mut transaction.writes {
            pending.take_back(savepoint.writes.get(table).copied().unwrap_or(0))?;
        }
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
