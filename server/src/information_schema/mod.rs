//! `information_schema`: what there is, as the SQL standard shows it.

mod privileges;

use crate::pg_catalog::relation::{Cell, Relation, Row};
use crate::pg_catalog::relations::{Class, classes, has_key, key_name, schemas};
use crate::pg_catalog::snapshot::SystemSnapshot;
use crate::pg_catalog::types::{BASE_TYPES, format_type};
use crate::pg_catalog::{functions::definitions, oids};
use thalweg_catalog::{CatalogObject, ObjectKind, Subject};

const fn view(name: &'static str, oid: u32, columns: &'static str, rows: Option<fn(&SystemSnapshot) -> Vec<Row>>) -> Relation {
    Relation { name, oid, columns, rows, is_view: true }
}

/// All relations of `information_schema`.
pub static RELATIONS: &[&[Relation]] = &[&[
    view(
        "schemata",
        13_300,
        "catalog_name name, schema_name name, schema_owner name, default_character_set_catalog name, \
         default_character_set_schema name, default_character_set_name name, sql_path text",
        Some(schemata),
    ),
    view(
        "tables",
        13_301,
        "table_catalog name, table_schema name, table_name name, table_type text, self_referencing_column_name name, \
         reference_generation text, user_defined_type_catalog name, user_defined_type_schema name, \
         user_defined_type_name name, is_insertable_into text, is_typed text=NO, commit_action text",
        Some(tables),
    ),
    view(
        "columns",
        13_302,
        "table_catalog name, table_schema name, table_name name, column_name name, ordinal_position int4, \
         column_default text, is_nullable text, data_type text, character_maximum_length int4, \
         character_octet_length int4, numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
         datetime_precision int4, interval_type text, interval_precision int4, character_set_catalog name, \
         character_set_schema name, character_set_name name, collation_catalog name, collation_schema name, \
         collation_name name, domain_catalog name, domain_schema name, domain_name name, udt_catalog name, \
         udt_schema name=pg_catalog, udt_name name, scope_catalog name, scope_schema name, scope_name name, \
         maximum_cardinality int4, dtd_identifier name, is_self_referencing text=NO, is_identity text=NO, \
         identity_generation text, identity_start text, identity_increment text, identity_maximum text, \
         identity_minimum text, identity_cycle text=NO, is_generated text=NEVER, generation_expression text, \
         is_updatable text",
        Some(columns),
    ),
    view(
        "views",
        13_303,
        "table_catalog name, table_schema name, table_name name, view_definition text, check_option text=NONE, \
         is_updatable text=NO, is_insertable_into text=NO, is_trigger_updatable text=NO, is_trigger_deletable text=NO, \
         is_trigger_insertable_into text=NO",
        Some(views),
    ),
    view(
        "table_constraints",
        13_304,
        "constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, table_schema name, \
         table_name name, constraint_type text, is_deferrable text=NO, initially_deferred text=NO, enforced text=YES, \
         nulls_distinct text",
        Some(table_constraints),
    ),
    view(
        "key_column_usage",
        13_305,
        "constraint_catalog name, constraint_schema name, constraint_name name, table_catalog name, table_schema name, \
         table_name name, column_name name, ordinal_position int4, position_in_unique_constraint int4",
        Some(|snapshot| key_columns(snapshot, true)),
    ),
    view(
        "constraint_column_usage",
        13_306,
        "table_catalog name, table_schema name, table_name name, column_name name, constraint_catalog name, \
         constraint_schema name, constraint_name name",
        Some(|snapshot| key_columns(snapshot, false)),
    ),
    view(
        "referential_constraints",
        13_307,
        "constraint_catalog name, constraint_schema name, constraint_name name, unique_constraint_catalog name, \
         unique_constraint_schema name, unique_constraint_name name, match_option text, update_rule text, delete_rule text",
        None,
    ),
    view(
        "check_constraints",
        13_308,
        "constraint_catalog name, constraint_schema name, constraint_name name, check_clause text",
        None,
    ),
    view(
        "character_sets",
        13_309,
        "character_set_catalog name, character_set_schema name, character_set_name name=UTF8, character_repertoire name=UCS, \
         form_of_use name=UTF8, default_collate_catalog name, default_collate_schema name=pg_catalog, \
         default_collate_name name=C",
        Some(|snapshot| vec![vec![("default_collate_catalog", snapshot.database.as_str().into())]]),
    ),
    view(
        "collations",
        13_310,
        "collation_catalog name, collation_schema name=pg_catalog, collation_name name, pad_attribute text=NO PAD",
        Some(|snapshot| vec![vec![("collation_catalog", snapshot.database.as_str().into()), ("collation_name", "C".into())]]),
    ),
    view(
        "routines",
        13_311,
        "specific_catalog name, specific_schema name=pg_catalog, specific_name name, routine_catalog name, \
         routine_schema name=pg_catalog, routine_name name, routine_type text=FUNCTION, data_type text, \
         type_udt_name name, routine_body text=EXTERNAL, routine_definition text, external_language text=INTERNAL",
        Some(routines),
    ),
    view(
        "parameters",
        13_312,
        "specific_catalog name, specific_schema name, specific_name name, ordinal_position int4, parameter_mode text, \
         parameter_name name, data_type text, udt_name name",
        None,
    ),
    view(
        "triggers",
        13_313,
        "trigger_catalog name, trigger_schema name, trigger_name name, event_manipulation text, event_object_catalog name, \
         event_object_schema name, event_object_table name, action_order int4, action_condition text, \
         action_statement text, action_orientation text, action_timing text",
        None,
    ),
    view(
        "sequences",
        13_314,
        "sequence_catalog name, sequence_schema name, sequence_name name, data_type text, numeric_precision int4, \
         start_value text, minimum_value text, maximum_value text, increment text, cycle_option text",
        None,
    ),
    view(
        "element_types",
        13_315,
        "object_catalog name, object_schema name, object_name name, object_type text, collection_type_identifier name, \
         data_type text, udt_schema name, udt_name name",
        None,
    ),
    view(
        "table_privileges",
        13_316,
        "grantor name, grantee name, table_catalog name, table_schema name, table_name name, privilege_type text, \
         is_grantable text, with_hierarchy text=NO",
        Some(privileges::table_privileges),
    ),
    view("enabled_roles", 13_317, "role_name name", Some(privileges::enabled_roles)),
    view("applicable_roles", 13_318, "grantee name, role_name name, is_grantable text", Some(privileges::applicable_roles)),
    view(
        "role_table_grants",
        13_322,
        "grantor name, grantee name, table_catalog name, table_schema name, table_name name, privilege_type text, \
         is_grantable text, with_hierarchy text=NO",
        Some(privileges::role_table_grants),
    ),
    view(
        "column_privileges",
        13_323,
        "grantor name, grantee name, table_catalog name, table_schema name, table_name name, column_name name, \
         privilege_type text, is_grantable text",
        Some(privileges::column_privileges),
    ),
    view(
        "foreign_tables",
        13_319,
        "foreign_table_catalog name, foreign_table_schema name, foreign_table_name name, foreign_server_catalog name, \
         foreign_server_name name=thalweg",
        Some(foreign_tables),
    ),
    view(
        "information_schema_catalog_name",
        13_320,
        "catalog_name name",
        Some(|s| vec![vec![("catalog_name", s.database.as_str().into())]]),
    ),
    view(
        "domains",
        13_321,
        "domain_catalog name, domain_schema name, domain_name name, data_type text, domain_default text",
        None,
    ),
]];

