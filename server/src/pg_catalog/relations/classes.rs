//! Relations about relations: `pg_class`, its columns, keys, defaults, comments, and what depends on what.

use super::security::acl_cell;
use super::{Class, classes, has_key, key_name, relkind};
use crate::pg_catalog::oids;
use crate::pg_catalog::relation::{Cell, Relation, Row};
use crate::pg_catalog::snapshot::SystemSnapshot;
use crate::pg_catalog::types::BASE_TYPES;
use thalweg_catalog::catalog::TEMPORARY_PREFIX;
use thalweg_catalog::{CatalogObject, ObjectId, ObjectKind, Subject};

pub(super) static RELATIONS: &[Relation] = &[
    Relation {
        name: "pg_class",
        oid: oids::PG_CLASS,
        columns: "oid oid, relname name, relnamespace oid, reltype oid=0, reloftype oid=0, relowner oid=10, relam oid=0, \
                  relfilenode oid=0, reltablespace oid=0, relpages int4=0, reltuples float4=-1, relallvisible int4=0, \
                  reltoastrelid oid=0, relhasindex bool=f, relisshared bool=f, relpersistence char=p, relkind char, \
                  relnatts int2, relchecks int2=0, relhasrules bool=f, relhastriggers bool=f, relhassubclass bool=f, \
                  relrowsecurity bool=f, relforcerowsecurity bool=f, relispopulated bool=t, relreplident char=d, \
                  relispartition bool=f, relrewrite oid=0, relfrozenxid xid=0, relminmxid xid=0, relacl aclitem[], \
                  reloptions text[], relpartbound pg_node_tree",
        rows: Some(pg_class),
        is_view: false,
    },
    Relation {
        name: "pg_attribute",
        oid: 1249,
        columns: "attrelid oid, attname name, atttypid oid, attstattarget int4=-1, attlen int2=-1, attnum int2, \
                  attndims int4=0, attcacheoff int4=-1, atttypmod int4=-1, attbyval bool=f, attalign char=i, \
                  attstorage char=p, attcompression char=, attnotnull bool=f, atthasdef bool=f, atthasmissing bool=f, \
                  attidentity char=, attgenerated char=, attisdropped bool=f, attislocal bool=t, attinhcount int4=0, \
                  attcollation oid=0, attacl aclitem[], attoptions text[], attfdwoptions text[], attmissingval text[]",
        rows: Some(pg_attribute),
        is_view: false,
    },
    Relation {
        name: "pg_attrdef",
        oid: 2604,
        columns: "oid oid, adrelid oid, adnum int2, adbin pg_node_tree",
        rows: Some(pg_attrdef),
        is_view: false,
    },
    Relation {
        name: "pg_index",
        oid: 2610,
        columns: "indexrelid oid, indrelid oid, indnatts int2, indnkeyatts int2, indisunique bool=t, \
                  indnullsnotdistinct bool=f, indisprimary bool, indisexclusion bool=f, indimmediate bool=t, \
                  indisclustered bool=f, indisvalid bool=t, indcheckxmin bool=f, indisready bool=t, indislive bool=t, \
                  indisreplident bool=f, indkey int2vector, indcollation oidvector, indclass oidvector, \
                  indoption int2vector, indexprs pg_node_tree, indpred pg_node_tree",
        rows: Some(pg_index),
        is_view: false,
    },
    Relation {
        name: "pg_constraint",
        oid: oids::PG_CONSTRAINT,
        columns: "oid oid, conname name, connamespace oid, contype char=p, condeferrable bool=f, condeferred bool=f, \
                  convalidated bool=t, conrelid oid=0, contypid oid=0, conindid oid=0, conparentid oid=0, confrelid oid=0, \
                  confupdtype char= , confdeltype char= , confmatchtype char= , conislocal bool=t, coninhcount int4=0, \
                  connoinherit bool=t, conkey int2[], confkey int2[], conpfeqop oid[], conppeqop oid[], conffeqop oid[], \
                  confdelsetcols int2[], conexclop oid[], conbin pg_node_tree",
        rows: Some(pg_constraint),
        is_view: false,
    },
    Relation {
        name: "pg_description",
        oid: 2609,
        columns: "objoid oid, classoid oid, objsubid int4=0, description text",
        rows: Some(pg_description),
        is_view: false,
    },
    Relation {
        name: "pg_rewrite",
        oid: oids::PG_REWRITE,
        columns: "oid oid, rulename name=_RETURN, ev_class oid, ev_type char=1, ev_enabled char=O, is_instead bool=t, \
                  ev_qual pg_node_tree=<>, ev_action pg_node_tree=<>",
        rows: Some(pg_rewrite),
        is_view: false,
    },
    Relation {
        name: "pg_depend",
        oid: 2608,
        columns: "classid oid, objid oid, objsubid int4=0, refclassid oid, refobjid oid, refobjsubid int4=0, deptype char=n",
        rows: Some(pg_depend),
        is_view: false,
    },
    Relation {
        name: "pg_foreign_table",
        oid: 3118,
        columns: "ftrelid oid, ftserver oid, ftoptions text[]",
        rows: Some(pg_foreign_table),
        is_view: false,
    },
];

