//! Who may do what: roles and memberships, owners, granted privileges, row policies, secrets.
//!
//! A part of the catalog, changed by its transactions like everything in it. What is not written down has a default, so an
//! empty one is a server with one superuser who owns everything.

mod change;
mod pairs;
mod policy;
mod privilege;
mod role;

pub use change::{DefaultFor, Dependent, SecurityChange};
pub use policy::{Policy, RowSecurity, Secret};
pub use privilege::{Acl, AclItem, Privileges, Subject};
pub use role::{BOOTSTRAP_NAME, Membership, Predefined, Role, RoleAttributes, RoleId};

use crate::error::{SqlError, SqlResult, SqlState};
use crate::ids::ObjectId;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// All of it at one moment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Security {
    #[serde(with = "pairs")]
    roles: BTreeMap<RoleId, Role>,
    members: Vec<Membership>,
    /// Where it is not the bootstrap role.
    #[serde(with = "pairs")]
    owners: BTreeMap<Subject, RoleId>,
    /// Where something was granted or revoked.
    #[serde(with = "pairs")]
    acls: BTreeMap<Subject, Acl>,
    #[serde(with = "pairs")]
    defaults: BTreeMap<DefaultFor, Acl>,
    #[serde(with = "pairs")]
    policies: BTreeMap<(ObjectId, String), Policy>,
    #[serde(with = "pairs")]
    row_security: BTreeMap<ObjectId, RowSecurity>,
    secrets: BTreeMap<String, Secret>,
}

impl Default for Security {
    fn default() -> Self {
        let predefined = Predefined::ALL.iter().map(|known| Role::new(known.id(), known.name(), RoleAttributes::PLAIN));
        let bootstrap = Role::new(RoleId::BOOTSTRAP, BOOTSTRAP_NAME, RoleAttributes::BOOTSTRAP);
        Security {
            roles: predefined.chain([bootstrap]).map(|role| (role.id, role)).collect(),
            members: vec![],
            owners: BTreeMap::new(),
            acls: BTreeMap::new(),
            defaults: BTreeMap::new(),
            policies: BTreeMap::new(),
            row_security: BTreeMap::new(),
            secrets: BTreeMap::new(),
        }
    }
}

impl Security {
    /// All roles by their ids, the predefined ones among them.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// The role of this id.
    pub fn role(&self, id: RoleId) -> Option<&Role> {
        self.roles.get(&id)
    }

    /// The role of this name.
    pub fn find_role(&self, name: &str) -> Option<&Role> {
        self.roles.values().find(|role| role.name == name)
    }

    /// The role of this name, or the error that a user is told.
    ///
    /// # Errors
    /// `42704`.
    pub fn resolve_role(&self, name: &str) -> SqlResult<&Role> {
        self.find_role(name).ok_or_else(|| SqlError::new(SqlState::UndefinedObject, format!("role \"{name}\" does not exist")))
    }

    /// The name of a role; its digits if it is gone.
    pub fn role_name(&self, id: RoleId) -> String {
        self.roles.get(&id).map_or_else(|| id.to_string(), |role| role.name.clone())
    }

    /// Whether users have made roles: until then every name stands for the bootstrap role.
    pub fn has_roles_of_users(&self) -> bool {
        self.roles.values().any(|role| role.id != RoleId::BOOTSTRAP && !role.is_predefined())
    }

    /// All memberships.
    pub fn members(&self) -> &[Membership] {
        &self.members
    }

    /// Whether a role is a superuser.
    pub fn is_superuser(&self, role: RoleId) -> bool {
        self.roles.get(&role).is_some_and(|role| role.attributes.superuser)
    }

    /// The role, and all that it is a member of, directly or not; with `inherited`, only those whose privileges it has
    /// without `SET ROLE`.
    pub fn memberships_of(&self, role: RoleId, inherited: bool) -> BTreeSet<RoleId> {
        let mut found = BTreeSet::from([role]);
        let mut open = vec![role];
        while let Some(member) = open.pop() {
            if inherited && !self.roles.get(&member).is_some_and(|role| role.attributes.inherit) {
                continue;
            }
            for membership in self.members.iter().filter(|m| m.member == member) {
                if found.insert(membership.role) {
                    open.push(membership.role);
                }
            }
        }
        found
    }

    /// Whether a role may `SET ROLE` to another.
    pub fn is_member(&self, role: RoleId, of: RoleId) -> bool {
        self.is_superuser(role) || self.memberships_of(role, false).contains(&of)
    }

    /// Whether a role has the privileges of another.
    pub fn has_privileges_of(&self, role: RoleId, of: RoleId) -> bool {
        self.is_superuser(role) || self.memberships_of(role, true).contains(&of)
    }

    /// Whether a role has the privileges of a predefined one.
    pub fn has_predefined(&self, role: RoleId, predefined: Predefined) -> bool {
        self.has_privileges_of(role, predefined.id())
    }

    /// Whether a role may grant membership in another.
    pub fn is_admin(&self, role: RoleId, of: RoleId) -> bool {
        let memberships = self.memberships_of(role, false);
        self.is_superuser(role) || self.members.iter().any(|m| m.role == of && m.admin && memberships.contains(&m.member))
    }

    /// Who owns something.
    pub fn owner(&self, subject: &Subject) -> RoleId {
        let owned = match subject {
            Subject::Column(relation, _) => &Subject::Relation(*relation),
            other => other,
        };
        self.owners.get(owned).copied().unwrap_or(RoleId::BOOTSTRAP)
    }

