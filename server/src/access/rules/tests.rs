use super::*;

fn rules(text: &str) -> Rules {
    parse::rules(text).unwrap_or_else(|(line, why)| panic!("line {line}: {why}"))
}

fn method(rules: &Rules, user: &str, database: &str, address: &str, tls: bool) -> Option<Method> {
    let address = Some(address.parse().unwrap());
    let asked = Asked { user, database, address, tls, is_member: &|role| user == "ada" && role == "staff" };
    rules.find(&asked).map(|rule| rule.method)
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = rules(
        "# who may come in\n\
         local   all  all  trust\n\
         host    all  bob  127.0.0.1/32  reject\n\
         hostssl all  +staff  10.0.0.0 255.0.0.0  cert\n\
         hostnossl \"all\",sales all 192.168.1.0/24 trust # a database of that name\n\
         host sameuser all ::1/128 trust\n\
         host all all 0.0.0.0/0 scram-sha-256\n",
    );
    assert_eq!(method(&rules, "bob", "d", "127.0.0.1", false), Some(Method::Reject));
    assert_eq!(method(&rules, "ada", "d", "127.0.0.1", false), Some(Method::Scram));
    assert_eq!(method(&rules, "ada", "d", "10.9.8.7", true), Some(Method::Certificate));
    assert_eq!(method(&rules, "ada", "d", "10.9.8.7", false), Some(Method::Scram));
    assert_eq!(method(&rules, "eve", "d", "10.9.8.7", true), Some(Method::Scram));
    assert_eq!(method(&rules, "eve", "all", "192.168.1.77", false), Some(Method::Trust));
    assert_eq!(method(&rules, "eve", "sales", "::ffff:192.168.1.77", false), Some(Method::Trust));
    assert_eq!(method(&rules, "eve", "other", "192.168.1.77", false), Some(Method::Scram));
    assert_eq!(method(&rules, "eve", "eve", "::1", false), Some(Method::Trust));
    assert_eq!(method(&rules, "eve", "d", "::1", false), None);
}

#[test]
fn without_a_file_only_this_machine_is_trusted() {
    let rules = Rules::without_file(false);
    assert_eq!(method(&rules, "eve", "d", "127.0.0.9", false), Some(Method::Trust));
    assert_eq!(method(&rules, "eve", "d", "::1", true), Some(Method::Trust));
    assert_eq!(method(&rules, "eve", "d", "10.0.0.1", true), None);
    assert_eq!(rules.trusting_others(), None);
    assert!(Rules::without_file(true).trusting_others().is_some());
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, why) in [
        ("host all all all md5", "scram-sha-256 only"),
        ("host all all all ldap", "no method"),
        ("host all all all", "method is missing"),
        ("host all all example.org/24 trust", "no IP address"),
        ("host all all 10.0.0.0/33 trust", "no network"),
        ("host all all 10.0.0.0 255.0.255.0 trust", "no mask"),
        ("host all all all cert", "hostssl"),
        ("host all all all trust map=x", "no option"),
        ("host all, all trust", "address"),
        ("host \"all all all trust", "no end"),
        ("unix all all trust", "no kind"),
    ] {
        let (line, found) = parse::rules(&format!("\n{text}\n")).expect_err(text);
        assert!(line == 2 && found.contains(why), "{text}: line {line}: {found}");
    }
}

#[test]
fn rules_that_trust_other_machines_are_found() {
    let found = |text: &str| rules(text).trusting_others().map(|rule| rule.line);
    assert_eq!(found("host all all 127.0.0.0/8 trust\nhost all all ::1/128 trust\nhost all all all scram-sha-256"), None);
    assert_eq!(found("host all all all reject\nhost all all 127.0.0.1/4 trust"), Some(2));
    assert_eq!(found("hostssl all ada all trust"), Some(1));
    assert_eq!(found("local all all trust"), None);
}
