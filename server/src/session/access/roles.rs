//! `CREATE ROLE`, `ALTER ROLE`, `DROP ROLE`, memberships.

use super::{Asked, ClientSession, Work};
use crate::access::authority::refused;
use crate::session::settings::SessionSettings;
use crate::wire::session::Severity;
use thalweg_catalog::security::{Membership, Role, RoleAttributes};
use thalweg_catalog::{RoleId, SecurityChange, SqlError, SqlResult, SqlState};
use thalweg_planner::statement::{RoleName, RoleOption, SetSetting, Word};

fn reserved(role: &Role) -> SqlError {
    SqlError::new(SqlState::ReservedName, format!("role name \"{}\" is reserved", role.name))
        .with_detail("Role names starting with \"pg_\" are reserved.")
}

/// `infinity` and times as Postgres writes them, in microseconds since 1970; none for ever.
fn valid_until(text: &str) -> SqlResult<Option<i64>> {
    if text.trim().eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    let zone = thalweg_catalog::datetime::SessionTimeZone::UTC;
    thalweg_catalog::datetime::read::timestamptz(text, &zone).map(Some)
}

impl Asked<'_> {
    fn may_create_roles(&self) -> bool {
        let attributes = self.security().role(self.doer.current).map(|role| role.attributes);
        attributes.is_some_and(|a| a.superuser || a.create_role)
    }

    pub(super) fn create_role(&self, name: &Word, options: &[RoleOption], work: &mut Work) -> SqlResult<()> {
        if !self.may_create_roles() {
            return Err(refused("permission denied to create role"));
        }
        let mut role = Role::new(RoleId(self.catalog.next_id().0), &name.value, RoleAttributes::PLAIN);
        apply(&mut role, options)?;
        self.check_attributes(&RoleAttributes::PLAIN, &role.attributes, "create")?;
        let id = role.id;
        work.change(SecurityChange::Role(Box::new(role)));
        for option in options {
            match option {
                RoleOption::InRole(roles) => {
                    for word in roles {
                        self.add_member(&self.group(word)?, id, false, work)?;
                    }
                }
                RoleOption::Members(members, admin) => {
                    for word in members {
                        let member = self.group(word)?.id;
                        let membership = Membership { role: id, member, grantor: self.doer.current, admin: *admin };
                        work.change(SecurityChange::Member(membership));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn group(&self, word: &Word) -> SqlResult<Role> {
        self.security().resolve_role(&word.value).cloned().map_err(|e| e.at(word.position))
    }

    /// Superusers are made by superusers.
    fn check_attributes(&self, before: &RoleAttributes, after: &RoleAttributes, verb: &str) -> SqlResult<()> {
        if self.is_superuser() {
            return Ok(());
        }
        if before.superuser || after.superuser {
            return Err(refused(match verb {
                "create" => "must be superuser to create superusers".to_string(),
                _ => format!("must be superuser to {verb} superuser roles or change superuser attribute"),
            }));
        }
        if before.bypass_rls != after.bypass_rls {
            return Err(refused(match verb {
                "create" => "must be superuser to create bypassrls users",
                _ => "must be superuser to change bypassrls attribute",
            }));
        }
        Ok(())
    }

    pub(super) fn alter_role(&self, role: &RoleName, options: &[RoleOption], work: &mut Work) -> SqlResult<()> {
        let old = self.changeable(role)?;
        let mut new = old.clone();
        apply(&mut new, options)?;
        if new.id == RoleId::BOOTSTRAP && !new.attributes.superuser {
            let error = refused("permission denied to alter role");
            return Err(error.with_detail("The bootstrap user must have the SUPERUSER attribute."));
        }
        self.check_attributes(&old.attributes, &new.attributes, "alter")?;
        let only_password = options.iter().all(|option| matches!(option, RoleOption::Password(_)));
        if !(self.may_create_roles() || only_password && old.id == self.doer.current) {
            return Err(refused("permission denied"));
        }
        work.change(SecurityChange::Role(Box::new(new)));
        Ok(())
    }

    /// A role that can be changed at all.
    fn changeable(&self, name: &RoleName) -> SqlResult<Role> {
        let id = self.one_role(name)?;
        let role = self.security().role(id).cloned();
        let role = role.ok_or_else(|| SqlError::new(SqlState::UndefinedObject, format!("role {id} does not exist")))?;
        if role.is_predefined() { Err(reserved(&role)) } else { Ok(role) }
    }

    pub(super) fn alter_role_setting(&self, role: &RoleName, set: &SetSetting, work: &mut Work) -> SqlResult<()> {
        let mut role = self.changeable(role)?;
        if role.attributes.superuser && !self.is_superuser() {
            return Err(refused("must be superuser to alter superusers"));
        }
        if !self.may_create_roles() && role.id != self.doer.current {
            return Err(refused("permission denied"));
        }
        match (&set.name, set.value()) {
            (None, _) => role.settings.clear(),
            (Some(name), None) => _ = role.settings.remove(&SessionSettings::spelling(name)),
            (Some(name), Some(value)) => _ = role.settings.insert(SessionSettings::spelling(name), value),
        }
        work.change(SecurityChange::Role(Box::new(role)));
        Ok(())
    }

    pub(super) fn rename_role(&self, name: &Word, to: &Word, work: &mut Work) -> SqlResult<()> {
        let mut role = self.changeable(&RoleName::Named(name.clone()))?;
        for (id, who) in [(self.doer.session, "session"), (self.doer.current, "current")] {
            if role.id == id {
                return Err(SqlError::unsupported(format!("{who} user cannot be renamed")));
            }
        }
        if role.attributes.superuser && !self.is_superuser() {
            return Err(refused("must be superuser to rename superusers"));
        }
        if !self.may_create_roles() {
            return Err(refused("permission denied to rename role"));
        }
        role.name.clone_from(&to.value);
        work.change(SecurityChange::Role(Box::new(role)));
        Ok(())
    }

    pub(super) fn drop_roles(&self, names: &[Word], if_exists: bool, work: &mut Work) -> SqlResult<()> {
        if !self.may_create_roles() {
            return Err(refused("permission denied to drop role"));
        }
        for name in names {
            let Some(role) = self.security().find_role(&name.value) else {
                if if_exists {
                    let text = format!("role \"{}\" does not exist, skipping", name.value);
                    work.note(Severity::Notice, SqlState::SuccessfulCompletion, text);
                    continue;
                }
                return Err(self.security().resolve_role(&name.value).map(drop).unwrap_err().at(name.position));
            };
            self.check_drop_role(role)?;
            work.change(SecurityChange::DropRole(role.id));
        }
        Ok(())
    }

    fn check_drop_role(&self, role: &Role) -> SqlResult<()> {
        if role.is_predefined() {
            return Err(reserved(role));
        }
        for (id, who) in [(self.doer.current, "current"), (self.doer.session, "session")] {
            if role.id == id {
                return Err(SqlError::new(SqlState::ObjectInUse, format!("{who} user cannot be dropped")));
            }
        }
        if role.attributes.superuser && !self.is_superuser() {
            return Err(refused("must be superuser to drop superusers"));
        }
        let cannot = |detail: String| {
            let text = format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
            SqlError::new(SqlState::DependentObjectsStillExist, text).with_detail(detail)
        };
        if role.id == RoleId::BOOTSTRAP {
            let text = format!("cannot drop role {} because it is required by the database system", role.name);
            return Err(SqlError::new(SqlState::DependentObjectsStillExist, text));
        }
        let lines: Vec<String> =
            self.security().dependents(role.id).iter().map(|dependent| self.described_dependent(dependent)).collect();
        if lines.is_empty() { Ok(()) } else { Err(cannot(lines.join("\n"))) }
    }

    fn check_admin(&self, role: &Role) -> SqlResult<()> {
        if self.is_superuser() {
            return Ok(());
        }
        if role.attributes.superuser {
            return Err(refused("must be superuser to alter superusers"));
        }
        if self.may_create_roles() && !role.is_predefined() || self.security().is_admin(self.doer.current, role.id) {
            return Ok(());
        }
        Err(refused(format!("must have admin option on role \"{}\"", role.name)))
    }

    fn add_member(&self, role: &Role, member: RoleId, admin: bool, work: &mut Work) -> SqlResult<()> {
        self.check_admin(role)?;
        work.change(SecurityChange::Member(Membership { role: role.id, member, grantor: self.doer.current, admin }));
        Ok(())
    }

    fn membership(&self, role: RoleId, member: RoleId) -> Option<&Membership> {
        self.security().members().iter().find(|m| m.role == role && m.member == member)
    }

    pub(super) fn grant_roles(&self, roles: &[Word], members: &[RoleName], admin: bool, work: &mut Work) -> SqlResult<()> {
        for word in roles {
            let role = self.group(word)?;
            self.check_admin(&role)?;
            for name in members {
                let member = self.one_role(name)?;
                match self.membership(role.id, member) {
                    Some(known) if known.admin || !admin => {
                        let member = self.security().role_name(member);
                        let text = format!("role \"{member}\" is already a member of role \"{}\"", role.name);
                        work.note(Severity::Notice, SqlState::SuccessfulCompletion, text);
                    }
                    _ => self.add_member(&role, member, admin, work)?,
                }
            }
        }
        Ok(())
    }

    pub(super) fn revoke_roles(&self, roles: &[Word], members: &[RoleName], only_admin: bool, work: &mut Work) -> SqlResult<()> {
        for word in roles {
            let role = self.group(word)?;
            self.check_admin(&role)?;
            for name in members {
                let member = self.one_role(name)?;
                match self.membership(role.id, member) {
                    None => {
                        let member = self.security().role_name(member);
                        let text = format!("role \"{member}\" is not a member of role \"{}\"", role.name);
                        work.note(Severity::Warning, SqlState::Warning, text);
                    }
                    Some(known) if only_admin => work.change(SecurityChange::Member(Membership { admin: false, ..*known })),
                    Some(_) => work.change(SecurityChange::DropMember { role: role.id, member }),
                }
            }
        }
        Ok(())
    }
}

fn apply(role: &mut Role, options: &[RoleOption]) -> SqlResult<()> {
    let attributes = &mut role.attributes;
    for option in options {
        match option {
            RoleOption::Superuser(on) => attributes.superuser = *on,
            RoleOption::CreateDb(on) => attributes.create_db = *on,
            RoleOption::CreateRole(on) => attributes.create_role = *on,
            RoleOption::Inherit(on) => attributes.inherit = *on,
            RoleOption::Login(on) => attributes.login = *on,
            RoleOption::BypassRls(on) => attributes.bypass_rls = *on,
            RoleOption::ConnectionLimit(limit) => attributes.connection_limit = *limit,
            // It is a verifier by now.
            RoleOption::Password(verifier) => role.verifier.clone_from(verifier),
            RoleOption::ValidUntil(text) => role.valid_until_us = valid_until(text)?,
            RoleOption::InRole(_) | RoleOption::Members(..) => {}
        }
    }
    Ok(())
}

impl ClientSession {
    /// Refuses a setting that no session could begin with.
    pub(super) fn check_role_setting(&self, set: &SetSetting) -> SqlResult<()> {
        let Some(name) = &set.name else { return Ok(()) };
        if matches!(name.as_str(), "role" | "session_authorization") {
            return Err(SqlError::unsupported(format!("parameter \"{name}\" cannot be set for a role")));
        }
        SessionSettings::default().set(name, set.value().as_deref()).map(drop)
    }
}
