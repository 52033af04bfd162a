//! Who may do what, as the SQL standard shows it: only what the session's roles have granted or been granted.

use crate::pg_catalog::relation::{Cell, Row};
use crate::pg_catalog::snapshot::SystemSnapshot;
use std::collections::BTreeSet;
use thalweg_catalog::security::AclItem;
use thalweg_catalog::{CatalogObject, Privileges, RoleId, Subject};

/// The roles that the session is, directly or as a member; a superuser is all of them.
fn enabled(snapshot: &SystemSnapshot) -> BTreeSet<RoleId> {
    let security = snapshot.security();
    match security.is_superuser(snapshot.role) {
        true => security.roles().map(|role| role.id).collect(),
        false => security.memberships_of(snapshot.role, false),
    }
}

fn name(snapshot: &SystemSnapshot, role: RoleId) -> Cell {
    if role == RoleId::PUBLIC { "PUBLIC".into() } else { snapshot.role_name(role).into() }
}

fn yes_or_no(truth: bool) -> Cell {
    if truth { "YES" } else { "NO" }.into()
}

/// A row for each privilege of an item of an access list.
fn rows_of(snapshot: &SystemSnapshot, object: &CatalogObject, owner: RoleId, item: &AclItem) -> Vec<Row> {
    let row = |privilege: Privileges| -> Row {
        vec![
            ("grantor", name(snapshot, item.grantor)),
            ("grantee", name(snapshot, item.grantee)),
            ("table_catalog", snapshot.database.as_str().into()),
            ("table_schema", object.schema.as_str().into()),
            ("table_name", object.name.as_str().into()),
            ("privilege_type", privilege.words().next().unwrap_or_default().into()),
            ("is_grantable", yes_or_no(item.grantee == owner || item.grantable.contains(privilege))),
        ]
    };
    item.privileges.each().map(row).collect()
}

fn on_tables(snapshot: &SystemSnapshot, to_public: bool) -> Vec<Row> {
    let enabled = enabled(snapshot);
    let mut rows = vec![];
    for object in snapshot.catalog.objects() {
        let subject = Subject::Relation(object.id);
        let owner = snapshot.security().owner(&subject);
        for item in &snapshot.security().effective_acl(&subject).0 {
            let is_public = item.grantee == RoleId::PUBLIC;
            let is_ours = enabled.contains(&item.grantee) || enabled.contains(&item.grantor);
            if if is_public { to_public } else { is_ours } {
                rows.extend(rows_of(snapshot, object, owner, item));
            }
        }
    }
    rows
}

pub(super) fn table_privileges(snapshot: &SystemSnapshot) -> Vec<Row> {
    on_tables(snapshot, true)
}

pub(super) fn role_table_grants(snapshot: &SystemSnapshot) -> Vec<Row> {
    on_tables(snapshot, false)
}

pub(super) fn column_privileges(snapshot: &SystemSnapshot) -> Vec<Row> {
    let (enabled, security) = (enabled(snapshot), snapshot.security());
    let mut rows = vec![];
    for object in snapshot.catalog.objects() {
        let whole = Subject::Relation(object.id);
        let owner = security.owner(&whole);
        for (place, column) in (0u32..).zip(&object.columns) {
            let on_whole = security.effective_acl(&whole);
            let on_column = security.effective_acl(&Subject::Column(object.id, place));
            for item in on_whole.0.iter().chain(&on_column.0) {
                let shown = item.grantee == RoleId::PUBLIC || enabled.contains(&item.grantee) || enabled.contains(&item.grantor);
                let item = AclItem { privileges: item.privileges & Privileges::OF_COLUMNS, ..*item };
                if shown {
                    let with_column = |mut row: Row| {
                        row.push(("column_name", column.name.as_str().into()));
                        row
                    };
                    rows.extend(rows_of(snapshot, object, owner, &item).into_iter().map(with_column));
                }
            }
        }
    }
    rows
}

pub(super) fn enabled_roles(snapshot: &SystemSnapshot) -> Vec<Row> {
    enabled(snapshot).into_iter().map(|role| vec![("role_name", name(snapshot, role))]).collect()
}

pub(super) fn applicable_roles(snapshot: &SystemSnapshot) -> Vec<Row> {
    let ours = snapshot.security().memberships_of(snapshot.role, false);
    let members = snapshot.security().members().iter().filter(|m| ours.contains(&m.member));
    members
        .map(|m| {
            vec![
                ("grantee", name(snapshot, m.member)),
                ("role_name", name(snapshot, m.role)),
                ("is_grantable", yes_or_no(m.admin)),
            ]
        })
        .collect()
}
