//! Functions that look something up by its OID or its name.

use super::definitions;
use super::{Function, as_int, as_oid, as_text, lenient, strict, text_at};
use crate::pg_catalog::oids;
use crate::pg_catalog::relation::{Cell, Kind};
use crate::pg_catalog::relations::{class_named, classes, has_key, name_of_class, schemas};
use crate::pg_catalog::snapshot::{RelationSize, SystemSnapshot};
use crate::pg_catalog::types::{format_type, quoted, shown_name, split_name, type_named};
use thalweg_catalog::{CatalogObject, ObjectId, RoleId, SqlError, SqlResult, SqlState};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("pg_table_is_visible", Kind::Bool, |s, args| Ok(is_visible(s, args).into())),
    strict("pg_type_is_visible", Kind::Bool, |s, args| Ok(type_is_visible(s, args).into())),
    strict("pg_function_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_collation_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_operator_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_opclass_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_opfamily_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_conversion_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_statistics_obj_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_ts_config_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_ts_dict_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_ts_parser_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_ts_template_is_visible", Kind::Bool, |_, _| Ok(true.into())),
    strict("pg_get_userbyid", Kind::Name, |s, args| Ok(user_name(s, as_oid(args.first())).into())),
    lenient("format_type", Kind::Text, |s, args| {
        let modifier = as_int(args.get(1)).map(|modifier| modifier as i32);
        Ok(as_oid(args.first()).map(|oid| format_type(&s.catalog, oid, modifier)).into())
    }),
    lenient("pg_get_expr", Kind::Text, |_, args| Ok(text_at(args, 0).into())),
    strict("pg_get_indexdef", Kind::Text, |s, args| Ok(indexdef(s, args).into())),
    strict("pg_get_constraintdef", Kind::Text, |s, args| Ok(constraintdef(s, args).into())),
    strict("pg_get_viewdef", Kind::Text, |s, args| Ok(viewdef(s, args).into())),
    strict("pg_get_ruledef", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_triggerdef", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_functiondef", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_function_sqlbody", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_function_arg_default", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_function_result", Kind::Text, |s, args| {
        Ok(s.functions.iter().find(|f| Some(oids::function(&f.name)) == as_oid(args.first())).map(|f| f.result.as_str()).into())
    }),
    strict("pg_get_function_arguments", Kind::Text, |s, args| Ok(function_arguments(s, args).into())),
    strict("pg_get_function_identity_arguments", Kind::Text, |s, args| Ok(function_arguments(s, args).into())),
    strict("pg_get_partkeydef", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_partition_constraintdef", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_serial_sequence", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_statisticsobjdef_columns", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_get_statisticsobjdef", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("pg_partition_ancestors", Kind::Oid, |_, _| Ok(Cell::Null)),
    strict("pg_partition_root", Kind::Oid, |_, _| Ok(Cell::Null)),
    lenient("obj_description", Kind::Text, |s, args| Ok(description(s, as_oid(args.first())).into())),
    strict("col_description", Kind::Text, |s, args| Ok(column_description(s, args).into())),
    lenient("shobj_description", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("to_regclass", Kind::Oid, |s, args| Ok(regclass(s, &text_at(args, 0).unwrap_or_default()).into())),
    strict("to_regtype", Kind::Oid, |s, args| Ok(type_named(&s.catalog, &text_at(args, 0).unwrap_or_default()).into())),
    strict("to_regnamespace", Kind::Oid, |s, args| Ok(namespace(s, &text_at(args, 0).unwrap_or_default()).into())),
    strict("to_regproc", Kind::Oid, |s, args| Ok(procedure(s, &text_at(args, 0).unwrap_or_default()).into())),
    strict("to_regrole", Kind::Oid, |s, args| Ok(role(s, &text_at(args, 0).unwrap_or_default()).into())),
    strict("_regclass_in", Kind::Oid, |s, args| by_name(s, args, regclass, (SqlState::UndefinedTable, "relation"))),
    strict("_regtype_in", Kind::Oid, |s, args| by_name(s, args, regtype, (SqlState::UndefinedObject, "type"))),
    strict("_regnamespace_in", Kind::Oid, |s, args| by_name(s, args, namespace, (SqlState::InvalidSchemaName, "schema"))),
    strict("_regproc_in", Kind::Oid, |s, args| by_name(s, args, procedure, (SqlState::UndefinedFunction, "function"))),
    strict("_regproc_name", Kind::Text, |_, args| {
        Ok(text_at(args, 0).map(|name| name.strip_prefix("pg_catalog.").unwrap_or(&name).to_string()).into())
    }),
    strict("_regrole_in", Kind::Oid, |s, args| by_name(s, args, role, (SqlState::UndefinedObject, "role"))),
    strict("_regclass_out", Kind::Text, |s, args| Ok(out(s, args, class_text))),
    strict("_regtype_out", Kind::Text, |s, args| Ok(out(s, args, type_text))),
    strict("_regnamespace_out", Kind::Text, |s, args| Ok(out(s, args, namespace_text))),
    strict("_regproc_out", Kind::Text, |s, args| Ok(out(s, args, procedure_text))),
    strict("_regrole_out", Kind::Text, |s, args| Ok(out(s, args, role_text))),
    strict("_regclass_shown", Kind::Named(2205), |s, args| {
        shown(s, args, (regclass, class_text), (SqlState::UndefinedTable, "relation"))
    }),
    strict("_regtype_shown", Kind::Named(2206), |s, args| {
        shown(s, args, (regtype, type_text), (SqlState::UndefinedObject, "type"))
    }),
    strict("_regnamespace_shown", Kind::Named(4089), |s, args| {
        shown(s, args, (namespace, namespace_text), (SqlState::InvalidSchemaName, "schema"))
    }),
    strict("_regproc_shown", Kind::Named(24), |s, args| {
        shown(s, args, (procedure, procedure_text), (SqlState::UndefinedFunction, "function"))
    }),
    strict("_regrole_shown", Kind::Named(4096), |s, args| shown(s, args, (role, role_text), (SqlState::UndefinedObject, "role"))),
    strict("_role_names", Kind::NameArray, |s, args| Ok(role_names(s, &text_at(args, 0).unwrap_or_default()).into())),
    strict("pg_relation_size", Kind::Int8, |s, args| Ok(size(s, args).bytes.into())),
    strict("pg_table_size", Kind::Int8, |s, args| Ok(size(s, args).bytes.into())),
    strict("pg_total_relation_size", Kind::Int8, |s, args| Ok(size(s, args).bytes.into())),
    strict("pg_indexes_size", Kind::Int8, |_, _| Ok(0i64.into())),
    strict("pg_database_size", Kind::Int8, |s, _| Ok(s.sizes.values().map(|size| size.bytes).sum::<i64>().into())),
    strict("pg_tablespace_size", Kind::Int8, |s, _| Ok(s.sizes.values().map(|size| size.bytes).sum::<i64>().into())),
    strict("pg_relation_filenode", Kind::Oid, |_, args| Ok(as_oid(args.first()).into())),
    strict("pg_relation_is_publishable", Kind::Bool, |_, _| Ok(false.into())),
    strict("pg_stat_get_numscans", Kind::Int8, |_, _| Ok(0i64.into())),
    strict("pg_stat_get_live_tuples", Kind::Int8, |s, args| Ok(size(s, args).rows.into())),
    strict("pg_tablespace_location", Kind::Text, |_, _| Ok("".into())),
];

pub(super) fn class_oid(snapshot: &SystemSnapshot, cell: Option<&Cell>) -> Option<u32> {
    as_oid(cell).or_else(|| regclass(snapshot, &as_text(cell?)?))
}

fn object_of<'a>(snapshot: &'a SystemSnapshot, cell: Option<&Cell>) -> Option<&'a CatalogObject> {
    snapshot.catalog.get(ObjectId(class_oid(snapshot, cell)?)).map(|object| &**object)
}

