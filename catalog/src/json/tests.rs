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
