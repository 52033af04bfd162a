//! Secrets.

use super::{Asked, Work};
use crate::access::authority::{denied, not_owner};
use crate::access::vault::secrets_of;
use crate::database::now_ms;
use crate::wire::session::Severity;
use thalweg_catalog::security::Secret;
use thalweg_catalog::{Privileges, RoleId, SecurityChange, SqlError, SqlResult, SqlState, Subject};
use thalweg_planner::statement::Word;

impl Asked<'_> {
    pub(super) fn create_secret(&self, name: &Word, value: &str, if_not_exists: bool, work: &mut Work) -> SqlResult<()> {
        if !self.security().may(self.doer.current, &Subject::Database, Privileges::CREATE) {
            return Err(denied("database", &self.doer.database));
        }
        if self.security().secret(&name.value).is_some() {
            let text = format!("secret \"{}\" already exists", name.value);
            if if_not_exists {
                work.note(Severity::Notice, SqlState::DuplicateObject, format!("{text}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::DuplicateObject, text).at(name.position));
        }
        let sealed = self.database.vault().seal(&name.value, value)?;
        let secret = Secret { id: self.catalog.next_id().0, sealed, created_ms: now_ms() };
        work.change(SecurityChange::Secret(name.value.clone(), secret));
        let subject = Subject::Secret(name.value.clone());
        if self.doer.current != RoleId::BOOTSTRAP {
            work.change(SecurityChange::Owner(subject, self.doer.current));
        }
        Ok(())
    }

    fn owned_secret(&self, name: &Word) -> SqlResult<&Secret> {
        let target = self.secret_target(name)?;
        if !self.security().owns(self.doer.current, &target.subject) {
            return Err(not_owner("secret", &name.value));
        }
        self.security().secret(&name.value).ok_or_else(|| SqlError::internal("a secret that was found is gone"))
    }

    pub(super) fn alter_secret(&self, name: &Word, value: &str, work: &mut Work) -> SqlResult<()> {
        let secret = self.owned_secret(name)?.clone();
        let sealed = self.database.vault().seal(&name.value, value)?;
        work.change(SecurityChange::Secret(name.value.clone(), Secret { sealed, ..secret }));
        let used: Vec<String> = self.users_of(&name.value).collect();
        if !used.is_empty() {
            let text = format!("what runs with the old value of secret \"{}\" has the new one after a restart", name.value);
            let message = SqlError::new(SqlState::SuccessfulCompletion, text).with_detail(used.join("\n"));
            work.notices.push(crate::wire::session::Notice { severity: Severity::Notice, message });
        }
        Ok(())
    }

    /// What names a secret in its options.
    fn users_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let uses = move |object: &&std::sync::Arc<thalweg_catalog::CatalogObject>| {
            object.connector().is_some_and(|spec| secrets_of(spec).any(|used| used == name))
        };
        self.catalog.objects().filter(uses).map(|object| format!("{} {}", object.kind(), object.name))
    }

    pub(super) fn drop_secrets(&self, names: &[Word], if_exists: bool, work: &mut Work) -> SqlResult<()> {
        for name in names {
            if if_exists && self.security().secret(&name.value).is_none() {
                let text = format!("secret \"{}\" does not exist, skipping", name.value);
                work.note(Severity::Notice, SqlState::SuccessfulCompletion, text);
                continue;
            }
            self.owned_secret(name)?;
            let used: Vec<String> =
                self.users_of(&name.value).map(|user| format!("{user} depends on secret {}", name.value)).collect();
            if !used.is_empty() {
                let text = format!("cannot drop secret {} because other objects depend on it", name.value);
                return Err(SqlError::new(SqlState::DependentObjectsStillExist, text).with_detail(used.join("\n")));
            }
            work.change(SecurityChange::DropSecret(name.value.clone()));
        }
        Ok(())
    }
}
