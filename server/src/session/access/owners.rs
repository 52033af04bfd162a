//! Owners: `ALTER … OWNER TO`, `REASSIGN OWNED`, `DROP OWNED`.

use super::targets::Target;
use super::{Asked, Work};
use crate::access::authority::{denied, not_owner, refused};
use crate::database::drop::Dropping;
use crate::wire::session::Severity;
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_catalog::security::{Acl, Dependent};
use thalweg_catalog::{CatalogObject, ObjectKind, Privileges, RoleId, SecurityChange, SqlError, SqlResult, SqlState, Subject};
use thalweg_planner::bind::find_type;
use thalweg_planner::statement::{OwnedThing, RoleName};

impl Asked<'_> {
    pub(super) fn give(&self, thing: &OwnedThing, if_exists: bool, to: &RoleName, work: &mut Work) -> SqlResult<()> {
        let to = self.one_role(to)?;
        let target = match thing {
            OwnedThing::Object(ObjectKind::Type, name) => {
                Target::relation(find_type(name, self.catalog, &self.doer.search_path)?)
            }
            OwnedThing::Object(kind, name) => match self.object(name) {
                Ok(object) => {
                    check_kind(object.kind(), *kind, &object.name).map_err(|e| e.at(name.position))?;
                    Target::relation(object)
                }
                Err(error) if if_exists && error.state == SqlState::UndefinedTable => {
                    let text = format!("relation \"{}\" does not exist, skipping", name.name);
                    work.note(Severity::Notice, SqlState::SuccessfulCompletion, text);
                    return Ok(());
                }
                Err(error) => return Err(error),
            },
            OwnedThing::Schema(word) => self.schema(word)?,
            OwnedThing::Secret(word) => self.secret_target(word)?,
        };
        if self.security().owner(&target.subject) == to {
            return Ok(());
        }
        self.check_give(&target, to)?;
        self.set_owner(&target.subject, to, work);
        Ok(())
    }

    /// Only the owner may give something away, to a role that it is a member of and that could have created it there.
    fn check_give(&self, target: &Target, to: RoleId) -> SqlResult<()> {
        let (security, doer) = (self.security(), self.doer.current);
        if self.is_superuser() {
            return Ok(());
        }
        if !security.owns(doer, &target.subject) {
            return Err(not_owner(&target.kind, &target.name));
        }
        if !security.is_member(doer, to) {
            return Err(refused(format!("must be member of role \"{}\"", security.role_name(to))));
        }
        if let Some(object) = &target.object {
            let schema = Subject::Schema(object.schema.clone());
            if !security.may(to, &schema, Privileges::CREATE) {
                return Err(denied("schema", &object.schema));
            }
        } else if !security.may(doer, &Subject::Database, Privileges::CREATE) {
            return Err(denied("database", &self.doer.database));
        }
        Ok(())
    }

    fn set_owner(&self, subject: &Subject, to: RoleId, work: &mut Work) {
        let from = self.security().owner(subject);
        work.change(SecurityChange::Owner(subject.clone(), to));
        let is_part = |part: &Subject| match (subject, part) {
            (Subject::Relation(id), Subject::Column(of, _)) => id == of,
            (whole, part) => whole == part,
        };
        for (part, acl) in self.security().acls().filter(|(part, _)| is_part(part)) {
            work.change(SecurityChange::Acl(part.clone(), Some(acl.with_owner(from, to))));
        }
    }

    pub(super) fn reassign(&self, from: &[RoleName], to: &RoleName, work: &mut Work) -> SqlResult<()> {
        let to = self.one_role(to)?;
        for name in from {
            let from = self.one_role(name)?;
            if from == RoleId::BOOTSTRAP {
                let text = "cannot reassign ownership of objects owned by the bootstrap role because the system requires them";
                return Err(SqlError::new(SqlState::DependentObjectsStillExist, text));
            }
            for role in [from, to] {
                if !self.security().has_privileges_of(self.doer.current, role) {
                    return Err(refused("permission denied to reassign objects"));
                }
            }
            let owned: Vec<Subject> =
                self.security().owners().filter(|(_, owner)| *owner == from).map(|(subject, _)| subject.clone()).collect();
            for subject in owned {
                self.set_owner(&subject, to, work);
            }
        }
        Ok(())
    }

    /// The part of `DROP OWNED` that comes when what the roles own is gone: nothing is granted to them any longer.
    pub(super) fn revoke_all_from(&self, by: &[RoleName], work: &mut Work) -> SqlResult<()> {
        let roles: Vec<RoleId> = by.iter().map(|name| self.checked_drop_owned(name)).collect::<SqlResult<_>>()?;
        let dependents: BTreeSet<Dependent> = roles.iter().flat_map(|role| self.security().dependents(*role)).collect();
        for dependent in dependents {
            match dependent {
                Dependent::Owned(Subject::Secret(name)) => work.change(SecurityChange::DropSecret(name)),
                Dependent::Owned(_) => {}
                Dependent::Granted(subject) => {
                    let acl = self.security().effective_acl(&subject).into_owned();
                    work.change(SecurityChange::Acl(subject, Some(without(acl, &roles))));
                }
                Dependent::Default(what) if roles.contains(&what.role) => work.change(SecurityChange::Default(what, None)),
                Dependent::Default(what) => {
                    let known = self.security().defaults().find(|(known, _)| **known == what);
                    let acl = known.map(|(_, acl)| without(acl.clone(), &roles));
                    work.change(SecurityChange::Default(what, acl));
                }
                Dependent::Policy(relation, name) => {
                    let mut policies = self.security().policies(relation);
                    let Some(mut policy) = policies.find(|policy| policy.name == name).cloned() else { continue };
                    policy.roles.retain(|of| !roles.contains(of));
                    work.change(match policy.roles.is_empty() {
                        true => SecurityChange::DropPolicy(relation, name),
                        false => SecurityChange::Policy(relation, policy),
                    });
                }
            }
        }
        Ok(())
    }

    /// What roles own that can be dropped, and what is to go with it.
    pub(super) fn owned_by(&self, by: &[RoleName], cascade: bool) -> SqlResult<Dropping> {
        let roles: Vec<RoleId> = by.iter().map(|name| self.checked_drop_owned(name)).collect::<SqlResult<_>>()?;
        let owned = |subject: &Subject| roles.contains(&self.security().owner(subject));
        let schemas: Vec<String> =
            self.catalog.schemas().filter(|name| owned(&Subject::Schema((*name).to_string()))).map(str::to_string).collect();
        let goes = |object: &&Arc<CatalogObject>| owned(&object.subject()) || (cascade && schemas.contains(&object.schema));
        let objects = self.catalog.entries().filter(goes).cloned().collect();
        Ok(Dropping { objects, schemas, cascade })
    }

    fn checked_drop_owned(&self, name: &RoleName) -> SqlResult<RoleId> {
        let role = self.one_role(name)?;
        if role == RoleId::BOOTSTRAP {
            let text = "cannot drop objects owned by the bootstrap role because they are required by the database system";
            return Err(SqlError::new(SqlState::DependentObjectsStillExist, text));
        }
        match self.security().has_privileges_of(self.doer.current, role) {
            true => Ok(role),
            false => Err(refused("permission denied to drop objects")),
        }
    }
}

/// A list without everything that roles were granted or have granted.
fn without(mut acl: Acl, roles: &[RoleId]) -> Acl {
    acl.0.retain(|item| !roles.contains(&item.grantee) && !roles.contains(&item.grantor));
    acl
}

/// As in Postgres, `ALTER TABLE` is good for views too.
pub(super) fn check_kind(found: ObjectKind, wanted: ObjectKind, name: &str) -> SqlResult<()> {
    let is_view = matches!(found, ObjectKind::View | ObjectKind::MaterializedView);
    match found == wanted || (wanted == ObjectKind::Table && is_view) {
        true => Ok(()),
        false => Err(SqlError::new(SqlState::WrongObjectType, format!("\"{name}\" is not a {wanted}"))),
    }
}
