use crate::source::{Boundedness, SourceEvent, SourceReader, SplitId};
use crate::testing::{Harness, columns, next_event, next_rows, spec};
use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use thalweg_catalog::object::Encode;

fn lines(count: usize) -> String {
    (0..count).map(|row| format!("{{\"a\":{row},\"b\":\"text {row}\"}}\n")).collect()
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_string_lossy().into_owned()
}

fn append(path: &str, content: &str) {
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(content.as_bytes()).unwrap();
}

fn json(path: &str, options: &[(&str, &str)]) -> Harness {
    let options: Vec<_> = [("path", path)].into_iter().chain(options.iter().copied()).collect();
    Harness::new(&spec("file", &options, Some(Encode::Json)), &columns(&[("a", "bigint"), ("b", "text")]))
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_file_is_read_in_batches_and_again_from_each_position() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.json", lines(20_000));
    let harness = json(&path, &[]);
    assert_eq!(harness.source.boundedness(), Boundedness::Bounded);
    assert_eq!(harness.splits(), std::slice::from_ref(&path));
    let whole = harness.check_resume(&path);
    assert_eq!(whole.rows.len(), 20_000);
    assert_eq!(whole.rows[19_999], "19999|text 19999");
    assert!(whole.positions.len() > 2);
    assert_eq!(whole.positions.last().unwrap().1, format!("offset={},line=20000", lines(20_000).len()));
}

#[test]
fn every_line_is_a_place_to_go_on_from() {
    let folder = TempDir::new().unwrap();
    let text = "{\"a\":1}\r\n\n{\"a\":2}\n{bad}\n{\"a\":3}";
    let path = write(&folder, "a.json", text);
    let harness = json(&path, &[]);
    let whole = harness.read(&path, None);
    assert_eq!(whole.rows, ["1|NULL", "2|NULL", "3|NULL"]);
    assert_eq!(whole.errors, ["line 4: malformed JSON at byte 2: expected a key"]);
    for (offset, line, rest) in [(9, 1, 2), (10, 2, 2), (18, 3, 1), (24, 4, 1), (31, 5, 0)] {
        let read = harness.read(&path, Some(&format!("offset={offset},line={line}")));
        assert_eq!(read.rows, whole.rows[3 - rest..], "from {offset}");
        assert_eq!(read.errors.len(), usize::from(offset < 24));
    }
}

#[test]
fn compressed_files_are_read_by_their_endings_and_resumed() {
    let folder = TempDir::new().unwrap();
    let text = lines(20_000);
    let two_pieces = [gzip(&text[..100_000]), gzip(&text[100_000..])].concat();
    let gz = write(&folder, "a.json.gz", two_pieces);
    let zst = write(&folder, "a.json.zst", zstd::stream::encode_all(text.as_bytes(), 0).unwrap());
    let named_otherwise = write(&folder, "b.data", gzip(&text));
    let plain = write(&folder, "c.json", &text);
    let expected = json(&plain, &[]).read(&plain, None).rows;
    for (path, options) in [(gz, vec![]), (zst, vec![]), (named_otherwise, vec![("compression", "gzip")])] {
        assert_eq!(json(&path, &options).check_resume(&path).rows, expected, "{path}");
    }
}

#[test]
fn a_damaged_compressed_file_is_an_error_that_names_it() {
    let folder = TempDir::new().unwrap();
    let whole = gzip(&lines(20_000));
    let path = write(&folder, "a.json.gz", &whole[..whole.len() / 2]);
    let mut reader = json(&path, &[]).reader();
    reader.assign(vec![(path.as_str().into(), None)]).unwrap();
    let error = loop {
        match reader.next(Duration::ZERO) {
            Ok(event) => assert!(!matches!(event, SourceEvent::SplitEnd { .. })),
            Err(error) => break error,
        }
    };
    assert!(error.message.contains(&path) && !error.retry, "{error}");
    let mut patient = json(&path, &[("follow", "true")]).reader();
    patient.assign(vec![(path.as_str().into(), Some("offset=0,line=0".into()))]).unwrap();
    let error = loop {
        if let Err(error) = patient.next(Duration::ZERO) {
            break error;
        }
    };
    assert!(error.retry, "a followed file may not be whole yet");
}

