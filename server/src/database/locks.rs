//! Locks for writers: of single keys, and of whole tables. Readers take none.
//!
//! Who adds rows to a table with a key, or changes the row of one key, holds just these keys, beside others that hold other
//! ones. Who changes rows that had to be searched for holds the table, alone. What is held is held until it is written, or
//! given up.
//!
//! A write becomes visible some milliseconds after its locks are gone. So the table remembers at which epoch its keys were
//! written last: who gets a key's lock next reads it at that epoch or later, and everybody else waits for nothing.
//!
//! Who waits is served in order. A wait that would never end, since those waited for wait themselves for the one who asks, is
//! refused.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use thalweg_catalog::{Epoch, ObjectId, SqlError, SqlResult, SqlState};
use tokio::sync::oneshot;

/// An encoded key.
pub type Key = Arc<[u8]>;

/// All locks of a database.
#[derive(Default)]
pub struct Locks {
    state: Mutex<State>,
}

/// What one transaction or statement holds; given up when it is dropped.
pub struct Holder {
    locks: Arc<Locks>,
    owner: Owner,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Owner(u64);

#[derive(Default)]
struct State {
    owners: u64,
    tables: HashMap<ObjectId, Table>,
    held: HashMap<Owner, BTreeMap<ObjectId, Vec<Key>>>,
    /// Which table's queue an owner stands in: it waits for one thing at a time.
    waiting: HashMap<Owner, ObjectId>,
}

#[derive(Default)]
struct Table {
    /// Who holds all of it.
    whole: Option<Owner>,
    /// Who holds keys of it.
    sharers: BTreeSet<Owner>,
    keys: HashMap<Key, Owner>,
    /// Who waits, in the order in which they came.
    queue: VecDeque<Waiting>,
    written: Written,
}

struct Waiting {
    owner: Owner,
    wanted: Wanted,
    granted: oneshot::Sender<()>,
}

enum Wanted {
    Whole,
    Keys(Vec<Key>),
}

/// At which epochs a table was written that may not be visible yet.
#[derive(Default)]
struct Written {
    /// Of writes of any key.
    any: Epoch,
    keys: HashMap<Key, Epoch>,
    by_epoch: BTreeMap<Epoch, Vec<Key>>,
}

impl Written {
    fn note(&mut self, keys: Vec<Key>, epoch: Epoch) {
        for key in &keys {
            self.keys.insert(Arc::clone(key), epoch);
        }
        self.by_epoch.entry(epoch).or_default().extend(keys);
    }

    /// Forgets writes that every later reading sees.
    fn forget(&mut self, visible: Epoch) {
        let later = self.by_epoch.split_off(&visible.next());
        for (epoch, keys) in std::mem::replace(&mut self.by_epoch, later) {
            for key in keys {
                // It may have been written again since.
                if self.keys.get(&key) == Some(&epoch) {
                    self.keys.remove(&key);
                }
            }
        }
    }
}

impl Table {
    /// For whom somebody has to wait; `before` of those in the queue came first.
    fn in_the_way(&self, owner: Owner, wanted: &Wanted, before: usize) -> HashSet<Owner> {
        let mut found: HashSet<Owner> = self.whole.into_iter().collect();
        // Who holds something already must not wait for those who wait for it.
        let is_new = !self.sharers.contains(&owner) && self.whole != Some(owner);
        let queued = self.queue.iter().take(if is_new { before } else { 0 });
        match wanted {
            Wanted::Whole => {
                found.extend(self.sharers.iter().copied());
                found.extend(queued.map(|waiting| waiting.owner));
            }
            Wanted::Keys(keys) => {
                found.extend(keys.iter().filter_map(|key| self.keys.get(key)));
                found.extend(queued.filter(|w| matches!(w.wanted, Wanted::Whole)).map(|waiting| waiting.owner));
            }
        }
        found.remove(&owner);
        found
    }

    /// Gives what was asked for. Returns the keys that the owner did not have before.
    fn give(&mut self, owner: Owner, wanted: Wanted) -> Vec<Key> {
        match wanted {
            Wanted::Whole => {
                self.whole = Some(owner);
                vec![]
            }
            Wanted::Keys(mut keys) => {
                self.sharers.insert(owner);
                keys.retain(|key| self.keys.insert(Arc::clone(key), owner).is_none());
                keys
            }
        }
    }
}

impl State {
    fn give(&mut self, owner: Owner, table: ObjectId, wanted: Wanted) {
        let keys = self.tables.entry(table).or_default().give(owner, wanted);
        self.held.entry(owner).or_default().entry(table).or_default().extend(keys);
    }

    /// Gives a lock at once, or a place in the queue.
    fn ask(&mut self, owner: Owner, table: ObjectId, wanted: Wanted) -> SqlResult<Option<oneshot::Receiver<()>>> {
        let state = self.tables.entry(table).or_default();
        let in_the_way = state.in_the_way(owner, &wanted, state.queue.len());
        if in_the_way.is_empty() {
            self.give(owner, table, wanted);
            return Ok(None);
        }
        if self.wait_for(in_the_way, owner) {
            return Err(SqlError::new(SqlState::DeadlockDetected, "deadlock detected")
                .with_detail("Each of some transactions waits for a row or table that another of them has changed.")
                .with_hint("Run the transaction again; change rows and tables in the same order everywhere."));
        }
        let (granted, receiver) = oneshot::channel();
        self.waiting.insert(owner, table);
        self.tables.entry(table).or_default().queue.push_back(Waiting { owner, wanted, granted });
        Ok(Some(receiver))
    }

