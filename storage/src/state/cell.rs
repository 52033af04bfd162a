//! A few named values: source positions, watermarks, sink logs.
//!
//! All in memory, never evicted: there are as many as a source has partitions or a sink has undelivered segments.

use super::database::{BatchWriter, Database, PREFIX_BYTES, vnode_of};
use super::directory::StoredTable;
use super::{FlushStats, StateTable};
use crate::error::{StorageError, StorageResult};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use thalweg_catalog::VNode;

/// Bytes by name, all in memory, written at flushes.
pub struct CellTable {
    cells: Rc<RefCell<Cells>>,
}

pub(crate) struct Cells {
    database: Arc<Database>,
    table: Arc<StoredTable>,
    /// Where new and changed values are stored.
    owner: VNode,
    /// A value that was removed but is still stored is None.
    values: BTreeMap<Vec<u8>, CellValue>,
    dirty: BTreeSet<Vec<u8>>,
    bytes: usize,
}

struct CellValue {
    value: Option<Vec<u8>>,
    /// Under which vnode it is stored, if it is: not the owner's after a rescale, until it is next written.
    stored: Option<VNode>,
}

impl CellTable {
    pub(crate) fn open(
        database: Arc<Database>,
        table: Arc<StoredTable>,
        owner: VNode,
    ) -> StorageResult<(CellTable, Rc<RefCell<Cells>>)> {
        let mut cells =
            Cells { table, owner, values: BTreeMap::new(), dirty: BTreeSet::new(), bytes: 0, database: Arc::clone(&database) };
        database.scan_prefix(&cells.table.table_id.to_be_bytes(), |key, value| {
            let name = key.get(PREFIX_BYTES..).unwrap_or_default().to_vec();
            let cell = CellValue { value: Some(value.to_vec()), stored: Some(vnode_of(key)?) };
            cells.bytes += cell_bytes(&name, value.len());
            if cells.values.insert(name, cell).is_some() {
                return Err(StorageError::Shape {
                    table: cells.table.path(),
                    reason: "two former workers kept a value under the same name".to_string(),
                });
            }
            Ok(true)
        })?;
        let cells = Rc::new(RefCell::new(cells));
        Ok((CellTable { cells: Rc::clone(&cells) }, cells))
    }

    /// The value of this name.
    pub fn get(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.cells.borrow().values.get(name).and_then(|cell| cell.value.clone())
    }

    /// Sets a value.
    pub fn put(&mut self, name: &[u8], value: &[u8]) {
        self.cells.borrow_mut().set(name, Some(value));
    }

    /// Removes a value.
    pub fn remove(&mut self, name: &[u8]) {
        self.cells.borrow_mut().set(name, None);
    }

    /// All names and values, by name. After a rescale it can hold values of several former workers, whose names then must not
    /// clash.
    pub fn entries(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let cells = self.cells.borrow();
        cells.values.iter().filter_map(|(name, cell)| Some((name.clone(), cell.value.clone()?))).collect()
    }
}

fn cell_bytes(name: &[u8], value: usize) -> usize {
    size_of::<(Vec<u8>, CellValue)>() * 3 / 2 + name.len() + value
}

impl Cells {
    fn set(&mut self, name: &[u8], value: Option<&[u8]>) {
        let stored = match self.values.get(name) {
            // What changes nothing is not written again.
            Some(old) if old.value.as_deref() == value => return,
            Some(old) => {
                self.bytes -= cell_bytes(name, old.value.as_ref().map_or(0, Vec::len));
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
        self.bytes += cell_bytes(name, value.map_or(0, <[u8]>::len));
        self.values.insert(name.to_vec(), CellValue { value: value.map(<[u8]>::to_vec), stored });
        self.dirty.insert(name.to_vec());
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
            let gone = cell.value.is_none();
            if let Some(vnode) = cell.stored
                && (gone || vnode != cells.owner)
            {
                writer.delete(table, vnode, &name, &[])?;
            }
            match &cell.value {
                Some(value) => {
                    writer.put(table, cells.owner, &name, &[], value)?;
                    cell.stored = Some(cells.owner);
                }
                None => {
                    cells.bytes -= cell_bytes(&name, 0);
                    cells.values.remove(&name);
                }
            }
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
