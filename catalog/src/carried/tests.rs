use super::CarriedType;
use crate::SqlType;
use crate::datetime::SessionTimeZone;

fn canonical(name: &str, text: &str) -> Result<String, String> {
    let Some(SqlType::Carried(found)) = SqlType::parse(name) else { panic!("{name} is no type") };
    let kept = found.canonical(text, &SessionTimeZone::UTC).map_err(|error| error.state.code().to_string())?;
    assert_eq!(found.canonical(&kept, &SessionTimeZone::UTC).as_ref(), Ok(&kept), "{name} {text}: what is kept stays as it is");
    Ok(kept)
}

#[track_caller]
fn check(name: &str, pairs: &[(&str, &str)]) {
    for (text, kept) in pairs {
        assert_eq!(canonical(name, text).as_deref(), Ok(*kept), "{name} {text}");
    }
}

#[track_caller]
fn refused(name: &str, state: &str, texts: &[&str]) {
    for text in texts {
        assert_eq!(canonical(name, text), Err(state.to_string()), "{name} {text}");
    }
}

/// The texts are in order, and none is equal to the next.
#[track_caller]
fn ordered(name: &str, texts: &[&str]) {
    let Some(SqlType::Carried(found)) = SqlType::parse(name) else { panic!("{name} is no type") };
    let keys: Vec<Vec<u8>> = texts.iter().map(|text| found.order_key(&canonical(name, text).unwrap()).unwrap()).collect();
    for (at, pair) in keys.windows(2).enumerate() {
        assert!(pair[0] < pair[1], "{name}: {} is not before {}", texts[at], texts[at + 1]);
    }
}

#[test]
fn every_type_is_found_by_its_names_and_its_oids() {
    for found in CarriedType::all() {
        let sql_type = SqlType::Carried(found);
        assert_eq!(SqlType::parse(&sql_type.to_string()).as_ref(), Some(&sql_type));
        assert_eq!(SqlType::from_oid(sql_type.oid()).as_ref(), Some(&sql_type));
        assert_eq!(SqlType::from_oid(sql_type.array_oid()), Some(SqlType::Array(Box::new(sql_type.clone()))));
        assert_eq!(SqlType::from_field(&sql_type.to_field("c", true)), Ok(sql_type));
    }
    let bits = SqlType::parse("bit").unwrap();
    assert_eq!((bits.to_string(), bits.typmod()), ("bit(1)".to_string(), 1));
    assert_eq!(SqlType::parse("varbit(5)").unwrap().to_string(), "bit varying(5)");
}

