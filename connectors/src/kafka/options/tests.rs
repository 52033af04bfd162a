use super::*;

fn spec(options: &[(&str, &str)]) -> ConnectorSpec {
    let mut all: BTreeMap<String, String> = [("topic", "t"), ("properties.bootstrap.server", "127.0.0.1:9092")]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .into();
    for (name, value) in options {
        if value.is_empty() {
            all.remove(*name)
        } else {
            all.insert(name.to_string(), value.to_string())
        };
    }
    ConnectorSpec { connector: "kafka".into(), options: all, encode: None, encode_options: BTreeMap::new(), includes: vec![] }
}

fn source(options: &[(&str, &str)]) -> SqlResult<KafkaSourceOptions> {
    KafkaSourceOptions::parse(&spec(options))
}

/// The message and the hint of the refusal.
fn refusal(options: &[(&str, &str)]) -> (String, String) {
    let error = source(options).unwrap_err();
    assert_eq!(error.state.code(), "22023");
    (error.message, error.hint.unwrap_or_default())
}

#[test]
fn defaults_are_as_documented() {
    let options = source(&[]).unwrap();
    assert_eq!((options.topic.as_str(), options.brokers.as_str()), ("t", "127.0.0.1:9092"));
    assert_eq!(options.startup, StartupMode::Earliest);
    assert_eq!(options.bounded, BoundedMode::Unbounded);
    assert_eq!(options.lost_offsets, LostOffsets::Fail);
    assert_eq!(options.discovery_interval, Some(Duration::from_secs(5)));
    assert_eq!(options.group_prefix, "thalweg");
    assert!(options.properties.is_empty());
}

#[test]
fn d21_every_option_is_read() {
    let options = source(&[
        ("scan.startup.mode", "Timestamp"),
        ("scan.startup.timestamp.millis", "17"),
        ("scan.bounded.mode", "latest"),
        ("scan.lost.offsets", "skip"),
        ("discovery.interval", "0"),
        ("group.id.prefix", "mine"),
        ("properties.fetch.min.bytes", "10"),
    ])
    .unwrap();
    assert_eq!(options.startup, StartupMode::Timestamp(17));
    assert_eq!(options.bounded, BoundedMode::Latest);
    assert_eq!(options.lost_offsets, LostOffsets::Skip);
    assert_eq!(options.discovery_interval, None);
    assert_eq!(options.group_prefix, "mine");
    assert_eq!(options.properties, BTreeMap::from([("fetch.min.bytes".to_string(), "10".to_string())]));
}

#[test]
fn the_brokers_may_be_given_under_each_name_but_once() {
    for name in ["properties.bootstrap.servers", "bootstrap.servers"] {
        let options = source(&[("properties.bootstrap.server", ""), (name, " b:1,c:2 ")]).unwrap();
        assert_eq!(options.brokers, "b:1,c:2");
        assert_eq!(refusal(&[(name, "b:1")]).0, "the brokers are given twice");
    }
    let (message, _) = refusal(&[("properties.bootstrap.server", "")]);
    assert_eq!(message, "connector \"kafka\" needs the option \"properties.bootstrap.server\"");
    assert_eq!(refusal(&[("properties.bootstrap.server", " ")]).0, "the brokers' address is empty");
}

#[test]
fn d21_unknown_options_are_refused_with_the_nearest() {
    let (message, hint) = refusal(&[("scan.startup.mod", "latest")]);
    assert_eq!(message, "connector \"kafka\" has no option \"scan.startup.mod\"");
    assert_eq!(hint, "Did you mean \"scan.startup.mode\"?");
    let (message, hint) = refusal(&[("properties.fetch.min.byte", "1")]);
    assert_eq!(message, "connector \"kafka\" has no option \"properties.fetch.min.byte\"");
    assert_eq!(hint, "Did you mean \"properties.fetch.min.bytes\"?");
    let (_, hint) = refusal(&[("scan.startup.mode", "earlest")]);
    assert_eq!(hint, "Did you mean \"earliest\"?");
}

#[test]
fn d21_values_that_the_client_refuses_are_refused_at_once() {
    let (message, _) = refusal(&[("properties.fetch.min.bytes", "many")]);
    assert_eq!(message, "invalid value for option \"properties.fetch.min.bytes\": \"many\"");
    // Each is fine alone; together they are not.
    let (message, _) = refusal(&[("properties.message.max.bytes", "1000000"), ("properties.receive.message.max.bytes", "1000")]);
    assert_eq!(message, "the Kafka client refuses the given properties");
    // Fine for any producer but an idempotent one, which sinks use.
    let clash = spec(&[("properties.max.in.flight.requests.per.connection", "100")]);
    assert_eq!(KafkaSinkOptions::parse(&clash).unwrap_err().state.code(), "22023");
    // No TLS in this build.
    assert!(source(&[("properties.security.protocol", "ssl")]).is_err());
}

#[test]
fn what_decides_about_guarantees_is_not_the_users_to_set() {
    for name in [
        "group.id",
        "enable.auto.commit",
        "auto.offset.reset",
        "acks",
        "transactional.id",
        "plugin.library.paths",
        "ut_handle_ProduceResponse",
        "test.mock.num.brokers",
    ] {
        let (message, _) = refusal(&[(&format!("properties.{name}"), "1")]);
        assert_eq!(message, format!("option \"properties.{name}\" can't be set: Thalweg sets it"));
    }
}

#[test]
fn a_start_time_belongs_to_the_timestamp_mode() {
    assert!(refusal(&[("scan.startup.mode", "timestamp")]).1.contains("scan.startup.timestamp.millis"));
    assert!(refusal(&[("scan.startup.mode", "timestamp"), ("scan.startup.timestamp.millis", "-1")]).1.contains("millis"));
    assert!(refusal(&[("scan.startup.timestamp.millis", "5")]).0.contains("has no effect"));
}

#[test]
fn a_name_that_no_topic_can_have_is_refused() {
    for topic in ["a b", "ä", "..", "a/b", &"x".repeat(250)] {
        assert_eq!(refusal(&[("topic", topic)]).0, format!("\"{topic}\" is not the name of a Kafka topic"));
    }
    assert_eq!(refusal(&[("topic", "")]).0, "connector \"kafka\" needs the option \"topic\"");
}

#[test]
fn d21_a_sink_refuses_the_options_of_a_source() {
    let error = KafkaSinkOptions::parse(&spec(&[("scan.startup.mode", "latest")])).unwrap_err();
    assert_eq!(error.message, "connector \"kafka\" has no option \"scan.startup.mode\"");
    let options = KafkaSinkOptions::parse(&spec(&[("properties.linger.ms", "20")])).unwrap();
    assert_eq!(options.properties["linger.ms"], "20");
}
