//! `GRANT`, `REVOKE`, `ALTER DEFAULT PRIVILEGES`.

use super::targets::Target;
use super::{Asked, Work};
use crate::access::authority::{denied, refused};
use crate::wire::session::Severity;
use std::collections::BTreeMap;
use thalweg_catalog::security::{Acl, AclItem, DefaultFor};
use thalweg_catalog::{CatalogObject, Privileges, RoleId, SecurityChange, SqlError, SqlResult, SqlState, Subject};
use thalweg_planner::statement::{Grant, GrantTarget, GrantedPrivileges, RoleName, Word};

/// What a statement asks for on one thing: privileges on the whole, and on columns by their places.
#[derive(Default)]
struct Wanted {
    whole: Privileges,
    /// Whether the whole was asked for by `ALL`.
    all: bool,
    columns: BTreeMap<u32, Privileges>,
}

fn invalid(privileges: Privileges, kind: &str) -> SqlError {
    let word = privileges.words().next().unwrap_or_default();
    SqlError::new(SqlState::InvalidGrantOperation, format!("invalid privilege type {word} for {kind}"))
}

fn column_place(object: &CatalogObject, word: &Word) -> SqlResult<u32> {
    let place = object.columns.iter().position(|column| column.name == word.value).and_then(|place| u32::try_from(place).ok());
    place.ok_or_else(|| {
        let text = format!("column \"{}\" of relation \"{}\" does not exist", word.value, object.name);
        SqlError::new(SqlState::UndefinedColumn, text).at(word.position)
    })
}

fn wanted_on(target: &Target, privileges: &[GrantedPrivileges]) -> SqlResult<Wanted> {
    let mut wanted = Wanted::default();
    for granted in privileges {
        let all = if granted.columns.is_empty() { target.subject.all_privileges() } else { Privileges::OF_COLUMNS };
        let asked = granted.privileges.unwrap_or(all);
        if !all.contains(asked) {
            let kind = if granted.columns.is_empty() { &target.kind } else { "column" };
            return Err(invalid(asked, kind).at(granted.position));
        }
        if granted.columns.is_empty() {
            wanted.whole = wanted.whole | asked;
            wanted.all |= granted.privileges.is_none();
            continue;
        }
        let Some(object) = &target.object else {
            let text = "column privileges are only valid for relations";
            return Err(SqlError::new(SqlState::InvalidGrantOperation, text).at(granted.position));
        };
        for word in &granted.columns {
            let place = column_place(object, word)?;
            let known = wanted.columns.entry(place).or_default();
            *known = *known | asked;
        }
    }
    Ok(wanted)
}

/// Access lists while a statement changes them.
struct Lists<'a> {
    asked: &'a Asked<'a>,
    changed: BTreeMap<Subject, Acl>,
}

impl Lists<'_> {
    fn get(&self, subject: &Subject) -> Acl {
        self.changed.get(subject).cloned().unwrap_or_else(|| self.asked.security().effective_acl(subject).into_owned())
    }

    /// Who grants, and what of it can be granted: the owner if that can be, else whoever of the doer's roles can most.
    fn grantor(&self, subject: &Subject, wanted: Privileges) -> (RoleId, Privileges) {
        let (security, doer) = (self.asked.security(), self.asked.doer.current);
        if security.owns(doer, subject) {
            return (security.owner(subject), subject.all_privileges());
        }
        let acl = security.effective_acl(subject);
        let whole = match subject {
            Subject::Column(relation, _) => Some(security.effective_acl(&Subject::Relation(*relation))),
            _ => None,
        };
        let can = |role: RoleId| {
            let through_whole = whole.as_ref().map_or(Privileges::NONE, |acl| acl.grantable_by(role));
            (acl.grantable_by(role) | through_whole) & subject.all_privileges()
        };
        let roles = security.memberships_of(doer, true).into_iter().map(|role| (role, can(role)));
        roles.max_by_key(|(_, able)| (*able & wanted).each().count()).unwrap_or((doer, Privileges::NONE))
    }

    fn change(&mut self, subject: &Subject, wanted: Privileges, grant: &Grant, to: &[RoleId]) -> SqlResult<Privileges> {
        let (grantor, able) = self.grantor(subject, wanted);
        let (mut acl, owner) = (self.get(subject), self.asked.security().owner(subject));
        let privileges = wanted & able;
        for grantee in to {
            change_list(&mut acl, AclItem { grantee: *grantee, grantor, privileges, grantable: Privileges::NONE }, grant, owner)?;
        }
        self.changed.insert(subject.clone(), acl);
        Ok(privileges)
    }
}

/// Grants or revokes in one list.
fn change_list(acl: &mut Acl, item: AclItem, grant: &Grant, owner: RoleId) -> SqlResult<()> {
    if item.privileges.is_empty() {
        return Ok(());
    }
    if !grant.revoke {
        let grantable = if grant.grant_option { item.privileges } else { Privileges::NONE };
        acl.grant(AclItem { grantable, ..item });
        return Ok(());
    }
    if acl.revoke(&item, grant.grant_option, owner) && !grant.cascade {
        return Err(SqlError::new(SqlState::DependentObjectsStillExist, "dependent privileges exist")
            .with_hint("Use CASCADE to revoke them too."));
    }
    Ok(())
}

