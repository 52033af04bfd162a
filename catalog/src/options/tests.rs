use super::*;

fn options(pairs: &[(&str, &str)]) -> Options {
    Options::new("connector \"test\"", &pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect())
}

#[test]
fn d21_an_unknown_option_is_refused_with_the_nearest_known_one() {
    let mut given = options(&[("topik", "x")]);
    assert_eq!(given.text("topic"), None);
    let error = given.finish().unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("Did you mean \"topic\"?"));
    assert_eq!(error.state, SqlState::InvalidParameterValue);
}

#[test]
fn d21_an_unknown_value_is_refused_with_the_nearest_known_one() {
    let error = options(&[("start", "earliset")]).one_of("start", &[("earliest", 1), ("latest", 2)]).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("Did you mean \"earliest\"?"));
}

#[test]
fn durations_and_sizes_have_units() {
    assert_eq!(parse_duration_ms("1.5 seconds"), Some(1500));
    assert_eq!(parse_duration_ms("250"), Some(250));
    assert_eq!(parse_duration_ms("ten"), None);
    assert_eq!(parse_bytes("512MB"), Some(512 << 20));
    assert_eq!(parse_bytes("1 GiB"), Some(1 << 30));
    assert_eq!(parse_bytes("-1"), None);
}
