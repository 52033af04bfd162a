//! Which tables a worker's database holds: ids by name, kinds and specs. Kept in table 0 of the database itself, under
//! "job/operator path/table name", as JSON; column types as the Arrow schema message, in hexadecimal.

use super::TableSpec;
use super::database::{FIRST_TABLE, ROWS_BIT};
use crate::error::{StorageError, StorageResult};
use arrow::datatypes::{Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::ObjectId;

/// What kind of state table a table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// Fixed-width values by key.
    Group,
    /// Ordered entries by key.
    Sorted,
    /// Bytes by name.
    Cell,
    /// Rows of a relation by key.
    View,
    /// Rows of a relation with their counts.
    Multiset,
}

/// A table of the directory.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTable {
    /// The first part of its stored keys; given by this worker's database, so other workers know it by another.
    pub table_id: u32,
    /// Whose state it is.
    pub job: ObjectId,
    /// Which operator's.
    pub operator_path: String,
    /// What kind of table it is.
    pub kind: TableKind,
    /// For a view, the relation.
    pub relation: Option<ObjectId>,
    /// Its name, columns and types.
    pub spec: TableSpec,
}

/// A directory entry as it is stored.
#[derive(Serialize, Deserialize)]
struct Record {
    id: u32,
    job: ObjectId,
    operator: String,
    name: String,
    kind: TableKind,
    relation: Option<ObjectId>,
    /// How many of the columns are the key's and the sub-key's; the rest are the value's.
    key_columns: usize,
    sub_columns: usize,
    sub_order: Vec<(bool, bool)>,
    columns: String,
}

pub(crate) type TableEntry = StoredTable;

impl StoredTable {
    /// Under which name it stands in the directory.
    pub(crate) fn path(&self) -> String {
        format!("{}/{}/{}", self.job, self.operator_path, self.spec.name)
    }

    pub(crate) fn to_json(&self) -> StorageResult<Vec<u8>> {
        let spec = &self.spec;
        let fields = spec.key.iter().chain(&spec.sub).chain(&spec.value).cloned().collect::<Vec<_>>();
        Ok(serde_json::to_vec(&Record {
            id: self.table_id,
            job: self.job,
            operator: self.operator_path.clone(),
            name: spec.name.clone(),
            kind: self.kind,
            relation: self.relation,
            key_columns: spec.key.len(),
            sub_columns: spec.sub.len(),
            sub_order: spec.sub_order.clone(),
            columns: fields_to_text(fields)?,
        })?)
    }

    pub(crate) fn from_json(path: &[u8], json: &[u8]) -> StorageResult<StoredTable> {
        let corrupt = |reason: String| StorageError::Corrupt { path: String::from_utf8_lossy(path).into_owned(), reason };
        let record: Record = serde_json::from_slice(json)?;
        let mut key = fields_of_text(&record.columns).map_err(&corrupt)?;
        if key.len() < record.key_columns + record.sub_columns {
            return Err(corrupt("the table has fewer columns than its key".to_string()));
        }
        let mut sub = key.split_off(record.key_columns);
        let value = sub.split_off(record.sub_columns);
        Ok(StoredTable {
            table_id: record.id,
            job: record.job,
            operator_path: record.operator,
            kind: record.kind,
            relation: record.relation,
            spec: TableSpec { name: record.name, key, sub, sub_order: record.sub_order, value },
        })
    }

