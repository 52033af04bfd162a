use super::EnumType;
use crate::datetime::SessionTimeZone;
use crate::{CarriedType, ObjectId, SqlState, SqlType};
use std::sync::Arc;

fn mood() -> EnumType {
    let labels = ["sad", "ok", "very [\"happy\"]"].map(str::to_string).to_vec();
    EnumType { id: ObjectId(16_384), array: ObjectId(16_385), schema: "public".into(), name: "mood".into(), labels }
}

fn carried() -> CarriedType {
    CarriedType::Enum(Arc::new(mood()))
}

#[test]
fn order_keys_go_by_the_labels_places() {
    let keys: Vec<_> = mood().labels.iter().map(|label| carried().order_key(label).unwrap()).collect();
    assert!(keys.is_sorted());
    assert!("sad" > "ok", "texts go the other way");
}

#[test]
fn what_is_no_label_is_refused() {
    let error = carried().canonical("Sad", &SessionTimeZone::UTC).unwrap_err();
    assert_eq!(error.state, SqlState::InvalidTextRepresentation);
    assert_eq!(error.message, "invalid input value for enum mood: \"Sad\"");
}

#[test]
fn a_field_tells_the_whole_type() {
    let of = SqlType::Carried(carried());
    for sql_type in [of.clone(), SqlType::Array(Box::new(of))] {
        assert_eq!(SqlType::from_field(&sql_type.to_field("m", true)).unwrap(), sql_type);
        assert_eq!(SqlType::parse(&sql_type.spelled()), Some(sql_type));
    }
}

#[test]
fn names_are_shown_as_they_are_written() {
    let named = |schema: &str, name: &str| EnumType { schema: schema.into(), name: name.into(), ..mood() }.to_string();
    assert_eq!(named("public", "mood"), "mood");
    assert_eq!(named("s", "mood"), "s.mood");
    assert_eq!(named("S", "my \"mood\""), "\"S\".\"my \"\"mood\"\"\"");
}

#[test]
fn a_stored_column_keeps_the_type() {
    let column = crate::Column::new("m", SqlType::Carried(carried()));
    let text = serde_json::to_string(&column).unwrap();
    assert_eq!(serde_json::from_str::<crate::Column>(&text).unwrap(), column);
}
