use super::*;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::util::display::array_value_to_string;

pub(super) fn columns(text: &[(&str, &str)]) -> Vec<Column> {
    text.iter().map(|(name, sql_type)| Column::new(*name, SqlType::parse(sql_type).unwrap())).collect()
}

fn all(columns: &[Column]) -> Vec<usize> {
    (0..columns.len()).collect()
}

/// The rows as text, `|` between values and `NULL` for NULL, and the reasons of the errors.
pub(super) fn decode(format: &Format, columns: &[Column], projection: &[usize], records: &[&[u8]]) -> (Vec<String>, Vec<String>) {
    let mut decoder = Decoder::new(format, columns, projection).unwrap();
    for (place, record) in records.iter().enumerate() {
        decoder.push(record, format_args!("line {}", place + 1));
    }
    let (batch, errors) = decoder.finish().unwrap();
    (rows(&batch), errors.into_iter().map(|e| format!("{}: {}", e.position, e.reason)).collect())
}

pub(super) fn rows(batch: &RecordBatch) -> Vec<String> {
    let show = |row: usize| {
        let values = batch
            .columns()
            .iter()
            .map(|column| if column.is_null(row) { "NULL".to_string() } else { array_value_to_string(column, row).unwrap() });
        values.collect::<Vec<_>>().join("|")
    };
    (0..batch.num_rows()).map(show).collect()
}

/// One JSON value into one column: what it is there, or why it is not.
fn one(sql_type: &str, json: &str) -> Result<String, String> {
    let columns = columns(&[("c", sql_type)]);
    let (rows, errors) = decode(&Format::Json, &columns, &[0], &[format!("{{\"c\":{json}}}").as_bytes()]);
    rows.into_iter().next().ok_or_else(|| errors.into_iter().next().unwrap_or_default())
}

