//! One Parquet file.
//!
//! Columns are found by name and brought to their declared types. A column that the file does not have is NULL. Types are
//! converted where that loses nothing but range; a value out of range, or NULL in a column that is NOT NULL, makes its row an
//! error like any other bad record.

use super::location::{Location, io_error};
use super::reader::Step;
use crate::decode::BATCH_ROWS;
use crate::decode::column::ColumnBuilder;
use crate::error::{ConnectorError, ConnectorResult};
use crate::source::{RecordError, SourceBatch, SourceContext, SplitId};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{CastOptions, can_cast_types, cast_with_options, filter};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use futures::StreamExt;
use object_store::path::Path as ObjectPath;
use parquet::arrow::arrow_reader::{ArrowReaderBuilder, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::async_reader::{ParquetObjectReader, ParquetRecordBatchStream};
use parquet::arrow::{ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::errors::ParquetError;
use std::collections::BTreeMap;
use thalweg_catalog::{Column, SqlType, schema_of};
use tokio::runtime::Handle;

/// An open file.
pub(super) struct ParquetFile {
    split: SplitId,
    rows: Rows,
    columns: Vec<Column>,
    /// For each column its place in the batches that are read, if the file has it.
    places: Vec<Option<usize>>,
    row: u64,
    rows_in_file: u64,
}

enum Rows {
    Local(ParquetRecordBatchReader),
    Object(Box<ParquetRecordBatchStream<ParquetObjectReader>>, Handle),
}

/// A position is the number of rows that come before.
fn parse_position(text: Option<&str>) -> ConnectorResult<u64> {
    match text {
        None => Ok(0),
        Some(text) => text
            .strip_prefix("row=")
            .and_then(|row| row.parse().ok())
            .ok_or_else(|| ConnectorError::internal(format!("\"{text}\" is no position in a Parquet file"))),
    }
}

fn broken(split: &SplitId, error: &ParquetError) -> ConnectorError {
    let message = format!("can't read \"{split}\" as Parquet: {error}");
    match error {
        ParquetError::External(_) => ConnectorError::external(message),
        _ => ConnectorError::user(message),
    }
}

impl ParquetFile {
    pub(super) fn open(
        split: SplitId,
        location: &Location,
        position: Option<&str>,
        context: &SourceContext,
    ) -> ConnectorResult<ParquetFile> {
        let row = parse_position(position)?;
        let columns: Vec<Column> = context.projection.iter().map(|column| context.columns[*column].clone()).collect();
        let failed = |error: ParquetError| broken(&split, &error);
        let (rows, plan) = match location {
            Location::Local(path) => {
                let file = std::fs::File::open(path).map_err(|error| io_error("open", &split, &error))?;
                let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
                let (builder, plan) = prepare(builder, &split, &columns, row)?;
                (Rows::Local(builder.build().map_err(failed)?), plan)
            }
            Location::Object { store, key, .. } => {
                let reader = ParquetObjectReader::new(store.clone(), ObjectPath::from(key.as_str()));
                let builder = context.runtime.block_on(ParquetRecordBatchStreamBuilder::new(reader)).map_err(failed)?;
                let (builder, plan) = prepare(builder, &split, &columns, row)?;
                (Rows::Object(Box::new(builder.build().map_err(failed)?), context.runtime.clone()), plan)
            }
        };
        Ok(ParquetFile { split, rows, columns, places: plan.places, row, rows_in_file: plan.rows })
    }

    /// The next rows, or the end.
    pub(super) fn read(&mut self) -> ConnectorResult<Step> {
        let read = match &mut self.rows {
            Rows::Local(reader) => reader.next().map(|read| read.map_err(|error| arrow_error(&self.split, &error))),
            Rows::Object(stream, runtime) => {
                runtime.block_on(stream.next()).map(|read| read.map_err(|error| broken(&self.split, &error)))
            }
        };
        let Some(read) = read.transpose()? else { return Ok(Step::End(format!("row={}", self.row))) };
        let first = self.row;
        self.row += read.num_rows() as u64;
        let (batch, errors) =
            convert(&read, &self.places, &self.columns, first).map_err(|error| arrow_error(&self.split, &error))?;
        Ok(Step::Rows(SourceBatch {
            split: self.split.clone(),
            batch,
            position: format!("row={}", self.row),
            errors,
            lag: Some(self.rows_in_file.saturating_sub(self.row)),
        }))
    }
}

fn arrow_error(split: &SplitId, error: &ArrowError) -> ConnectorError {
    ConnectorError::user(format!("can't read \"{split}\" as Parquet: {error}"))
}

/// What is to be made of the batches that are read.
struct Plan {
    places: Vec<Option<usize>>,
    rows: u64,
}

/// Chooses the columns and the first row to read.
fn prepare<T>(
    builder: ArrowReaderBuilder<T>,
    split: &SplitId,
    columns: &[Column],
    row: u64,
) -> ConnectorResult<(ArrowReaderBuilder<T>, Plan)> {
    let schema = builder.schema().clone();
    let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
    if row > rows {
        return Err(ConnectorError::user(format!("file \"{split}\" has become shorter than what was read of it")));
    }
    let mut roots = vec![];
    for column in columns {
        let exact = schema.fields().iter().position(|field| *field.name() == column.name);
        let lower = column.name.to_lowercase();
        let root = exact.or_else(|| schema.fields().iter().position(|field| field.name().to_lowercase() == lower));
        if let Some(root) = root {
            let (from, to) = (schema.field(root).data_type(), column.sql_type.to_arrow());
            if !fits(from, &to) {
                return Err(ConnectorError::user(format!(
                    "column \"{}\" of type {} can't be read from \"{split}\", where it is {from}",
                    column.name, column.sql_type
                )));
            }
        }
        roots.push(root);
    }
    // Batches have the chosen columns in the order of the file.
    let mut chosen: Vec<usize> = roots.iter().flatten().copied().collect();
    chosen.sort_unstable();
    chosen.dedup();
    let places = roots.iter().map(|root| root.and_then(|root| chosen.binary_search(&root).ok())).collect();
    let mask = ProjectionMask::roots(builder.parquet_schema(), chosen);
    let offset = usize::try_from(row).map_err(|_| ConnectorError::internal("a row number is too large"))?;
    Ok((builder.with_projection(mask).with_offset(offset).with_batch_size(BATCH_ROWS), Plan { places, rows }))
}

/// Whether values can be brought from one type to another without losing anything but those out of range.
fn fits(from: &DataType, to: &DataType) -> bool {
    let is_decimal = |t: &DataType| {
        matches!(t, DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..))
    };
    let is_whole = |t: &DataType| match t {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => *scale <= 0,
        t => t.is_integer(),
    };
    match (from, to) {
        (DataType::List(from) | DataType::LargeList(from) | DataType::FixedSizeList(from, _), DataType::List(to)) => {
            fits(from.data_type(), to.data_type())
        }
        (DataType::Struct(from), DataType::Struct(to)) => {
            from.len() == to.len()
                && from.iter().zip(to).all(|(from, to)| from.name() == to.name() && fits(from.data_type(), to.data_type()))
        }
        (_, DataType::List(_) | DataType::Struct(_)) => false,
        (DataType::Dictionary(_, from), to) => fits(from, to),
        (from, to) if to.is_integer() && (from.is_floating() || is_decimal(from)) => is_whole(from) && can_cast_types(from, to),
        (from, to) if is_decimal(to) && from.is_floating() => false,
        // What a number means as a time, or a time as a number, the file does not say.
        (from, to) if from.is_temporal() != to.is_temporal() => {
            matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null)
        }
        (from, to) => can_cast_types(from, to),
    }
}