fn pg_class(snapshot: &SystemSnapshot) -> Vec<Row> {
    let mut rows = vec![];
    for class in classes(snapshot) {
        let Class { oid, schema, ref name, kind, ref attributes, object } = class;
        let size = snapshot.sizes.get(&oid).copied();
        let keyed = object.is_some_and(has_key);
        let mut row: Row = vec![
            ("oid", oid.into()),
            ("relname", name.as_str().into()),
            ("relnamespace", oids::schema(schema).into()),
            ("reltype", oids::row_type(oid).into()),
            ("relkind", kind.into()),
            ("relnatts", attributes.len().into()),
            ("relhasindex", keyed.into()),
            ("relhasrules", matches!(kind, 'v' | 'm').into()),
            ("relreplident", if object.is_some() { 'd' } else { 'n' }.into()),
        ];
        if schema.starts_with(TEMPORARY_PREFIX) {
            row.push(("relpersistence", 't'.into()));
        }
        if matches!(kind, 'r' | 'm') {
            row.push(("relam", oids::HEAP.into()));
            row.push(("relfilenode", oid.into()));
        }
        if let Some(object) = object {
            row.extend(rights(snapshot, object));
        }
        if let Some(size) = size {
            row.push(("reltuples", size.rows.into()));
            row.push(("relpages", (size.bytes / 8192).into()));
        }
        rows.push(row);
        if let Some(object) = object.filter(|_| keyed) {
            rows.push(vec![
                ("oid", oids::index(object.id).into()),
                ("relname", key_name(object).into()),
                ("relnamespace", oids::schema(schema).into()),
                ("relam", oids::BTREE.into()),
                ("relowner", snapshot.security().owner(&Subject::Relation(object.id)).0.into()),
                ("relkind", 'i'.into()),
                ("relnatts", object.key().len().into()),
                ("relreplident", 'n'.into()),
                ("reltuples", size.map(|size| size.rows).unwrap_or(-1).into()),
            ]);
        }
    }
    rows
}

/// Who owns a relation, what is granted on it, and whether policies hide rows of it.
fn rights(snapshot: &SystemSnapshot, object: &CatalogObject) -> Row {
    let (security, subject) = (snapshot.security(), Subject::Relation(object.id));
    let rows = security.row_security(object.id);
    vec![
        ("relowner", security.owner(&subject).0.into()),
        ("relacl", acl_cell(snapshot, &subject)),
        ("relrowsecurity", rows.enabled.into()),
        ("relforcerowsecurity", rows.forced.into()),
    ]
}

/// Length, alignment, storage and whether values of a type are passed by value.
fn type_layout(oid: u32) -> (i16, char, char, bool) {
    match BASE_TYPES.iter().find(|base| base.oid == oid) {
        Some(base) => (base.length, base.align, base.storage(), (1..=8).contains(&base.length)),
        None => (-1, if matches!(oid, 1016 | 1022 | 1115 | 1185 | 1187) { 'd' } else { 'i' }, 'x', false),
    }
}

