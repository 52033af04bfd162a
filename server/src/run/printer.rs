//! Results on standard output. Values are written as clients get them, CSV as `COPY` writes it.

use super::Format;
use crate::wire::copy::{CopyFormat, CopyOptions, CopyWriter};
use crate::wire::session::ResultColumn;
use crate::wire::settings::OutputSettings;
use crate::wire::value;
use crate::wire::value::write::{BatchWriter, RowWriter};
use arrow::array::RecordBatch;
use bytes::BytesMut;
use std::io::Write;
use thalweg_catalog::{Column, SqlError, SqlResult, SqlState};
use thalweg_connectors::encode::JsonRows;

/// Prints the rows of one result.
pub(super) struct Printer {
    format: Format,
    live: bool,
    rows: RowWriter,
    copy: CopyWriter,
    begun: bool,
    /// Rows of a table, which are aligned once all are there.
    table: Vec<Vec<String>>,
}

impl Printer {
    /// For rows that end.
    pub fn new(format: Format, columns: Vec<ResultColumn>) -> SqlResult<Printer> {
        let options = CopyOptions { header: true, ..CopyOptions::of_format(CopyFormat::Csv) };
        let copy = CopyWriter::new(options, &columns)?;
        let formats = vec![value::Format::Text; columns.len()];
        let rows = RowWriter::new(columns, formats, OutputSettings::default());
        Ok(Printer { format, live: false, rows, copy, begun: false, table: vec![] })
    }

    /// For rows that never end: each is printed as it comes.
    pub fn live(format: Format, columns: Vec<ResultColumn>) -> SqlResult<Printer> {
        Ok(Printer { live: true, ..Printer::new(format, columns)? })
    }

    pub fn take(&mut self, batch: &RecordBatch) -> SqlResult<()> {
        match self.format {
            Format::Table => {
                let rows = texts(&self.rows.batch(batch)?)?;
                if !self.live {
                    self.table.extend(rows);
                    return Ok(());
                }
                let lines: Vec<String> = rows.iter().map(|row| row.join(" | ") + "\n").collect();
                print(lines.concat().as_bytes())
            }
            Format::Csv => {
                let mut out = self.header();
                let rows = self.rows.batch(batch)?;
                (0..rows.rows()).try_for_each(|row| self.copy.write_row(&rows, row, &mut out))?;
                print(&out)
            }
            Format::Json => print(&json_lines(batch, self.rows.columns())?),
        }
    }

    pub fn finish(&mut self) -> SqlResult<()> {
        match self.format {
            Format::Table => {
                let names: Vec<&str> = self.rows.columns().iter().map(|c| c.name.as_str()).collect();
                print(table(&names, &self.table).as_bytes())
            }
            Format::Csv => print(&self.header()),
            Format::Json => Ok(()),
        }
    }

    /// The line of names, once.
    fn header(&mut self) -> BytesMut {
        let due = !std::mem::replace(&mut self.begun, true);
        if due { self.copy.header().unwrap_or_default() } else { BytesMut::new() }
    }
}

fn print(bytes: &[u8]) -> SqlResult<()> {
    let mut out = std::io::stdout().lock();
    let printed = out.write_all(bytes).and_then(|()| out.flush());
    printed.map_err(|e| SqlError::new(SqlState::IoError, format!("could not write the result: {e}")))
}

/// Each value as text; nothing for NULL.
fn texts(batch: &BatchWriter) -> SqlResult<Vec<Vec<String>>> {
    let cell = |column: usize, row: usize| {
        let mut text = BytesMut::new();
        if !batch.is_null(column, row) {
            batch.write_text(column, row, &mut text)?;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    };
    (0..batch.rows()).map(|row| (0..batch.width()).map(|column| cell(column, row)).collect()).collect()
}

/// Names and rows under each other, as psql shows them.
fn table(names: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([names[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!(" {}", padded.join(" | ")).trim_end().to_string()
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    let mut lines = vec![line(&mut names.iter().copied()), rule.join("+")];
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines.push(format!("({} row{})\n", rows.len(), if rows.len() == 1 { "" } else { "s" }));
    lines.join("\n")
}

/// An object a line.
fn json_lines(batch: &RecordBatch, columns: &[ResultColumn]) -> SqlResult<Vec<u8>> {
    let columns: Vec<Column> = columns.iter().map(|c| Column::new(&c.name, c.sql_type.clone())).collect();
    let all: Vec<usize> = (0..columns.len()).collect();
    let rows = JsonRows::new(batch, &columns, &all).map_err(|e| SqlError::internal(e.message))?;
    let mut lines = vec![];
    for row in 0..batch.num_rows() {
        rows.write(row, &mut lines);
        lines.push(b'\n');
    }
    Ok(lines)
}