/// The rows with the declared columns, without those that do not fit; `first` is the number of rows before them.
fn convert(
    read: &RecordBatch,
    places: &[Option<usize>],
    columns: &[Column],
    first: u64,
) -> Result<(RecordBatch, Vec<RecordError>), ArrowError> {
    let rows = read.num_rows();
    let mut arrays: Vec<ArrayRef> = vec![];
    // The reason why each bad row is bad.
    let mut reasons: BTreeMap<usize, String> = BTreeMap::new();
    for (column, place) in columns.iter().zip(places) {
        let to = match place {
            None => new_null_array(&column.sql_type.to_arrow(), rows),
            Some(place) => convert_column(read.column(*place), column, &mut reasons)?,
        };
        if !column.nullable && to.null_count() > 0 {
            for row in (0..rows).filter(|row| to.is_null(*row)) {
                let reason = || format!("column \"{}\": null value in a column that is NOT NULL", column.name);
                reasons.entry(row).or_insert_with(reason);
            }
        }
        arrays.push(to);
    }
    if !reasons.is_empty() {
        let keep = BooleanArray::from(BooleanBuffer::collect_bool(rows, |row| !reasons.contains_key(&row)));
        for array in &mut arrays {
            *array = filter(array, &keep)?;
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows - reasons.len()));
    let batch = RecordBatch::try_new_with_options(schema_of(columns), arrays, &options)?;
    let error =
        |(row, reason)| RecordError { position: format!("row {}", first + row as u64 + 1), reason, excerpt: String::new() };
    Ok((batch, reasons.into_iter().map(error).collect()))
}

/// The values in the column's type; those that do not fit become NULL with a reason.
fn convert_column(from: &ArrayRef, column: &Column, reasons: &mut BTreeMap<usize, String>) -> Result<ArrayRef, ArrowError> {
    let carrier = column.sql_type.to_arrow();
    let to = if *from.data_type() == carrier {
        from.clone()
    } else {
        cast_with_options(from, &carrier, &CastOptions { safe: true, ..Default::default() })?
    };
    if to.null_count() > from.logical_null_count() {
        for row in (0..to.len()).filter(|row| to.is_null(*row) && from.is_valid(*row)) {
            reasons.entry(row).or_insert_with(|| format!("column \"{}\": value does not fit its type", column.name));
        }
    }
    match (&column.sql_type, to.as_string_opt::<i32>()) {
        (SqlType::Text | SqlType::Varchar(None), _) | (_, None) => Ok(to),
        // Types that are carried as text have rules that Arrow does not know.
        (_, Some(texts)) => {
            let mut builder = ColumnBuilder::new(&Column { nullable: true, ..column.clone() });
            for (row, text) in texts.iter().enumerate() {
                let appended = text.map_or(Ok(false), |text| builder.append_text(text.as_bytes()).map(|()| true));
                if let Err(fault) = &appended {
                    reasons.entry(row).or_insert_with(|| format!("column \"{}\": {fault}", column.name));
                    builder.truncate(row);
                }
                if !matches!(appended, Ok(true)) {
                    builder.append_null().map_err(|fault| ArrowError::ComputeError(fault.to_string()))?;
                }
            }
            builder.finish()
        }
    }
}