fn attribute_row(relation: u32, number: usize, name: &str, type_oid: u32, modifier: i32) -> Row {
    let (length, align, storage, by_value) = type_layout(type_oid);
    let collatable = BASE_TYPES.iter().any(|base| base.is_collatable() && (base.oid == type_oid || base.array == type_oid));
    vec![
        ("attrelid", relation.into()),
        ("attname", name.into()),
        ("atttypid", type_oid.into()),
        ("attlen", length.into()),
        ("attnum", number.into()),
        ("attndims", i32::from(BASE_TYPES.iter().any(|base| base.array == type_oid)).into()),
        ("atttypmod", modifier.into()),
        ("attbyval", by_value.into()),
        ("attalign", align.into()),
        ("attstorage", storage.into()),
        ("attcollation", if collatable { oids::DEFAULT_COLLATION } else { 0 }.into()),
    ]
}

fn pg_attribute(snapshot: &SystemSnapshot) -> Vec<Row> {
    let mut rows = vec![];
    for class in classes(snapshot) {
        for (at, attribute) in class.attributes.iter().enumerate() {
            let mut row = attribute_row(class.oid, at + 1, &attribute.name, attribute.type_oid, attribute.modifier);
            row.push(("attnotnull", attribute.not_null.into()));
            row.push(("atthasdef", attribute.default.is_some().into()));
            if let (Some(object), Ok(place)) = (class.object, u32::try_from(at)) {
                row.push(("attacl", acl_cell(snapshot, &Subject::Column(object.id, place))));
            }
            rows.push(row);
        }
        if let Some(object) = class.object.filter(|object| has_key(object)) {
            for (at, column) in object.key().iter().filter_map(|at| object.columns.get(*at)).enumerate() {
                let (oid, modifier) = (column.sql_type.oid(), column.sql_type.typmod());
                rows.push(attribute_row(oids::index(object.id), at + 1, &column.name, oid, modifier));
            }
        }
    }
    rows
}

fn pg_attrdef(snapshot: &SystemSnapshot) -> Vec<Row> {
    let mut rows = vec![];
    for object in snapshot.catalog.objects() {
        for (at, column) in object.columns.iter().enumerate() {
            if let Some(default) = &column.default {
                rows.push(vec![
                    ("oid", oids::default(object.id, at).into()),
                    ("adrelid", object.id.0.into()),
                    ("adnum", (at + 1).into()),
                    ("adbin", default.as_str().into()),
                ]);
            }
        }
    }
    rows
}

fn keyed(snapshot: &SystemSnapshot) -> impl Iterator<Item = &CatalogObject> {
    snapshot.catalog.objects().map(|object| &**object).filter(|object| has_key(object))
}

fn key_numbers(object: &CatalogObject) -> Vec<i64> {
    object.key().iter().map(|at| *at as i64 + 1).collect()
}

/// The default operator class for keys of a type; what has none of its own is shown with that of text.
fn operator_class(type_oid: u32) -> i64 {
    match type_oid {
        16 => 424,
        17 => 428,
        20 => 3124,
        21 => 1979,
        23 => 1978,
        700 => 1970,
        701 => 3123,
        1042 => 426,
        1082 => 3122,
        1083 => 1996,
        1114 => 3128,
        1184 => 3127,
        1186 => 2745,
        1700 => 3125,
        2950 => 2969,
        3802 => 4033,
        _ => 3126,
    }
}

fn pg_index(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |object: &CatalogObject| -> Row {
        let columns: Vec<_> = object.key().iter().filter_map(|at| object.columns.get(*at)).collect();
        let collation = |oid: u32| BASE_TYPES.iter().any(|b| b.oid == oid && b.is_collatable());
        let collations = columns.iter().map(|c| if collation(c.sql_type.oid()) { 100 } else { 0 });
        vec![
            ("indexrelid", oids::index(object.id).into()),
            ("indrelid", object.id.0.into()),
            ("indnatts", columns.len().into()),
            ("indnkeyatts", columns.len().into()),
            ("indisprimary", (object.kind() == ObjectKind::Table).into()),
            ("indkey", key_numbers(object).into()),
            ("indcollation", collations.collect::<Vec<i64>>().into()),
            ("indclass", columns.iter().map(|c| operator_class(c.sql_type.oid())).collect::<Vec<i64>>().into()),
            ("indoption", vec![0i64; columns.len()].into()),
        ]
    };
    keyed(snapshot).map(row).collect()
}