    /// Everything whose owner is not the bootstrap role, with its owner.
    pub fn owners(&self) -> impl Iterator<Item = (&Subject, RoleId)> {
        self.owners.iter().map(|(subject, owner)| (subject, *owner))
    }

    /// Whether a role may do what only owners may.
    pub fn owns(&self, role: RoleId, subject: &Subject) -> bool {
        self.has_privileges_of(role, self.owner(subject))
    }

    /// The access list of something; none if nothing was granted or revoked.
    pub fn acl(&self, subject: &Subject) -> Option<&Acl> {
        self.acls.get(subject)
    }

    /// Everything on which something was granted or revoked.
    pub fn acls(&self) -> impl Iterator<Item = (&Subject, &Acl)> {
        self.acls.iter()
    }

    /// The access list of something, or the one that it has by default.
    pub fn effective_acl(&self, subject: &Subject) -> Cow<'_, Acl> {
        match self.acls.get(subject) {
            Some(acl) => Cow::Borrowed(acl),
            None => Cow::Owned(subject.default_acl(self.owner(subject))),
        }
    }

    /// What a role may do with something. Privileges on a relation are not counted for its columns.
    pub fn privileges(&self, role: RoleId, subject: &Subject) -> Privileges {
        if self.is_superuser(role) {
            return subject.all_privileges();
        }
        let roles = self.memberships_of(role, true);
        let mut held = self.effective_acl(subject).held_by(&roles);
        let (reads, writes) = match subject {
            Subject::Relation(_) => (Privileges::SELECT, Privileges::INSERT | Privileges::UPDATE | Privileges::DELETE),
            Subject::Schema(_) => (Privileges::USAGE, Privileges::USAGE),
            _ => return held,
        };
        for (predefined, given) in [(Predefined::ReadAllData, reads), (Predefined::WriteAllData, writes)] {
            if roles.contains(&predefined.id()) {
                held = held | given;
            }
        }
        held
    }

    /// What a role may grant on something to others.
    pub fn grantable(&self, role: RoleId, subject: &Subject) -> Privileges {
        if self.owns(role, subject) {
            return subject.all_privileges();
        }
        let acl = self.effective_acl(subject);
        self.memberships_of(role, true).into_iter().fold(Privileges::NONE, |all, role| all | acl.grantable_by(role))
    }

    /// Whether a role may do all of this with something.
    pub fn may(&self, role: RoleId, subject: &Subject, wanted: Privileges) -> bool {
        self.privileges(role, subject).contains(wanted)
    }

    /// Whether a privilege on any function was granted or revoked: mostly none is, and calls need no look.
    pub fn restricts_functions(&self) -> bool {
        self.acls.keys().any(|subject| matches!(subject, Subject::Function(_)))
    }

    /// The access lists that new things get.
    pub fn defaults(&self) -> impl Iterator<Item = (&DefaultFor, &Acl)> {
        self.defaults.iter()
    }

    /// The access list for something new of this owner; none if nothing differs from the default.
    pub fn acl_for_new(&self, subject: &Subject, owner: RoleId, schema: Option<&str>) -> Option<Acl> {
        if matches!(subject, Subject::Type(_)) {
            // Defaults are made for relations and schemas alone.
            return None;
        }
        let schemas = matches!(subject, Subject::Schema(_));
        let everywhere = self.defaults.get(&DefaultFor { role: owner, schema: None, schemas });
        let here =
            schema.and_then(|schema| self.defaults.get(&DefaultFor { role: owner, schema: Some(schema.to_string()), schemas }));
        if everywhere.is_none() && here.is_none() {
            return None;
        }
        let mut acl = everywhere.cloned().unwrap_or_else(|| subject.default_acl(owner));
        for item in here.iter().flat_map(|acl| &acl.0) {
            acl.grant(*item);
        }
        Some(acl)
    }

    /// Whether policies decide which rows of a relation are seen.
    pub fn row_security(&self, relation: ObjectId) -> RowSecurity {
        self.row_security.get(&relation).copied().unwrap_or_default()
    }

    /// Whether policies decide which rows of a relation a role sees.
    pub fn hides_rows(&self, role: RoleId, relation: ObjectId) -> bool {
        let RowSecurity { enabled, forced } = self.row_security(relation);
        let exempt = || {
            let bypasses = self.roles.get(&role).is_some_and(|r| r.attributes.superuser || r.attributes.bypass_rls);
            bypasses || (!forced && self.owns(role, &Subject::Relation(relation)))
        };
        enabled && !exempt()
    }

    /// The policies of a relation, by name.
    pub fn policies(&self, relation: ObjectId) -> impl Iterator<Item = &Policy> {
        let all = (relation, String::new())..;
        self.policies.range(all).take_while(move |((of, _), _)| *of == relation).map(|(_, policy)| policy)
    }

    /// The policies of all relations.
    pub fn all_policies(&self) -> impl Iterator<Item = (ObjectId, &Policy)> {
        self.policies.iter().map(|((relation, _), policy)| (*relation, policy))
    }

    /// The secret of this name.
    pub fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.get(name)
    }

    /// All secrets by name.
    pub fn secrets(&self) -> &BTreeMap<String, Secret> {
        &self.secrets
    }
}

#[cfg(test)]
mod tests;
