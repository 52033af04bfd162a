//! The server itself: schemas, the database, settings, connections.

use super::schemas;
use super::security::acl_cell;
use crate::pg_catalog::oids;
use crate::pg_catalog::relation::{Cell, Relation, Row};
use crate::pg_catalog::snapshot::{Activity, CursorInfo, PreparedInfo, SystemSnapshot};
use crate::pg_catalog::types::format_type;
use crate::wire::activity::State;
use chrono::{DateTime, Utc};
use std::time::SystemTime;
use thalweg_catalog::Subject;
use thalweg_catalog::security::Predefined;

pub(super) static RELATIONS: &[Relation] = &[
    Relation {
        name: "pg_namespace",
        oid: 2615,
        columns: "oid oid, nspname name, nspowner oid=10, nspacl aclitem[]",
        rows: Some(|snapshot| {
            let schemas = schemas(snapshot).into_iter();
            let row = |(oid, name): (u32, String)| {
                let subject = Subject::Schema(name.clone());
                vec![
                    ("oid", oid.into()),
                    ("nspname", name.into()),
                    ("nspowner", snapshot.security().owner(&subject).0.into()),
                    ("nspacl", acl_cell(snapshot, &subject)),
                ]
            };
            schemas.map(row).collect()
        }),
        is_view: false,
    },
    Relation {
        name: "pg_database",
        oid: 1262,
        columns: "oid oid, datname name, datdba oid=10, encoding int4=6, datlocprovider char=c, datistemplate bool=f, \
                  datallowconn bool=t, datconnlimit int4=-1, datfrozenxid xid=0, datminmxid xid=0, dattablespace oid=1663, \
                  datcollate text=C, datctype text=C, daticulocale text, datcollversion text, datacl aclitem[]",
        rows: Some(|snapshot| {
            vec![vec![
                ("oid", oids::DATABASE.into()),
                ("datname", snapshot.database.as_str().into()),
                ("datacl", acl_cell(snapshot, &Subject::Database)),
            ]]
        }),
        is_view: false,
    },
    Relation {
        name: "pg_settings",
        oid: 12_004,
        columns: "name text, setting text, unit text, category text=Settings, short_desc text, extra_desc text, \
                  context text=user, vartype text, source text=default, min_val text, max_val text, enumvals text[], \
                  boot_val text, reset_val text, sourcefile text, sourceline int4, pending_restart bool=f",
        rows: Some(pg_settings),
        is_view: true,
    },
    Relation {
        name: "pg_tablespace",
        oid: 1213,
        columns: "oid oid, spcname name, spcowner oid=10, spcacl aclitem[], spcoptions text[]",
        rows: Some(|_| {
            let spaces = [(1663u32, "pg_default"), (1664, "pg_global")];
            spaces.iter().map(|(oid, name)| vec![("oid", (*oid).into()), ("spcname", (*name).into())]).collect()
        }),
        is_view: false,
    },
    Relation {
        name: "pg_stat_activity",
        oid: 12_005,
        columns: "datid oid=5, datname name, pid int4, leader_pid int4, usesysid oid, usename name, application_name text, \
                  client_addr text, client_hostname text, client_port int4, backend_start timestamptz, \
                  xact_start timestamptz, query_start timestamptz, state_change timestamptz, wait_event_type text, \
                  wait_event text, state text, backend_xid xid, backend_xmin xid, query_id int8, query text, \
                  backend_type text=client backend",
        rows: Some(pg_stat_activity),
        is_view: true,
    },
    Relation {
        name: "pg_prepared_statements",
        oid: 12_047,
        columns: "name text, statement text, prepare_time timestamptz, parameter_types text[], from_sql bool, \
                  generic_plans int8=0, custom_plans int8=0",
        rows: Some(pg_prepared_statements),
        is_view: true,
    },
    Relation {
        name: "pg_cursors",
        oid: 12_046,
        columns: "name text, statement text, is_holdable bool, is_binary bool=f, is_scrollable bool, creation_time timestamptz",
        rows: Some(pg_cursors),
        is_view: true,
    },
    Relation {
        name: "pg_foreign_data_wrapper",
        oid: 2328,
        columns: "oid oid, fdwname name, fdwowner oid=10, fdwhandler oid=0, fdwvalidator oid=0, fdwacl aclitem[], \
                  fdwoptions text[]",
        rows: Some(|_| vec![vec![("oid", 1u32.into()), ("fdwname", "thalweg".into())]]),
        is_view: false,
    },
    Relation {
        name: "pg_foreign_server",
        oid: 1417,
        columns: "oid oid, srvname name, srvowner oid=10, srvfdw oid=1, srvtype text, srvversion text, srvacl aclitem[], \
                  srvoptions text[]",
        rows: Some(|_| vec![vec![("oid", 1u32.into()), ("srvname", "thalweg".into())]]),
        is_view: false,
    },
];

fn pg_settings(snapshot: &SystemSnapshot) -> Vec<Row> {
    let settings = snapshot.settings.all().into_iter();
    settings
        .map(|setting| {
            vec![
                ("name", setting.name.into()),
                ("setting", setting.value.into()),
                ("unit", setting.unit.into()),
                ("short_desc", setting.description.into()),
                ("vartype", setting.kind.into()),
                ("boot_val", setting.reset_value.as_str().into()),
                ("reset_val", setting.reset_value.into()),
            ]
        })
        .collect()
}

fn pg_prepared_statements(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |one: &PreparedInfo| {
        let types: Vec<String> = one.parameter_types.iter().map(|oid| format_type(&snapshot.catalog, *oid, None)).collect();
        vec![
            ("name", one.name.as_str().into()),
            ("statement", one.statement.as_str().into()),
            ("prepare_time", one.since.timestamp_micros().into()),
            ("parameter_types", types.into()),
            ("from_sql", one.from_sql.into()),
        ]
    };
    snapshot.prepared.iter().map(row).collect()
}

fn pg_cursors(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |one: &CursorInfo| {
        vec![
            ("name", one.name.as_str().into()),
            ("statement", one.statement.as_str().into()),
            ("is_holdable", one.is_holdable.into()),
            ("is_scrollable", one.is_scrollable.into()),
            ("creation_time", one.created.timestamp_micros().into()),
        ]
    };
    snapshot.cursors.iter().map(row).collect()
}

fn pg_stat_activity(snapshot: &SystemSnapshot) -> Vec<Row> {
    let security = snapshot.security();
    let sees_all = security.has_predefined(snapshot.role, Predefined::Monitor);
    let micros = |time: Option<SystemTime>| time.map(|time| DateTime::<Utc>::from(time).timestamp_micros());
    let row = |one: &Activity| {
        let role = snapshot.role_named(&one.user);
        let mut row = vec![
            ("datname", one.database.as_str().into()),
            ("pid", one.process_id.into()),
            ("usesysid", role.map(|role| role.0).into()),
            ("usename", one.user.as_str().into()),
            ("application_name", one.application.as_str().into()),
        ];
        if !sees_all && !role.is_some_and(|role| security.has_privileges_of(snapshot.role, role)) {
            row.push(("query", "<insufficient privilege>".into()));
            return row;
        }
        row.extend([
            ("client_addr", Cell::from(one.client.clone())),
            ("backend_start", one.since.timestamp_micros().into()),
            ("xact_start", micros(one.doing.transaction_start).into()),
            ("query_start", micros(one.doing.query_start).into()),
            ("state_change", micros(one.doing.state_change).into()),
            ("state", one.doing.state.map(State::text).into()),
            ("query", one.doing.query.as_str().into()),
        ]);
        row
    };
    snapshot.activity.iter().map(row).collect()
}
