//! The relations of `pg_catalog`, by what they are about.

pub mod access;
pub mod classes;
pub mod empty;
pub mod enums;
pub mod security;
pub mod server;
pub mod types;
pub mod views;

use super::oids;
use super::relation::{Relation, SystemColumn};
use super::snapshot::SystemSnapshot;
use thalweg_catalog::{CatalogObject, ObjectKind};

/// All relations of `pg_catalog`.
pub static RELATIONS: &[&[Relation]] = &[
    classes::RELATIONS,
    types::RELATIONS,
    enums::RELATIONS,
    server::RELATIONS,
    security::RELATIONS,
    access::RELATIONS,
    views::RELATIONS,
    empty::RELATIONS,
];

/// `pg_class.relkind` of an object.
pub fn relkind(kind: ObjectKind) -> char {
    match kind {
        ObjectKind::Table => 'r',
        ObjectKind::MaterializedView => 'm',
        ObjectKind::View => 'v',
        // In Postgres it is that of a row type that is no table's.
        ObjectKind::Type => 'c',
        // What comes from outside and what goes there: both are foreign to the server.
        ObjectKind::Source | ObjectKind::Sink => 'f',
    }
}

/// The name of an object's key, as an index and as a constraint.
pub fn key_name(object: &CatalogObject) -> String {
    format!("{}_pkey", object.name)
}

/// Whether an object has a key that is shown as an index.
pub fn has_key(object: &CatalogObject) -> bool {
    object.is_kept() && !object.key().is_empty()
}

/// A column of any relation, as `pg_attribute` has it.
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// The OID of its type.
    pub type_oid: u32,
    /// `atttypmod`.
    pub modifier: i32,
    /// Whether it can't be NULL.
    pub not_null: bool,
    /// The text of its default.
    pub default: Option<String>,
}

/// A relation of any kind, as `pg_class` has it.
pub struct Class<'a> {
    /// Its OID.
    pub oid: u32,
    /// Its schema's name.
    pub schema: &'a str,
    /// Its name.
    pub name: String,
    /// `relkind`.
    pub kind: char,
    /// Its columns.
    pub attributes: Vec<Attribute>,
    /// The object, for those that users made.
    pub object: Option<&'a CatalogObject>,
}

fn attributes_of_system(columns: Vec<SystemColumn>) -> Vec<Attribute> {
    let attribute = |column: SystemColumn| Attribute {
        name: column.name.to_string(),
        type_oid: column.kind.type_oid(),
        modifier: -1,
        not_null: false,
        default: None,
    };
    columns.into_iter().map(attribute).collect()
}

/// The attributes of declared columns.
pub fn attributes_of(columns: &[thalweg_catalog::Column]) -> Vec<Attribute> {
    let attribute = |column: &thalweg_catalog::Column| Attribute {
        name: column.name.clone(),
        type_oid: column.sql_type.oid(),
        modifier: column.sql_type.typmod(),
        not_null: !column.nullable,
        default: column.default.clone(),
    };
    columns.iter().map(attribute).collect()
}

/// The attributes of an object's columns. Those of a view are known to be never NULL at times, but said to be only of what is
/// declared so: as in Postgres.
fn attributes_of_object(object: &CatalogObject) -> Vec<Attribute> {
    let is_declared = matches!(object.kind(), ObjectKind::Table | ObjectKind::Source);
    let declared = |attribute: Attribute| Attribute { not_null: attribute.not_null && is_declared, ..attribute };
    attributes_of(&object.columns).into_iter().map(declared).collect()
}

/// The OID of a system relation outside `pg_catalog`, by its place in the snapshot.
pub fn system_oid(place: usize) -> u32 {
    14_000 + place as u32
}

/// All relations without indexes: objects, then system relations.
pub fn classes(snapshot: &SystemSnapshot) -> Vec<Class<'_>> {
    let objects = snapshot.catalog.objects().map(|object| Class {
        oid: object.id.0,
        schema: &object.schema,
        name: object.name.clone(),
        kind: relkind(object.kind()),
        attributes: attributes_of_object(object),
        object: Some(object),
    });
    let system = |schema: &'static str, relations: &'static [&'static [Relation]]| {
        relations.iter().copied().flatten().map(move |relation| Class {
            oid: relation.oid,
            schema,
            name: relation.name.to_string(),
            kind: if relation.is_view { 'v' } else { 'r' },
            attributes: attributes_of_system(relation.columns()),
            object: None,
        })
    };
    let others = snapshot.relations.iter().enumerate().map(|(place, relation)| Class {
        oid: system_oid(place),
        schema: &relation.schema,
        name: relation.name.clone(),
        kind: 'v',
        attributes: attributes_of(&relation.columns),
        object: None,
    });
    objects
        .chain(system("pg_catalog", RELATIONS))
        .chain(system("information_schema", crate::information_schema::RELATIONS))
        .chain(others)
        .collect()
}

/// The OID and the name of each schema.
pub fn schemas(snapshot: &SystemSnapshot) -> Vec<(u32, String)> {
    let mut names: Vec<&str> = vec!["pg_catalog", "information_schema", "pg_toast"];
    names.extend(snapshot.catalog.schemas());
    names.extend(snapshot.relations.iter().map(|relation| relation.schema.as_str()));
    names.push("thalweg_state");
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(*name));
    names.into_iter().map(|name| (oids::schema(name), name.to_string())).collect()
}

/// The schema and the name of the relation or index of this OID.
pub fn name_of_class(snapshot: &SystemSnapshot, oid: u32) -> Option<(String, String)> {
    if let Some(object) = snapshot.catalog.get(thalweg_catalog::ObjectId(oid)) {
        return Some((object.schema.clone(), object.name.clone()));
    }
    for (schema, relations) in [("pg_catalog", RELATIONS), ("information_schema", crate::information_schema::RELATIONS)] {
        if let Some(relation) = relations.iter().copied().flatten().find(|relation| relation.oid == oid) {
            return Some((schema.to_string(), relation.name.to_string()));
        }
    }
    if let Some(place) = oid.checked_sub(system_oid(0)).and_then(|place| snapshot.relations.get(place as usize)) {
        return Some((place.schema.clone(), place.name.clone()));
    }
    let keyed = snapshot.catalog.objects().find(|object| has_key(object) && oids::index(object.id) == oid)?;
    Some((keyed.schema.clone(), key_name(keyed)))
}

/// The OID of the relation or index of this name, by the search path if it has no schema.
pub fn class_named(snapshot: &SystemSnapshot, schema: Option<&str>, name: &str) -> Option<u32> {
    let path = || std::iter::once("pg_catalog").chain(snapshot.search_path.iter().map(String::as_str));
    match schema {
        Some(schema) => class_in(snapshot, schema, name),
        None => path().find_map(|schema| class_in(snapshot, schema, name)),
    }
}

fn class_in(snapshot: &SystemSnapshot, schema: &str, name: &str) -> Option<u32> {
    let system = |relations: &'static [&'static [Relation]]| {
        relations.iter().copied().flatten().find(|relation| relation.name == name).map(|relation| relation.oid)
    };
    match schema {
        "pg_catalog" => system(RELATIONS),
        "information_schema" => system(crate::information_schema::RELATIONS),
        _ => snapshot.catalog.find(schema, name).map(|object| object.id.0).or_else(|| {
            let place = snapshot.relations.iter().position(|r| r.schema == schema && r.name == name);
            place.map(system_oid).or_else(|| {
                let keyed = snapshot.catalog.objects().find(|o| o.schema == schema && has_key(o) && key_name(o) == name)?;
                Some(oids::index(keyed.id))
            })
        }),
    }
}