fn schemata(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |(_, name): (u32, String)| -> Row {
        vec![
            ("catalog_name", snapshot.database.as_str().into()),
            ("schema_name", name.as_str().into()),
            ("schema_owner", snapshot.role_name(snapshot.security().owner(&Subject::Schema(name.clone()))).into()),
        ]
    };
    schemas(snapshot).into_iter().map(row).collect()
}

/// Relations that the standard knows: materialized views are left out in Postgres, but here they are what is read most,
/// so they are shown as tables that nothing can be inserted into.
fn table_type(kind: char) -> &'static str {
    match kind {
        'v' => "VIEW",
        'f' => "FOREIGN",
        _ => "BASE TABLE",
    }
}

fn is_writable(class: &Class) -> bool {
    class.object.is_some_and(|object| object.kind() == ObjectKind::Table && object.connector().is_none())
}

fn yes_or_no(truth: bool) -> Cell {
    if truth { "YES" } else { "NO" }.into()
}

fn tables(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |class: Class| -> Row {
        vec![
            ("table_catalog", snapshot.database.as_str().into()),
            ("table_schema", class.schema.into()),
            ("table_name", class.name.as_str().into()),
            ("table_type", table_type(class.kind).into()),
            ("is_insertable_into", yes_or_no(is_writable(&class))),
        ]
    };
    classes(snapshot).into_iter().map(row).collect()
}