    /// Why what is stored can't be read as `other`; none if it can. Names and nullability don't count: the stored bytes are the
    /// same.
    fn difference(&self, other: &StoredTable) -> Option<String> {
        let (ours, theirs) = (&self.spec, &other.spec);
        let columns =
            [("key", &ours.key, &theirs.key), ("sub-key", &ours.sub, &theirs.sub), ("value", &ours.value, &theirs.value)];
        if self.kind != other.kind {
            return Some(format!("it is a {:?} table, not {:?}", self.kind, other.kind));
        }
        if self.relation != other.relation {
            return Some("it holds another relation".to_string());
        }
        if full_order(ours) != full_order(theirs) {
            return Some("its entries are ordered in another direction".to_string());
        }
        columns.into_iter().find_map(|(part, ours, theirs)| {
            let same =
                ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(a, b)| a.data_type().equals_datatype(b.data_type()));
            let types = |fields: &[Field]| fields.iter().map(|f| f.data_type().to_string()).collect::<Vec<_>>().join(", ");
            (!same).then(|| format!("its {part} is ({}), not ({})", types(ours), types(theirs)))
        })
    }
}

/// The directions of all sub-key columns.
pub(crate) fn full_order(spec: &TableSpec) -> Vec<(bool, bool)> {
    if spec.sub_order.is_empty() { vec![(false, false); spec.sub.len()] } else { spec.sub_order.clone() }
}

fn fields_to_text(fields: Vec<Field>) -> StorageResult<String> {
    let mut bytes = Vec::new();
    StreamWriter::try_new(&mut bytes, &Schema::new(fields))?.finish()?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

fn fields_of_text(text: &str) -> Result<Vec<Field>, String> {
    let digits = text.as_bytes();
    let bytes = (0..digits.len())
        .step_by(2)
        .map(|at| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect::<Option<Vec<u8>>>()
        .ok_or("its columns are not in hexadecimal")?;
    let reader = StreamReader::try_new(bytes.as_slice(), None).map_err(|e| e.to_string())?;
    Ok(reader.schema().fields().iter().map(|f| f.as_ref().clone()).collect())
}

/// All tables of a database.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    by_path: BTreeMap<String, Arc<StoredTable>>,
    /// Never given twice while the database is open, so that a handle on a dropped table can't reach a new one.
    next_id: u32,
}

/// What registering a table came to.
pub(crate) struct Registered {
    pub(crate) table: Arc<StoredTable>,
    /// The entry must be written.
    pub(crate) changed: bool,
}

impl Directory {
    pub(crate) fn new(entries: Vec<TableEntry>) -> StorageResult<Directory> {
        let mut directory = Directory { by_path: BTreeMap::new(), next_id: FIRST_TABLE };
        for entry in entries {
            directory.next_id = directory.next_id.max((entry.table_id & !ROWS_BIT) + 1);
            let path = entry.path();
            if directory.by_path.insert(path.clone(), Arc::new(entry)).is_some() {
                return Err(StorageError::Corrupt { path, reason: "the table stands twice in the directory".to_string() });
            }
        }
        Ok(directory)
    }

    /// The table of this path with its id, which is given now if there was none. `wanted.table_id` is ignored.
    pub(crate) fn register(&mut self, mut wanted: TableEntry) -> StorageResult<Registered> {
        let path = wanted.path();
        match self.by_path.get(&path) {
            Some(found) => {
                if let Some(reason) = found.difference(&wanted) {
                    return Err(StorageError::Shape { table: path, reason });
                }
                wanted.table_id = found.table_id;
                if **found == wanted {
                    return Ok(Registered { table: Arc::clone(found), changed: false });
                }
            }
            None => {
                let id = self.next_id.max(FIRST_TABLE);
                self.next_id = id + 1;
                wanted.table_id = if wanted.kind == TableKind::Sorted { id | ROWS_BIT } else { id };
            }
        }
        let table = Arc::new(wanted);
        self.by_path.insert(path, Arc::clone(&table));
        Ok(Registered { table, changed: true })
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<StoredTable>> {
        self.by_path.values()
    }

    /// Takes a job's tables out.
    pub(crate) fn remove_job(&mut self, job: ObjectId) -> Vec<Arc<StoredTable>> {
        let gone = self.by_path.values().filter(|t| t.job == job).cloned().collect::<Vec<_>>();
        self.by_path.retain(|_, table| table.job != job);
        gone
    }
}
