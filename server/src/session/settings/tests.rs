use super::*;

#[test]
fn d21_an_unknown_setting_is_refused_with_the_nearest_known_one() {
    let error = SessionSettings::default().set("statment_timeout", Some("1s")).unwrap_err();
    assert_eq!(error.state, SqlState::UndefinedObject);
    assert_eq!(error.hint.as_deref(), Some("Did you mean \"statement_timeout\"?"));
}

#[test]
fn names_are_found_in_any_case_and_shown_in_their_own() {
    let mut settings = SessionSettings::default();
    assert_eq!(settings.set("timezone", Some("Europe/Berlin")).unwrap(), Some(("TimeZone".into(), "Europe/Berlin".into())));
    assert_eq!(settings.get("TIMEZONE").unwrap(), "Europe/Berlin");
    assert_eq!(SessionSettings::spelling("datestyle"), "DateStyle");
}

#[test]
fn durations_have_postgres_units() {
    let mut settings = SessionSettings::default();
    settings.set("statement_timeout", Some("2min")).unwrap();
    assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(120)));
    settings.set("statement_timeout", None).unwrap();
    assert_eq!(settings.statement_timeout(), None);
}

#[test]
fn the_search_path_knows_the_user_and_quotes() {
    let mut settings = SessionSettings::of_user("ann", true);
    assert_eq!(settings.search_path(), ["ann", "public"]);
    settings.set("search_path", Some("\"Mixed\", Lower")).unwrap();
    assert_eq!(settings.search_path(), ["Mixed", "lower"]);
}

#[test]
fn d21_values_that_nothing_acts_on_are_refused_with_a_reason() {
    for (name, value) in [
        ("DateStyle", "ISO, DMY"),
        ("DateStyle", "German"),
        ("IntervalStyle", "iso_8602"),
        ("client_encoding", "LATIN1"),
        ("geqo", "on"),
        ("jit", "on"),
        ("work_mem", "64MB"),
        ("escape_string_warning", "on"),
        ("idle_in_transaction_session_timeout", "1min"),
        ("standard_conforming_strings", "off"),
    ] {
        let error = SessionSettings::default().set(name, Some(value)).unwrap_err();
        assert_eq!(error.state, SqlState::InvalidParameterValue, "{name}");
        assert!(error.hint.is_some(), "{name}");
    }
    for (name, value) in [("DateStyle", "ISO"), ("DateStyle", "iso, mdy"), ("geqo", "off"), ("client_encoding", "utf-8")] {
        SessionSettings::default().set(name, Some(value)).unwrap();
    }
}

#[test]
fn reset_goes_back_to_what_the_client_asked_for_when_it_connected() {
    let mut settings = SessionSettings::of_user("ann", true);
    settings.set("application_name", Some("psql")).unwrap();
    settings.start();
    settings.set("application_name", Some("other")).unwrap();
    settings.set("application_name", None).unwrap();
    assert_eq!(settings.get("application_name").unwrap(), "psql");
    settings.set("TimeZone", Some("Europe/Berlin")).unwrap();
    settings.reset_all();
    assert_eq!((settings.get("TimeZone").unwrap(), settings.get("application_name").unwrap()), ("UTC".into(), "psql".into()));
}

#[test]
fn durations_are_shown_in_the_largest_whole_unit() {
    let mut settings = SessionSettings::default();
    for (given, shown) in [("90s", "90s"), ("120s", "2min"), ("1500", "1500ms"), ("0", "0"), ("36h", "36h"), ("48h", "2d")] {
        settings.set("statement_timeout", Some(given)).unwrap();
        assert_eq!(settings.get("statement_timeout").unwrap(), shown);
    }
}

#[test]
fn a_zone_in_digits_is_read_as_postgres_reads_it() {
    for (given, shown, seconds) in [
        ("GMT-03:00", "GMT-03:00", 10_800),
        ("-03:30", "-03:30", 12_600),
        ("+5", "<+05>-05", 18_000),
        ("3.5", "<+03:30>-03:30", 12_600),
        ("<-03>+03", "<-03>+03", -10_800),
        ("UTC+3", "UTC+3", -10_800),
    ] {
        let mut settings = SessionSettings::default();
        settings.set("TimeZone", Some(given)).unwrap();
        assert_eq!(settings.get("TimeZone").unwrap(), shown);
        let offset = settings.time_zone().offset_at(&chrono::DateTime::UNIX_EPOCH.naive_utc());
        assert_eq!(offset, seconds, "{given}");
    }
    assert!(SessionSettings::default().set("TimeZone", Some("FOO")).is_err());
}