/// Precision, radix and scale of a number type.
fn numeric_size(oid: u32, modifier: i32) -> Option<(Option<i64>, i64, Option<i64>)> {
    match oid {
        21 => Some((Some(16), 2, Some(0))),
        23 => Some((Some(32), 2, Some(0))),
        20 => Some((Some(64), 2, Some(0))),
        700 => Some((Some(24), 2, None)),
        701 => Some((Some(53), 2, None)),
        1700 if modifier >= 4 => Some((Some(i64::from((modifier - 4) >> 16)), 10, Some(i64::from((modifier - 4) & 0x7ff)))),
        1700 => Some((None, 10, None)),
        _ => None,
    }
}

/// What a type is to the standard, and its schema and name in `pg_type`.
fn type_names(snapshot: &SystemSnapshot, oid: u32) -> (String, String, String) {
    let own = |data_type: String, name: String| (data_type, "pg_catalog".to_string(), name);
    if let Some(item) = BASE_TYPES.iter().find(|base| base.array == oid) {
        return own("ARRAY".into(), format!("_{}", item.name));
    }
    match snapshot.catalog.types().filter_map(|object| object.enum_type()).find(|of| of.id.0 == oid || of.array.0 == oid) {
        Some(of) if of.id.0 == oid => ("USER-DEFINED".into(), of.schema, of.name),
        Some(of) => ("ARRAY".into(), of.schema, format!("_{}", of.name)),
        None => {
            let name = BASE_TYPES.iter().find(|base| base.oid == oid).map_or("record", |base| base.name);
            own(format_type(&snapshot.catalog, oid, None), name.into())
        }
    }
}

