//! Relations about who may do what: roles, memberships, policies, and how access lists are written.

use crate::pg_catalog::oids;
use crate::pg_catalog::relation::{Cell, Relation, Row};
use crate::pg_catalog::snapshot::SystemSnapshot;
use thalweg_catalog::security::{Acl, Role};
use thalweg_catalog::{Catalog, RoleId, Subject};

pub(super) static RELATIONS: &[Relation] = &[
    Relation {
        name: "pg_authid",
        oid: 1260,
        columns: "oid oid, rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, \
                  rolcanlogin bool, rolreplication bool=f, rolbypassrls bool, rolconnlimit int4, rolpassword text, \
                  rolvaliduntil timestamptz",
        rows: Some(|snapshot| {
            let mut rows = roles(snapshot);
            rows.iter_mut().for_each(|row| row.retain(|(column, _)| *column != "rolconfig"));
            rows
        }),
        is_view: false,
    },
    Relation {
        name: "pg_roles",
        oid: 12_001,
        columns: "rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, rolcanlogin bool, \
                  rolreplication bool=f, rolconnlimit int4, rolpassword text=********, rolvaliduntil timestamptz, \
                  rolbypassrls bool, rolconfig text[], oid oid",
        rows: Some(roles),
        is_view: true,
    },
    Relation {
        name: "pg_user",
        oid: 12_002,
        columns: "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool=f, usebypassrls bool, \
                  passwd text=********, valuntil timestamptz, useconfig text[]",
        rows: Some(users),
        is_view: true,
    },
    Relation {
        name: "pg_shadow",
        oid: 12_003,
        columns: "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool=f, usebypassrls bool, \
                  passwd text, valuntil timestamptz, useconfig text[]",
        rows: Some(users),
        is_view: true,
    },
    Relation {
        name: "pg_auth_members",
        oid: 1261,
        columns: "oid oid=0, roleid oid, member oid, grantor oid, admin_option bool",
        rows: Some(|snapshot| {
            let members = snapshot.security().members().iter();
            members
                .map(|m| {
                    vec![
                        ("roleid", m.role.0.into()),
                        ("member", m.member.0.into()),
                        ("grantor", m.grantor.0.into()),
                        ("admin_option", m.admin.into()),
                    ]
                })
                .collect()
        }),
        is_view: false,
    },
    Relation {
        name: "pg_policy",
        oid: 3256,
        columns: "oid oid, polname name, polrelid oid, polcmd char=r, polpermissive bool, polroles text, \
                  polqual pg_node_tree, polwithcheck pg_node_tree",
        rows: Some(pg_policy),
        is_view: false,
    },
    Relation {
        name: "pg_policies",
        oid: 12_033,
        columns: "schemaname name, tablename name, policyname name, permissive text, roles name[], cmd text=SELECT, \
                  qual text, with_check text",
        rows: Some(pg_policies),
        is_view: true,
    },
    Relation {
        name: "pg_default_acl",
        oid: 826,
        columns: "oid oid=0, defaclrole oid, defaclnamespace oid, defaclobjtype char, defaclacl aclitem[]",
        rows: Some(|snapshot| {
            let row = |(what, acl): (&thalweg_catalog::security::DefaultFor, &Acl)| -> Row {
                vec![
                    ("defaclrole", what.role.0.into()),
                    ("defaclnamespace", what.schema.as_deref().map_or(0, oids::schema).into()),
                    ("defaclobjtype", if what.schemas { 'n' } else { 'r' }.into()),
                    ("defaclacl", acl_text(snapshot, acl).into()),
                ]
            };
            snapshot.security().defaults().map(row).collect()
        }),
        is_view: false,
    },
    Relation {
        name: "pg_db_role_setting",
        oid: 2964,
        columns: "setdatabase oid=0, setrole oid, setconfig text[]",
        rows: Some(|snapshot| {
            let set = snapshot.security().roles().filter(|role| !role.settings.is_empty());
            set.map(|role| vec![("setrole", role.id.0.into()), ("setconfig", config(role))]).collect()
        }),
        is_view: false,
    },
    Relation {
        name: "pg_stat_ssl",
        oid: 12_040,
        columns: "pid int4, ssl bool, version text, cipher text, bits int4, client_dn text, client_serial text, issuer_dn text",
        rows: Some(|snapshot| {
            let row = |one: &crate::pg_catalog::snapshot::Activity| -> Row {
                let tls = one.tls.as_ref();
                vec![
                    ("pid", one.process_id.into()),
                    ("ssl", tls.is_some().into()),
                    ("version", tls.map(|tls| tls.version.clone()).into()),
                    ("cipher", tls.map(|tls| tls.cipher.clone()).into()),
                    ("client_dn", tls.and_then(|tls| tls.common_name.as_ref()).map(|name| format!("/CN={name}")).into()),
                ]
            };
            snapshot.activity.iter().map(row).collect()
        }),
        is_view: true,
    },
    Relation {
        name: "pg_hba_file_rules",
        oid: 12_050,
        columns: "line_number int4, type text, database text[], user_name text[], address text, netmask text, \
                  auth_method text, options text[], error text",
        rows: Some(rules),
        is_view: true,
    },
];

/// Those of these relations that have no rows now.
pub fn empty_now(catalog: &Catalog) -> Vec<&'static str> {
    let security = catalog.security();
    let found = [
        ("pg_auth_members", security.members().is_empty()),
        ("pg_policy", security.all_policies().next().is_none()),
        ("pg_policies", security.all_policies().next().is_none()),
        ("pg_default_acl", security.defaults().next().is_none()),
        ("pg_enum", catalog.types().next().is_none()),
        ("pg_db_role_setting", security.roles().all(|role| role.settings.is_empty())),
    ];
    found.into_iter().filter(|(_, empty)| *empty).map(|(name, _)| name).collect()
}

