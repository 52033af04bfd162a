use super::*;
use crate::decode::tests::{columns, decode};
use crate::decode::{Decoder, Format};

fn csv(options: &CsvOptions, records: &[&str]) -> (Vec<String>, Vec<String>) {
    let columns = columns(&[("a", "bigint"), ("b", "text")]);
    let records: Vec<&[u8]> = records.iter().map(|record| record.as_bytes()).collect();
    decode(&Format::Csv(options.clone()), &columns, &[0, 1], &records)
}

#[test]
fn fields_are_quoted_where_they_must_be() {
    let records = ["1,x", "2,\"x,y\"", "3,\"say \"\"hi\"\"\"", "4,\"two\nlines\"", "5,\"\"", "6,", "\"7\",z\r\n", "8,a\"b"];
    let (rows, errors) = csv(&CsvOptions::default(), &records);
    assert_eq!(rows, ["1|x", "2|x,y", "3|say \"hi\"", "4|two\nlines", "5|", "6|NULL", "7|z", "8|a\"b"]);
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn s27_malformed_records_are_errors() {
    let (rows, errors) = csv(&CsvOptions::default(), &["1", "1,2,3", "1,\"x", "1,\"x\"y", "x,y", "9,ok"]);
    assert_eq!(rows, ["9|ok"]);
    assert_eq!(
        errors,
        [
            "line 1: too few fields: 1 instead of 2",
            "line 2: too many fields: 2 are expected",
            "line 3: malformed CSV: a quoted field has no end",
            "line 4: malformed CSV: text after a closing quote",
            "line 5: column \"a\": invalid input for type bigint: \"x\"",
        ]
    );
}

#[test]
fn delimiter_quote_and_null_can_be_chosen() {
    let options = CsvOptions { delimiter: b';', quote: b'\'', header: false, null: "\\N".into() };
    let (rows, errors) = csv(&options, &["1;'a;b'", "2;\\N", "3;'\\N'", "4;"]);
    assert_eq!(rows, ["1|a;b", "2|NULL", "3|\\N", "4|"]);
    assert!(errors.is_empty());
}

#[test]
fn a_header_says_where_fields_go() {
    let columns = columns(&[("a", "bigint"), ("b", "text"), ("c", "text")]);
    let mut decoder =
        Decoder::new(&Format::Csv(CsvOptions { header: true, ..Default::default() }), &columns, &[0, 1, 2]).unwrap();
    decoder.header(b"\"B\",other,a\n").unwrap();
    decoder.push(b"x,ignored,1\n", 1);
    let (batch, errors) = decoder.finish().unwrap();
    assert_eq!(crate::decode::tests::rows(&batch), ["1|x|NULL"]);
    assert!(errors.is_empty());
}

#[test]
fn a_record_ends_at_the_first_line_end_outside_of_quotes() {
    let options = CsvOptions::default();
    for (text, expected) in [
        ("a,b\nc", Some(4)),
        ("\"a\nb\",c\nd", Some(8)),
        ("\"a\"\"\nb\",c\nd", Some(10)),
        ("x\"y\nz\n", Some(4)),
        ("a,\"b\n", None),
        ("a,b", None),
        ("", None),
        ("\n", Some(1)),
        ("a,\n", Some(3)),
    ] {
        assert_eq!(record_length(text.as_bytes(), &options), expected, "{text:?}");
    }
}