fn columns(snapshot: &SystemSnapshot) -> Vec<Row> {
    let mut rows = vec![];
    for class in classes(snapshot) {
        let writable = is_writable(&class);
        for (at, attribute) in class.attributes.iter().enumerate() {
            let (oid, modifier) = (attribute.type_oid, attribute.modifier);
            let (data_type, udt_schema, udt_name) = type_names(snapshot, oid);
            let mut row: Row = vec![
                ("table_catalog", snapshot.database.as_str().into()),
                ("table_schema", class.schema.into()),
                ("table_name", class.name.as_str().into()),
                ("column_name", attribute.name.as_str().into()),
                ("ordinal_position", (at + 1).into()),
                ("column_default", attribute.default.clone().into()),
                ("is_nullable", yes_or_no(!attribute.not_null)),
                ("data_type", data_type.into()),
                ("udt_catalog", snapshot.database.as_str().into()),
                ("udt_schema", udt_schema.into()),
                ("udt_name", udt_name.into()),
                ("dtd_identifier", (at + 1).to_string().into()),
                ("is_updatable", yes_or_no(writable)),
            ];
            if matches!(oid, 1042 | 1043) && modifier >= 4 {
                row.push(("character_maximum_length", (modifier - 4).into()));
            }
            if matches!(oid, 1560 | 1562) && modifier >= 0 {
                row.push(("character_maximum_length", modifier.into()));
            }
            if matches!(oid, 25 | 1042 | 1043) {
                row.push(("character_octet_length", 1_073_741_824i64.into()));
            }
            if let Some((precision, radix, scale)) = numeric_size(oid, modifier) {
                row.push(("numeric_precision", precision.into()));
                row.push(("numeric_precision_radix", radix.into()));
                row.push(("numeric_scale", scale.into()));
            }
            if matches!(oid, 1082 | 1083 | 1114 | 1184 | 1186 | 1266) {
                row.push(("datetime_precision", if oid == 1082 { 0i64 } else { 6 }.into()));
            }
            rows.push(row);
        }
    }
    rows
}

fn views(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |class: Class| -> Row {
        vec![
            ("table_catalog", snapshot.database.as_str().into()),
            ("table_schema", class.schema.into()),
            ("table_name", class.name.as_str().into()),
            ("view_definition", class.object.and_then(definitions::view_definition).into()),
        ]
    };
    classes(snapshot).into_iter().filter(|class| class.kind == 'v').map(row).collect()
}

fn keyed_tables(snapshot: &SystemSnapshot) -> impl Iterator<Item = &CatalogObject> {
    snapshot.catalog.objects().map(|object| &**object).filter(|object| object.kind() == ObjectKind::Table && has_key(object))
}

fn constraint_of(snapshot: &SystemSnapshot, object: &CatalogObject) -> Row {
    vec![
        ("constraint_catalog", snapshot.database.as_str().into()),
        ("constraint_schema", object.schema.as_str().into()),
        ("constraint_name", key_name(object).into()),
        ("table_catalog", snapshot.database.as_str().into()),
        ("table_schema", object.schema.as_str().into()),
        ("table_name", object.name.as_str().into()),
    ]
}

fn table_constraints(snapshot: &SystemSnapshot) -> Vec<Row> {
    keyed_tables(snapshot)
        .map(|object| {
            let mut row = constraint_of(snapshot, object);
            row.push(("constraint_type", "PRIMARY KEY".into()));
            row
        })
        .collect()
}

fn key_columns(snapshot: &SystemSnapshot, with_position: bool) -> Vec<Row> {
    let mut rows = vec![];
    for object in keyed_tables(snapshot) {
        for (at, column) in object.key().iter().filter_map(|at| object.columns.get(*at)).enumerate() {
            let mut row = constraint_of(snapshot, object);
            row.push(("column_name", column.name.as_str().into()));
            if with_position {
                row.push(("ordinal_position", (at + 1).into()));
            }
            rows.push(row);
        }
    }
    rows
}

fn routines(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |function: &crate::pg_catalog::snapshot::FunctionInfo| -> Row {
        vec![
            ("specific_catalog", snapshot.database.as_str().into()),
            ("specific_name", format!("{}_{}", function.name, oids::function(&function.name)).into()),
            ("routine_catalog", snapshot.database.as_str().into()),
            ("routine_name", function.name.as_str().into()),
            ("data_type", function.result.as_str().into()),
        ]
    };
    snapshot.functions.iter().map(row).collect()
}

fn foreign_tables(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |class: Class| -> Row {
        vec![
            ("foreign_table_catalog", snapshot.database.as_str().into()),
            ("foreign_table_schema", class.schema.into()),
            ("foreign_table_name", class.name.into()),
            ("foreign_server_catalog", snapshot.database.as_str().into()),
        ]
    };
    classes(snapshot).into_iter().filter(|class| class.kind == 'f').map(row).collect()
}
