use super::with_label;
use crate::statement::{AddLabel, Name, Word};
use std::collections::BTreeMap;
use thalweg_catalog::{CatalogObject, EnumLabel, ObjectDefinition, ObjectId, SqlState};

fn mood() -> CatalogObject {
    let label = |(label, place): (&str, u16)| EnumLabel {
        id: ObjectId(16_385 + u32::from(place)),
        label: label.to_string(),
        sort_order: f32::from(place),
    };
    CatalogObject {
        id: ObjectId(16_384),
        schema: "public".into(),
        name: "mood".into(),
        columns: vec![],
        definition: ObjectDefinition::Enum { array: ObjectId(16_385), labels: [("sad", 1), ("ok", 2)].map(label).to_vec() },
        sql: String::new(),
        depends_on: vec![],
        comment: None,
        column_comments: BTreeMap::new(),
        created_ms: 0,
    }
}

fn add(label: &str, neighbor: Option<&str>, before: bool) -> AddLabel {
    let word = |text: &str| Word { value: text.into(), position: 1 };
    let name = Name { schema: None, name: "mood".into(), position: 1 };
    AddLabel { name, label: word(label), neighbor: neighbor.map(word), before, if_not_exists: false }
}

fn labels(of: &CatalogObject) -> Vec<(String, f32)> {
    let ObjectDefinition::Enum { labels, .. } = &of.definition else { return vec![] };
    labels.iter().map(|known| (known.label.clone(), known.sort_order)).collect()
}

fn added(mut to: CatalogObject, add: &AddLabel) -> CatalogObject {
    let id = ObjectId(to.last_id().0 + 1);
    let wanted = with_label(&to, add, id).expect("a label that can be added").expect("a new label");
    let ObjectDefinition::Enum { labels, .. } = &mut to.definition else { return to };
    *labels = wanted;
    to
}

#[test]
fn a_label_goes_where_it_is_said_to() {
    let of = |text: &str, order: f32| (text.to_string(), order);
    assert_eq!(labels(&added(mood(), &add("new", None, false))), [of("sad", 1.0), of("ok", 2.0), of("new", 3.0)]);
    assert_eq!(labels(&added(mood(), &add("new", Some("ok"), true))), [of("sad", 1.0), of("new", 1.5), of("ok", 2.0)]);
    assert_eq!(labels(&added(mood(), &add("new", Some("sad"), true))), [of("new", 0.0), of("sad", 1.0), of("ok", 2.0)]);
    assert_eq!(labels(&added(mood(), &add("new", Some("ok"), false))), [of("sad", 1.0), of("ok", 2.0), of("new", 3.0)]);
}

#[test]
fn orders_grow_however_many_labels_go_between_two() {
    let mut object = mood();
    for number in 0..60 {
        object = added(object, &add(&format!("l{number}"), Some("ok"), true));
    }
    assert!(labels(&object).is_sorted_by(|left, right| left.1 < right.1));
    assert_eq!(labels(&object).last().map(|last| last.0.as_str()), Some("ok"));
}

#[test]
fn a_label_is_there_once() {
    let error = with_label(&mood(), &add("ok", None, false), ObjectId(17_000)).unwrap_err();
    assert_eq!(error.state, SqlState::DuplicateObject);
    let fine = AddLabel { if_not_exists: true, ..add("ok", None, false) };
    assert_eq!(with_label(&mood(), &fine, ObjectId(17_000)).unwrap(), None);
}

#[test]
fn a_neighbor_must_be_a_label() {
    let error = with_label(&mood(), &add("new", Some("bad"), false), ObjectId(17_000)).unwrap_err();
    assert_eq!((error.state, error.message.as_str()), (SqlState::InvalidParameterValue, "\"bad\" is not an existing enum label"));
}