#[test]
fn addresses_are_kept_as_postgres_shows_them() {
    let v6 = [
        ("::1", "::1"),
        ("::1/128", "::1"),
        ("2001:DB8:0:0:1:0:0:1/64", "2001:db8::1:0:0:1/64"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
        ("::10.0.0.1", "::10.0.0.1"),
        ("1:0:2:3:4:5:6:7", "1:0:2:3:4:5:6:7"),
        ("fe80::/10", "fe80::/10"),
        ("::", "::"),
    ];
    check("inet", &v6);
    check(
        "inet",
        &[("10.0.0.1", "10.0.0.1"), ("10.0.0.1/32", "10.0.0.1"), ("10.0.0.1/8", "10.0.0.1/8"), ("10.1/16", "10.1.0.0/16")],
    );
    refused(
        "inet",
        "22P02",
        &["", "10.0.0", "10.0.0.256", "10.0.0.1/33", "::1/129", "10.0.0.1/", " 10.0.0.1", "1::2::3", "10/16"],
    );
    check(
        "cidr",
        &[("10.0.0.0/8", "10.0.0.0/8"), ("10.0.0.1", "10.0.0.1/32"), ("10", "10.0.0.0/8"), ("192.168", "192.168.0.0/24")],
    );
    check("cidr", &[("2001:db8::/32", "2001:db8::/32"), ("::1", "::1/128")]);
    refused("cidr", "22P02", &["10.0.0.1/8", "2001:db8::1/32", "x"]);
    ordered("inet", &["9.255.0.1", "10.0.0.0/8", "10.0.0.1/8", "10.0.0.0/16", "10.0.0.2", "10.0.0.10", "192.168.0.1", "::1"]);
    assert_eq!(CarriedType::Inet.cast_to_text("10.0.0.1").as_deref(), Ok("10.0.0.1/32"));
}

#[test]
fn hardware_addresses_are_read_in_all_notations() {
    let usual = "08:00:2b:01:02:03";
    let texts = ["08:00:2B:01:02:03", "08-00-2b-01-02-03", "08002b:010203", "08002b-010203", "0800.2b01.0203", "0800-2b01-0203"];
    for text in texts.into_iter().chain(["08002b010203", "8:0:2b:1:2:3", " 08002b010203 "]) {
        check("macaddr", &[(text, usual)]);
    }
    refused("macaddr", "22P02", &["08:00:2b:01:02", "08:00:2b:01:02:0g", "08002b01020", ""]);
    refused("macaddr", "22003", &["08:00:2b:01:02:103"]);
    check("macaddr8", &[("08:00:2b:01:02:03", "08:00:2b:ff:fe:01:02:03"), ("08002b0102030405", "08:00:2b:01:02:03:04:05")]);
}

#[test]
fn times_keep_their_zone() {
    check(
        "timetz",
        &[("12:34:56+02", "12:34:56+02"), ("23:59:59.999999-07:30", "23:59:59.999999-07:30"), ("1:02 pm", "13:02:00+00")],
    );
    check("timetz", &[("12:00:00.5 UTC", "12:00:00.5+00"), ("12:00+01:02:03", "12:00:00+01:02:03")]);
    refused("timetz", "22007", &["x", "12", "12:00 America/New_York"]);
    refused("timetz", "22008", &["25:00+00"]);
    ordered("timetz", &["12:00+02", "11:00+00", "10:30-01", "12:00+00"]);
    let new_york = SessionTimeZone::parse("America/New_York").unwrap();
    assert!(CarriedType::TimeTz.canonical("12:00", &new_york).is_err());
    assert_eq!(CarriedType::TimeTz.canonical("12:00", &SessionTimeZone::parse("+3").unwrap()).as_deref(), Ok("12:00:00+03"));
}

#[test]
fn bits_are_as_many_as_the_type_says() {
    check("bit(3)", &[("101", "101"), ("b101", "101")]);
    check("bit varying", &[("", ""), ("x1F", "00011111")]);
    refused("bit(3)", "22026", &["10", "1010"]);
    refused("bit varying(2)", "22001", &["101"]);
    refused("bit(3)", "22P02", &["102", "xg"]);
    ordered("bit varying", &["", "0", "00", "01", "1", "10", "100000001", "101"]);
}

#[test]
fn money_is_counted_in_cents() {
    let pairs = [
        ("12.34", "$12.34"),
        ("$1,234,567.891", "$1,234,567.89"),
        ("-0.005", "-$0.01"),
        ("($3)", "-$3.00"),
        ("$-5", "-$5.00"),
        ("-$5", "-$5.00"),
        (".5", "$0.50"),
        ("5-", "-$5.00"),
        ("", "$0.00"),
        ("92233720368547758.07", "$92,233,720,368,547,758.07"),
    ];
    check("money", &pairs);
    refused("money", "22P02", &["x", "--5", "$$1", "1.2.3"]);
    refused("money", "22003", &["92233720368547758.08"]);
    ordered("money", &["-$100", "-$2", "$0", "$2", "$10"]);
}

#[test]
fn places_in_a_log_are_two_numbers() {
    check("pg_lsn", &[("0/16", "0/16"), ("00a/0B", "A/B"), ("FFFFFFFF/ffffffff", "FFFFFFFF/FFFFFFFF")]);
    refused("pg_lsn", "22P02", &["0", "/1", "0/", "0/123456789", "x/1"]);
    ordered("pg_lsn", &["0/F", "0/10", "9/0", "10/0"]);
}

#[test]
fn ranges_of_whole_numbers_have_one_form() {
    let pairs = [
        ("[1,5)", "[1,5)"),
        (" ( 1 , 5 ] ", "[2,6)"),
        ("[1,1]", "[1,2)"),
        ("(1,2)", "empty"),
        ("[3,3)", "empty"),
        ("EMPTY", "empty"),
        ("[,5]", "(,6)"),
        ("(,)", "(,)"),
        ("[\"-1\",)", "[-1,)"),
    ];
    check("int4range", &pairs);
    check("daterange", &[("[2020-02-28,2020-02-29]", "[2020-02-28,2020-03-01)")]);
    refused("int4range", "22P02", &["", "1,5", "[1", "[1,2", "[1,2,3)", "[1,2)x", "[a,2)"]);
    refused("int4range", "22000", &["[5,1)"]);
    refused("int4range", "22003", &["[1,2147483647]", "[1,99999999999)"]);
    ordered("int4range", &["empty", "(,5)", "(,)", "[1,2)", "[1,10)", "[1,)", "[2,3)"]);
}

#[test]
fn ranges_of_numbers_and_times_keep_their_bounds() {
    let pairs = [("[1.50,2.5)", "[1.5,2.5)"), ("(-0.5,1e2]", "(-0.5,100]"), ("[1.0,1.00)", "empty"), ("[1,1.0]", "[1,1]")];
    check("numrange", &pairs);
    check("tsrange", &[("[2020-01-01,)", "[\"2020-01-01 00:00:00\",)")]);
    refused("tsrange", "0A000", &["[2020-01-01,infinity)"]);
    check("tstzrange", &[("[2020-01-01 02:00+02,2020-01-02)", "[\"2020-01-01 00:00:00+00\",\"2020-01-02 00:00:00+00\")")]);
    ordered("numrange", &["[-1.5,0)", "[-1.25,0)", "[0.5,1)", "[0.5,1]", "(0.5,1]", "[1,2)", "[10,20)"]);
}

#[test]
fn multiranges_are_merged_and_sorted() {
    let pairs = [
        ("{[1,3),[5,7)}", "{[1,3),[5,7)}"),
        ("{}", "{}"),
        (" { [5,7] , [1,3), (3,4) , empty, [2,4]} ", "{[1,8)}"),
        ("{[1,10),[2,3)}", "{[1,10)}"),
        ("{[1,),(,0)}", "{(,0),[1,)}"),
    ];
    check("int4multirange", &pairs);
    refused("int4multirange", "22P02", &["", "[1,2)", "{[1,2)", "{[1,2),}", "{[1,2)}x", "{1}"]);
}

#[test]
fn figures_are_read_with_parentheses_or_without() {
    check(
        "point",
        &[("(1,2)", "(1,2)"), (" 1.50 , -2e3 ", "(1.5,-2000)"), ("(1e15,1e-5)", "(1e+15,1e-05)"), ("(0.1,NaN)", "(0.1,NaN)")],
    );
    refused("point", "22P02", &["", "(1)", "(1,2", "1,2)", "(1,2,3)", "((1,2),(3,4))", "(a,b)"]);
    check("lseg", &[("[(1,2),(3,4)]", "[(1,2),(3,4)]"), ("((1,2),(3,4))", "[(1,2),(3,4)]"), ("1,2,3,4", "[(1,2),(3,4)]")]);
    check("box", &[("(0,0),(1,1)", "(1,1),(0,0)"), ("((1,0),(0,1))", "(1,1),(0,0)")]);
    check("path", &[("[(0,0),(1,1)]", "[(0,0),(1,1)]"), ("((0,0),(1,1))", "((0,0),(1,1))"), ("(0,0),(1,1)", "((0,0),(1,1))")]);
    check("polygon", &[("((0,0),(1,1),(1,0))", "((0,0),(1,1),(1,0))")]);
    check("circle", &[("<(1,2),3>", "<(1,2),3>"), ("((1,2),3)", "<(1,2),3>"), ("1,2,3", "<(1,2),3>")]);
    refused("circle", "22P02", &["<(1,2),-3>", "<(1,2),3"]);
    check("line", &[("{1,-1,0}", "{1,-1,0}"), ("[(0,0),(1,1)]", "{1,-1,0}")]);
    refused("line", "22P02", &["{0,0,1}"]);
}

#[test]
fn words_are_sorted_with_their_places() {
    let pairs =
        [("b a", "'a' 'b'"), ("a a:2B,1 'it''s':3d", "'a':1,2B 'it''s':3"), ("'a b'", "'a b'"), ("a:1A,1C", "'a':1A"), ("", "")];
    check("tsvector", &pairs);
    refused("tsvector", "42601", &["a:", "'a", "a:0", "a:x"]);
}

#[test]
fn markup_is_well_formed() {
    let same = ["<a/>", "", "text", "<a b=\"1\" c='2'>x<!-- y --></a><d/>", "&lt;&#65;", "<![CDATA[<]]>", "<?php x?>", "<a:b/>"];
    check("xml", &same.map(|text| (text, text)));
    check("xml", &[("<?xml version=\"1.0\" encoding=\"UTF-8\"?><a/>", "<a/>")]);
    refused(
        "xml",
        "2200N",
        &["<a>", "</a>", "<a></b>", "<a b=1/>", "<a b=\"1\" b=\"2\"/>", "&nbsp;", "<", "<a b=\"<\"/>", "<!-- -- -->"],
    );
}