#[test]
fn globs_and_folders_name_several_files_but_no_hidden_ones() {
    let folder = TempDir::new().unwrap();
    let b = write(&folder, "b.json", lines(1));
    let a = write(&folder, "a.json", lines(1));
    let c = write(&folder, "c.csv", "");
    write(&folder, ".hidden.json", lines(1));
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    assert_eq!(json(&path("*.json"), &[]).splits(), [a.clone(), b.clone()]);
    assert_eq!(json(&path(""), &[]).splits(), [a.clone(), b.clone(), c.clone()]);
    assert_eq!(json(folder.path().to_str().unwrap(), &[]).splits(), [a.clone(), b, c]);
    assert_eq!(json(&format!("file://{a}"), &[]).splits(), [a]);
    assert!(json(&path("*.parquet"), &[]).splits().is_empty());
    assert!(json(&path("none.json"), &[]).splits_error().contains("there is no file"));
}

#[test]
fn the_file_that_is_furthest_behind_in_time_is_read_first() {
    let folder = TempDir::new().unwrap();
    // In the order of their names the last one comes first.
    for file in 0..20 {
        let minute = 59 - 2 * file;
        let line = |row: usize| format!("{{\"a\": {row}, \"at\": \"2024-01-01 00:{minute}:{:02}\"}}\n", row / 4);
        write(&folder, &format!("{file:02}.json"), (0..200).map(line).collect::<String>());
    }
    let given = spec("file", &[("path", folder.path().to_str().unwrap())], Some(Encode::Json));
    let mut harness = Harness::new(&given, &columns(&[("a", "bigint"), ("at", "timestamp")]));
    harness.time = Some(1);
    let mut reader = harness.reader();
    reader.assign(harness.splits().iter().map(|split| (split.as_str().into(), None)).collect()).unwrap();
    let mut batches = vec![];
    while let SourceEvent::Rows(batch) = next_but_ends(&mut *reader) {
        batches.push((batch.split, batch.batch.num_rows()));
    }
    let (first, rest) = batches.split_at(20);
    assert!(first.iter().all(|(_, rows)| *rows == 64), "a little of each, to know its time: {first:?}");
    assert_eq!(rest.iter().map(|(_, rows)| rows).sum::<usize>(), 20 * (200 - 64));
    let order: Vec<&SplitId> = rest.iter().map(|(split, _)| split).collect();
    assert!(order.is_sorted_by(|before, after| before >= after), "by time, not by name: {order:?}");
}

/// What comes next that is not the end of a file.
fn next_but_ends(reader: &mut dyn SourceReader) -> SourceEvent {
    loop {
        match reader.next(Duration::ZERO).unwrap() {
            SourceEvent::SplitEnd { .. } => {}
            event => return event,
        }
    }
}

#[test]
fn many_files_take_turns() {
    let folder = TempDir::new().unwrap();
    for file in 0..20 {
        write(&folder, &format!("{file:02}.json"), lines(10_000));
    }
    let harness = json(folder.path().to_str().unwrap(), &[]);
    let mut reader = harness.reader();
    reader.assign(harness.splits().iter().map(|split| (split.as_str().into(), None)).collect()).unwrap();
    let (mut rows, mut ended, mut first) = (0, 0, vec![]);
    while ended < 20 {
        match reader.next(Duration::ZERO).unwrap() {
            SourceEvent::Rows(batch) => {
                assert!(batch.batch.num_rows() <= 8192);
                rows += batch.batch.num_rows();
                if first.len() < 8 {
                    first.push(batch.split);
                }
            }
            SourceEvent::SplitEnd { .. } => ended += 1,
            SourceEvent::Idle => panic!("nothing to wait for"),
        }
    }
    assert_eq!(rows, 200_000);
    first.dedup();
    assert_eq!(first.len(), 8, "eight files are read in turn");
    assert!(matches!(reader.next(Duration::ZERO).unwrap(), SourceEvent::Idle));
}

#[test]
fn a_followed_file_gives_lines_once_they_have_ended() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.json", "{\"a\":1}\n{\"a\":");
    let harness = json(&path, &[("follow", "true")]);
    assert_eq!(harness.source.boundedness(), Boundedness::Unbounded);
    assert_eq!(harness.source.discovery_interval(&[]), Some(Duration::from_secs(1)));
    let mut reader = harness.reader();
    reader.assign(vec![(path.as_str().into(), None)]).unwrap();
    assert_eq!(next_rows(&mut *reader), ["1|NULL"]);
    assert!(matches!(reader.next(Duration::from_millis(120)).unwrap(), SourceEvent::Idle));
    append(&path, "2}");
    assert!(matches!(reader.next(Duration::from_millis(120)).unwrap(), SourceEvent::Idle));
    append(&path, "\n{\"a\":3}\n");
    let SourceEvent::Rows(batch) = next_event(&mut *reader) else { panic!() };
    assert_eq!(crate::testing::rows(&batch.batch), ["2|NULL", "3|NULL"]);
    assert_eq!(batch.position, "offset=24,line=3");
    let mut again = harness.reader();
    again.assign(vec![(path.as_str().into(), Some(batch.position))]).unwrap();
    append(&path, "{\"a\":4}\n");
    assert_eq!(next_rows(&mut *again), ["4|NULL"]);
    assert_eq!(next_rows(&mut *reader), ["4|NULL"]);
}

