use super::resolve_types;
use crate::parse_query;
use std::collections::BTreeMap;
use thalweg_catalog::catalog::{CatalogChange, CatalogTransaction};
use thalweg_catalog::{Catalog, CatalogObject, EnumLabel, ObjectDefinition, ObjectId, SqlResult};

/// An enum type of one label. Its arrays and the label have the ids after its own.
fn enum_type(id: u32, schema: &str, name: &str) -> CatalogChange {
    let labels = vec![EnumLabel { id: ObjectId(id + 2), label: "ok".into(), sort_order: 1.0 }];
    CatalogChange::Create(Box::new(CatalogObject {
        id: ObjectId(id),
        schema: schema.into(),
        name: name.into(),
        columns: vec![],
        definition: ObjectDefinition::Enum { array: ObjectId(id + 1), labels },
        sql: String::new(),
        depends_on: vec![],
        comment: None,
        column_comments: BTreeMap::new(),
        created_ms: 0,
    }))
}

/// `public.mood` is 16384, `s.mood` 16387, `s.text` 16390.
fn catalog() -> Catalog {
    let changes = vec![
        CatalogChange::CreateSchema("s".into()),
        enum_type(16_384, "public", "mood"),
        enum_type(16_387, "s", "mood"),
        enum_type(16_390, "s", "text"),
    ];
    Catalog::new().apply(&CatalogTransaction { version: 1, changes }).expect("a catalog")
}

/// The ids of the types that are found in a query, by this path.
fn found(sql: &str, path: &[&str]) -> SqlResult<Vec<u32>> {
    let mut query = parse_query(sql)?;
    let path: Vec<String> = path.iter().map(|schema| (*schema).to_string()).collect();
    let found = resolve_types(&mut *query, &catalog(), &path)?;
    // What is resolved stays what it is.
    assert_eq!(resolve_types(&mut *query, &catalog(), &[])?, found);
    Ok(found.into_iter().map(|id| id.0).collect())
}

#[test]
fn types_are_found_by_their_schema_or_by_the_path() {
    assert_eq!(found("SELECT 'ok'::mood", &["public", "s"]), Ok(vec![16_384]));
    assert_eq!(found("SELECT CAST(x AS mood[]) FROM (SELECT mood 'ok' AS x) y", &["s", "public"]), Ok(vec![16_387]));
    assert_eq!(found("SELECT 1 WHERE 'ok' = 'ok'::public.mood", &["s"]), Ok(vec![16_384]));
    assert_eq!(found("SELECT 'ok'::mood, 1::int", &[]), Ok(vec![]));
}

#[test]
fn types_of_postgres_come_before_those_of_users() {
    assert_eq!(found("SELECT 'ok'::text, 'ok'::inet", &["s"]), Ok(vec![]));
    assert_eq!(found("SELECT 'ok'::s.text", &["public"]), Ok(vec![16_390]));
}
