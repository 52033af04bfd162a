//! Values against what Postgres 15 writes for the same ones.

use super::Format;
use super::read::ColumnReader;
use super::write::{ColumnWriter, RowWriter};
use crate::wire::session::{OID_METADATA, ResultColumn};
use crate::wire::settings::{ByteaOutput, OutputSettings};
use arrow::array::{
    Array, ArrayRef, Float64Array, Int16Array, Int32Array, ListArray, RecordBatch, StringArray, StructArray, UInt64Array,
};
use arrow::datatypes::{Field, Int16Type, Int32Type};
use bytes::BytesMut;
use std::collections::HashMap;
use std::sync::Arc;
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::{SqlState, SqlType};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// What is written for the only value of an array, without its length.
fn written(array: ArrayRef, column: ResultColumn, format: Format, settings: OutputSettings) -> Vec<u8> {
    let field = Field::new("c", array.data_type().clone(), true);
    let batch = RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(vec![field])), vec![array]).unwrap();
    let writer = RowWriter::new(vec![column], vec![format], settings);
    let mut out = BytesMut::new();
    writer.batch(&batch).unwrap().write_row(0, &mut out).unwrap();
    assert_eq!(i32::from_be_bytes(out[..4].try_into().unwrap()) as usize, out.len() - 4, "length in front");
    out[4..].to_vec()
}

fn text_of(array: ArrayRef, sql_type: SqlType, settings: OutputSettings) -> String {
    String::from_utf8(written(array, ResultColumn::new("c", sql_type), Format::Text, settings)).unwrap()
}

fn parsed(sql_type: &SqlType, text: &str) -> ArrayRef {
    let mut reader = ColumnReader::new(sql_type, OutputSettings::default()).unwrap();
    reader.append_text(text).unwrap();
    reader.finish().unwrap()
}

/// Every value is read from its text and from its binary form, and written as both.
fn check(type_name: &str, text: &str, binary: &str) {
    let sql_type = SqlType::parse(type_name).unwrap();
    let from_text = parsed(&sql_type, text);
    let mut reader = ColumnReader::new(&sql_type, OutputSettings::default()).unwrap();
    reader.append_binary(&unhex(binary)).unwrap();
    let from_binary = reader.finish().unwrap();
    for array in [from_text, from_binary] {
        let column = ResultColumn::new("c", sql_type.clone());
        assert_eq!(text_of(array.clone(), sql_type.clone(), OutputSettings::default()), text, "{type_name} as text");
        let bytes = written(array, column, Format::Binary, OutputSettings::default());
        assert_eq!(hex(&bytes), binary, "{type_name} {text} in binary");
    }
}

#[test]
fn every_type_has_the_forms_that_postgres_15_has() {
    check("bool", "t", "01");
    check("int2", "-2", "fffe");
    check("int4", "7", "00000007");
    check("int8", "9000000000", "0000000218711a00");
    check("float4", "1.5", "3fc00000");
    check("float8", "-2.25", "c002000000000000");
    check("float8", "NaN", "7ff8000000000000");
    check("float8", "Infinity", "7ff0000000000000");
    check("numeric(8,3)", "12345.678", "0003000100000003000109291a7c");
    check("numeric(8,5)", "-0.00012", "0002ffff40000005000107d0");
    check("numeric(8,0)", "0", "0000000000000000");
    check("numeric(10,2)", "1.50", "000200000000000200011388");
    check("text", "añ", "61c3b1");
    check("varchar(5)", "ab", "6162");
    check("char(4)", "ab  ", "61622020");
    check("bytea", "\\x00ff", "00ff");
    check("date", "2020-02-29", "00001cc4");
    check("time", "12:34:56.789", "0000000a8be62608");
    check("timestamp", "2020-01-02 03:04:05.678901", "00023e1e36f96f35");
    check("timestamptz", "2020-01-02 03:04:05+00", "00023e1e36ef1340");
    check("interval", "1 year 2 mons 3 days 04:05:06.7", "000000036c966ee0000000030000000e");
    check("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b8109dad11d180b400c04fd430c8");
    check("json", "{\"a\": 1}", "7b2261223a20317d");
    check("jsonb", "{\"a\": 1}", "017b2261223a20317d");
    check("int4[]", "{1,NULL,3}", "00000001000000010000001700000003000000010000000400000001ffffffff0000000400000003");
    check("int4[]", "{}", "000000000000000000000017");
    check("text[]", "{a,\"b,c\",NULL}", "0000000100000001000000190000000300000001000000016100000003622c63ffffffff");
    check("numeric(2,1)[]", "{1.5}", "0000000100000000000006a400000001000000010000000c000200000000000100011388");
    check("timestamptz[]", "{\"2020-01-01 00:00:00+00\"}", "0000000100000000000004a000000001000000010000000800023e0786c26000");
}

