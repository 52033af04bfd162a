//! `SET`, `RESET` and `DISCARD`.

use super::ClientSession;
use super::notify::Deed;
use super::settings::SessionSettings;
use crate::wire::session::{Outcome, Severity};
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use thalweg_planner::statement::{DiscardTarget, SetScope, SetSetting, TransactionModes};

impl ClientSession {
    pub(super) async fn set(&mut self, set: &SetSetting) -> SqlResult<Outcome> {
        let tag = if set.reset { "RESET" } else { "SET" };
        if set.scope == SetScope::System {
            return Err(SqlError::unsupported("settings of the process can't be changed while it runs")
                .with_hint("Give them as flags, in the environment or in the configuration file: see thalweg.settings.")
                .at(set.position));
        }
        if set.scope == SetScope::Local && !self.in_block() {
            self.notice(Severity::Warning, SqlState::NoActiveSqlTransaction, "SET LOCAL can only be used in transaction blocks");
            return Ok(Outcome::Tag(tag.into()));
        }
        match &set.name {
            None => self.settings.reset_all(),
            Some(name) => {
                let value = set.value();
                if let Some(value) = &value {
                    let catalog = self.database.catalog();
                    self.identity().check(&self.settings, &catalog, &SessionSettings::spelling(name), value)?;
                    if SessionSettings::spelling(name) == "transaction_isolation" {
                        self.check_isolation(value)?;
                    }
                }
                self.settings.set(name, value.as_deref())?;
                if SessionSettings::spelling(name) == "session_authorization" {
                    self.settings.set("role", None)?;
                }
                self.note_superuser();
                if set.scope == SetScope::Local
                    && let Some(transaction) = &mut self.transaction
                {
                    transaction.local.push(name.clone());
                }
            }
        }
        Ok(Outcome::Tag(tag.into()))
    }

    pub(super) fn set_modes(&mut self, modes: &TransactionModes) -> SqlResult<()> {
        if let Some(deferrable) = modes.deferrable {
            self.settings.set("transaction_deferrable", Some(if deferrable { "on" } else { "off" }))?;
        }
        if let Some(read_only) = modes.read_only {
            self.settings.set("transaction_read_only", Some(if read_only { "on" } else { "off" }))?;
        }
        if let Some(isolation) = modes.isolation {
            self.check_isolation(isolation.name())?;
            self.settings.set("transaction_isolation", Some(isolation.name()))?;
        }
        Ok(())
    }

    pub(super) fn set_session_modes(&mut self, modes: &TransactionModes) -> SqlResult<Outcome> {
        if let Some(deferrable) = modes.deferrable {
            self.settings.set("default_transaction_deferrable", Some(if deferrable { "on" } else { "off" }))?;
        }
        if let Some(read_only) = modes.read_only {
            self.settings.set("default_transaction_read_only", Some(if read_only { "on" } else { "off" }))?;
        }
        if let Some(isolation) = modes.isolation {
            self.settings.set("default_transaction_isolation", Some(isolation.name()))?;
        }
        Ok(Outcome::Tag("SET".into()))
    }

    pub(super) async fn discard(&mut self, target: DiscardTarget) -> SqlResult<Outcome> {
        let tag = match target {
            DiscardTarget::All => {
                if self.in_block() || self.among_others {
                    return Err(SqlError::new(
                        SqlState::ActiveSqlTransaction,
                        "DISCARD ALL cannot run inside a transaction block",
                    ));
                }
                self.cursors.clear();
                self.prepared.clear();
                self.carry_out(vec![Deed::Unlisten(None)]);
                self.settings.reset_all();
                self.discard_temporary().await?;
                self.settings.set("session_authorization", None)?;
                self.settings.set("role", None)?;
                self.note_superuser();
                "DISCARD ALL"
            }
            DiscardTarget::Plans => "DISCARD PLANS",
            DiscardTarget::Sequences => "DISCARD SEQUENCES",
            DiscardTarget::Temporary => {
                self.discard_temporary().await?;
                "DISCARD TEMP"
            }
        };
        Ok(Outcome::Tag(tag.into()))
    }
}
