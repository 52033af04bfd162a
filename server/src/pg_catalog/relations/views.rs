//! The views that say the same in plainer words: `pg_tables`, `pg_views`, `pg_matviews`, `pg_indexes`, statistics.

use super::{classes, has_key, key_name};
use crate::pg_catalog::functions::definitions;
use crate::pg_catalog::relation::{Relation, Row};
use crate::pg_catalog::snapshot::SystemSnapshot;
use thalweg_catalog::{CatalogObject, ObjectKind, RoleId};

pub(super) static RELATIONS: &[Relation] = &[
    Relation {
        name: "pg_tables",
        oid: 12_010,
        columns: "schemaname name, tablename name, tableowner name, tablespace name, hasindexes bool=f, hasrules bool=f, \
                  hastriggers bool=f, rowsecurity bool=f",
        rows: Some(pg_tables),
        is_view: true,
    },
    Relation {
        name: "pg_views",
        oid: 12_011,
        columns: "schemaname name, viewname name, viewowner name, definition text",
        rows: Some(pg_views),
        is_view: true,
    },
    Relation {
        name: "pg_matviews",
        oid: 12_012,
        columns: "schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool=f, \
                  ispopulated bool=t, definition text",
        rows: Some(pg_matviews),
        is_view: true,
    },
    Relation {
        name: "pg_indexes",
        oid: 12_013,
        columns: "schemaname name, tablename name, indexname name, tablespace name, indexdef text",
        rows: Some(pg_indexes),
        is_view: true,
    },
    Relation {
        name: "pg_stat_user_tables",
        oid: 12_014,
        columns: "relid oid, schemaname name, relname name, seq_scan int8=0, seq_tup_read int8=0, idx_scan int8, \
                  idx_tup_fetch int8, n_tup_ins int8=0, n_tup_upd int8=0, n_tup_del int8=0, n_tup_hot_upd int8=0, \
                  n_live_tup int8=0, n_dead_tup int8=0, n_mod_since_analyze int8=0, n_ins_since_vacuum int8=0, \
                  last_vacuum timestamptz, last_autovacuum timestamptz, last_analyze timestamptz, \
                  last_autoanalyze timestamptz, vacuum_count int8=0, autovacuum_count int8=0, analyze_count int8=0, \
                  autoanalyze_count int8=0",
        rows: Some(pg_stat_user_tables),
        is_view: true,
    },
];

/// The owner of a relation; the system's are the bootstrap role's.
fn owner(snapshot: &SystemSnapshot, object: Option<&CatalogObject>) -> String {
    object.map_or_else(|| snapshot.role_name(RoleId::BOOTSTRAP), |object| snapshot.owner_of(object.id))
}

fn pg_tables(snapshot: &SystemSnapshot) -> Vec<Row> {
    let tables = classes(snapshot).into_iter().filter(|class| class.kind == 'r');
    tables
        .map(|class| {
            vec![
                ("schemaname", class.schema.into()),
                ("tablename", class.name.into()),
                ("tableowner", owner(snapshot, class.object).into()),
                ("rowsecurity", class.object.is_some_and(|o| snapshot.security().row_security(o.id).enabled).into()),
                ("hasindexes", class.object.is_some_and(has_key).into()),
            ]
        })
        .collect()
}

fn pg_views(snapshot: &SystemSnapshot) -> Vec<Row> {
    let views = classes(snapshot).into_iter().filter(|class| class.kind == 'v');
    views
        .map(|class| {
            vec![
                ("schemaname", class.schema.into()),
                ("viewname", class.name.into()),
                ("viewowner", owner(snapshot, class.object).into()),
                ("definition", class.object.and_then(definitions::view_definition).into()),
            ]
        })
        .collect()
}

fn pg_matviews(snapshot: &SystemSnapshot) -> Vec<Row> {
    let views = snapshot.catalog.objects().filter(|object| object.kind() == ObjectKind::MaterializedView);
    views
        .map(|object| {
            vec![
                ("schemaname", object.schema.as_str().into()),
                ("matviewname", object.name.as_str().into()),
                ("matviewowner", snapshot.owner_of(object.id).into()),
                ("hasindexes", has_key(object).into()),
                ("definition", definitions::view_definition(object).into()),
            ]
        })
        .collect()
}

fn pg_indexes(snapshot: &SystemSnapshot) -> Vec<Row> {
    let keyed = snapshot.catalog.objects().filter(|object| has_key(object));
    keyed
        .map(|object| {
            vec![
                ("schemaname", object.schema.as_str().into()),
                ("tablename", object.name.as_str().into()),
                ("indexname", key_name(object).into()),
                ("indexdef", definitions::index_definition(object).into()),
            ]
        })
        .collect()
}

fn pg_stat_user_tables(snapshot: &SystemSnapshot) -> Vec<Row> {
    let kept = snapshot.catalog.objects().filter(|object| object.is_kept());
    kept.map(|object| {
        let rows = snapshot.sizes.get(&object.id.0).map_or(0, |size| size.rows);
        vec![
            ("relid", object.id.0.into()),
            ("schemaname", object.schema.as_str().into()),
            ("relname", object.name.as_str().into()),
            ("n_live_tup", rows.into()),
        ]
    })
    .collect()
}