#[test]
fn types_that_are_carried_by_text_have_the_forms_that_postgres_15_has() {
    check("timetz", "12:34:56+02", "0000000a8bda1c00ffffe3e0");
    check("timetz", "23:59:59.999999-07:30", "000000141dd75fff00006978");
    check("inet", "10.0.0.1", "022000040a000001");
    check("inet", "2001:db8::1/64", "0340001020010db8000000000000000000000001");
    check("cidr", "10.0.0.0/8", "020801040a000000");
    check("macaddr", "08:00:2b:01:02:03", "08002b010203");
    check("macaddr8", "08:00:2b:01:02:03:04:05", "08002b0102030405");
    check("money", "$12.34", "00000000000004d2");
    check("money", "-$1,234.50", "fffffffffffe1dc6");
    check("bit(3)", "101", "00000003a0");
    check("varbit", "101", "00000003a0");
    check("varbit", "", "00000000");
    check("int4range", "[1,5)", "0200000004000000010000000400000005");
    check("int4range", "empty", "01");
    check("int8range", "(,5)", "08000000080000000000000005");
    check("numrange", "(1.5,2]", "040000000c0002000000000001000113880000000a00010000000000000002");
    check("daterange", "[2020-02-28,2020-03-01)", "020000000400001cc30000000400001cc5");
    check("tsrange", "[\"2020-01-01 00:00:00\",)", "120000000800023e0786c26000");
    check("tstzrange", "[\"2020-01-01 00:00:00+00\",)", "120000000800023e0786c26000");
    let ranges = "00000002000000110200000004000000010000000400000003000000110200000004000000050000000400000007";
    check("int4multirange", "{[1,3),[5,7)}", ranges);
    check("int4multirange", "{}", "00000000");
    check("point", "(1,2)", "3ff00000000000004000000000000000");
    check("circle", "<(1,2),3>", "3ff000000000000040000000000000004008000000000000");
    check("path", "[(1,2)]", "00000000013ff00000000000004000000000000000");
    check("polygon", "((1,2))", "000000013ff00000000000004000000000000000");
    check("tsvector", "'a' 'b'", "000000026100000062000000");
    check("tsvector", "'a':1,2B", "000000016100000200018002");
    check("xml", "<a/>", "3c612f3e");
    check("pg_lsn", "0/16", "0000000000000016");
    check("inet[]", "{10.0.0.1,NULL}", "000000010000000100000365000000020000000100000008022000040a000001ffffffff");
}

#[test]
fn ranges_of_moments_are_shown_in_the_sessions_time_zone() {
    let zone = SessionTimeZone::parse("+02").unwrap();
    let settings = OutputSettings { time_zone: zone, ..OutputSettings::default() };
    let sql_type = SqlType::parse("tstzrange").unwrap();
    let column = parsed(&sql_type, "[2020-01-01 00:00+00,2020-01-02 00:00+00)");
    assert_eq!(text_of(column, sql_type, settings), "[\"2020-01-01 02:00:00+02\",\"2020-01-02 02:00:00+02\")");
}

#[test]
fn d19_times_beyond_a_day_are_refused() {
    for (us, taken) in [(-1i64, false), (0, true), (86_400_000_000, true), (86_400_000_001, false)] {
        let mut reader = ColumnReader::new(&SqlType::Time, OutputSettings::default()).unwrap();
        let found = reader.append_binary(&us.to_be_bytes()).map_err(|error| error.state);
        assert_eq!(found, if taken { Ok(()) } else { Err(SqlState::DatetimeFieldOverflow) }, "{us}");
    }
}

#[test]
fn nested_arrays_have_all_their_dimensions() {
    let inner =
        ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), Some(2)]), Some(vec![Some(3), Some(4)])]);
    let field = Arc::new(Field::new("item", inner.data_type().clone(), true));
    let outer = ListArray::new(field, arrow::buffer::OffsetBuffer::from_lengths([2]), Arc::new(inner), None);
    let sql_type = SqlType::Array(Box::new(SqlType::Array(Box::new(SqlType::Int4))));
    let array: ArrayRef = Arc::new(outer);
    assert_eq!(text_of(array.clone(), sql_type.clone(), OutputSettings::default()), "{{1,2},{3,4}}");
    let bytes = written(array, ResultColumn::new("c", sql_type), Format::Binary, OutputSettings::default());
    assert_eq!(
        hex(&bytes),
        "000000020000000000000017000000020000000100000002000000010000000400000001000000040000000200000004000000030000000400000004"
    );
}