fn is_visible(snapshot: &SystemSnapshot, args: &[Cell]) -> Option<bool> {
    let oid = as_oid(args.first())?;
    let (schema, name) = name_of_class(snapshot, oid)?;
    // Not if another of this name comes first.
    Some(class_named(snapshot, None, &name) == Some(oid) || schema == "pg_catalog")
}

fn type_is_visible(snapshot: &SystemSnapshot, args: &[Cell]) -> Option<bool> {
    let oid = as_oid(args.first())?;
    let in_path = |schema: &str| snapshot.search_path.iter().any(|s| s == schema);
    let mut enums = snapshot.catalog.types().filter_map(|object| object.enum_type());
    if let Some(of) = enums.find(|of| of.id.0 == oid || of.array.0 == oid) {
        return Some(in_path(&of.schema));
    }
    let owner = classes(snapshot).into_iter().find(|c| oids::row_type(c.oid) == oid || oids::row_array(c.oid) == oid);
    Some(owner.is_none_or(|class| class.schema == "pg_catalog" || in_path(class.schema)))
}

fn user_name(snapshot: &SystemSnapshot, oid: Option<u32>) -> Option<String> {
    let role = RoleId(oid?);
    Some(snapshot.security().role(role).map_or_else(|| format!("unknown (OID={role})"), |_| snapshot.role_name(role)))
}

