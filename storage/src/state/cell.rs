//! A few named values: source positions, watermarks, sink logs.
//!
//! Small values are all in memory: there are as many as a source has partitions. A value that is larger than a page of text is a
//! sink log's segment: it leaves memory when it is stored, and is read back by whoever delivers it.

use super::database::{BatchWriter, Database, PREFIX_BYTES, stored_key, vnode_of};
use super::directory::StoredTable;
use super::{FlushStats, StateTable};
use crate::error::StorageResult;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_catalog::VNode;

/// A value with more bytes than this is not kept in memory once it is stored.
const KEPT_BYTES_MAX: usize = 16 << 10;

/// Bytes by name, written at flushes.
pub struct CellTable {
    cells: Rc<RefCell<Cells>>,
}

/// Where a value is once it has been flushed, to be read on any thread.
#[derive(Clone)]
pub struct StoredCell {
    database: Arc<Database>,
    key: Vec<u8>,
}

impl StoredCell {
    /// The value; none if it has not been flushed, or has been removed.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn read(&self) -> StorageResult<Option<Vec<u8>>> {
        Ok(self.database.get(&self.key)?.map(|value| value.to_vec()))
    }
}

pub(crate) struct Cells {
    database: Arc<Database>,
    table: Arc<StoredTable>,
    /// Where new and changed values are stored.
    owner: VNode,
    /// A value that was removed but is still stored is None.
    values: BTreeMap<Vec<u8>, CellValue>,
    dirty: BTreeSet<Vec<u8>>,
    /// What further former workers kept under names that are in `values` too, after a rescale. Gone when the name is next written.
    former: Vec<Former>,
    bytes: usize,
}

struct Former {
    name: Vec<u8>,
    vnode: VNode,
    value: Vec<u8>,
}

struct CellValue {
    value: Value,
    /// Under which vnode it is stored, if it is: not the owner's after a rescale, until it is next written.
    stored: Option<VNode>,
}

enum Value {
    Kept(Vec<u8>),
    /// It is stored, and too large to be kept.
    Stored,
    /// It has been removed, and may still be stored.
    Gone,
}

impl Value {
    /// A value that is stored.
    fn of_stored(value: &[u8]) -> Value {
        if value.len() > KEPT_BYTES_MAX { Value::Stored } else { Value::Kept(value.to_vec()) }
    }

    fn kept(&self) -> Option<&[u8]> {
        if let Value::Kept(value) = self { Some(value) } else { None }
    }
}

impl CellTable {
    pub(crate) fn open(
        database: Arc<Database>,
        table: Arc<StoredTable>,
        owner: VNode,
    ) -> StorageResult<(CellTable, Rc<RefCell<Cells>>)> {
        let mut cells = Cells {
            table,
            owner,
            values: BTreeMap::new(),
            dirty: BTreeSet::new(),
            former: Vec::new(),
            bytes: 0,
            database: Arc::clone(&database),
        };
        database.scan_prefix(&cells.table.table_id.to_be_bytes(), |key, value| {
            let name = key.get(PREFIX_BYTES..).unwrap_or_default().to_vec();
            let vnode = vnode_of(key)?;
            if cells.values.contains_key(&name) {
                cells.former.push(Former { name, vnode, value: value.to_vec() });
                return Ok(true);
            }
            let cell = CellValue { value: Value::of_stored(value), stored: Some(vnode) };
            cells.bytes += cell_bytes(&name, &cell.value);
            cells.values.insert(name, cell);
            Ok(true)
        })?;
        let cells = Rc::new(RefCell::new(cells));
        Ok((CellTable { cells: Rc::clone(&cells) }, cells))
    }