#[test]
fn a_record_writes_its_fields_with_their_types() {
    let fields = vec![("a".to_string(), SqlType::Int4), ("b".to_string(), SqlType::Text), ("c".to_string(), SqlType::Text)];
    let record = StructArray::from(vec![
        (Arc::new(Field::new("a", SqlType::Int4.to_arrow(), true)), Arc::new(Int32Array::from(vec![1])) as ArrayRef),
        (Arc::new(Field::new("b", SqlType::Text.to_arrow(), true)), Arc::new(StringArray::from(vec!["a \"b"]))),
        (Arc::new(Field::new("c", SqlType::Text.to_arrow(), true)), Arc::new(StringArray::from(vec![None::<&str>]))),
    ]);
    let array: ArrayRef = Arc::new(record);
    let sql_type = SqlType::Record(fields);
    assert_eq!(text_of(array.clone(), sql_type.clone(), OutputSettings::default()), "(1,\"a \"\"b\",)");
    let bytes = written(array, ResultColumn::new("c", sql_type), Format::Binary, OutputSettings::default());
    assert_eq!(hex(&bytes), "0000000300000017000000040000000100000019000000046120226200000019ffffffff");
}

#[test]
fn vectors_of_the_system_relations_are_written_without_braces() {
    let list = ListArray::from_iter_primitive::<Int16Type, _, _>(vec![Some(vec![Some(1), Some(3)])]);
    let field = Field::new("indkey", list.data_type().clone(), true)
        .with_metadata(HashMap::from([(OID_METADATA.to_string(), "22".to_string())]));
    let column = ResultColumn::from_field(&field).unwrap();
    assert_eq!(column.type_oid, 22);
    let array: ArrayRef = Arc::new(list);
    assert_eq!(written(array.clone(), column.clone(), Format::Text, OutputSettings::default()), b"1 3");
    let bytes = written(array, column, Format::Binary, OutputSettings::default());
    assert_eq!(hex(&bytes), "0000000100000000000000150000000200000000000000020001000000020003");
}