#[test]
fn new_files_are_found_and_read_when_followed() {
    let folder = TempDir::new().unwrap();
    let harness = json(&folder.path().join("*").to_string_lossy(), &[("follow", "true"), ("discovery_interval", "50ms")]);
    assert!(harness.splits().is_empty());
    let plain = write(&folder, "a.json", lines(1));
    let packed = write(&folder, "b.json.gz", gzip(&lines(2)));
    assert_eq!(harness.splits(), [plain.clone(), packed.clone()]);
    let mut reader = harness.reader();
    reader.assign(vec![(packed.as_str().into(), None)]).unwrap();
    assert_eq!(next_rows(&mut *reader).len(), 2);
    assert!(matches!(next_event(&mut *reader), SourceEvent::SplitEnd { .. }), "a compressed file does not grow");
    reader.assign(vec![(plain.as_str().into(), None)]).unwrap();
    assert_eq!(next_rows(&mut *reader).len(), 1);
}

fn error_after(change: impl FnOnce(&Path)) -> String {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.json", lines(3));
    let mut reader = json(&path, &[("follow", "true")]).reader();
    reader.assign(vec![(path.as_str().into(), None)]).unwrap();
    assert_eq!(next_rows(&mut *reader).len(), 3);
    assert!(matches!(reader.next(Duration::ZERO).unwrap(), SourceEvent::Idle));
    change(Path::new(&path));
    let error = loop {
        match reader.next(Duration::from_millis(20)) {
            Ok(event) => assert!(matches!(event, SourceEvent::Idle)),
            Err(error) => break error,
        }
    };
    assert!(error.message.contains(&path), "{error}");
    error.message
}

#[test]
fn a_followed_file_that_shrinks_vanishes_or_is_replaced_is_an_error() {
    assert!(error_after(|path| fs::write(path, "{}\n").unwrap()).contains("shrunk"));
    assert!(error_after(|path| fs::remove_file(path).unwrap()).contains("vanished"));
    assert!(
        error_after(|path| {
            let other = path.with_extension("new");
            fs::write(&other, lines(9)).unwrap();
            fs::rename(&other, path).unwrap();
        })
        .contains("replaced")
    );
}

#[test]
fn a_file_that_became_shorter_than_its_position_is_an_error() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.json.gz", gzip(&lines(2)));
    let mut reader = json(&path, &[]).reader();
    reader.assign(vec![(path.as_str().into(), Some("offset=10000,line=500".into()))]).unwrap();
    assert!(reader.next(Duration::ZERO).unwrap_err().message.contains("shorter"));
    let plain = write(&folder, "b.json", lines(2));
    let mut reader = json(&plain, &[]).reader();
    reader.assign(vec![(plain.as_str().into(), Some("offset=10000,line=500".into()))]).unwrap();
    assert!(reader.next(Duration::ZERO).unwrap_err().message.contains("shorter"));
}

#[test]
fn a_line_may_be_longer_than_a_block() {
    let folder = TempDir::new().unwrap();
    let long = "x".repeat(3 << 20);
    let path = write(&folder, "a.json", format!("{{\"a\":1}}\n{{\"b\":\"{long}\"}}\n{{\"a\":2}}\n"));
    let read = json(&path, &[]).check_resume(&path);
    assert_eq!(read.rows.len(), 3);
    assert_eq!(read.rows[1].len(), long.len() + 5);
}

#[test]
fn a_csv_file_with_a_header_and_line_ends_in_quotes_resumes_at_any_record() {
    let folder = TempDir::new().unwrap();
    let mut text = String::from("\u{feff}b,A\n");
    for row in 0..10_000 {
        text.push_str(&format!("\"line one\nline \"\"{row}\"\"\",{row}\n"));
    }
    text.push_str("bad,x\n");
    let path = write(&folder, "a.csv", text);
    let mut given = spec("file", &[("path", &path)], Some(Encode::Csv));
    given.encode_options.insert("header".into(), "true".into());
    let harness = Harness::new(&given, &columns(&[("a", "bigint"), ("b", "text")]));
    let read = harness.check_resume(&path);
    assert_eq!(read.rows.len(), 10_000);
    assert_eq!(read.rows[7], "7|line one\nline \"7\"");
    assert_eq!(read.errors, ["line 20002: column \"a\": invalid input for type bigint: \"x\""]);
    assert_eq!(read.positions.last().unwrap().1.split(",line=").nth(1), Some("20002"));
}

