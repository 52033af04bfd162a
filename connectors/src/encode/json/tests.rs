use super::*;
use crate::decode::{Decoder, Format};

/// Encodes what was decoded; a row in must come out again.
fn round_trip(columns: &[Column], record: &str) -> String {
    let all: Vec<usize> = (0..columns.len()).collect();
    let mut decoder = Decoder::new(&Format::Json, columns, &all).unwrap();
    decoder.push(record.as_bytes(), "here");
    let (batch, errors) = decoder.finish().unwrap();
    assert!(errors.is_empty(), "{errors:?}");
    let mut out = vec![];
    JsonRows::new(&batch, columns, &all).unwrap().write(0, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_row_of_all_types_comes_out_as_it_went_in() {
    let record = SqlType::Record(vec![("x".into(), SqlType::Int2), ("y".into(), SqlType::Uuid)]);
    let mut columns: Vec<Column> = [
        ("int2", "int2"),
        ("int4", "int4"),
        ("int8", "int8"),
        ("f4", "real"),
        ("f8", "float8"),
        ("num", "numeric(20,3)"),
        ("free", "numeric"),
        ("yes", "bool"),
        ("text", "text"),
        ("json", "jsonb"),
        ("bytes", "bytea"),
        ("date", "date"),
        ("time", "time"),
        ("ts", "timestamp"),
        ("tz", "timestamptz"),
        ("none", "text"),
        ("list", "int8[]"),
    ]
    .into_iter()
    .map(|(name, t)| Column::new(name, SqlType::parse(t).unwrap()))
    .collect();
    columns.push(Column::new("a \"key\"", SqlType::Array(Box::new(record))));
    let line = concat!(
        r#"{"int2":-3,"int4":2147483647,"int8":9223372036854775807,"f4":0.1,"f8":-1.5,"num":12345678901234567.890,"free":0.25,"#,
        r#""yes":true,"text":"a\"b\\c\nd\u0001ä","json":{"k": [1, "x"]},"bytes":"\\x00ff","date":"2024-02-29","time":"01:02:03.5","#,
        r#""ts":"2024-01-31T23:59:00.000001","tz":"2024-01-31T23:59:00Z","none":null,"list":[1,null,3],"#,
        r#""a \"key\"":[{"x":1,"y":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},null]}"#
    );
    assert_eq!(round_trip(&columns, line), line);
}

#[test]
fn floats_that_json_has_no_numbers_for_are_strings() {
    let columns = [Column::new("f", SqlType::Float8)];
    assert_eq!(round_trip(&columns, r#"{"f":"NaN"}"#), r#"{"f":"NaN"}"#);
    assert_eq!(round_trip(&columns, r#"{"f":"-Infinity"}"#), r#"{"f":"-Infinity"}"#);
}

#[test]
fn json_values_stay_on_one_line_and_bad_ones_become_strings() {
    let mut out = vec![];
    write_json(&mut out, "{\"a\":\n 1}\n");
    write_json(&mut out, "not json");
    assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":  1}\"not json\"");
}

#[test]
fn only_the_selected_columns_are_written_in_their_order() {
    let columns = [Column::new("a", SqlType::Int8), Column::new("b", SqlType::Text)];
    let batch = RecordBatch::try_new(
        thalweg_catalog::schema_of(&columns),
        vec![std::sync::Arc::new(Int64Array::from(vec![1])), std::sync::Arc::new(StringArray::from(vec!["x"]))],
    )
    .unwrap();
    let mut out = vec![];
    JsonRows::new(&batch, &columns, &[1, 0]).unwrap().write(0, &mut out);
    assert_eq!(out, br#"{"b":"x","a":1}"#);
    assert!(JsonRows::new(&batch, &columns, &[2]).is_err());
}