#[test]
fn floats_are_laid_out_as_postgres_lays_them_out() {
    let shown = |value: f64| text_of(Arc::new(Float64Array::from(vec![value])), SqlType::Float8, OutputSettings::default());
    let expected = [
        (0.0, "0"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (1e14, "100000000000000"),
        (1e15, "1e+15"),
        (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.0 / 3.0, "0.3333333333333333"),
        (1e100, "1e+100"),
        (f64::NEG_INFINITY, "-Infinity"),
    ];
    for (value, text) in expected {
        assert_eq!(shown(value), text);
    }
    let settings = OutputSettings { extra_float_digits: 0, ..OutputSettings::default() };
    assert_eq!(text_of(Arc::new(Float64Array::from(vec![1.0 / 3.0])), SqlType::Float8, settings), "0.333333333333333");
    assert_eq!(text_of(parsed(&SqlType::Float4, "1234567"), SqlType::Float4, OutputSettings::default()), "1.234567e+06");
    assert_eq!(text_of(parsed(&SqlType::Float4, "0.1"), SqlType::Float4, OutputSettings::default()), "0.1");
}

#[test]
fn intervals_show_a_sign_where_it_changes() {
    let shown = |text: &str| text_of(parsed(&SqlType::Interval, text), SqlType::Interval, OutputSettings::default());
    let expected = [
        ("0", "00:00:00"),
        ("1 day", "1 day"),
        ("-1 days +02:03", "-1 days +02:03:00"),
        ("1 mon -1 day", "1 mon -1 days"),
        ("-1 mon 1 day", "-1 mons +1 day"),
        ("90 minutes", "01:30:00"),
        ("1.5 days", "1 day 12:00:00"),
        ("1.5 months", "1 mon 15 days"),
        ("2 weeks ago", "-14 days"),
        ("@ 1 hour ago", "-01:00:00"),
        ("P1Y2M3DT4H5M6.7S", "1 year 2 mons 3 days 04:05:06.7"),
        ("1-2", "1 year 2 mons"),
        ("3 4:05:06", "3 days 04:05:06"),
        ("100:00:00", "100:00:00"),
        ("5 seconds", "00:00:05"),
        ("10ms", "00:00:00.01"),
    ];
    for (text, shows) in expected {
        assert_eq!(shown(text), shows, "{text}");
    }
}

#[test]
fn timestamps_follow_the_zone_of_the_session() {
    let settings = |zone: &str| OutputSettings { time_zone: SessionTimeZone::parse(zone).unwrap(), ..OutputSettings::default() };
    let shown = |text: &str, zone: &str| text_of(parsed(&SqlType::TimestampTz, text), SqlType::TimestampTz, settings(zone));
    assert_eq!(shown("2020-07-01 12:00:00+00", "Europe/Berlin"), "2020-07-01 14:00:00+02");
    assert_eq!(shown("2020-01-01 12:00:00Z", "Asia/Kolkata"), "2020-01-01 17:30:00+05:30");
    assert_eq!(shown("2020-01-01T12:00:00-03:30", "UTC"), "2020-01-01 15:30:00+00");
    assert_eq!(shown("2020-01-01 12:00 America/New_York", "UTC"), "2020-01-01 17:00:00+00");
    assert_eq!(shown("2020-01-01 12:00:00+00", "+02"), "2020-01-01 14:00:00+02");
    let mut reader = ColumnReader::new(&SqlType::TimestampTz, settings("Europe/Berlin")).unwrap();
    reader.append_text("2020-07-01 14:00:00").unwrap();
    assert_eq!(text_of(reader.finish().unwrap(), SqlType::TimestampTz, settings("UTC")), "2020-07-01 12:00:00+00");
}

#[test]
fn dates_reach_before_christ() {
    let shown = |text: &str| text_of(parsed(&SqlType::Timestamp, text), SqlType::Timestamp, OutputSettings::default());
    assert_eq!(shown("0044-03-15 10:00:00 BC"), "0044-03-15 10:00:00 BC");
    assert_eq!(shown("0001-01-01"), "0001-01-01 00:00:00");
    assert_eq!(shown("12020-01-01"), "12020-01-01 00:00:00");
    for text in ["2020-02-29", "1999-12-31", "0001-02-28 BC", "1600-02-29", "4714-11-24 BC"] {
        assert_eq!(text_of(parsed(&SqlType::Date, text), SqlType::Date, OutputSettings::default()), text);
    }
}

#[test]
fn d22_bad_texts_are_refused_with_the_codes_of_postgres() {
    let state = |type_name: &str, text: &str| {
        let mut reader = ColumnReader::new(&SqlType::parse(type_name).unwrap(), OutputSettings::default()).unwrap();
        let error = reader.append_text(text).unwrap_err();
        (error.state, error.message)
    };
    let expected = [
        ("int4", "bad", SqlState::InvalidTextRepresentation, "invalid input syntax for type integer: \"bad\""),
        ("int4", "99999999999", SqlState::NumericValueOutOfRange, "value \"99999999999\" is out of range for type integer"),
        ("date", "2020-13-01", SqlState::DatetimeFieldOverflow, "date/time field value out of range: \"2020-13-01\""),
        ("date", "2021-02-29", SqlState::DatetimeFieldOverflow, "date/time field value out of range: \"2021-02-29\""),
        ("date", "x", SqlState::InvalidDatetimeFormat, "invalid input syntax for type date: \"x\""),
        ("numeric(5,2)", "1000", SqlState::NumericValueOutOfRange, "numeric field overflow"),
        ("varchar(3)", "abcd", SqlState::StringDataRightTruncation, "value too long for type character varying(3)"),
        ("uuid", "1234", SqlState::InvalidTextRepresentation, "invalid input syntax for type uuid: \"1234\""),
        ("jsonb", "{", SqlState::InvalidTextRepresentation, "invalid input syntax for type json"),
        ("int4[]", "{1,2", SqlState::InvalidTextRepresentation, "malformed array literal: \"{1,2\""),
        ("boolean", "maybe", SqlState::InvalidTextRepresentation, "invalid input syntax for type boolean: \"maybe\""),
        ("interval", "1 fortnite", SqlState::InvalidDatetimeFormat, "invalid input syntax for type interval: \"1 fortnite\""),
    ];
    for (type_name, text, code, message) in expected {
        assert_eq!(state(type_name, text), (code, message.to_string()), "{type_name} {text}");
    }
}

#[test]
fn arrays_are_taken_apart_as_postgres_does() {
    let elements = |text: &str| thalweg_catalog::array_text::elements(text).unwrap();
    let some = |texts: &[&str]| texts.iter().map(|t| Some(t.to_string())).collect::<Vec<_>>();
    assert_eq!(elements("{ a , \"b \" ,c}"), some(&["a", "b ", "c"]));
    assert_eq!(elements(r#"{"a\"b",c\,d}"#), some(&["a\"b", "c,d"]));
    assert_eq!(elements("{null,\"null\"}"), vec![None, Some("null".to_string())]);
    assert_eq!(elements("{{1,2},{3}}"), some(&["{1,2}", "{3}"]));
    assert!(thalweg_catalog::array_text::elements("{a,}").is_err());
    assert!(thalweg_catalog::array_text::elements("{a}b").is_err());
}

#[test]
fn values_wider_than_their_column_are_cast_or_refused() {
    let array: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
    let sql_type = SqlType::from_arrow(array.data_type()).unwrap();
    assert_eq!(text_of(array.clone(), sql_type, OutputSettings::default()), "18446744073709551615");
    assert!(ColumnWriter::new(&array, &SqlType::Record(vec![]), 2249).is_err());
    let small: ArrayRef = Arc::new(Int16Array::from(vec![5]));
    assert_eq!(text_of(small, SqlType::Int8, OutputSettings::default()), "5");
}

#[test]
fn bytea_can_be_shown_with_escapes() {
    let settings = OutputSettings { bytea_output: ByteaOutput::Escape, ..OutputSettings::default() };
    assert_eq!(text_of(parsed(&SqlType::Bytea, "a\\\\\\000\\377"), SqlType::Bytea, settings), "a\\\\\\000\\377");
}

#[test]
fn numbers_are_exact_through_both_forms() {
    let mut state: u64 = 7;
    for _ in 0..2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let scale = (state >> 59) as u32 % 30;
        let value = i128::from(state as i64) * i128::from((state >> 20) as i32 % 100_000);
        let (mut text, mut binary) = (BytesMut::new(), BytesMut::new());
        super::numeric::write_text(value, scale as i8, &mut text);
        super::numeric::write_binary(value, scale as i8, &mut binary);
        let expected = super::numeric::Decimal { value, scale };
        assert_eq!(super::numeric::parse_text(std::str::from_utf8(&text).unwrap()), Ok(expected));
        assert_eq!(super::numeric::parse_binary(&binary), Some(Ok(expected)));
    }
}

#[test]
fn d19_no_bytes_make_a_reader_panic() {
    let types = ["bool", "int2", "int8", "float8", "numeric", "text", "char(3)", "bytea", "date", "time", "timestamp"];
    let more = ["timestamptz", "interval", "uuid", "jsonb", "int4[]", "text[]", "numeric(4,1)[]"];
    let mut state: u64 = 3;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let alphabet = b"0123456789-+:. {}\",\\abcdeTZPYMDnull\0\xff/";
    for type_name in types.into_iter().chain(more) {
        let sql_type = SqlType::parse(type_name).unwrap();
        for _ in 0..3000 {
            let length = next() % 24;
            let bytes: Vec<u8> = (0..length).map(|_| alphabet[next() % alphabet.len()]).collect();
            let mut reader = ColumnReader::new(&sql_type, OutputSettings::default()).unwrap();
            let _ = reader.append(Format::Text, &bytes);
            let mut reader = ColumnReader::new(&sql_type, OutputSettings::default()).unwrap();
            let _ = reader.append(Format::Binary, &bytes);
        }
    }
}

#[test]
fn enums_are_their_labels_in_both_forms() {
    let of = r#"enum ["public","mood",16384,16385,["sad","ok"]]"#;
    check(of, "ok", "6f6b");
    // Its elements say the OID of the type.
    check(&format!("{of}[]"), "{sad,NULL}", "000000010000000100004000000000020000000100000003736164ffffffff");
    let sql_type = SqlType::parse(of).unwrap();
    assert_eq!((sql_type.oid(), sql_type.array_oid()), (16384, 16385));
    let mut reader = ColumnReader::new(&sql_type, OutputSettings::default()).unwrap();
    let error = reader.append_text("glad").unwrap_err();
    assert_eq!(
        (error.state, error.message.as_str()),
        (SqlState::InvalidTextRepresentation, "invalid input value for enum mood: \"glad\"")
    );
}
