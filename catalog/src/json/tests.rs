use super::*;

#[test]
fn jsonb_keeps_each_key_once_and_the_shortest_first() {
    let text = r#" {"bb":1, "a" : [true,null , {}], "b":"x", "bb": 2} "#;
    assert_eq!(canonical(text).unwrap(), r#"{"a": [true, null, {}], "b": "x", "bb": 2}"#);
}

#[test]
fn numbers_are_written_out_with_their_places() {
    for (given, kept) in
        [("1.50", "1.50"), ("1e2", "100"), ("1.5e1", "15"), ("1.50e1", "15.0"), ("-0", "0"), ("12e-4", "0.0012"), ("0.0", "0.0")]
    {
        assert_eq!(canonical(given).unwrap(), kept, "{given}");
    }
    assert_eq!(canonical("1e200000").unwrap_err().state, SqlState::NumericValueOutOfRange);
}

#[test]
fn escapes_become_what_they_stand_for() {
    assert_eq!(canonical(r#""\u00e9\ud83d\ude00\/\n\u0001""#).unwrap(), "\"é😀/\\n\\u0001\"");
    assert_eq!(canonical(r#""\u0000""#).unwrap_err().state, SqlState::UntranslatableCharacter);
}

#[test]
fn what_is_wrong_is_said_as_postgres_says_it() {
    for (text, detail) in [
        ("", "The input string ended unexpectedly."),
        ("{\"a\": }", "Expected JSON value, but found \"}\"."),
        ("{\"a\" 1}", "Expected \":\", but found \"1\"."),
        ("[1 2]", "Expected \",\" or \"]\", but found \"2\"."),
        ("[1,", "The input string ended unexpectedly."),
        ("{1}", "Expected string or \"}\", but found \"1\"."),
        ("1 2", "Expected end of input, but found \"2\"."),
        ("abc", "Token \"abc\" is invalid."),
        ("01", "Token \"01\" is invalid."),
        ("\"\\x\"", "Escape sequence \"\\x\" is invalid."),
    ] {
        let error = check(text).unwrap_err();
        assert_eq!((error.state, error.detail.as_deref()), (SqlState::InvalidTextRepresentation, Some(detail)), "{text}");
    }
}

#[test]
fn nesting_has_an_end() {
    assert!(check(&"[".repeat(2000)).is_err());
    assert!(check(&format!("{}{}", "[".repeat(900), "]".repeat(900))).is_ok());
}

#[test]
fn parts_are_found_as_they_are_written() {
    let text = r#" {"a": 1, "b" : [ {"c":"x, ]\"y"} , null,-2.5e3 ], "a": {"k" : true}, "é\n": "", "e": []} "#;
    let member = |key: &str| get::member(text, key).unwrap();
    assert_eq!(member("a"), Some(r#"{"k" : true}"#), "the last of a key's values");
    assert_eq!(member("é\n"), Some("\"\""));
    assert_eq!(member("b "), None);
    let list = member("b").unwrap();
    assert_eq!(list, r#"[ {"c":"x, ]\"y"} , null,-2.5e3 ]"#);
    let element = |place| get::element(list, place);
    assert_eq!(
        [element(0), element(1), element(2), element(3)],
        [Some(r#"{"c":"x, ]\"y"}"#), Some("null"), Some("-2.5e3"), None]
    );
    assert_eq!([element(-1), element(-3), element(-4)], [Some("-2.5e3"), element(0), None]);
    assert_eq!((get::length(list), get::length(member("e").unwrap()), get::length(text)), (Some(3), Some(0), None));
    assert_eq!(get::element(text, 0), None);
    assert_eq!(get::member(list, "c").unwrap(), None);
}

#[test]
fn paths_go_through_objects_and_arrays() {
    let text = r#"{"a": [10, {"b": {"0": "x"}}]}"#;
    let at = |path: &[&str]| get::at_path(text, path.iter().copied()).unwrap();
    assert_eq!(at(&["a", "1", "b", "0"]), Some("\"x\""));
    assert_eq!(at(&["a", "-2"]), Some("10"));
    assert_eq!(at(&["a", "1x"]), None);
    assert_eq!(at(&["a", "0", "b"]), None);
    assert_eq!(at(&[]), Some(text));
}

#[test]
fn values_become_text() {
    let text = |value: &str| get::as_text(value).unwrap().map(|text| text.to_string());
    assert_eq!(text(r#""a\u00e9\"b""#).as_deref(), Some("aé\"b"));
    assert_eq!(text("null"), None);
    assert_eq!(text("[1, null]").as_deref(), Some("[1, null]"));
    assert_eq!(get::as_text(r#""\u0000""#).unwrap_err().state, SqlState::UntranslatableCharacter);
}

#[test]
fn what_is_no_json_has_parts_or_none_and_nothing_worse() {
    let texts = ["", "{", "[", "\"", "{\"a", "{\"a\\", "[\"é\\", "{é:ü}", "[é", "{\"a\":", "}{", "[[[", "{,:,", "é", "\"\\é"];
    for text in texts {
        for key in ["a", "é", ""] {
            let found = get::member(text, key);
            assert!(found.is_err() || found.is_ok_and(|found| found.is_none_or(|found| text.contains(found))));
        }
        assert!((-2..3).filter_map(|place| get::element(text, place)).all(|found| text.contains(found)));
        let shown = get::as_text(text);
        assert!(shown.is_err() || shown.is_ok());
    }
}

#[test]
fn d19_numbers_that_are_long_together_are_refused() {
    assert!(canonical(&format!("[{}1]", "1e131071,".repeat(10))).is_ok());
    assert_eq!(canonical(&format!("[{}1]", "1e131071,".repeat(2100))).unwrap_err().state, SqlState::ProgramLimitExceeded);
}