#[test]
fn a_header_that_comes_late_is_still_the_header() {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "a.csv", "");
    let mut given = spec("file", &[("path", &path), ("follow", "true")], Some(Encode::Csv));
    given.encode_options.insert("header".into(), "true".into());
    let mut reader = Harness::new(&given, &columns(&[("a", "bigint"), ("b", "text")])).reader();
    reader.assign(vec![(path.as_str().into(), None)]).unwrap();
    assert!(matches!(reader.next(Duration::ZERO).unwrap(), SourceEvent::Idle));
    append(&path, "b,");
    assert!(matches!(reader.next(Duration::from_millis(120)).unwrap(), SourceEvent::Idle));
    append(&path, "a\nx,1\n");
    assert_eq!(next_rows(&mut *reader), ["1|x"]);
}

fn parquet(folder: &TempDir, name: &str, columns: Vec<(&str, ArrayRef)>) -> String {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = crate::encode::parquet_file(&batch.schema(), &[batch], crate::encode::ParquetCompression::Zstd).unwrap();
    write(folder, name, file)
}

fn parquet_source(path: &str, declared: &[(&str, &str)]) -> Harness {
    Harness::new(&spec("file", &[("path", path)], Some(Encode::Parquet)), &columns(declared))
}

#[test]
fn parquet_is_read_by_name_into_the_declared_types_and_resumed_at_any_row() {
    let folder = TempDir::new().unwrap();
    let path = parquet(
        &folder,
        "a.parquet",
        vec![
            ("A", Arc::new(Int32Array::from_iter_values(0..20_000))),
            ("t", Arc::new(TimestampNanosecondArray::from_iter_values((0..20_000).map(|n| n * 1_000_000_000)))),
            ("unread", Arc::new(StringArray::from_iter_values((0..20_000).map(|n| n.to_string())))),
        ],
    );
    let harness = parquet_source(&path, &[("missing", "text"), ("t", "timestamp"), ("a", "bigint")]);
    let read = harness.check_resume(&path);
    assert_eq!(read.rows.len(), 20_000);
    assert_eq!(read.rows[1], "NULL|1970-01-01T00:00:01|1");
    assert_eq!(harness.read(&path, Some("row=19999")).rows, ["NULL|1970-01-01T05:33:19|19999"]);
    let mut reader = harness.reader_of(&[]);
    reader.assign(vec![(path.as_str().into(), None)]).unwrap();
    let SourceEvent::Rows(batch) = next_event(&mut *reader) else { panic!() };
    assert_eq!((batch.batch.num_rows(), batch.lag), (8192, Some(20_000 - 8192)));
}

#[test]
fn s27_parquet_values_out_of_range_are_errors_of_their_rows() {
    let folder = TempDir::new().unwrap();
    let path =
        parquet(&folder, "a.parquet", vec![("a", Arc::new(Int64Array::from(vec![Some(1), Some(1 << 40), None, Some(3)])))]);
    let read = parquet_source(&path, &[("a", "integer")]).read(&path, None);
    assert_eq!(read.rows, ["1", "NULL", "3"]);
    assert_eq!(read.errors, ["row 2: column \"a\": value does not fit its type"]);
}

#[test]
fn types_carried_as_text_keep_their_rules_in_parquet() {
    let folder = TempDir::new().unwrap();
    let uuids = StringArray::from(vec![Some("A0EEBC999C0B4EF8BB6D6BB9BD380A11"), None, Some("none")]);
    let path = parquet(&folder, "a.parquet", vec![("u", Arc::new(uuids))]);
    let read = parquet_source(&path, &[("u", "uuid")]).read(&path, None);
    assert_eq!(read.rows, ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "NULL"]);
    assert_eq!(read.errors, ["row 3: column \"u\": invalid input for type uuid: \"none\""]);
}

#[test]
fn s26_parquet_numbers_that_would_lose_digits_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = parquet(&folder, "a.parquet", vec![("a", Arc::new(Float64Array::from(vec![1.5])))]);
    for declared in ["bigint", "numeric(10,2)", "timestamp", "uuid[]"] {
        let mut reader = parquet_source(&path, &[("a", declared)]).reader();
        reader.assign(vec![(path.as_str().into(), None)]).unwrap();
        let error = reader.next(Duration::ZERO).unwrap_err();
        assert!(error.message.contains("column \"a\""), "{error}");
    }
    let text = write(&folder, "b.parquet", "no parquet at all");
    let mut reader = parquet_source(&text, &[("a", "bigint")]).reader();
    reader.assign(vec![(text.as_str().into(), None)]).unwrap();
    assert!(reader.next(Duration::ZERO).unwrap_err().message.contains("as Parquet"));
}
