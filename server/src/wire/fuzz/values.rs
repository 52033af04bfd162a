//! D19: bytes that nobody meant, given to what reads values and parameters.

use super::{Random, rounds};
use crate::wire::parameter::{decode_parameter, parameter_type};
use crate::wire::session::ResultColumn;
use crate::wire::settings::{ByteaOutput, IntervalStyle, OutputSettings};
use crate::wire::value::Format;
use crate::wire::value::read::ColumnReader;
use crate::wire::value::write::RowWriter;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use bytes::BytesMut;
use std::sync::Arc;
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::{SqlResult, SqlType};

/// A text of each type that arrays do not hold, to begin with.
const SAMPLES: [(&str, &[&str]); 21] = [
    ("boolean", &["t", "off"]),
    ("smallint", &["-2", "32767"]),
    ("integer", &["7", "-2147483648"]),
    ("bigint", &["9000000000", "-9223372036854775808"]),
    ("real", &["1.5", "NaN", "3.4e38", "1e-45"]),
    ("double precision", &["-2.25", "Infinity", "1e308", "5e-324"]),
    ("numeric", &["12.50", "-1e20", "0.0000000001"]),
    ("numeric(8,3)", &["12345.678", "-1e-3"]),
    ("numeric(38,0)", &["99999999999999999999999999999999999999"]),
    ("text", &["a\u{f1} \"b\\", ""]),
    ("varchar(5)", &["ab  c", "ab      "]),
    ("char(4)", &["ab", "\u{f1}   "]),
    ("bytea", &["\\x00ff", "a\\\\\\377"]),
    ("date", &["2020-02-29", "4714-11-24 BC", "Jan 8, 1999", "20200101"]),
    ("time", &["12:34:56.789", "24:00:00", "11:59 pm"]),
    ("timestamp", &["2020-01-02 03:04:05.678901", "294246-12-31 23:59:59.999999", "0044-03-15 BC"]),
    ("timestamptz", &["2020-01-02 03:04:05+00", "2020-07-01T12:00:00 America/New_York", "2020-01-01 00:00-15:59:59", "epoch"]),
    ("interval", &["1 year 2 mons 3 days 04:05:06.7", "P1Y2M3DT4H5M6S", "-1-2 +3 -4:05:06", "1.5 weeks ago", "2562047:47:16.85"]),
    ("uuid", &["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"]),
    ("json", &["{\"a\": [1e3, null, \"\\u00e9\"]}"]),
    ("jsonb", &["{\"a\": [1.50e2, true], \"a\": {\"b\": -0.0}}", "\"\\ud83d\\ude00\""]),
];

/// Settings of which each type's text can be read back.
fn settings(random: &mut Random) -> OutputSettings {
    const ZONES: [&str; 5] = ["UTC", "America/New_York", "Asia/Kolkata", "+05:45", "Africa/Monrovia"];
    OutputSettings {
        time_zone: SessionTimeZone::parse(random.pick::<&str>(&ZONES)).expect("a zone"),
        bytea_output: *random.pick(&[ByteaOutput::Hex, ByteaOutput::Escape]),
        interval_style: *random.pick(&[IntervalStyle::Postgres, IntervalStyle::PostgresVerbose, IntervalStyle::Iso8601]),
        ..OutputSettings::default()
    }
}

/// The only value of an array in one of its forms.
fn written(array: &ArrayRef, sql_type: &SqlType, format: Format, settings: &OutputSettings) -> Vec<u8> {
    let schema = Schema::new(vec![Field::new("c", array.data_type().clone(), true)]);
    let batch = RecordBatch::try_new(Arc::new(schema), vec![array.clone()]).expect("a batch of one value");
    let writer = RowWriter::new(vec![ResultColumn::new("c", sql_type.clone())], vec![format], *settings);
    let mut out = BytesMut::new();
    writer.batch(&batch).and_then(|batch| batch.write_row(0, &mut out)).expect("what was read can be written");
    out[4..].to_vec()
}

fn read(sql_type: &SqlType, format: Format, bytes: &[u8], settings: OutputSettings) -> SqlResult<ArrayRef> {
    let mut reader = ColumnReader::new(sql_type, settings)?;
    reader.append(format, bytes)?;
    reader.finish()
}

