//! Steps of a catalog transaction that change who may do what.

use super::{Acl, Membership, Policy, Predefined, Role, RoleId, RowSecurity, Secret, Security, Subject};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::ids::ObjectId;
use serde::{Deserialize, Serialize};

/// For which new things an access list is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct DefaultFor {
    /// Who creates them.
    pub role: RoleId,
    /// In which schema; none for all.
    pub schema: Option<String>,
    /// Whether they are schemas rather than relations.
    pub schemas: bool,
}

/// One step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum SecurityChange {
    /// A new role, or another state of one that is there.
    Role(Box<Role>),
    /// Removes a role. It may own nothing, and nothing may be granted to it or by it.
    DropRole(RoleId),
    /// Makes a role a member of another, or changes with what right.
    Member(Membership),
    /// Ends a membership.
    DropMember {
        /// The role that has members.
        role: RoleId,
        /// The member.
        member: RoleId,
    },
    /// Gives something an owner.
    Owner(Subject, RoleId),
    /// Gives something an access list; none for the default.
    Acl(Subject, Option<Acl>),
    /// The access list of new things; none for the default.
    Default(DefaultFor, Option<Acl>),
    /// Whether policies decide which rows of a relation are seen.
    RowSecurity(ObjectId, RowSecurity),
    /// A new policy, or another state of one that is there.
    Policy(ObjectId, Policy),
    /// Removes the policy of this name.
    DropPolicy(ObjectId, String),
    /// A new secret, or another value of one that is there.
    Secret(String, Secret),
    /// Removes a secret.
    DropSecret(String),
}

impl SecurityChange {
    /// The OID that it gives out, if it makes something new.
    pub fn given_id(&self) -> Option<ObjectId> {
        match self {
            SecurityChange::Role(role) => Some(ObjectId(role.id.0)),
            SecurityChange::Policy(_, policy) => Some(ObjectId(policy.id)),
            SecurityChange::Secret(_, secret) => Some(ObjectId(secret.id)),
            _ => None,
        }
    }
}

impl Security {
    /// Makes one step.
    ///
    /// # Errors
    /// `42710` for a name that is taken, `42704` for a role, policy or secret that is gone, `0LP01` for memberships in a
    /// circle, `2BP01` for a role that something depends on.
    pub(crate) fn apply(&mut self, change: &SecurityChange) -> SqlResult<()> {
        match change {
            SecurityChange::Role(role) => self.set_role(role)?,
            SecurityChange::DropRole(id) => self.drop_role(*id)?,
            SecurityChange::Member(membership) => self.add_member(membership)?,
            SecurityChange::DropMember { role, member } => {
                self.members.retain(|m| m.role != *role || m.member != *member);
            }
            SecurityChange::Owner(subject, owner) => {
                self.check_role(*owner)?;
                set(&mut self.owners, subject.clone(), (*owner != RoleId::BOOTSTRAP).then_some(*owner));
            }
            SecurityChange::Acl(subject, acl) => {
                acl.iter().flat_map(Acl::roles).try_for_each(|role| self.check_role(role))?;
                set(&mut self.acls, subject.clone(), acl.clone());
            }
            SecurityChange::Default(what, acl) => {
                acl.iter().flat_map(Acl::roles).try_for_each(|role| self.check_role(role))?;
                set(&mut self.defaults, what.clone(), acl.clone());
            }
            SecurityChange::RowSecurity(relation, wanted) => {
                set(&mut self.row_security, *relation, (*wanted != RowSecurity::default()).then_some(*wanted));
            }
            SecurityChange::Policy(relation, policy) => {
                policy.roles.iter().filter(|r| **r != RoleId::PUBLIC).try_for_each(|role| self.check_role(*role))?;
                // Under another name it is the same policy.
                self.policies.retain(|(of, _), known| of != relation || known.id != policy.id);
                let old = self.policies.insert((*relation, policy.name.clone()), policy.clone());
                if old.is_some() {
                    return Err(duplicate("policy", &policy.name));
                }
            }
            SecurityChange::DropPolicy(relation, name) => {
                self.policies.remove(&(*relation, name.clone())).ok_or_else(|| missing("policy", name))?;
            }
            SecurityChange::Secret(name, secret) => {
                let old = self.secrets.insert(name.clone(), secret.clone());
                if old.is_some_and(|old| old.id != secret.id) {
                    return Err(duplicate("secret", name));
                }
            }
            SecurityChange::DropSecret(name) => {
                self.secrets.remove(name).ok_or_else(|| missing("secret", name))?;
                self.forget(&Subject::Secret(name.clone()));
            }
        }
        Ok(())
    }