/// The names of the roles whose OIDs stand in the text of an array, sorted.
fn role_names(snapshot: &SystemSnapshot, array: &str) -> Vec<String> {
    let oids = array.trim_matches(['{', '}']).split(',').filter_map(|oid| oid.trim().parse().ok().map(RoleId));
    let mut names: Vec<String> =
        oids.filter_map(|id| snapshot.security().role(id)).map(|role| snapshot.role_name(role.id)).collect();
    names.sort();
    names
}

fn keyed_by_index(snapshot: &SystemSnapshot, oid: u32) -> Option<&CatalogObject> {
    snapshot.catalog.objects().map(|object| &**object).find(|object| has_key(object) && oids::index(object.id) == oid)
}

fn indexdef(snapshot: &SystemSnapshot, args: &[Cell]) -> Option<String> {
    let object = keyed_by_index(snapshot, as_oid(args.first())?)?;
    match as_int(args.get(1)).filter(|number| *number > 0) {
        Some(number) => Some(definitions::index_column(object, number).unwrap_or_default()),
        None => Some(definitions::index_definition(object)),
    }
}

fn constraintdef(snapshot: &SystemSnapshot, args: &[Cell]) -> Option<String> {
    let oid = as_oid(args.first())?;
    let object = snapshot.catalog.objects().find(|object| has_key(object) && oids::constraint(object.id) == oid)?;
    definitions::constraint_definition(object)
}

fn viewdef(snapshot: &SystemSnapshot, args: &[Cell]) -> Option<String> {
    definitions::view_definition(object_of(snapshot, args.first())?)
}

fn function_arguments(snapshot: &SystemSnapshot, args: &[Cell]) -> Option<String> {
    let oid = as_oid(args.first())?;
    snapshot.functions.iter().find(|f| oids::function(&f.name) == oid).map(|f| f.arguments.clone())
}

fn description(snapshot: &SystemSnapshot, oid: Option<u32>) -> Option<String> {
    let oid = oid?;
    if let Some(object) = snapshot.catalog.entry(ObjectId(oid)) {
        return object.comment.clone();
    }
    snapshot.functions.iter().find(|f| oids::function(&f.name) == oid).and_then(|f| f.description.clone())
}

fn column_description(snapshot: &SystemSnapshot, args: &[Cell]) -> Option<String> {
    let object = snapshot.catalog.get(ObjectId(as_oid(args.first())?))?;
    let place = usize::try_from(as_int(args.get(1))?).ok()?.checked_sub(1)?;
    object.column_comments.get(&place).cloned()
}

fn size(snapshot: &SystemSnapshot, args: &[Cell]) -> RelationSize {
    class_oid(snapshot, args.first()).and_then(|oid| snapshot.sizes.get(&oid).copied()).unwrap_or_default()
}

/// A relation by name, or by the digits of its OID.
fn regclass(snapshot: &SystemSnapshot, text: &str) -> Option<u32> {
    if let Ok(oid) = text.trim().parse() {
        return Some(oid);
    }
    let (schema, name) = split_name(text);
    class_named(snapshot, schema.as_deref(), &name)
}