#[test]
fn values_of_all_types_are_read() {
    for (sql_type, json, expected) in [
        ("bigint", "9223372036854775807", "9223372036854775807"),
        ("bigint", "\"9007199254740993\"", "9007199254740993"),
        ("bigint", "-0", "0"),
        ("integer", "-2147483648", "-2147483648"),
        ("smallint", "1.0", "1"),
        ("numeric(10,2)", "12.345", "12.35"),
        ("numeric(10,2)", "\"-12.345\"", "-12.35"),
        ("numeric", "0.1", "0.1000000000"),
        ("double precision", "0.1", "0.1"),
        ("real", "16777217", "16777216.0"),
        ("boolean", "true", "true"),
        ("boolean", "\"off\"", "false"),
        ("boolean", "1", "true"),
        ("text", "\"a\\n\\u00e4\\ud83d\\ude00\\\"\"", "a\nä😀\""),
        ("text", "\"ä😀\"", "ä😀"),
        ("text", "12.50", "12.50"),
        ("text", "true", "true"),
        ("text", "{\"a\": [1, 2]}", "{\"a\": [1, 2]}"),
        ("varchar(3)", "\"abc  \"", "abc"),
        ("char(3)", "\"ä\"", "ä  "),
        ("jsonb", "{\"a\": \"\\n\"}", "{\"a\": \"\\n\"}"),
        ("jsonb", "\"x\"", "\"x\""),
        ("json", "12.50", "12.50"),
        ("json", "false", "false"),
        ("date", "\"2024-02-29\"", "2024-02-29"),
        ("date", "\"2024-02-29T10:00:00Z\"", "2024-02-29"),
        ("time", "\"10:20:30.5\"", "10:20:30.500"),
        ("timestamp", "\"2024-01-31 23:59:00.25\"", "2024-01-31T23:59:00.250"),
        ("timestamp", "1706745540123", "2024-01-31T23:59:00.123"),
        ("timestamptz", "\"2024-02-01T01:59:00+02\"", "2024-01-31T23:59:00Z"),
        ("interval", "\"1 day 02:00:00\"", "1 days 2 hours"),
        ("interval", "\"-100:00:00.5\"", "-100 hours -0.500000000 secs"),
        ("interval", "\"1 year 2 mons\"", "14 mons"),
        ("uuid", "\"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11\"", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ("inet", "\"10.0.0.1/32\"", "10.0.0.1"),
        ("money", "12.5", "$12.50"),
        ("int4range", "\"[1,5]\"", "[1,6)"),
        ("bytea", "\"\\\\x00ff\"", "00ff"),
        ("bytea", "\"ab\"", "6162"),
        ("bigint[]", "[1, null, 3]", "[1, , 3]"),
        ("text[][]", "[[\"a\"], [], null]", "[[a], [], ]"),
        ("bigint", "null", "NULL"),
    ] {
        assert_eq!(one(sql_type, json).as_deref(), Ok(expected), "{json} as {sql_type}");
    }
}

#[test]
fn s27_a_value_that_does_not_fit_names_its_column_and_itself() {
    for (sql_type, json, expected) in [
        ("bigint", "9223372036854775808", "value \"9223372036854775808\" is out of range for type bigint"),
        ("integer", "2147483648", "value \"2147483648\" is out of range for type integer"),
        ("smallint", "40000", "value \"40000\" is out of range for type smallint"),
        ("bigint", "1.5", "invalid input for type bigint: \"1.5\""),
        ("bigint", "\"abc\"", "invalid input for type bigint: \"abc\""),
        ("bigint", "true", "invalid input for type bigint: \"true\""),
        ("bigint", "{}", "invalid input for type bigint: \"{}\""),
        ("numeric(4,2)", "100", "value \"100\" is out of range for type numeric(4,2)"),
        ("varchar(3)", "\"abcd\"", "value too long for type character varying(3)"),
        ("timestamp", "\"yesterday\"", "invalid input for type timestamp without time zone: \"yesterday\""),
        ("timestamp", "\"20240131\"", "invalid input for type timestamp without time zone: \"20240131\""),
        ("uuid", "\"12\"", "invalid input for type uuid: \"12\""),
        ("inet", "\"10.0\"", "invalid input for type inet: \"10.0\""),
        ("inet", "true", "invalid input for type inet: \"true\""),
        ("double precision", "1e999", "value \"1e999\" is out of range for type double precision"),
        ("bigint[]", "5", "invalid input for type bigint[]: \"5\""),
        ("bigint[]", "[1, \"x\"]", "invalid input for type bigint: \"x\""),
        ("text", "\"\\ud800\"", "malformed JSON: half of a surrogate pair"),
        ("text", "\"\\u0000\"", "\\u0000 cannot be converted to text"),
    ] {
        assert_eq!(one(sql_type, json), Err(format!("line 1: column \"c\": {expected}")), "{json} as {sql_type}");
    }
}

#[test]
fn s27_a_bad_record_is_left_out_whole_and_the_others_stay() {
    let columns = columns(&[("a", "bigint"), ("b", "text"), ("c", "bigint[]")]);
    let records: [&[u8]; 5] = [
        br#"{"a":1,"b":"x","c":[1]}"#,
        br#"{"a":2,"b":"y","c":[1,2,"z"]}"#,
        br#"{"a":3,"b":"lost""#,
        br#"{"a":4,"b":"v","c":[4]} x"#,
        br#"{"a":5,"b":"w"}"#,
    ];
    let (rows, errors) = decode(&Format::Json, &columns, &all(&columns), &records);
    assert_eq!(rows, ["1|x|[1]", "5|w|NULL"]);
    assert_eq!(
        errors,
        [
            "line 2: column \"c\": invalid input for type bigint: \"z\"",
            "line 3: malformed JSON: it ends where \",\" or a closing bracket should stand",
            "line 4: malformed JSON at byte 25: expected the end of the record",
        ]
    );
}

#[test]
fn malformed_json_is_refused_also_where_nobody_reads_it() {
    let columns = columns(&[("a", "bigint"), ("b", "text")]);
    for record in [
        "",
        " ",
        "[]",
        "1",
        "{",
        "{}}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\":1 \"b\":2}",
        "{\"z\":01}",
        "{\"z\":1.}",
        "{\"z\":.5}",
        "{\"z\":+1}",
        "{\"z\":1e}",
        "{\"z\":-}",
        "{\"z\":tru}",
        "{\"z\":nul}",
        "{\"z\":\"\\x\"}",
        "{\"z\":\"\\u12\"}",
        "{\"z\":\"a\nb\"}",
        "{\"z\":[1,]}",
        "{\"z\":[1 2]}",
        "{\"z\":{\"y\":1,}}",
        "{\"z\":'a'}",
        "{\"z\":NaN}",
        "{\"a\":1}{\"a\":2}",
        "\u{feff}{}",
        "{\"a\":00}",
        "{\"a\":-01}",
    ] {
        let (rows, errors) = decode(&Format::Json, &columns, &[0], &[record.as_bytes()]);
        assert!(rows.is_empty() && errors.len() == 1, "{record:?} gave {rows:?} {errors:?}");
    }
}

#[test]
fn invalid_utf8_is_refused_wherever_it_stands() {
    let columns = columns(&[("a", "text")]);
    for record in [
        &b"{\"a\":\"\xff\"}"[..],
        b"{\"z\":\"\xc3\"}",
        b"{\"\xc3\":1}",
        b"{\"a\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\xe4bc\"}",
        b"{\"z\":[{\"\xff\":1}]}",
    ] {
        let (rows, errors) = decode(&Format::Json, &columns, &[0], &[record, record]);
        assert_eq!((rows.len(), errors.len()), (0, 2), "{record:?}");
    }
}

#[test]
fn a_field_goes_to_its_exact_name_else_to_one_in_another_case() {
    let columns = columns(&[("id", "bigint"), ("ID", "bigint"), ("dateTime", "bigint")]);
    let records: [&[u8]; 5] = [
        br#"{"id":1,"ID":2,"DATETIME":3}"#,
        br#"{"Id":1,"datetime":3}"#,
        br#"{"dateTime":3,"datetime":4}"#,
        br#"{"datetime":4,"dateTime":3}"#,
        br#"{"datetime":4,"dateTime":3,"DateTime":5,"\u0064ateTime":6}"#,
    ];
    let (rows, errors) = decode(&Format::Json, &columns, &all(&columns), &records);
    assert_eq!(
        rows,
        ["1|2|3", "1|NULL|NULL".replace("NULL|NULL", "NULL|3").as_str(), "NULL|NULL|3", "NULL|NULL|3", "NULL|NULL|6"]
    );
    assert!(errors.is_empty());
}

#[test]
fn keys_of_every_length_are_told_apart_though_another_was_expected() {
    let columns = columns(&[("v", "bigint")]);
    for length in 1..40 {
        let expected = format!("{{\"{}\":1,\"v\":2}}", "k".repeat(length));
        let other = format!("{{\"{}x\":1,\"v\":3}}", "k".repeat(length - 1));
        let longer = format!("{{\"{}\":1,\"v\":4}}", "k".repeat(length + 1));
        let renamed = format!("{{\"v\":5,\"{}\":1}}", "k".repeat(length));
        let records = [&expected, &expected, &other, &expected, &longer, &renamed].map(|record| record.as_bytes());
        let (rows, errors) = decode(&Format::Json, &columns, &[0], &records);
        assert_eq!((rows.join(" ").as_str(), errors.len()), ("2 2 3 2 4 5", 0), "{length}");
    }
}

#[test]
fn a_column_that_is_not_read_keeps_its_name_to_itself() {
    let columns = columns(&[("id", "bigint"), ("ID", "bigint")]);
    let (rows, _) = decode(&Format::Json, &columns, &[0], &[br#"{"ID":2}"#, br#"{"iD":3}"#]);
    assert_eq!(rows, ["NULL", "3"]);
}

#[test]
fn of_equal_keys_the_last_wins_also_for_arrays_and_nulls() {
    let columns = columns(&[("a", "bigint"), ("b", "bigint[]"), ("c", "text")]);
    let record = br#"{"a":1,"b":[1,2],"c":"long","a":2,"b":[3],"c":null}"#;
    let (rows, _) = decode(&Format::Json, &columns, &all(&columns), &[record, record, br#"{"a":7}"#]);
    assert_eq!(rows, ["2|[3]|NULL", "2|[3]|NULL", "7|NULL|NULL"]);
}

#[test]
fn null_in_a_not_null_column_is_an_error_of_the_record() {
    let mut columns = columns(&[("a", "bigint"), ("b", "text")]);
    columns[1].nullable = false;
    let (rows, errors) = decode(&Format::Json, &columns, &[0, 1], &[br#"{"a":1}"#, br#"{"a":2,"b":null}"#, br#"{"a":3,"b":""}"#]);
    assert_eq!(rows, ["3|"]);
    assert_eq!(errors.len(), 2);
    assert!(errors[0].contains("column \"b\": null value"), "{errors:?}");
}

#[test]
fn records_in_records_are_read_in_any_order() {
    let inner = SqlType::Record(vec![("x".into(), SqlType::Int8), ("y".into(), SqlType::Array(Box::new(SqlType::Text)))]);
    let columns = [Column::new("r", inner.clone()), Column::new("rs", SqlType::Array(Box::new(inner)))];
    let record: &[u8] = br#"{"rs":[{"y":["a"],"x":1},{"x":2},null],"r":{"X":5}}"#;
    let bad: &[u8] = br#"{"rs":[{"y":["a"],"x":1},{"x":"q"}],"r":{"x":5}}"#;
    let (rows, errors) = decode(&Format::Json, &columns, &[0, 1], &[record, bad, br#"{"r":null}"#, record]);
    assert_eq!(rows[0], "{x: 5, y: }|[{x: 1, y: [a]}, {x: 2, y: }, ]");
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[2], rows[0]);
    assert_eq!(errors, ["line 2: column \"rs.x\": invalid input for type bigint: \"q\""]);
}

#[test]
fn nesting_is_limited() {
    let columns = columns(&[("a", "json"), ("b", "bigint")]);
    let deep = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    let (rows, errors) =
        decode(&Format::Json, &columns, &[0, 1], &[deep(63).as_bytes(), deep(64).as_bytes(), deep(100_000).as_bytes()]);
    assert_eq!((rows.len(), errors.len()), (1, 2));
    let (rows, errors) =
        decode(&Format::Json, &columns, &[1], &[deep(63).as_bytes(), deep(64).as_bytes(), deep(100_000).as_bytes()]);
    assert_eq!((rows.len(), errors.len()), (1, 2));
}

#[test]
fn any_projection_gives_the_columns_of_the_whole() {
    let columns = columns(&[("a", "bigint"), ("b", "text"), ("c", "double precision")]);
    let records: [&[u8]; 3] = [br#"{"c":1.5,"b":"x","a":1}"#, br#" { "a" : 2 , "b" : "y" , "c" : 2 } "#, br#"{"b":"z"}"#];
    let whole = decode(&Format::Json, &columns, &[0, 1, 2], &records).0;
    for projection in [vec![0], vec![2, 0], vec![1, 2, 0], vec![]] {
        let part = decode(&Format::Json, &columns, &projection, &records).0;
        let expected: Vec<String> = whole
            .iter()
            .map(|row| {
                let values: Vec<&str> = row.split('|').collect();
                projection.iter().map(|column| values[*column]).collect::<Vec<_>>().join("|")
            })
            .collect();
        assert_eq!(part, expected, "{projection:?}");
    }
}

#[test]
fn a_decoder_starts_anew_after_each_batch() {
    let columns = columns(&[("a", "integer"), ("b", "text"), ("c", "boolean")]);
    let mut decoder = Decoder::new(&Format::Json, &columns, &[0, 1, 2]).unwrap();
    for round in 0..3 {
        assert!(decoder.is_empty());
        decoder.push(format!("{{\"a\":{round},\"b\":null,\"c\":true}}").as_bytes(), "here");
        decoder.push(b"{", "there");
        let (batch, errors) = decoder.finish().unwrap();
        assert_eq!(rows(&batch), [format!("{round}|NULL|true")]);
        assert_eq!(batch.column(0).as_primitive::<Int32Type>().null_count(), 0);
        assert_eq!(errors.len(), 1);
    }
}

#[test]
fn bytes_go_into_the_only_column() {
    let (rows, errors) = decode(&Format::Bytes, &columns(&[("b", "bytea")]), &[0], &[b"\x00\xff", b""]);
    assert_eq!((rows, errors.len()), (vec!["00ff".to_string(), String::new()], 0));
    let (rows, errors) = decode(&Format::Bytes, &columns(&[("t", "text")]), &[0], &[b"  {not json", b"\xff", b"a\0b"]);
    assert_eq!((rows, errors.len()), (vec!["  {not json".to_string()], 2));
    assert!(Format::Bytes.check(&columns(&[("t", "text"), ("u", "text")])).is_err());
    assert!(Format::Bytes.check(&columns(&[("t", "bigint")])).is_err());
}

#[test]
fn d21_options_of_an_encoding_are_checked() {
    let given = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    assert!(Format::new(Encode::Json, &given(&[])).is_ok());
    let error = Format::new(Encode::Csv, &given(&[("delimeter", ";")])).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("Did you mean \"delimiter\"?"));
    assert!(Format::new(Encode::Csv, &given(&[("delimiter", ";;")])).is_err());
    assert!(Format::new(Encode::Csv, &given(&[("delimiter", "\"")])).is_err());
    let Ok(Format::Csv(options)) = Format::new(Encode::Csv, &given(&[("delimiter", "\\t"), ("header", "true")])) else {
        panic!()
    };
    assert_eq!((options.delimiter, options.header), (b'\t', true));
    assert!(Format::new(Encode::Parquet, &given(&[])).is_err());
}

/// A small generator of numbers, so that a failure can be repeated.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// Changes some bytes, cuts, or repeats a piece.
fn mutate(record: &mut Vec<u8>, state: &mut u64) {
    const BYTES: &[u8] = b"\"\\{}[],:0123456789eE+-.tfnu \n\r\t;'\x00\x1f\x80\xff\xc3\xa4ad/TZ";
    for _ in 0..1 + random(state) % 4 {
        if record.is_empty() {
            return;
        }
        let at = random(state) % record.len();
        match random(state) % 4 {
            0 => record[at] = BYTES[random(state) % BYTES.len()],
            1 => record.insert(at, BYTES[random(state) % BYTES.len()]),
            2 => {
                record.remove(at);
            }
            _ => {
                let end = at + random(state) % (record.len() - at);
                if random(state).is_multiple_of(2) {
                    record.truncate(end);
                } else {
                    let piece = record[at..end].to_vec();
                    record.splice(at..at, piece);
                }
            }
        }
    }
}

#[test]
fn d19_no_mutation_of_a_record_makes_a_decoder_panic_or_leave_a_trace() {
    let record = SqlType::Record(vec![("x".into(), SqlType::Numeric(Some((10, 2)))), ("y".into(), SqlType::Uuid)]);
    let mut columns = columns(&[
        ("a", "bigint"),
        ("b", "text"),
        ("c", "timestamptz"),
        ("d", "date"),
        ("e", "boolean"),
        ("f", "double precision"),
        ("g", "bytea"),
        ("h", "jsonb"),
        ("i", "interval"),
        ("j", "time"),
        ("k", "varchar(5)"),
        ("l", "integer[]"),
        ("o", "smallint"),
        ("p", "real"),
    ]);
    columns.push(Column::new("m", SqlType::Array(Box::new(record.clone()))));
    columns.push(Column::new("n", record));
    let json = br#"{"a":12345,"b":"x\u00e4\n","c":"2024-01-31T23:59:00.5+02:00","d":"2024-02-29","e":true,"f":-1.5e3,"g":"\\x00ff","h":{"q":[1,{}]},"i":"1 day","j":"10:20:30","k":"abc","l":[1,null],"o":7,"p":0.25,"m":[{"x":1.25,"y":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}],"n":{"x":"3"}}"#;
    let csv = br#"12345,"x ""y"" z",2024-01-31T23:59:00.5+02:00,2024-02-29,true,-1.5e3,\x00ff,"{""q"":1}",1 day,10:20:30,abc,"[1,null]",7,0.25,,"{""x"":3}""#;
    for (format, good) in [(Format::Json, &json[..]), (Format::Csv(CsvOptions::default()), &csv[..])] {
        let projection: Vec<usize> = (0..columns.len()).collect();
        let (expected, errors) = decode(&format, &columns, &projection, &[good]);
        assert!(errors.is_empty(), "{errors:?}");
        let mut state = 42;
        for round in 0..400 {
            let mut decoder = Decoder::new(&format, &columns, &projection).unwrap();
            let mut accepted = 0;
            for place in 0..50 {
                let mut record = good.to_vec();
                mutate(&mut record, &mut state);
                accepted += usize::from(decoder.push(&record, place));
            }
            decoder.push(good, "last");
            let (batch, errors) = decoder.finish().unwrap();
            assert_eq!((batch.num_rows(), errors.len()), (accepted + 1, 50 - accepted), "round {round}");
            assert_eq!(rows(&batch).last(), expected.last(), "round {round}");
        }
    }
}

#[test]
fn s26_integers_around_two_to_the_53_keep_every_bit() {
    let columns = columns(&[("v", "bigint")]);
    let mut decoder = Decoder::new(&Format::Json, &columns, &[0]).unwrap();
    let values: Vec<i64> = (0..62).flat_map(|bit| [(1i64 << bit) - 1, (1 << bit) + 1, -(1 << bit) - 1]).collect();
    for value in &values {
        decoder.push(format!("{{\"v\":{value}}}").as_bytes(), value);
    }
    let (batch, _) = decoder.finish().unwrap();
    assert_eq!(batch.column(0).as_primitive::<Int64Type>().values().to_vec(), values);
}
