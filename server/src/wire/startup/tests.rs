use super::*;

#[test]
fn settings_come_from_the_packet_and_from_options() {
    let body = b"user\0ada\0options\0-c geqo=off --search-path=app\\ x -cwork_mem=4MB\0TimeZone\0UTC\0_pq_.x\0y\0\0";
    let (startup, unknown) = parse_startup(body).unwrap();
    assert_eq!((startup.user.as_str(), startup.database.as_str()), ("ada", "ada"));
    let pairs: Vec<(&str, &str)> = startup.settings.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(pairs, [("geqo", "off"), ("search_path", "app x"), ("work_mem", "4MB"), ("TimeZone", "UTC")]);
    assert_eq!(unknown, ["_pq_.x"]);
}

#[test]
fn d19_malformed_packets_are_refused() {
    assert_eq!(parse_startup(b"user\0ada").unwrap_err().state, SqlState::ProtocolViolation);
    assert_eq!(parse_startup(b"database\0d\0\0").unwrap_err().state, SqlState::InvalidAuthorizationSpecification);
    assert_eq!(parse_startup(b"user\0a\0options\0-x\0\0").unwrap_err().state, SqlState::SyntaxError);
}