impl Asked<'_> {
    fn grantees(&self, grant: &Grant) -> SqlResult<Vec<RoleId>> {
        let roles: Vec<RoleId> = grant.roles.iter().map(|role| self.role(role)).collect::<SqlResult<_>>()?;
        if grant.grant_option && !grant.revoke && roles.contains(&RoleId::PUBLIC) {
            return Err(SqlError::new(SqlState::InvalidGrantOperation, "grant options can only be granted to roles"));
        }
        Ok(roles)
    }

    pub(super) fn grant(&self, grant: &Grant, work: &mut Work) -> SqlResult<()> {
        let to = self.grantees(grant)?;
        let mut lists = Lists { asked: self, changed: BTreeMap::new() };
        for target in self.targets(&grant.target)? {
            self.grant_on(&target, grant, &to, &mut lists, work)?;
        }
        for (subject, acl) in lists.changed {
            let none = matches!(subject, Subject::Column(..)) && acl.0.is_empty();
            work.change(SecurityChange::Acl(subject, (!none).then_some(acl)));
        }
        Ok(())
    }

    fn grant_on(&self, target: &Target, grant: &Grant, to: &[RoleId], lists: &mut Lists<'_>, work: &mut Work) -> SqlResult<()> {
        let wanted = wanted_on(target, &grant.privileges)?;
        let mut done = Privileges::NONE;
        if !wanted.whole.is_empty() {
            done = lists.change(&target.subject, wanted.whole, grant, to)?;
        }
        if let (true, Some(object)) = (grant.revoke, &target.object) {
            // What is revoked on the whole is revoked on every column.
            let on_columns = wanted.whole & Privileges::OF_COLUMNS;
            for (subject, _) in self.security().acls() {
                if matches!(subject, Subject::Column(of, _) if *of == object.id) && !on_columns.is_empty() {
                    lists.change(subject, on_columns, grant, to)?;
                }
            }
        }
        let mut asked = wanted.whole;
        for (place, privileges) in &wanted.columns {
            let Some(object) = &target.object else { continue };
            done = done | lists.change(&Subject::Column(object.id, *place), *privileges, grant, to)?;
            asked = asked | *privileges;
        }
        self.report(target, asked, done, wanted.all, grant, work)
    }

    /// Says what could not be granted or revoked, or refuses where nothing could and the doer has nothing to do with it.
    fn report(
        &self,
        target: &Target,
        asked: Privileges,
        done: Privileges,
        all: bool,
        grant: &Grant,
        work: &mut Work,
    ) -> SqlResult<()> {
        if done.contains(asked) || (all && !done.is_empty()) {
            return Ok(());
        }
        if done.is_empty() && self.security().privileges(self.doer.current, &target.subject).is_empty() {
            return Err(denied(&target.kind, &target.name));
        }
        let how_many = if done.is_empty() { "no privileges" } else { "not all privileges" };
        let (verb, end, state) = match grant.revoke {
            true => ("could be", "revoked", SqlState::PrivilegeNotRevoked),
            false => ("were", "granted", SqlState::PrivilegeNotGranted),
        };
        work.note(Severity::Warning, state, format!("{how_many} {verb} {end} for \"{}\"", target.name));
        Ok(())
    }

    pub(super) fn defaults(&self, creators: &[RoleName], schemas: &[Word], grant: &Grant, work: &mut Work) -> SqlResult<()> {
        let GrantTarget::Future { schemas: on_schemas } = grant.target else {
            return Err(SqlError::internal("default privileges are on what is created later"));
        };
        if on_schemas && !schemas.is_empty() {
            let text = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(SqlError::new(SqlState::InvalidGrantOperation, text));
        }
        let to = self.grantees(grant)?;
        let current = [RoleName::Current];
        for creator in if creators.is_empty() { current.as_slice() } else { creators } {
            let role = self.one_role(creator)?;
            if !self.security().has_privileges_of(self.doer.current, role) {
                return Err(refused("permission denied to change default privileges"));
            }
            if schemas.is_empty() {
                self.default_of(DefaultFor { role, schema: None, schemas: on_schemas }, grant, &to, work)?;
            }
            for word in schemas {
                self.schema(word)?;
                let what = DefaultFor { role, schema: Some(word.value.clone()), schemas: false };
                self.default_of(what, grant, &to, work)?;
            }
        }
        Ok(())
    }

    fn default_of(&self, what: DefaultFor, grant: &Grant, to: &[RoleId], work: &mut Work) -> SqlResult<()> {
        // Stands for everything of its kind.
        let subject = match what.schemas {
            true => Subject::Schema(String::new()),
            false => Subject::Relation(thalweg_catalog::ObjectId(0)),
        };
        let plain = if what.schema.is_none() { subject.default_acl(what.role) } else { Acl::default() };
        let known = self.security().defaults().find(|(known, _)| **known == what).map(|(_, acl)| acl.clone());
        let mut acl = known.unwrap_or_else(|| plain.clone());
        for granted in &grant.privileges {
            if !granted.columns.is_empty() {
                let text = "default privileges cannot be set for columns";
                return Err(SqlError::new(SqlState::InvalidGrantOperation, text).at(granted.position));
            }
            let privileges = granted.privileges.unwrap_or(subject.all_privileges());
            if !subject.all_privileges().contains(privileges) {
                let kind = if what.schemas { "schema" } else { "relation" };
                return Err(invalid(privileges, kind).at(granted.position));
            }
            for grantee in to {
                let item = AclItem { grantee: *grantee, grantor: what.role, privileges, grantable: Privileges::NONE };
                change_list(&mut acl, item, grant, what.role)?;
            }
        }
        work.change(SecurityChange::Default(what, (acl != plain).then_some(acl)));
        Ok(())
    }
}
