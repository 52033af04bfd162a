use super::*;
use crate::wire::guard::Stop;
use crate::wire::session::ResultColumn;
use crate::wire::settings::OutputSettings;
use crate::wire::value::Format;
use crate::wire::value::write::RowWriter;
use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use std::sync::Arc;
use thalweg_catalog::{Column, SqlState, SqlType};

fn columns() -> Vec<Column> {
    vec![Column::new("a", SqlType::Int4), Column::new("b", SqlType::Text)]
}

/// Reads data in pieces of every size up to `data`'s, which must all give the same rows, one a line.
fn rows(options: &CopyOptions, data: &[u8]) -> Result<Vec<String>, (SqlState, String, Option<String>)> {
    let mut results = vec![];
    for size in 1..=data.len().max(1) {
        results.push(rows_in_pieces(options, data, size));
    }
    results.dedup();
    assert_eq!(results.len(), 1, "the same rows however the data is cut: {results:?}");
    results.pop().unwrap()
}

fn rows_in_pieces(options: &CopyOptions, data: &[u8], size: usize) -> Result<Vec<String>, (SqlState, String, Option<String>)> {
    let read = || -> Result<Vec<RecordBatch>, Stop> {
        let mut reader = CopyReader::new(&columns(), options.clone(), "t".to_string(), OutputSettings::default())?;
        let mut batches = vec![];
        for piece in data.chunks(size) {
            reader.push(piece)?;
            batches.extend(reader.full_batch()?);
        }
        reader.end()?;
        while let Some(batch) = reader.last_batch()? {
            batches.push(batch);
        }
        Ok(batches)
    };
    match read() {
        Ok(batches) => {
            let mut rows = vec![];
            for batch in &batches {
                let a = batch.column(0).as_any().downcast_ref::<Int32Array>().unwrap();
                let b = batch.column(1).as_any().downcast_ref::<StringArray>().unwrap();
                rows.extend(a.iter().zip(b.iter()).map(|(a, b)| format!("{a:?} {b:?}")));
            }
            Ok(rows)
        }
        Err(Stop::Error(error, context)) => Err((error.state, error.message, context.map(String::from))),
        Err(Stop::End(end)) => panic!("{end:?}"),
    }
}

fn sample() -> RecordBatch {
    let a: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3)]));
    let b: ArrayRef = Arc::new(StringArray::from(vec![Some("x\ty\n\\"), Some(""), None]));
    RecordBatch::try_from_iter_with_nullable([("a", a, true), ("b", b, true)]).unwrap()
}

fn written(options: &CopyOptions) -> Vec<u8> {
    let batch = sample();
    let columns: Vec<ResultColumn> = batch.schema().fields().iter().map(|f| ResultColumn::from_field(f).unwrap()).collect();
    let format = if options.format == CopyFormat::Binary { Format::Binary } else { Format::Text };
    let mut copy = CopyWriter::new(options.clone(), &columns).unwrap();
    let mut out = copy.header().unwrap_or_default();
    let writer = RowWriter::new(columns, vec![format; 2], OutputSettings::default());
    let writer = writer.batch(&batch).unwrap();
    for row in 0..writer.rows() {
        copy.write_row(&writer, row, &mut out).unwrap();
    }
    for piece in copy.trailer() {
        out.extend_from_slice(&piece);
    }
    out.to_vec()
}

#[test]
fn every_format_reads_back_what_it_wrote() {
    let expected = pretty_format_batches(&[sample()]).unwrap().to_string();
    for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
        for header in [false, true] {
            let options = CopyOptions { header: header && format != CopyFormat::Binary, ..CopyOptions::of_format(format) };
            let data = written(&options);
            let found = rows(&options, &data).unwrap();
            assert_eq!(found, ["Some(1) Some(\"x\\ty\\n\\\\\")", "None Some(\"\")", "Some(3) None"], "{format:?}\n{expected}");
        }
    }
}

#[test]
fn text_and_csv_look_as_postgres_writes_them() {
    assert_eq!(written(&CopyOptions::default()), b"1\tx\\ty\\n\\\\\n\\N\t\n3\t\\N\n");
    let csv = CopyOptions { header: true, ..CopyOptions::of_format(CopyFormat::Csv) };
    assert_eq!(written(&csv), b"a,b\n1,\"x\ty\n\\\"\n,\"\"\n3,\n");
    let forced = CopyOptions { force_quote: ForcedColumns::All, ..CopyOptions::of_format(CopyFormat::Csv) };
    assert!(written(&forced).starts_with(b"\"1\",\"x\ty"));
}