fn config(role: &Role) -> Cell {
    let settings = role.settings.iter().map(|(name, value)| format!("{name}={value}"));
    if role.settings.is_empty() { Cell::Null } else { settings.collect::<Vec<_>>().into() }
}

fn roles(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |role: &Role| -> Row {
        let attributes = role.attributes;
        vec![
            ("oid", role.id.0.into()),
            ("rolname", snapshot.role_name(role.id).into()),
            ("rolsuper", attributes.superuser.into()),
            ("rolinherit", attributes.inherit.into()),
            ("rolcreaterole", attributes.create_role.into()),
            ("rolcreatedb", attributes.create_db.into()),
            ("rolcanlogin", attributes.login.into()),
            ("rolbypassrls", attributes.bypass_rls.into()),
            ("rolconnlimit", attributes.connection_limit.into()),
            ("rolvaliduntil", role.valid_until_us.into()),
            ("rolconfig", config(role)),
        ]
    };
    snapshot.security().roles().map(row).collect()
}

fn users(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |role: &Role| -> Row {
        vec![
            ("usename", snapshot.role_name(role.id).into()),
            ("usesysid", role.id.0.into()),
            ("usecreatedb", role.attributes.create_db.into()),
            ("usesuper", role.attributes.superuser.into()),
            ("usebypassrls", role.attributes.bypass_rls.into()),
            ("valuntil", role.valid_until_us.into()),
            ("useconfig", config(role)),
        ]
    };
    snapshot.security().roles().filter(|role| role.attributes.login).map(row).collect()
}

/// An array of OIDs as its text: clients compare it with that, and ask for the names of its roles by `_role_names`.
fn oid_array(roles: &[RoleId]) -> String {
    format!("{{{}}}", roles.iter().map(RoleId::to_string).collect::<Vec<_>>().join(","))
}

fn pg_policy(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |(relation, policy): (thalweg_catalog::ObjectId, &thalweg_catalog::security::Policy)| -> Row {
        vec![
            ("oid", policy.id.into()),
            ("polname", policy.name.as_str().into()),
            ("polrelid", relation.0.into()),
            ("polpermissive", policy.permissive.into()),
            ("polroles", oid_array(&policy.roles).into()),
            ("polqual", policy.using.as_str().into()),
        ]
    };
    snapshot.security().all_policies().map(row).collect()
}

fn pg_policies(snapshot: &SystemSnapshot) -> Vec<Row> {
    let name = |role: &RoleId| if *role == RoleId::PUBLIC { "public".to_string() } else { snapshot.role_name(*role) };
    let policies = snapshot.security().all_policies();
    policies
        .filter_map(|(relation, policy)| {
            let object = snapshot.catalog.get(relation)?;
            let row: Row = vec![
                ("schemaname", object.schema.as_str().into()),
                ("tablename", object.name.as_str().into()),
                ("policyname", policy.name.as_str().into()),
                ("permissive", if policy.permissive { "PERMISSIVE" } else { "RESTRICTIVE" }.into()),
                ("roles", policy.roles.iter().map(name).collect::<Vec<_>>().into()),
                ("qual", format!("({})", policy.using).into()),
            ];
            Some(row)
        })
        .collect()
}

fn rules(snapshot: &SystemSnapshot) -> Vec<Row> {
    use crate::access::rules::{Transport, Which, Who};
    let Some(gate) = &snapshot.gate else { return vec![] };
    let database = |which: &Which| match which {
        Which::All => "all".to_string(),
        Which::SameUser => "sameuser".into(),
        Which::SameRole => "samerole".into(),
        Which::Named(name) => name.clone(),
    };
    let user = |who: &Who| match who {
        Who::All => "all".to_string(),
        Who::Role(name) => name.clone(),
        Who::MembersOf(name) => format!("+{name}"),
    };
    let rules = gate.rules();
    let rows = rules.0.iter().map(|rule| -> Row {
        let kind = match rule.transport {
            Transport::Local => "local",
            Transport::Host => "host",
            Transport::HostTls => "hostssl",
            Transport::HostPlain => "hostnossl",
        };
        let address = match rule.network {
            _ if rule.transport == Transport::Local => None,
            None => Some("all".to_string()),
            Some(network) => Some(format!("{}/{}", network.address, network.bits)),
        };
        vec![
            ("line_number", rule.line.into()),
            ("type", kind.into()),
            ("database", rule.databases.iter().map(database).collect::<Vec<_>>().into()),
            ("user_name", rule.users.iter().map(user).collect::<Vec<_>>().into()),
            ("address", address.into()),
            ("auth_method", rule.method.name().into()),
        ]
    });
    rows.collect()
}

/// A role's name in an access list: quoted where it is more than a word.
fn acl_name(snapshot: &SystemSnapshot, role: RoleId) -> String {
    if role == RoleId::PUBLIC {
        return String::new();
    }
    let name = snapshot.role_name(role);
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { name } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The items of an access list as Postgres writes them: `grantee=privileges/grantor`.
pub fn acl_text(snapshot: &SystemSnapshot, acl: &Acl) -> Vec<String> {
    let items = acl.0.iter().map(|item| {
        let privileges = item.privileges.letters(item.grantable);
        format!("{}={privileges}/{}", acl_name(snapshot, item.grantee), acl_name(snapshot, item.grantor))
    });
    items.collect()
}

/// The access list of something; NULL if it is that by default.
pub fn acl_cell(snapshot: &SystemSnapshot, subject: &Subject) -> Cell {
    snapshot.security().acl(subject).map(|acl| acl_text(snapshot, acl)).into()
}
