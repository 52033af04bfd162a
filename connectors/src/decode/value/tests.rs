use super::*;

#[test]
fn s26_integers_are_exact_to_the_last_of_64_bits() {
    assert_eq!(parse_integer(b"9223372036854775807"), Ok(i64::MAX));
    assert_eq!(parse_integer(b"-9223372036854775808"), Ok(i64::MIN));
    assert_eq!(parse_integer(b"9223372036854775808"), Err(Misfit::Range));
    assert_eq!(parse_integer(b"9007199254740993"), Ok(9_007_199_254_740_993));
    assert_eq!(parse_integer(b"12.0"), Ok(12));
    assert_eq!(parse_integer(b"12e1"), Ok(120));
    assert_eq!(parse_integer(b"1.25e2"), Ok(125));
    assert_eq!(parse_integer(b"12.5"), Err(Misfit::Syntax));
    assert_eq!(parse_integer(b"1e-1"), Err(Misfit::Syntax));
    assert_eq!(parse_integer(b"1e999999999999"), Err(Misfit::Range));
    assert_eq!(parse_integer(b"0e999999999999"), Ok(0));
    for text in ["", "-", "+", "x", "1x", "1.2.3", "0x10", "1e", "--1"] {
        assert_eq!(parse_integer(text.as_bytes()), Err(Misfit::Syntax), "{text}");
    }
}

#[test]
fn s26_decimals_round_half_away_from_zero() {
    for (text, expected) in [
        ("1", 100),
        ("1.005", 101),
        ("-1.005", -101),
        ("1.004999999999999999999999999999999999999999", 100),
        ("0.005", 1),
        ("0.0049", 0),
        ("0.05e-1", 1),
        ("0.04e-1", 0),
        ("12345678901234567890123456789012345.67", 1_234_567_890_123_456_789_012_345_678_901_234_567),
        ("1.5e3", 150_000),
        (".5", 50),
        ("5.", 500),
    ] {
        assert_eq!(parse_numeric(text.as_bytes(), 38, 2), Ok(expected), "{text}");
    }
    assert_eq!(parse_numeric(b"999.99", 5, 2), Ok(99_999));
    assert_eq!(parse_numeric(b"999.995", 5, 2), Err(Misfit::Range));
    assert_eq!(parse_numeric(b"1e40", 38, 0), Err(Misfit::Range));
    assert_eq!(parse_numeric(b"NaN", 38, 2), Err(Misfit::Syntax));
    assert_eq!(parse_numeric(b".", 38, 2), Err(Misfit::Syntax));
}

#[test]
fn s26_floats_that_overflow_or_vanish_are_out_of_range() {
    assert_eq!(parse_float::<f64>(b"1e400"), Err(Misfit::Range));
    assert_eq!(parse_float::<f64>(b"1e-400"), Err(Misfit::Range));
    assert_eq!(parse_float::<f64>(b"0e-400"), Ok(0.0));
    assert_eq!(parse_float::<f32>(b"1e39"), Err(Misfit::Range));
    assert_eq!(parse_float::<f64>(b"Infinity"), Ok(f64::INFINITY));
    assert!(parse_float::<f64>(b"NaN").is_ok_and(f64::is_nan));
    assert_eq!(parse_float::<f64>(b"abc"), Err(Misfit::Syntax));
}

#[test]
fn booleans_read_as_in_postgres() {
    for text in ["t", "true", "TRUE", "tr", "y", "yes", "on", "1"] {
        assert_eq!(parse_boolean(text.as_bytes()), Ok(true), "{text}");
    }
    for text in ["f", "false", "n", "no", "off", "of", "0"] {
        assert_eq!(parse_boolean(text.as_bytes()), Ok(false), "{text}");
    }
    for text in ["", "o", "2", "truee", "maybe"] {
        assert_eq!(parse_boolean(text.as_bytes()), Err(Misfit::Syntax), "{text}");
    }
}

#[test]
fn uuids_read_in_all_forms_and_come_out_in_one() {
    let usual = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
    for text in [
        usual,
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
        "a0eebc999c0b4ef8bb6d6bb9bd380a11",
        "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
    ] {
        assert_eq!(parse_uuid(text.as_bytes()).as_ref().map(|u| std::str::from_utf8(u).unwrap()), Ok(usual), "{text}");
    }
    for text in
        ["", "a0", "-a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a1g", "a0e-ebc999c0b4ef8bb6d6bb9bd380a11"]
    {
        assert!(parse_uuid(text.as_bytes()).is_err(), "{text}");
    }
}
