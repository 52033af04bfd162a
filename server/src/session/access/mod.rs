//! Statements about who may do what. Each is worked out and committed under the catalog's lock, so that two at the same time
//! don't undo each other.

mod grants;
mod owners;
mod policies;
mod roles;
mod secrets;
mod targets;

use super::ClientSession;
use super::privileges::Identity;
use crate::access::authority::Authority;
use crate::access::verifier::stored_form;
use crate::database::Database;
use crate::wire::session::{Notice, Outcome, Severity};
use std::sync::Arc;
use thalweg_catalog::security::Security;
use thalweg_catalog::{Catalog, CatalogChange, RoleId, SecurityChange, SqlError, SqlResult, SqlState};
use thalweg_planner::statement::{Access, RoleName, RoleOption};

/// Who asks for a change.
#[derive(Clone)]
pub(super) struct Doer {
    /// As whom.
    pub current: RoleId,
    /// Who has connected, or has become that.
    pub session: RoleId,
    /// Who has connected, and by which name: it may stand for another.
    pub identity: Identity,
    /// Where names are looked up.
    pub search_path: Vec<String>,
    /// The name that the client calls the database by.
    pub database: String,
}

/// What a statement changes, and what the user should know.
#[derive(Default)]
struct Work {
    changes: Vec<CatalogChange>,
    notices: Vec<Notice>,
}

impl Work {
    fn change(&mut self, change: SecurityChange) {
        self.changes.push(CatalogChange::Security(change));
    }

    fn note(&mut self, severity: Severity, state: SqlState, text: String) {
        self.notices.push(Notice { severity, message: SqlError::new(state, text) });
    }
}

/// A statement with what it is worked out from.
struct Asked<'a> {
    database: &'a Database,
    catalog: &'a Arc<Catalog>,
    doer: &'a Doer,
}

impl Asked<'_> {
    fn security(&self) -> &Security {
        self.catalog.security()
    }

    fn authority(&self) -> Authority {
        Authority::new(Arc::clone(self.catalog), self.doer.current)
    }

    fn is_superuser(&self) -> bool {
        self.security().is_superuser(self.doer.current)
    }

    /// The role that a statement names; `PUBLIC` where that can be named.
    fn role(&self, name: &RoleName) -> SqlResult<RoleId> {
        match name {
            RoleName::Named(word) => match self.security().resolve_role(&word.value) {
                Ok(role) => Ok(role.id),
                Err(_) if word.value == self.doer.identity.login_name => Ok(self.doer.identity.login),
                Err(error) => Err(error.at(word.position)),
            },
            RoleName::Current => Ok(self.doer.current),
            RoleName::Session => Ok(self.doer.session),
            RoleName::Public => Ok(RoleId::PUBLIC),
        }
    }

    /// The role that a statement names, which must be one.
    fn one_role(&self, name: &RoleName) -> SqlResult<RoleId> {
        match self.role(name)? {
            RoleId::PUBLIC => Err(SqlError::new(SqlState::UndefinedObject, "role \"public\" does not exist")),
            role => Ok(role),
        }
    }

    fn work(&self, access: &Access) -> SqlResult<Work> {
        let mut work = Work::default();
        match access {
            Access::CreateRole { name, options } => self.create_role(name, options, &mut work)?,
            Access::AlterRole { role, options } => self.alter_role(role, options, &mut work)?,
            Access::AlterRoleSetting { role, setting } => self.alter_role_setting(role, setting, &mut work)?,
            Access::RenameRole { name, to } => self.rename_role(name, to, &mut work)?,
            Access::DropRoles { names, if_exists } => self.drop_roles(names, *if_exists, &mut work)?,
            Access::GrantRoles { roles, members, admin } => self.grant_roles(roles, members, *admin, &mut work)?,
            Access::RevokeRoles { roles, members, only_admin } => self.revoke_roles(roles, members, *only_admin, &mut work)?,
            Access::Grant(grant) => self.grant(grant, &mut work)?,
            Access::Defaults { creators, schemas, grant } => self.defaults(creators, schemas, grant, &mut work)?,
            Access::Owner { thing, if_exists, to } => self.give(thing, *if_exists, to, &mut work)?,
            Access::ReassignOwned { from, to } => self.reassign(from, to, &mut work)?,
            Access::DropOwned { by, .. } => self.revoke_all_from(by, &mut work)?,
            Access::RowSecurity { kind, table, change } => self.row_security(*kind, table, *change, &mut work)?,
            Access::CreatePolicy(clauses) => self.create_policy(clauses, &mut work)?,
            Access::AlterPolicy(clauses) => self.alter_policy(clauses, &mut work)?,
            Access::RenamePolicy { name, table, to } => self.rename_policy(name, table, to, &mut work)?,
            Access::DropPolicy { name, table, if_exists } => self.drop_policy(name, table, *if_exists, &mut work)?,
            Access::CreateSecret { name, value, if_not_exists } => {
                self.create_secret(name, value, *if_not_exists, &mut work)?;
            }
            Access::AlterSecret { name, value } => self.alter_secret(name, value, &mut work)?,
            Access::DropSecrets { names, if_exists } => self.drop_secrets(names, *if_exists, &mut work)?,
        }
        Ok(work)
    }
}

/// The statement with verifiers instead of passwords: they take some milliseconds, for which nobody should have to wait.
fn with_verifiers(mut access: Access) -> SqlResult<Access> {
    if let Access::CreateRole { options, .. } | Access::AlterRole { options, .. } = &mut access {
        for option in options {
            if let RoleOption::Password(Some(given)) = option {
                *option = RoleOption::Password(stored_form(given)?);
            }
        }
    }
    Ok(access)
}

impl ClientSession {
    /// Who asks, as of now.
    pub(super) fn doer(&self) -> Doer {
        let catalog = self.database.catalog();
        Doer {
            current: self.current_role(&catalog),
            session: self.session_role(&catalog),
            identity: self.identity(),
            search_path: self.search_path(),
            database: self.info.database.clone(),
        }
    }

    pub(super) async fn access(&mut self, access: &Access) -> SqlResult<Outcome> {
        let tag = access.tag();
        if let Access::AlterRoleSetting { setting, .. } = access {
            self.check_role_setting(setting)?;
        }
        if let Access::CreatePolicy(clauses) | Access::AlterPolicy(clauses) = access {
            self.check_policy(clauses)?;
        }
        let (database, doer, access, by) = (Arc::clone(&self.database), self.doer(), with_verifiers(access.clone())?, self.by());
        let (gone, notices) = Self::apart(async move {
            let made = |catalog: &Arc<Catalog>| {
                let work = Asked { database: &database, catalog, doer: &doer }.work(&access)?;
                Ok((work.changes, work.notices))
            };
            let Access::DropOwned { by: roles, cascade } = &access else {
                return database.change_catalog_with(made).await.map(|notices| (vec![], notices));
            };
            let owned = |catalog: &Arc<Catalog>| Asked { database: &database, catalog, doer: &doer }.owned_by(roles, *cascade);
            database.drop_with(&by, owned, made).await
        })
        .await?;
        self.note_all(gone);
        self.notices.extend(notices);
        Ok(Outcome::Tag(tag.into()))
    }
}