/// A type of the samples, or arrays of it, and bytes that are nearly a value of it.
fn nearly(random: &mut Random, settings: OutputSettings) -> (SqlType, Format, Vec<u8>) {
    let (name, samples) = *random.pick(&SAMPLES);
    let mut sql_type = SqlType::parse(name).expect("a type");
    let mut text = random.pick(samples).to_string();
    for _ in 0..random.below(3) {
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let element = if matches!(sql_type, SqlType::Array(_)) { text } else { format!("\"{quoted}\"") };
        text = format!("{{{element},{}}}", if random.below(2) == 0 { "NULL" } else { &element });
        sql_type = SqlType::Array(Box::new(sql_type));
    }
    let format = *random.pick(&[Format::Text, Format::Binary]);
    let bytes = match (format, read(&sql_type, Format::Text, text.as_bytes(), settings)) {
        (Format::Binary, Ok(array)) => written(&array, &sql_type, Format::Binary, &settings),
        _ => text.into_bytes(),
    };
    let bytes = match random.below(8) {
        0 => random.bytes(40),
        1 => bytes,
        _ => random.mutated(&bytes),
    };
    (sql_type, format, bytes)
}

/// Memory that values read from so many bytes may take: builders make room for some rows beforehand, and a JSON number is written out.
fn memory_max(length: usize) -> usize {
    (1 << 20) + 64 * length
}

#[test]
fn d19_a_value_that_is_read_is_written_and_read_as_the_same() {
    let mut read_in_full = 0u64;
    for round in rounds() {
        let mut random = Random::new(round);
        let settings = settings(&mut random);
        let (sql_type, format, bytes) = nearly(&mut random, settings);
        let Ok(array) = read(&sql_type, format, &bytes, settings) else { continue };
        read_in_full += 1;
        let about = format!("round {round}: {sql_type} from {format:?} {:?}", String::from_utf8_lossy(&bytes));
        assert!(array.get_array_memory_size() <= memory_max(bytes.len()), "{about}");
        let text = written(&array, &sql_type, Format::Text, &settings);
        let binary = written(&array, &sql_type, Format::Binary, &settings);
        let again = |format, bytes: &[u8]| {
            read(&sql_type, format, bytes, settings)
                .unwrap_or_else(|error| panic!("{about}: {:?} is refused: {error}", String::from_utf8_lossy(bytes)))
        };
        let from_text = written(&again(Format::Text, &text), &sql_type, Format::Text, &settings);
        assert_eq!(String::from_utf8_lossy(&from_text), String::from_utf8_lossy(&text), "{about}, from its text");
        let from_binary = again(Format::Binary, &binary);
        assert_eq!(written(&from_binary, &sql_type, Format::Binary, &settings), binary, "{about}, from its binary form");
        let shown = written(&from_binary, &sql_type, Format::Text, &settings);
        assert_eq!(String::from_utf8_lossy(&shown), String::from_utf8_lossy(&text), "{about}, by way of its binary form");
    }
    assert!(read_in_full > 0 || rounds().is_empty(), "some bytes are values");
}

#[test]
fn d19_a_parameter_of_any_bytes_is_a_value_or_an_error() {
    // Types, the arrays of types, those of system relations, and numbers of no type.
    const OIDS: [u32; 40] = [
        0, 16, 17, 18, 19, 20, 21, 22, 23, 25, 26, 28, 30, 114, 199, 700, 701, 705, 1000, 1002, 1005, 1007, 1009, 1014, 1021,
        1028, 1042, 1043, 1082, 1083, 1114, 1115, 1184, 1186, 1231, 1700, 2950, 2951, 3802, 3904,
    ];
    for round in rounds() {
        let mut random = Random::new(round);
        let settings = settings(&mut random);
        let (_, _, bytes) = nearly(&mut random, settings);
        let oid = *random.pick(&OIDS);
        let format = *random.pick(&[Format::Text, Format::Binary]);
        if let Ok(value) = decode_parameter(0, (oid, parameter_type(oid)), format, Some(&bytes), &settings) {
            let array = value.to_array().expect("a scalar makes an array");
            let held = array.get_array_memory_size();
            assert!(held <= memory_max(bytes.len()), "round {round}: {held} bytes of {oid} from {format:?} {bytes:?}");
        }
    }
}
