use super::{labels, positions};
use arrow::array::{Int32Array, StringArray};
use thalweg_catalog::{EnumType, ObjectId, SqlState};

fn mood() -> EnumType {
    let labels = ["sad", "ok", "happy"].map(str::to_string).to_vec();
    EnumType { id: ObjectId(16_384), array: ObjectId(16_385), schema: "public".into(), name: "mood".into(), labels }
}

#[test]
fn labels_and_their_places_go_both_ways() {
    let values = StringArray::from(vec![Some("ok"), None, Some("sad")]);
    let places = positions(&values, &mood()).unwrap();
    assert_eq!(places, Int32Array::from(vec![Some(1), None, Some(0)]));
    assert_eq!(labels(&places, &mood()).unwrap(), values);
}

#[test]
fn what_is_no_label_has_no_place() {
    let error = positions(&StringArray::from(vec!["glad"]), &mood()).unwrap_err();
    assert_eq!(error.state, SqlState::InvalidTextRepresentation);
}