fn regtype(snapshot: &SystemSnapshot, text: &str) -> Option<u32> {
    type_named(&snapshot.catalog, text)
}

fn namespace(snapshot: &SystemSnapshot, text: &str) -> Option<u32> {
    let (_, name) = split_name(text);
    schemas(snapshot).into_iter().find(|(_, schema)| *schema == name).map(|(oid, _)| oid)
}

fn procedure(snapshot: &SystemSnapshot, text: &str) -> Option<u32> {
    let (_, name) = split_name(text);
    snapshot.functions.iter().any(|f| f.name == name).then(|| oids::function(&name))
}

fn role(snapshot: &SystemSnapshot, text: &str) -> Option<u32> {
    snapshot.role_named(&split_name(text).1).map(|role| role.0)
}

type Find = fn(&SystemSnapshot, &str) -> Option<u32>;

fn by_name(snapshot: &SystemSnapshot, args: &[Cell], find: Find, (state, what): (SqlState, &str)) -> SqlResult<Cell> {
    if let Some(oid) = as_oid(args.first()) {
        return Ok(oid.into());
    }
    let name = text_at(args, 0).unwrap_or_default();
    // What Postgres prints for OID 0.
    if name == "-" {
        return Ok(0u32.into());
    }
    find(snapshot, &name).map(Cell::from).ok_or_else(|| SqlError::new(state, format!("{what} \"{name}\" does not exist")))
}

type Name = fn(&SystemSnapshot, u32) -> Option<String>;

/// What an OID is shown as: its name, else its digits; zero as `-`. A name stays as it is.
fn out(snapshot: &SystemSnapshot, args: &[Cell], name: Name) -> Cell {
    match as_oid(args.first()) {
        Some(oid) => name_or_digits(snapshot, oid, name).into(),
        None => text_at(args, 0).into(),
    }
}

fn name_or_digits(snapshot: &SystemSnapshot, oid: u32, name: Name) -> String {
    if oid == 0 { "-".to_string() } else { name(snapshot, oid).unwrap_or_else(|| oid.to_string()) }
}

/// What is sent of a value that is looked up by its name, or is an OID: both, as `Kind::Named` has them.
fn shown(snapshot: &SystemSnapshot, args: &[Cell], (find, name): (Find, Name), missing: (SqlState, &str)) -> SqlResult<Cell> {
    match by_name(snapshot, args, find, missing)? {
        Cell::Int(oid) => {
            let oid = oid as u32;
            Ok(format!("{oid:010} {}", name_or_digits(snapshot, oid, name)).into())
        }
        other => Ok(other),
    }
}

fn class_text(snapshot: &SystemSnapshot, oid: u32) -> Option<String> {
    name_of_class(snapshot, oid).map(|(schema, name)| shown_in_path(snapshot, &schema, &name))
}

fn type_text(snapshot: &SystemSnapshot, oid: u32) -> Option<String> {
    Some(format_type(&snapshot.catalog, oid, None))
}

fn namespace_text(snapshot: &SystemSnapshot, oid: u32) -> Option<String> {
    schemas(snapshot).into_iter().find(|(found, _)| *found == oid).map(|(_, name)| quoted(&name))
}

fn procedure_text(snapshot: &SystemSnapshot, oid: u32) -> Option<String> {
    snapshot.functions.iter().find(|f| oids::function(&f.name) == oid).map(|f| f.name.clone())
}

fn role_text(snapshot: &SystemSnapshot, oid: u32) -> Option<String> {
    snapshot.security().role(RoleId(oid)).map(|role| quoted(&snapshot.role_name(role.id)))
}

fn shown_in_path(snapshot: &SystemSnapshot, schema: &str, name: &str) -> String {
    if snapshot.search_path.iter().any(|path| path == schema) && class_named(snapshot, None, name).is_some() {
        return quoted(name);
    }
    match schema {
        "public" if !snapshot.search_path.iter().any(|path| path == "public") => format!("public.{}", quoted(name)),
        _ => shown_name(schema, name),
    }
}
