//! Writing to tables. Writes that come while others are on their way to the log go there after them together, as one record at
//! one epoch: with many writers it is the disk, and not their number, that says how many epochs there are.

use super::{Engine, Inner};
use crate::error::EngineError;
use crate::row_errors::now_ms;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use thalweg_catalog::{Delta, Epoch, ObjectId};
use thalweg_storage::StorageError;
use tokio::sync::oneshot;

/// So many rows go together at most, unless one write alone has more.
const ROWS_MAX: usize = 100_000;

/// Writes that wait for their epoch.
#[derive(Default)]
pub(super) struct Waiting {
    writes: Vec<Write>,
    /// Whether a task takes them.
    taken: bool,
    /// When each table was written last.
    last: HashMap<ObjectId, Epoch>,
}

/// What a write depends on.
#[derive(Clone, Debug)]
pub struct Unchanged {
    /// Nothing may have been written after this epoch,
    pub since: Epoch,
    /// to any of these tables.
    pub tables: BTreeSet<ObjectId>,
}

/// What is written together, and who waits for it.
struct Write {
    deltas: Vec<(ObjectId, Delta)>,
    unless: Option<Unchanged>,
    done: oneshot::Sender<Result<Epoch, Refused>>,
}

/// Why something was not written.
#[derive(Clone)]
enum Refused {
    Log(Arc<StorageError>),
    Changed(ObjectId),
}

impl Waiting {
    /// The writes that go next; none if nothing waits, and then nobody takes them any more. What depends on a table that was changed
    /// is refused: between this and the next call nobody else writes.
    fn next(&mut self) -> Vec<Write> {
        let mut rows = 0;
        let fits = |write: &Write| {
            rows += write.deltas.iter().map(|(_, delta)| delta.num_rows()).sum::<usize>();
            rows <= ROWS_MAX
        };
        let count = self.writes.iter().map(fits).take_while(|fits| *fits).count();
        self.taken = !self.writes.is_empty();
        let next: Vec<Write> = self.writes.drain(..count.max(1).min(self.writes.len())).collect();
        let mut touched: BTreeSet<ObjectId> = BTreeSet::new();
        let mut group = vec![];
        for write in next {
            let is_changed = |unless: &Unchanged, table: &ObjectId| {
                touched.contains(table) || self.last.get(table).is_some_and(|last| *last > unless.since)
            };
            let changed = write.unless.as_ref().and_then(|unless| unless.tables.iter().find(|table| is_changed(unless, table)));
            match changed.copied() {
                // Who no longer waits has no need of the answer.
                Some(table) => drop(write.done.send(Err(Refused::Changed(table)))),
                None => {
                    touched.extend(write.deltas.iter().map(|(table, _)| *table));
                    group.push(write);
                }
            }
        }
        group
    }
}

impl Engine {
    /// Writes to tables: durable when this returns, and visible to whoever reads at the returned epoch or later. All the writes
    /// become visible together, and maybe with others. Goes on to its end even if nobody waits for it any more.
    ///
    /// # Errors
    /// If the table log refuses, or what the write depends on was changed; then nothing has been written.
    pub async fn write(&self, writes: Vec<(ObjectId, Delta)>, unless: Option<Unchanged>) -> Result<Epoch, EngineError> {
        for (table, _) in &writes {
            self.running_job(*table)?;
        }
        let (done, written) = oneshot::channel();
        let start = {
            let mut waiting = self.inner.writing.lock();
            waiting.writes.push(Write { deltas: writes, unless, done });
            !std::mem::replace(&mut waiting.taken, true)
        };
        if start {
            tokio::spawn(write_waiting(Arc::clone(&self.inner)));
        }
        let written = written.await.map_err(|_| EngineError::Internal("a write ended early".into()))?;
        written.map_err(|refused| match refused {
            Refused::Log(error) => EngineError::TableLog(error),
            Refused::Changed(id) => EngineError::Changed { id },
        })
    }
}

/// Who takes writes that wait. Should it panic, those who wait are told, and the next write has another take them.
struct Taker(Arc<Inner>);

impl Drop for Taker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut waiting = self.0.writing.lock();
            waiting.writes.clear();
            waiting.taken = false;
        }
    }
}

/// Writes what waits until nothing does.
async fn write_waiting(inner: Arc<Inner>) {
    let Taker(inner) = &Taker(inner);
    loop {
        let group = {
            let mut waiting = inner.writing.lock();
            let group = waiting.next();
            if group.is_empty() && !waiting.taken {
                return;
            }
            group
        };
        if group.is_empty() {
            continue;
        }
        let deltas: Vec<(ObjectId, Delta)> = group.iter().flat_map(|write| write.deltas.iter().cloned()).collect();
        let tables: BTreeSet<ObjectId> = deltas.iter().map(|(table, _)| *table).collect();
        let written = write_together(inner, deltas).await.map_err(|error| Refused::Log(Arc::new(error)));
        if let Ok(epoch) = &written {
            inner.writing.lock().last.extend(tables.into_iter().map(|table| (table, *epoch)));
        }
        for write in group {
            // Who no longer waits has no need of the answer.
            let _ = write.done.send(written.clone());
        }
    }
}

async fn write_together(inner: &Inner, deltas: Vec<(ObjectId, Delta)>) -> Result<Epoch, StorageError> {
    let reservation = inner.shared.clock.reserve(now_ms());
    let epoch = reservation.epoch();
    inner.table_log.append(epoch, deltas.clone()).await?;
    for (table, delta) in deltas {
        inner.shared.table_queue(table).push(epoch, delta);
    }
    inner.shared.note_dirty();
    drop(reservation);
    inner.shared.clock.demand();
    Ok(epoch)
}
