//! State tables as SQL sees them: typed columns, read from any thread, as of the last flush.

use super::codec::RowCodec;
use super::database::{Database, OwnedSnapshot, PREFIX_BYTES, damaged};
use super::directory::{StoredTable, TableKind, full_order};
use super::sorted::StoredEntry;
use crate::error::{StorageError, StorageResult};
use arrow::array::{ArrayData, ArrayRef, BinaryArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, make_array};
use arrow::buffer::MutableBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// How many rows a batch has at the most.
const BATCH_ROWS: usize = 8192;

/// Reads a worker's state tables, from any thread.
#[derive(Clone)]
pub struct StoreReader {
    database: Arc<Database>,
}

/// The bytes of a value of this type in a group table's values: none if they differ.
pub(crate) fn value_width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    }
}

impl StoreReader {
    pub(crate) fn new(database: Arc<Database>) -> StoreReader {
        StoreReader { database }
    }

    /// All tables, by job, operator and name.
    pub fn tables(&self) -> Vec<Arc<StoredTable>> {
        self.database.directory.read().tables().cloned().collect()
    }

    /// What a table holds, as of the last flush: the columns of key, sub-key and value, in batches of at most 8,192 rows.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn scan_table(&self, table_id: u32) -> StorageResult<TableScan> {
        let table = self.tables().into_iter().find(|table| table.table_id == table_id);
        let table = table.ok_or_else(|| StorageError::Missing { path: format!("state table {table_id}") })?;
        TableScan::new(self.database.snapshot()?, table)
    }
}

/// The rows of a state table.
pub struct TableScan {
    snapshot: Arc<OwnedSnapshot>,
    table: Arc<StoredTable>,
    schema: SchemaRef,
    key: RowCodec,
    /// Key and sub-key.
    order: RowCodec,
    value: RowCodec,
    next: Option<Vec<u8>>,
}

/// The columns that a table is shown with.
pub fn table_schema(table: &StoredTable) -> SchemaRef {
    let spec = &table.spec;
    let key = match table.kind {
        TableKind::Cell => vec![Field::new("name", DataType::Utf8, false)],
        _ => spec.key.iter().chain(&spec.sub).cloned().collect(),
    };
    let value = match table.kind {
        TableKind::Sorted => entry_fields(&spec.value).to_vec(),
        _ => spec.value.clone(),
    };
    Arc::new(Schema::new(key.into_iter().chain(value).collect::<Vec<_>>()))
}

/// The names that an operator gives to an entry's two numbers, or ours.
fn entry_fields(value: &[Field]) -> [Field; 2] {
    let name = |place: usize, usual: &str| match value.get(place) {
        Some(field) if *field.data_type() == DataType::Int64 => field.name().clone(),
        _ => usual.to_string(),
    };
    [Field::new(name(0, "count"), DataType::Int64, false), Field::new(name(1, "extra"), DataType::Int64, false)]
}

impl TableScan {
    fn new(snapshot: Arc<OwnedSnapshot>, table: Arc<StoredTable>) -> StorageResult<TableScan> {
        let spec = &table.spec;
        let fields = spec.key.iter().chain(&spec.sub).cloned().collect::<Vec<_>>();
        let mut directions = vec![(false, false); spec.key.len()];
        directions.extend(full_order(spec));
        Ok(TableScan {
            key: RowCodec::new(&spec.key)?,
            order: RowCodec::ordered(&fields, &directions)?,
            value: match table.kind {
                TableKind::View => RowCodec::new(&spec.value)?,
                _ => RowCodec::new(&[])?,
            },
            schema: table_schema(&table),
            next: Some(table.table_id.to_be_bytes().to_vec()),
            snapshot,
            table,
        })
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn read(&mut self) -> StorageResult<Option<RecordBatch>> {
        let Some(start) = self.next.take() else { return Ok(None) };
        let prefix = self.table.table_id.to_be_bytes();
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let (next, kind) = (&mut self.next, self.table.kind);
        self.snapshot.database().scan_from(&prefix, &start, Some(&self.snapshot), |stored, value| {
            if rows.len() == BATCH_ROWS {
                *next = Some(stored.to_vec());
                return Ok(false);
            }
            let key = stored.get(PREFIX_BYTES..).ok_or_else(|| damaged("a stored key is too short to have a vnode"))?;
            let key = match kind {
                TableKind::Sorted => {
                    let found = StoredEntry::of(value)?;
                    let key = key.get(..found.key_bytes).ok_or_else(|| damaged("a stored key is shorter than its entry says"))?;
                    [key, found.sub].concat()
                }
                _ => key.to_vec(),
            };
            rows.push((key, value.to_vec()));
            Ok(true)
        })?;
        if rows.is_empty() {
            return Ok(None);
        }
        let mut columns = self.key_columns(&rows)?;
        columns.extend(self.value_columns(&rows)?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }

    fn key_columns(&self, rows: &[(Vec<u8>, Vec<u8>)]) -> StorageResult<Vec<ArrayRef>> {
        let keys = rows.iter().map(|(key, _)| key.as_slice());
        match self.table.kind {
            TableKind::Cell => {
                let names = keys.map(|name| Some(String::from_utf8_lossy(name).into_owned()));
                Ok(vec![Arc::new(names.collect::<arrow::array::StringArray>())])
            }
            TableKind::Sorted => self.order.decode(keys),
            TableKind::Group | TableKind::View | TableKind::Multiset => self.key.decode(keys),
        }
    }

    fn value_columns(&self, rows: &[(Vec<u8>, Vec<u8>)]) -> StorageResult<Vec<ArrayRef>> {
        let values = rows.iter().map(|(_, value)| value.as_slice());
        match self.table.kind {
            TableKind::Cell => Ok(vec![Arc::new(BinaryArray::from_iter_values(values))]),
            TableKind::View => self.value.decode(values),
            TableKind::Sorted => {
                let entries = values.map(|v| Ok(StoredEntry::of(v)?.entry)).collect::<StorageResult<Vec<_>>>()?;
                let count = Int64Array::from_iter_values(entries.iter().map(|e| e.count));
                let extra = Int64Array::from_iter_values(entries.iter().map(|e| e.extra));
                Ok(vec![Arc::new(count), Arc::new(extra)])
            }
            TableKind::Group | TableKind::Multiset => fixed_columns(&self.table.spec.value, rows),
        }
    }
}

/// The columns of fixed-width values that lie one after another without gaps.
fn fixed_columns(fields: &[Field], rows: &[(Vec<u8>, Vec<u8>)]) -> StorageResult<Vec<ArrayRef>> {
    let mut at = 0;
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields {
        let width = value_width(field.data_type()).ok_or_else(|| damaged("a value column is not of fixed width"))?;
        let mut bytes = MutableBuffer::new(rows.len() * width);
        for (_, value) in rows {
            let part = value.get(at..at + width).ok_or_else(|| damaged("a stored value is too short"))?;
            bytes.extend_from_slice(part);
        }
        at += width;
        if *field.data_type() == DataType::Boolean {
            columns.push(Arc::new(BooleanArray::from_iter(bytes.as_slice().iter().map(|b| Some(*b != 0)))) as ArrayRef);
            continue;
        }
        let data = ArrayData::builder(field.data_type().clone()).len(rows.len()).add_buffer(bytes.into()).build()?;
        columns.push(make_array(data));
    }
    Ok(columns)
}

impl Iterator for TableScan {
    type Item = StorageResult<RecordBatch>;

    fn next(&mut self) -> Option<StorageResult<RecordBatch>> {
        let batch = self.read();
        if batch.is_err() {
            self.next = None;
        }
        batch.transpose()
    }
}