    /// Whether some of these, or whom they wait for, wait for `owner`.
    fn wait_for(&self, these: HashSet<Owner>, owner: Owner) -> bool {
        let (mut open, mut seen): (Vec<Owner>, HashSet<Owner>) = (these.into_iter().collect(), HashSet::new());
        while let Some(next) = open.pop() {
            if next == owner {
                return true;
            }
            if !seen.insert(next) {
                continue;
            }
            let Some(table) = self.waiting.get(&next).and_then(|table| self.tables.get(table)) else { continue };
            let place = table.queue.iter().position(|waiting| waiting.owner == next);
            open.extend(place.into_iter().flat_map(|place| table.in_the_way(next, &table.queue[place].wanted, place)));
        }
        false
    }

    /// Takes a place out of the queue, if it is there still.
    fn leave(&mut self, owner: Owner, table: ObjectId) {
        self.waiting.remove(&owner);
        if let Some(state) = self.tables.get_mut(&table) {
            state.queue.retain(|waiting| waiting.owner != owner);
        }
        self.serve(table);
    }

    /// Gives those who wait what is free.
    fn serve(&mut self, table: ObjectId) {
        let mut place = 0;
        while let Some(state) = self.tables.get_mut(&table)
            && let Some(waiting) = state.queue.get(place)
        {
            if !state.in_the_way(waiting.owner, &waiting.wanted, place).is_empty() {
                place += 1;
                continue;
            }
            let Some(Waiting { owner, wanted, granted }) = state.queue.remove(place) else { return };
            self.waiting.remove(&owner);
            self.give(owner, table, wanted);
            // Who has gone meanwhile gives it up when its holder is dropped.
            let _ = granted.send(());
        }
    }

    fn release(&mut self, owner: Owner, written: Option<Epoch>) -> Vec<ObjectId> {
        let held = self.held.remove(&owner).unwrap_or_default();
        let tables = held.keys().copied().collect();
        for (id, keys) in held {
            let Some(table) = self.tables.get_mut(&id) else { continue };
            for key in &keys {
                table.keys.remove(key);
            }
            table.sharers.remove(&owner);
            let had_all = table.whole == Some(owner);
            if had_all {
                table.whole = None;
            }
            match written {
                Some(epoch) if had_all => table.written.any = epoch.max(table.written.any),
                Some(epoch) => table.written.note(keys, epoch),
                None => {}
            }
            self.serve(id);
        }
        tables
    }
}

impl Locks {
    /// Somebody who holds nothing yet.
    pub fn holder(self: &Arc<Locks>) -> Arc<Holder> {
        let mut state = self.state.lock();
        state.owners += 1;
        Arc::new(Holder { locks: Arc::clone(self), owner: Owner(state.owners) })
    }

    /// A table is gone: nothing of it need be remembered, unless somebody still holds it.
    pub fn forget(&self, table: ObjectId) {
        let mut state = self.state.lock();
        let is_idle = |t: &Table| t.whole.is_none() && t.sharers.is_empty() && t.queue.is_empty();
        if state.tables.get(&table).is_some_and(is_idle) {
            state.tables.remove(&table);
        }
    }
}

/// A place in a queue, left when the wait is over or given up.
struct Place<'a> {
    holder: &'a Holder,
    table: ObjectId,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.holder.locks.state.lock().leave(self.holder.owner, self.table);
    }
}

impl Holder {
    /// Waits until nobody else changes a table, and keeps others from it.
    ///
    /// # Errors
    /// `40P01` if those waited for wait for this.
    pub async fn whole(&self, table: ObjectId) -> SqlResult<()> {
        self.wait(table, Wanted::Whole).await
    }

    /// Waits until nobody else changes rows with these keys, and keeps others from them.
    ///
    /// # Errors
    /// As [`whole`](Self::whole).
    pub async fn keys(&self, table: ObjectId, keys: Vec<Key>) -> SqlResult<()> {
        self.wait(table, Wanted::Keys(keys)).await
    }

    async fn wait(&self, table: ObjectId, wanted: Wanted) -> SqlResult<()> {
        let asked = self.locks.state.lock().ask(self.owner, table, wanted)?;
        let Some(granted) = asked else { return Ok(()) };
        let _place = Place { holder: self, table };
        granted.await.map_err(|_| SqlError::internal("a lock was taken out of its queue"))
    }

    /// The epoch from which on rows with these keys are read as they were written last.
    pub fn settled(&self, table: ObjectId, keys: &[Key]) -> Epoch {
        let state = self.locks.state.lock();
        let Some(table) = state.tables.get(&table) else { return Epoch::default() };
        let of_keys = keys.iter().filter_map(|key| table.written.keys.get(key)).copied();
        of_keys.chain([table.written.any]).max().unwrap_or_default()
    }

    /// Gives everything up: it was written at this epoch. `visible` tells the epoch up to which writes of a table can be read.
    pub fn written(&self, epoch: Epoch, visible: impl Fn(ObjectId) -> Epoch) {
        let tables = self.locks.state.lock().release(self.owner, Some(epoch));
        for id in tables {
            let visible = visible(id);
            if let Some(table) = self.locks.state.lock().tables.get_mut(&id) {
                table.written.forget(visible);
            }
        }
    }

    /// Gives everything up: nothing was written.
    pub fn give_up(&self) {
        self.locks.state.lock().release(self.owner, None);
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests;
