//! As whom a session acts, and what is kept of what it did.

use super::ClientSession;
use super::settings::SessionSettings;
use crate::access::audit::{AuditEntry, AuditKind};
use crate::access::authority::{Authority, refused};
use crate::database::definition::By;
use std::collections::BTreeSet;
use thalweg_catalog::{Catalog, CatalogObject, Privileges, RoleId, SqlError, SqlResult, SqlState};
use thalweg_planner::{ParsedStatement, Statement, dml};

/// The roles that a session's settings name.
#[derive(Clone)]
pub struct Identity {
    /// Who has connected.
    pub login: RoleId,
    /// By which name.
    pub login_name: String,
}

impl Identity {
    /// Who the session is of: who has connected, unless `SET SESSION AUTHORIZATION` has changed that. Nobody in particular if
    /// that role is gone.
    pub fn session_role(&self, settings: &SessionSettings, catalog: &Catalog) -> RoleId {
        let name = settings.get("session_authorization").unwrap_or_default();
        if name == self.login_name {
            return self.login;
        }
        catalog.security().find_role(&name).map_or(RoleId::PUBLIC, |role| role.id)
    }

    /// As whom statements run: the session's role, unless `SET ROLE` has changed that.
    pub fn current_role(&self, settings: &SessionSettings, catalog: &Catalog) -> RoleId {
        match settings.get("role").unwrap_or_default().as_str() {
            "none" => self.session_role(settings, catalog),
            name => catalog.security().find_role(name).map_or(RoleId::PUBLIC, |role| role.id),
        }
    }

    /// Refuses a role that the session may not become. Settings that name no role are fine.
    ///
    /// # Errors
    /// `22023` for a role that is not there, `42501` for one that the session may not become.
    pub fn check(&self, settings: &SessionSettings, catalog: &Catalog, name: &str, value: &str) -> SqlResult<()> {
        let security = catalog.security();
        let missing = || SqlError::invalid_parameter(format!("role \"{value}\" does not exist"));
        match name {
            "role" if value != "none" => {
                let session = self.session_role(settings, catalog);
                let role = security.find_role(value).map(|role| role.id);
                let role = role.or((value == self.login_name).then_some(self.login)).ok_or_else(missing)?;
                match security.is_member(session, role) {
                    true => Ok(()),
                    false => Err(refused(format!("permission denied to set role \"{value}\""))),
                }
            }
            "session_authorization" if value != self.login_name => {
                security.find_role(value).ok_or_else(missing)?;
                match security.is_superuser(self.login) {
                    true => Ok(()),
                    false => Err(refused("permission denied to set session authorization")),
                }
            }
            _ => Ok(()),
        }
    }
}

impl ClientSession {
    /// Who has connected.
    pub(super) fn identity(&self) -> Identity {
        Identity { login: self.login, login_name: self.info.user.clone() }
    }

    pub(super) fn session_role(&self, catalog: &Catalog) -> RoleId {
        self.identity().session_role(&self.settings, catalog)
    }

    pub(super) fn current_role(&self, catalog: &Catalog) -> RoleId {
        self.identity().current_role(&self.settings, catalog)
    }

    /// What the session may do, as of now.
    pub(super) fn authority(&self) -> Authority {
        let catalog = self.database.catalog();
        let role = self.current_role(&catalog);
        Authority::new(catalog, role)
    }

    /// Who changes the catalog for this session.
    pub(super) fn by(&self) -> By {
        By { role: self.authority().role, search_path: self.search_path() }
    }

    /// The name of who the session acts as.
    pub(super) fn user_name(&self) -> String {
        match self.settings.get("role").unwrap_or_default().as_str() {
            "none" => self.settings.get("session_authorization").unwrap_or_default(),
            role => role.to_string(),
        }
    }

    /// Clients are told whether they act as a superuser.
    pub(super) fn note_superuser(&mut self) {
        let superuser = self.authority().is_superuser();
        self.settings.note_superuser(superuser);
    }

    /// Refuses a change of a table that the session may not make: `columns` are those that are written.
    pub(super) fn check_change(&self, statement: &Statement, table: &CatalogObject, columns: &BTreeSet<usize>) -> SqlResult<()> {
        let authority = self.authority();
        match statement {
            Statement::Insert(insert) => {
                authority.check_columns(table, columns, Privileges::INSERT)?;
                let replaced = dml::replaced(insert, table)?;
                if !replaced.is_empty() {
                    authority.check_columns(table, &replaced, Privileges::UPDATE)?;
                }
                self.check_insert_policy(table)
            }
            Statement::Update(_) => authority.check_columns(table, columns, Privileges::UPDATE),
            _ => authority.check_relation(table, Privileges::DELETE),
        }
    }

    /// Without a policy that allows it, nobody whom policies are for may insert.
    pub(super) fn check_insert_policy(&self, table: &CatalogObject) -> SqlResult<()> {
        let authority = self.authority();
        if authority.security().hides_rows(authority.role, table.id) {
            let text = format!("new row violates row-level security policy for table \"{}\"", table.name);
            return Err(refused(text));
        }
        Ok(())
    }

    /// Keeps that a statement changed the catalog, or was refused to.
    pub(super) fn audit(&self, parsed: &ParsedStatement, error: Option<&SqlError>) {
        let statement = &parsed.statement;
        let is_data = matches!(
            statement,
            Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Truncate(_) | Statement::Copy(_)
        );
        if !statement.writes() || is_data {
            return;
        }
        let detail = match statement {
            Statement::Access(access) if access.holds_secret() => format!("{} (its text holds a secret)", statement.tag()),
            _ => parsed.text.clone(),
        };
        self.audit_entry(AuditKind::Ddl, error.map_or("00000", |error| error.state.code()), detail);
    }

    pub(super) fn audit_logout(&self) {
        self.audit_entry(AuditKind::Logout, SqlState::SuccessfulCompletion.code(), String::new());
    }

    fn audit_entry(&self, kind: AuditKind, state: &'static str, detail: String) {
        self.database.audit().add(AuditEntry {
            at_ms: 0,
            kind,
            session_user: self.info.user.clone(),
            user: self.user_name(),
            process_id: self.info.process_id,
            client: self.info.peer.map(|peer| peer.to_string()),
            state,
            detail,
        });
    }
}
