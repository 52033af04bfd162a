use super::*;
use crate::object::{Emit, EnumLabel, ObjectDefinition};

fn view(id: u32, name: &str, depends_on: &[u32]) -> CatalogChange {
    CatalogChange::Create(Box::new(CatalogObject {
        id: ObjectId(id),
        schema: DEFAULT_SCHEMA.into(),
        name: name.into(),
        columns: vec![],
        definition: ObjectDefinition::MaterializedView { query: String::new(), emit: Emit::Immediate, key: vec![] },
        sql: String::new(),
        depends_on: depends_on.iter().map(|d| ObjectId(*d)).collect(),
        comment: None,
        column_comments: std::collections::BTreeMap::new(),
        created_ms: 0,
    }))
}

fn after(catalog: &Catalog, changes: Vec<CatalogChange>) -> SqlResult<Catalog> {
    catalog.apply(&CatalogTransaction { version: catalog.version() + 1, changes })
}

#[test]
fn d20_a_drop_that_leaves_dependents_is_refused_and_names_one() {
    let catalog = after(&Catalog::new(), vec![view(16384, "a", &[]), view(16385, "b", &[16384])]).unwrap();
    let error = after(&catalog, vec![CatalogChange::Drop(ObjectId(16384))]).unwrap_err();
    assert_eq!(error.state, SqlState::DependentObjectsStillExist);
    assert!(error.detail.unwrap().contains("\"b\""));
    let empty = after(&catalog, vec![CatalogChange::Drop(ObjectId(16385)), CatalogChange::Drop(ObjectId(16384))]).unwrap();
    assert_eq!(empty.objects().count(), 0);
}

#[test]
fn d8_an_id_is_never_given_out_twice() {
    let catalog = after(&Catalog::new(), vec![view(16384, "a", &[])]).unwrap();
    let catalog = after(&catalog, vec![CatalogChange::Drop(ObjectId(16384))]).unwrap();
    assert_eq!(catalog.next_id(), ObjectId(16385));
    assert!(after(&catalog, vec![view(16384, "a", &[])]).is_err());
    let restored = Catalog::from_snapshot(catalog.snapshot());
    assert_eq!(restored.next_id(), ObjectId(16385));
}

#[test]
fn dependents_are_found_through_others_last_created_first() {
    let changes = vec![view(16384, "a", &[]), view(16385, "b", &[16384]), view(16386, "c", &[16385]), view(16387, "d", &[])];
    let catalog = after(&Catalog::new(), changes).unwrap();
    let names: Vec<_> = catalog.dependents_deep(ObjectId(16384)).iter().map(|o| o.name.clone()).collect();
    assert_eq!(names, ["c", "b"]);
}

#[test]
fn a_renamed_object_leaves_its_old_name_free() {
    let catalog = after(&Catalog::new(), vec![view(16384, "a", &[])]).unwrap();
    let renamed = after(&catalog, vec![CatalogChange::Rename { id: ObjectId(16384), name: "z".into() }]).unwrap();
    assert!(renamed.find(DEFAULT_SCHEMA, "a").is_none());
    assert_eq!(renamed.find(DEFAULT_SCHEMA, "z").unwrap().id, ObjectId(16384));
    let hint = renamed.resolve(DEFAULT_SCHEMA, "x").unwrap_err().hint;
    assert_eq!(hint.as_deref(), Some("Did you mean \"z\"?"));
}

fn label(id: u32, text: &str) -> EnumLabel {
    EnumLabel { id: ObjectId(id), label: text.into(), sort_order: 1.0 }
}

/// A type with one label; its arrays and the label have the two ids after its own.
fn enum_type(id: u32, name: &str) -> CatalogChange {
    let CatalogChange::Create(mut object) = view(id, name, &[]) else { panic!("a view is created") };
    object.definition = ObjectDefinition::Enum { array: ObjectId(id + 1), labels: vec![label(id + 2, "ok")] };
    CatalogChange::Create(object)
}

#[test]
fn a_type_is_no_relation_but_has_a_name_among_them() {
    let catalog = after(&Catalog::new(), vec![enum_type(16384, "mood")]).unwrap();
    assert_eq!(catalog.next_id(), ObjectId(16387));
    assert_eq!((catalog.objects().count(), catalog.types().count(), catalog.entries().count()), (0, 1, 1));
    assert!(catalog.find(DEFAULT_SCHEMA, "mood").is_none() && catalog.find_type(DEFAULT_SCHEMA, "mood").is_some());
    assert_eq!(catalog.resolve(DEFAULT_SCHEMA, "mood").unwrap_err().state, SqlState::UndefinedTable);
    assert_eq!(after(&catalog, vec![view(16387, "mood", &[])]).unwrap_err().state, SqlState::DuplicateObject);
    let of_arrays = catalog.type_of_oid(16385).map(|found| found.to_string());
    assert_eq!(of_arrays.as_deref(), Some("mood[]"));
}

#[test]
fn labels_change_only_while_nothing_uses_the_type() {
    let catalog = after(&Catalog::new(), vec![enum_type(16384, "mood")]).unwrap();
    let changed = CatalogChange::SetLabels { id: ObjectId(16384), labels: vec![label(16386, "ok"), label(16387, "glad")] };
    let next = after(&catalog, vec![changed.clone()]).unwrap();
    assert_eq!(next.next_id(), ObjectId(16388));
    assert_eq!(next.entry(ObjectId(16384)).and_then(|object| object.enum_type()).unwrap().labels, ["ok", "glad"]);
    let used = after(&catalog, vec![view(16387, "v", &[16384])]).unwrap();
    assert_eq!(after(&used, vec![changed]).unwrap_err().state, SqlState::FeatureNotSupported);
    assert_eq!(after(&used, vec![CatalogChange::Drop(ObjectId(16384))]).unwrap_err().state, SqlState::DependentObjectsStillExist);
}
