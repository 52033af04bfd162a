use super::*;

#[test]
fn a_position_reads_back_as_it_was_written() {
    for position in [
        KafkaPosition { next: 0, end: None },
        KafkaPosition { next: i64::MAX, end: None },
        KafkaPosition { next: 3, end: Some(7) },
        KafkaPosition { next: 7, end: Some(7) },
    ] {
        assert_eq!(KafkaPosition::parse(&position.to_string()), Ok(position));
    }
    assert_eq!(KafkaPosition { next: 3, end: Some(7) }.to_string(), "3/7");
}

#[test]
fn other_text_is_refused() {
    for text in ["", "x", "-1", "1/", "/1", "1/x", "1/-1", "1/2/3", "9223372036854775808", " 1"] {
        assert!(KafkaPosition::parse(text).is_err(), "{text}");
    }
}

#[test]
fn only_a_position_with_an_end_can_be_at_it() {
    assert!(!KafkaPosition { next: 7, end: None }.is_at_end());
    assert!(!KafkaPosition { next: 6, end: Some(7) }.is_at_end());
    assert!(KafkaPosition { next: 7, end: Some(7) }.is_at_end());
}