    /// The value of this name.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn get(&self, name: &[u8]) -> StorageResult<Option<Vec<u8>>> {
        let cells = self.cells.borrow();
        match cells.values.get(name).map(|cell| &cell.value) {
            Some(Value::Kept(value)) => Ok(Some(value.clone())),
            Some(Value::Stored) => cells.stored(name).read(),
            Some(Value::Gone) | None => Ok(None),
        }
    }

    /// Where the value of this name is once it has been flushed.
    pub fn stored(&self, name: &[u8]) -> StoredCell {
        self.cells.borrow().stored(name)
    }

    /// Sets a value.
    pub fn put(&mut self, name: &[u8], value: &[u8]) {
        self.cells.borrow_mut().set(name, Some(value));
    }

    /// Removes a value.
    pub fn remove(&mut self, name: &[u8]) {
        self.cells.borrow_mut().set(name, None);
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<Vec<u8>> {
        let cells = self.cells.borrow();
        let there = cells.values.iter().filter(|(_, cell)| !matches!(cell.value, Value::Gone));
        there.map(|(name, _)| name.clone()).collect()
    }

    /// All names and values, by name; then those that further former workers kept under the same names, until these are written.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn entries(&self) -> StorageResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut entries = vec![];
        for name in self.names() {
            if let Some(value) = self.get(&name)? {
                entries.push((name, value));
            }
        }
        let cells = self.cells.borrow();
        entries.extend(cells.former.iter().map(|former| (former.name.clone(), former.value.clone())));
        Ok(entries)
    }
}

fn cell_bytes(name: &[u8], value: &Value) -> usize {
    size_of::<(Vec<u8>, CellValue)>() * 3 / 2 + name.len() + value.kept().map_or(0, <[u8]>::len)
}

impl Cells {
    fn set(&mut self, name: &[u8], value: Option<&[u8]>) {
        let stored = match self.values.get(name) {
            // What changes nothing is not written again.
            Some(old) if value.is_some() && old.value.kept() == value && self.former.is_empty() => return,
            Some(old) if value.is_none() && matches!(old.value, Value::Gone) => return,
            Some(old) => {
                self.bytes -= cell_bytes(name, &old.value);
                old.stored
            }
            None if value.is_none() => return,
            None => None,
        };
        if value.is_none() && stored.is_none() {
            self.values.remove(name);
            self.dirty.remove(name);
            return;
        }
        let value = value.map_or(Value::Gone, |value| Value::Kept(value.to_vec()));
        self.bytes += cell_bytes(name, &value);
        self.values.insert(name.to_vec(), CellValue { value, stored });
        self.dirty.insert(name.to_vec());
    }

    fn stored(&self, name: &[u8]) -> StoredCell {
        let vnode = self.values.get(name).and_then(|cell| cell.stored).unwrap_or(self.owner);
        StoredCell { database: Arc::clone(&self.database), key: stored_key(self.table.table_id, vnode, name, &[]) }
    }
}

impl StateTable for RefCell<Cells> {
    fn stored(&self) -> Arc<StoredTable> {
        Arc::clone(&self.borrow().table)
    }

    fn flush(&self) -> StorageResult<FlushStats> {
        let cells = &mut *self.borrow_mut();
        let table = cells.table.table_id;
        let mut writer = BatchWriter::new(&cells.database);
        for name in std::mem::take(&mut cells.dirty) {
            let Some(cell) = cells.values.get_mut(&name) else { continue };
            for former in cells.former.extract_if(.., |former| former.name == name) {
                writer.delete(table, former.vnode, &former.name, &[])?;
            }
            let gone = matches!(cell.value, Value::Gone);
            if let Some(vnode) = cell.stored
                && (gone || vnode != cells.owner)
            {
                writer.delete(table, vnode, &name, &[])?;
            }
            cells.bytes -= cell_bytes(&name, &cell.value);
            if gone {
                cells.values.remove(&name);
                continue;
            }
            if let Value::Kept(value) = &cell.value {
                writer.put(table, cells.owner, &name, &[], value)?;
                cell.stored = Some(cells.owner);
                cell.value = Value::of_stored(value);
            }
            cells.bytes += cell_bytes(&name, &cell.value);
        }
        writer.finish()
    }

    fn evict(&self, _bytes: usize) {}

    fn memory_bytes(&self) -> usize {
        self.borrow().bytes
    }

    fn hot_entries(&self) -> usize {
        self.borrow().values.len()
    }
}

#[cfg(test)]
mod tests;