    fn check_role(&self, id: RoleId) -> SqlResult<()> {
        match self.roles.contains_key(&id) {
            true => Ok(()),
            false => Err(missing("role", &id.to_string())),
        }
    }

    fn set_role(&mut self, role: &Role) -> SqlResult<()> {
        if self.roles.values().any(|other| other.name == role.name && other.id != role.id) {
            return Err(duplicate("role", &role.name));
        }
        self.roles.insert(role.id, role.clone());
        Ok(())
    }

    fn drop_role(&mut self, id: RoleId) -> SqlResult<()> {
        if id == RoleId::BOOTSTRAP || Predefined::ALL.iter().any(|known| known.id() == id) {
            return Err(SqlError::new(SqlState::DependentObjectsStillExist, "the system needs the role"));
        }
        if let Some(subject) = self.dependents(id).first() {
            return Err(SqlError::internal(format!("a dropped role is still named by {subject:?}")));
        }
        self.roles.remove(&id).ok_or_else(|| missing("role", &id.to_string()))?;
        self.members.retain(|m| m.role != id && m.member != id);
        for membership in self.members.iter_mut().filter(|m| m.grantor == id) {
            membership.grantor = RoleId::BOOTSTRAP;
        }
        Ok(())
    }

    fn add_member(&mut self, membership: &Membership) -> SqlResult<()> {
        self.check_role(membership.role)?;
        self.check_role(membership.member)?;
        if self.memberships_of(membership.role, false).contains(&membership.member) {
            let (role, member) = (self.role_name(membership.role), self.role_name(membership.member));
            let text = format!("role \"{role}\" is a member of role \"{member}\"");
            return Err(SqlError::new(SqlState::InvalidGrantOperation, text));
        }
        self.members.retain(|m| m.role != membership.role || m.member != membership.member);
        self.members.push(*membership);
        Ok(())
    }

    /// What names a role, so that it can't be dropped: what it owns, where something is granted to it or by it, defaults,
    /// policies.
    pub fn dependents(&self, id: RoleId) -> Vec<Dependent> {
        let owned = self.owners.iter().filter(|(_, owner)| **owner == id).map(|(s, _)| Dependent::Owned(s.clone()));
        let granted = self.acls.iter().filter(|(s, acl)| self.owner(s) != id && acl.roles().any(|role| role == id));
        let granted = granted.map(|(subject, _)| Dependent::Granted(subject.clone()));
        let defaults = self.defaults.iter().filter(|(what, acl)| what.role == id || acl.roles().any(|role| role == id));
        let defaults = defaults.map(|(what, _)| Dependent::Default(what.clone()));
        let policies = self.policies.iter().filter(|(_, policy)| policy.roles.contains(&id));
        let policies = policies.map(|((relation, name), _)| Dependent::Policy(*relation, name.clone()));
        owned.chain(granted).chain(defaults).chain(policies).collect()
    }

    /// Something is gone: nobody owns it any longer, and nothing is granted on it.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        self.owners.remove(subject);
        self.acls.remove(subject);
        if let Subject::Relation(id) = subject {
            self.acls.retain(|known, _| !matches!(known, Subject::Column(of, _) if of == id));
            self.policies.retain(|(of, _), _| of != id);
            self.row_security.remove(id);
        }
        if let Subject::Schema(name) = subject {
            self.defaults.retain(|what, _| what.schema.as_deref() != Some(name));
        }
    }
}

/// What keeps a role from being dropped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Dependent {
    /// It owns this.
    Owned(Subject),
    /// Something on this was granted to it, or by it.
    Granted(Subject),
    /// Defaults name it.
    Default(DefaultFor),
    /// This policy of a relation names it.
    Policy(ObjectId, String),
}

fn set<K: Ord, V>(map: &mut std::collections::BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn duplicate(what: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::DuplicateObject, format!("{what} \"{name}\" already exists"))
}

fn missing(what: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::UndefinedObject, format!("{what} \"{name}\" does not exist"))
}
