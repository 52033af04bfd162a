//! Row policies.

use super::owners::check_kind;
use super::{Asked, ClientSession, Work};
use crate::wire::session::Severity;
use std::sync::Arc;
use thalweg_catalog::catalog::DEFAULT_SCHEMA;
use thalweg_catalog::security::Policy;
use thalweg_catalog::{CatalogObject, ObjectKind, RoleId, SecurityChange, SqlError, SqlResult, SqlState, SqlType};
use thalweg_planner::bind::find_object;
use thalweg_planner::statement::{Name, PolicyClauses, RowSecurityChange, Word};

impl Asked<'_> {
    /// A relation that can have policies, and whose owner asks.
    fn protected(&self, name: &Name) -> SqlResult<&Arc<CatalogObject>> {
        let object = self.object(name)?;
        if !object.is_kept() {
            let text = format!("\"{}\" is not a table or materialized view", object.name);
            return Err(SqlError::new(SqlState::WrongObjectType, text).at(name.position));
        }
        self.authority().check_owner(object)?;
        Ok(object)
    }

    fn policy(&self, object: &CatalogObject, name: &Word) -> SqlResult<&Policy> {
        let found = self.security().policies(object.id).find(|policy| policy.name == name.value);
        found.ok_or_else(|| {
            let text = format!("policy \"{}\" for table \"{}\" does not exist", name.value, object.name);
            SqlError::new(SqlState::UndefinedObject, text).at(name.position)
        })
    }

    fn check_name(&self, object: &CatalogObject, name: &Word) -> SqlResult<()> {
        if self.security().policies(object.id).any(|policy| policy.name == name.value) {
            let text = format!("policy \"{}\" for table \"{}\" already exists", name.value, object.name);
            return Err(SqlError::new(SqlState::DuplicateObject, text).at(name.position));
        }
        Ok(())
    }

    fn policy_roles(&self, clauses: &PolicyClauses) -> SqlResult<Option<Vec<RoleId>>> {
        clauses.roles.as_ref().map(|roles| roles.iter().map(|role| self.role(role)).collect()).transpose()
    }

    pub(super) fn row_security(
        &self,
        kind: ObjectKind,
        table: &Name,
        change: RowSecurityChange,
        work: &mut Work,
    ) -> SqlResult<()> {
        let object = self.protected(table)?;
        check_kind(object.kind(), kind, &object.name).map_err(|e| e.at(table.position))?;
        let mut now = self.security().row_security(object.id);
        match change {
            RowSecurityChange::Enable(on) => now.enabled = on,
            RowSecurityChange::Force(on) => now.forced = on,
        }
        work.change(SecurityChange::RowSecurity(object.id, now));
        Ok(())
    }

    pub(super) fn create_policy(&self, clauses: &PolicyClauses, work: &mut Work) -> SqlResult<()> {
        let object = self.protected(&clauses.table)?;
        self.check_name(object, &clauses.name)?;
        let policy = Policy {
            id: self.catalog.next_id().0,
            name: clauses.name.value.clone(),
            permissive: clauses.permissive,
            roles: self.policy_roles(clauses)?.unwrap_or_else(|| vec![RoleId::PUBLIC]),
            // Without a condition every row passes, as in Postgres.
            using: clauses.using.clone().unwrap_or_else(|| "true".into()),
        };
        work.change(SecurityChange::Policy(object.id, policy));
        Ok(())
    }

    pub(super) fn alter_policy(&self, clauses: &PolicyClauses, work: &mut Work) -> SqlResult<()> {
        let object = self.protected(&clauses.table)?;
        let mut policy = self.policy(object, &clauses.name)?.clone();
        if let Some(roles) = self.policy_roles(clauses)? {
            policy.roles = roles;
        }
        if let Some(using) = &clauses.using {
            policy.using.clone_from(using);
        }
        work.change(SecurityChange::Policy(object.id, policy));
        Ok(())
    }

    pub(super) fn rename_policy(&self, name: &Word, table: &Name, to: &Word, work: &mut Work) -> SqlResult<()> {
        let object = self.protected(table)?;
        let mut policy = self.policy(object, name)?.clone();
        self.check_name(object, to)?;
        policy.name.clone_from(&to.value);
        work.change(SecurityChange::Policy(object.id, policy));
        Ok(())
    }

    pub(super) fn drop_policy(&self, name: &Word, table: &Name, if_exists: bool, work: &mut Work) -> SqlResult<()> {
        let object = self.protected(table)?;
        match self.policy(object, name) {
            Ok(policy) => work.change(SecurityChange::DropPolicy(object.id, policy.name.clone())),
            Err(error) if if_exists => {
                work.note(Severity::Notice, SqlState::SuccessfulCompletion, format!("{}, skipping", error.message));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl ClientSession {
    /// Refuses a condition that can't be evaluated on rows of the relation.
    pub(super) fn check_policy(&mut self, clauses: &PolicyClauses) -> SqlResult<()> {
        let Some(using) = &clauses.using else { return Ok(()) };
        let catalog = self.database.catalog();
        let object = Arc::clone(find_object(&clauses.table, &catalog, &self.search_path())?);
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let text = format!("SELECT ({using}) FROM {}.{}", quoted(&object.schema), quoted(&object.name));
        let query = thalweg_planner::parse_query(&text)?;
        let mut running = self.running();
        // Names in a policy mean the same for everybody.
        running.search_path = vec![object.schema.clone(), DEFAULT_SCHEMA.to_string()];
        let unplaced = |error: SqlError| SqlError { position: None, ..error };
        let (plan, parameters) = running.plan(&query, &[]).map_err(unplaced)?;
        if !parameters.is_empty() {
            return Err(SqlError::new(SqlState::UndefinedParameter, "there is no parameter $1"));
        }
        let columns = running.describe(&plan).map_err(unplaced)?;
        match columns.first().map(|column| &column.sql_type) {
            Some(SqlType::Boolean) => Ok(()),
            other => {
                let found = other.map(ToString::to_string).unwrap_or_default();
                let text = format!("argument of USING must be type boolean, not type {found}");
                Err(SqlError::new(SqlState::DatatypeMismatch, text))
            }
        }
    }
}
