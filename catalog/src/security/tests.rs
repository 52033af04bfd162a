use super::*;

fn role(security: &mut Security, id: u32, name: &str) -> RoleId {
    let role = Role::new(RoleId(id), name, RoleAttributes { login: true, ..RoleAttributes::PLAIN });
    security.apply(&SecurityChange::Role(Box::new(role))).unwrap();
    RoleId(id)
}

fn member(security: &mut Security, role: RoleId, member: RoleId) -> SqlResult<()> {
    security.apply(&SecurityChange::Member(Membership { role, member, grantor: RoleId::BOOTSTRAP, admin: false }))
}

#[test]
fn privileges_come_through_memberships_unless_the_member_does_not_inherit() {
    let mut security = Security::default();
    let [a, b, c] = [(20_000, "a"), (20_001, "b"), (20_002, "c")].map(|(id, name)| role(&mut security, id, name));
    member(&mut security, a, b).unwrap();
    member(&mut security, b, c).unwrap();
    let table = Subject::Relation(ObjectId(30_000));
    let item = AclItem { grantee: a, grantor: RoleId::BOOTSTRAP, privileges: Privileges::SELECT, grantable: Privileges::NONE };
    security.apply(&SecurityChange::Acl(table.clone(), Some(Acl(vec![item])))).unwrap();
    assert!(security.may(c, &table, Privileges::SELECT) && !security.may(c, &table, Privileges::INSERT));
    let mut stubborn = security.role(c).unwrap().clone();
    stubborn.attributes.inherit = false;
    security.apply(&SecurityChange::Role(Box::new(stubborn))).unwrap();
    assert!(!security.may(c, &table, Privileges::SELECT));
    assert!(security.is_member(c, a) && !security.has_privileges_of(c, b));
}

#[test]
fn memberships_in_a_circle_are_refused() {
    let mut security = Security::default();
    let (a, b) = (role(&mut security, 20_000, "a"), role(&mut security, 20_001, "b"));
    member(&mut security, a, b).unwrap();
    assert_eq!(member(&mut security, b, a).unwrap_err().state, SqlState::InvalidGrantOperation);
    assert_eq!(member(&mut security, a, a).unwrap_err().state, SqlState::InvalidGrantOperation);
}

#[test]
fn what_was_granted_on_goes_with_the_right_to_grant() {
    let (owner, a, b) = (RoleId(1), RoleId(2), RoleId(3));
    let both = Privileges::SELECT | Privileges::INSERT;
    let mut acl = Acl::default();
    acl.grant(AclItem { grantee: a, grantor: owner, privileges: both, grantable: both });
    acl.grant(AclItem { grantee: b, grantor: a, privileges: both, grantable: Privileges::NONE });
    let revoked = AclItem { grantee: a, grantor: owner, privileges: Privileges::INSERT, grantable: Privileges::NONE };
    assert!(acl.revoke(&revoked, true, owner));
    assert_eq!(acl.held_by(&BTreeSet::from([a])), both);
    assert_eq!(acl.held_by(&BTreeSet::from([b])), Privileges::SELECT);
    assert!(!acl.revoke(&AclItem { privileges: Privileges::INSERT, ..revoked }, false, owner));
    assert_eq!(acl.held_by(&BTreeSet::from([a])), Privileges::SELECT);
}

#[test]
fn defaults_of_a_schema_are_added_to_those_of_the_role() {
    let mut security = Security::default();
    let (owner, reader) = (role(&mut security, 20_000, "o"), role(&mut security, 20_001, "r"));
    let item = AclItem { grantee: reader, grantor: owner, privileges: Privileges::SELECT, grantable: Privileges::NONE };
    let here = DefaultFor { role: owner, schema: Some("s".into()), schemas: false };
    security.apply(&SecurityChange::Default(here, Some(Acl(vec![item])))).unwrap();
    let table = Subject::Relation(ObjectId(30_000));
    assert_eq!(security.acl_for_new(&table, owner, Some("t")), None);
    let acl = security.acl_for_new(&table, owner, Some("s")).unwrap();
    assert_eq!(acl.held_by(&BTreeSet::from([owner])), Privileges::OF_RELATIONS);
    assert_eq!(acl.held_by(&BTreeSet::from([reader])), Privileges::SELECT);
}

#[test]
fn all_of_it_survives_being_written_down() {
    let mut security = Security::default();
    let a = role(&mut security, 20_000, "a");
    let table = ObjectId(30_000);
    for change in [
        SecurityChange::Owner(Subject::Relation(table), a),
        SecurityChange::Acl(Subject::Schema("s".into()), Some(Acl::default())),
        SecurityChange::RowSecurity(table, RowSecurity { enabled: true, forced: false }),
        SecurityChange::Secret("k".into(), Secret { id: 7, sealed: "x".into(), created_ms: 1 }),
    ] {
        security.apply(&change).unwrap();
    }
    let text = serde_json::to_string(&security).unwrap();
    assert_eq!(serde_json::from_str::<Security>(&text).unwrap(), security);
}