fn pg_constraint(snapshot: &SystemSnapshot) -> Vec<Row> {
    // A view's key is no constraint: nothing can violate it.
    let tables = keyed(snapshot).filter(|object| object.kind() == ObjectKind::Table);
    let row = |object: &CatalogObject| -> Row {
        vec![
            ("oid", oids::constraint(object.id).into()),
            ("conname", key_name(object).into()),
            ("connamespace", oids::schema(&object.schema).into()),
            ("conrelid", object.id.0.into()),
            ("conindid", oids::index(object.id).into()),
            ("conkey", key_numbers(object).into()),
        ]
    };
    tables.map(row).collect()
}

fn pg_description(snapshot: &SystemSnapshot) -> Vec<Row> {
    let objects = snapshot.catalog.entries().filter_map(|object| {
        let comment = object.comment.as_ref()?;
        let class = if object.is_relation() { oids::PG_CLASS } else { oids::PG_TYPE };
        let row: Row = vec![("objoid", object.id.0.into()), ("classoid", class.into()), ("description", comment.as_str().into())];
        Some(row)
    });
    let columns = snapshot.catalog.objects().flat_map(|object| {
        let of_column = |(place, comment): (&usize, &String)| -> Row {
            vec![
                ("objoid", object.id.0.into()),
                ("classoid", oids::PG_CLASS.into()),
                ("objsubid", (place + 1).into()),
                ("description", comment.as_str().into()),
            ]
        };
        object.column_comments.iter().map(of_column).collect::<Vec<_>>()
    });
    let functions = snapshot.functions.iter().filter_map(|function| {
        let row: Row = vec![
            ("objoid", oids::function(&function.name).into()),
            ("classoid", oids::PG_PROC.into()),
            ("description", function.description.as_ref()?.as_str().into()),
        ];
        Some(row)
    });
    objects.chain(columns).chain(functions).collect()
}

fn views(snapshot: &SystemSnapshot) -> impl Iterator<Item = &CatalogObject> {
    snapshot.catalog.objects().map(|object| &**object).filter(|object| matches!(relkind(object.kind()), 'v' | 'm'))
}

fn pg_rewrite(snapshot: &SystemSnapshot) -> Vec<Row> {
    views(snapshot).map(|object| vec![("oid", oids::rule(object.id).into()), ("ev_class", object.id.0.into())]).collect()
}

/// A view's rule belongs to the view and depends on what the view reads; a sink depends on what it reads by itself.
fn pg_depend(snapshot: &SystemSnapshot) -> Vec<Row> {
    let edge = |class: u32, id: u32, on: u32, kind: char| -> Row {
        vec![
            ("classid", class.into()),
            ("objid", id.into()),
            ("refclassid", if snapshot.catalog.get(ObjectId(on)).is_some() { oids::PG_CLASS } else { oids::PG_TYPE }.into()),
            ("refobjid", on.into()),
            ("deptype", kind.into()),
        ]
    };
    let mut rows = vec![];
    for object in snapshot.catalog.objects() {
        let is_view = matches!(relkind(object.kind()), 'v' | 'm');
        let (class, id) = if is_view { (oids::PG_REWRITE, oids::rule(object.id)) } else { (oids::PG_CLASS, object.id.0) };
        if is_view {
            rows.push(edge(class, id, object.id.0, 'i'));
        }
        rows.extend(object.depends_on.iter().map(|on| edge(class, id, on.0, 'n')));
    }
    rows
}

fn pg_foreign_table(snapshot: &SystemSnapshot) -> Vec<Row> {
    let foreign = snapshot.catalog.objects().filter(|object| relkind(object.kind()) == 'f');
    foreign
        .map(|object| {
            let options = object.connector().map(|spec| vec![format!("connector={}", spec.connector)]);
            vec![("ftrelid", object.id.0.into()), ("ftserver", 1u32.into()), ("ftoptions", Cell::from(options))]
        })
        .collect()
}
