use super::*;

#[test]
fn finds_what_a_plain_search_finds_at_every_place_and_length() {
    for length in 0..70 {
        for place in 0..=length {
            let mut bytes = vec![b'a'; length];
            if place < length {
                bytes[place] = b'\n';
            }
            let expected = (place < length).then_some(place);
            assert_eq!(find_byte(&bytes, b'\n'), expected);
        }
    }
}

#[test]
fn a_string_stops_at_quotes_escapes_controls_and_the_end() {
    for stop in [b'"', b'\\', 0u8, 0x1f] {
        for length in 0..50 {
            for place in 0..=length {
                let mut bytes = vec![b'x'; length];
                if place < length {
                    bytes[place] = stop;
                }
                let mut wide_text = false;
                assert_eq!(string_stop(&bytes, 0, &mut wide_text), place);
                assert!(!wide_text);
            }
        }
    }
}

#[test]
fn text_beyond_ascii_is_seen_only_before_the_stop() {
    let mut wide_text = false;
    assert_eq!(string_stop("abc\"ü".as_bytes(), 0, &mut wide_text), 3);
    assert!(!wide_text);
    string_stop("abcü\"".as_bytes(), 0, &mut wide_text);
    assert!(wide_text);
}
