use super::*;
use crate::decode::{Decoder, Format};
use thalweg_catalog::SqlType;

#[test]
fn what_is_written_reads_back_the_same() {
    let columns: Vec<Column> =
        [("a", "int8"), ("b", "text"), ("c", "timestamp"), ("d", "int8[]"), ("e", "bool"), ("f", "timestamptz")]
            .into_iter()
            .map(|(name, t)| Column::new(name, SqlType::parse(t).unwrap()))
            .collect();
    let records = [
        r#"1,plain,2024-01-31 23:59:00.5,"[1,2]",true,2024-01-31 23:59:00+00"#,
        r#"2,"with, ""quotes""",,,false,"#,
        r#",,,,,"#,
        r#"4,"",,[],,"#,
    ];
    let all: Vec<usize> = (0..columns.len()).collect();
    let options = CsvOptions::default();
    let mut decoder = Decoder::new(&Format::Csv(options.clone()), &columns, &all).unwrap();
    records.iter().for_each(|record| assert!(decoder.push(record.as_bytes(), record)));
    let (batch, _) = decoder.finish().unwrap();
    let rows = CsvRows::new(&batch, &columns, &options).unwrap();
    let mut out = vec![];
    (0..batch.num_rows()).for_each(|row| rows.write(row, &mut out));
    assert_eq!(String::from_utf8(out).unwrap(), records.map(|record| format!("{record}\n")).concat());
}

#[test]
fn a_header_is_quoted_where_it_must_be() {
    let mut out = vec![];
    CsvRows::write_header(
        &[Column::new("a,b", SqlType::Int8), Column::new("c", SqlType::Int8)],
        &CsvOptions::default(),
        &mut out,
    );
    assert_eq!(out, b"\"a,b\",c\n");
}