#[test]
fn text_escapes_and_the_end_mark_are_understood() {
    let data = b"1\ta\\tb\\x41\\101\n2\tsplit\\\nrow\n\\.\nrubbish";
    assert_eq!(rows(&CopyOptions::default(), data).unwrap(), ["Some(1) Some(\"a\\tbAA\")", "Some(2) Some(\"split\\nrow\")"]);
    assert_eq!(rows(&CopyOptions::default(), b"1\tx\r\n2\ty\r\n").unwrap(), ["Some(1) Some(\"x\")", "Some(2) Some(\"y\")"]);
    assert_eq!(rows(&CopyOptions::default(), b"1\tno newline").unwrap(), ["Some(1) Some(\"no newline\")"]);
    assert_eq!(rows(&CopyOptions::default(), b"").unwrap(), Vec::<String>::new());
}

#[test]
fn csv_quotes_hold_newlines_delimiters_and_quotes() {
    let csv = CopyOptions::of_format(CopyFormat::Csv);
    let data = b"1,\"a,\"\"b\"\"\nc\"\n2,\n3,\"\"\n";
    assert_eq!(rows(&csv, data).unwrap(), ["Some(1) Some(\"a,\\\"b\\\"\\nc\")", "Some(2) None", "Some(3) Some(\"\")"]);
    let escape = CopyOptions { escape: b'\\', ..csv.clone() };
    assert_eq!(rows(&escape, b"1,\"a\\\"b\"\n").unwrap(), ["Some(1) Some(\"a\\\"b\")"]);
    let not_null = CopyOptions { force_not_null: vec!["b".to_string()], ..csv };
    assert_eq!(rows(&not_null, b"1,\n").unwrap(), ["Some(1) Some(\"\")"]);
}

#[test]
fn d22_bad_data_is_told_with_its_place() {
    let error = |options: &CopyOptions, data: &[u8]| rows(options, data).unwrap_err();
    let text = CopyOptions::default();
    let (state, message, context) = error(&text, b"1\tx\nbad\ty\n");
    assert_eq!(state, SqlState::InvalidTextRepresentation);
    assert_eq!(message, "invalid input syntax for type integer: \"bad\"");
    assert_eq!(context.as_deref(), Some("COPY t, line 2, column a: \"bad\""));
    let (state, message, context) = error(&text, b"1\n");
    assert_eq!((state, message.as_str()), (SqlState::BadCopyFileFormat, "missing data for column \"b\""));
    assert_eq!(context.as_deref(), Some("COPY t, line 1: \"1\""));
    assert_eq!(error(&text, b"1\t2\t3\n").1, "extra data after last expected column");
    assert_eq!(error(&CopyOptions::of_format(CopyFormat::Csv), b"1,\"x\n").1, "unterminated CSV quoted field");
    let binary = CopyOptions::of_format(CopyFormat::Binary);
    assert_eq!(error(&binary, b"PGCOPX").1, "COPY file signature not recognized");
    assert_eq!(error(&binary, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\xff\xff\xff\xff").1, "row field count is 1, expected 2");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    use datafusion::sql::sqlparser::ast::{CopyLegacyOption, CopyOption, Ident};
    let refused = |options: &[CopyOption]| CopyOptions::from_ast(options, &[]).unwrap_err().message;
    assert_eq!(refused(&[CopyOption::Quote('"')]), "COPY quote available only in CSV mode");
    assert_eq!(refused(&[CopyOption::Format(Ident::new("xml"))]), "COPY format \"xml\" not recognized");
    assert_eq!(
        refused(&[CopyOption::Format(Ident::new("binary")), CopyOption::Delimiter(',')]),
        "cannot specify DELIMITER in BINARY mode"
    );
    assert_eq!(refused(&[CopyOption::Delimiter('a')]), "COPY delimiter cannot be \"a\"");
    let legacy = CopyOptions::from_ast(&[], &[CopyLegacyOption::Csv(vec![]), CopyLegacyOption::Delimiter(';')]).unwrap();
    assert_eq!((legacy.format, legacy.delimiter), (CopyFormat::Csv, b';'));
}

#[test]
fn d19_no_data_makes_a_copy_panic() {
    let mut state: u64 = 5;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
        let options = CopyOptions::of_format(format);
        for _ in 0..3000 {
            let length = next() % 60;
            let mut data: Vec<u8> = (0..length).map(|_| b"1,\t\"\\\n\r.x\0\xff"[next() % 11]).collect();
            if format == CopyFormat::Binary && next() % 4 > 0 {
                data.splice(0..0, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".iter().copied());
            }
            let size = 1 + next() % 7;
            let _ = rows_in_pieces(&options, &data, size);
        }
    }
}
