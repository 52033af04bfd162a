//! The entries of one key: a sorted vector while there are few, a tree when there are many.

use super::Entry;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Above this many a key's entries move to a tree, since inserting into a vector moves what follows.
const SMALL_MAX: usize = 64;
/// The database has an entry for the sub-key, perhaps an older one.
const STORED: u8 = 1;
/// The database has something else than memory.
const DIRTY: u8 = 2;
/// What an entry costs in a tree besides the bytes of its sub-key: nodes are about two thirds full.
const TREE_ENTRY_BYTES: usize = (size_of::<Box<[u8]>>() + size_of::<State>()) * 3 / 2;

/// An entry and how it stands to the database. A removed entry that is still stored has a count of 0.
#[derive(Clone, Copy)]
struct State {
    entry: Entry,
    flags: u8,
}

struct Item {
    sub: Box<[u8]>,
    state: State,
}

struct Large {
    map: BTreeMap<Box<[u8]>, State>,
    /// Sub-keys whose entries may be dirty, so that a flush does not visit a million clean ones.
    dirty: Vec<Box<[u8]>>,
    /// What those hold on the heap.
    dirty_bytes: usize,
}

enum Form {
    Small(Vec<Item>),
    Large(Box<Large>),
}

/// Entries in order of their sub-keys.
pub(super) struct Entries {
    form: Form,
    /// How many there are, without the removed ones.
    live: usize,
    /// What the sub-keys hold on the heap.
    sub_bytes: usize,
}

/// The memory of a heap allocation of `len` bytes.
pub(super) fn allocated(len: usize) -> usize {
    len.next_multiple_of(16)
}

impl Default for Entries {
    fn default() -> Entries {
        Entries { form: Form::Small(Vec::new()), live: 0, sub_bytes: 0 }
    }
}

impl Entries {
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Whether there is nothing to remember: no entries, and none to be deleted.
    pub(super) fn is_blank(&self) -> bool {
        match &self.form {
            Form::Small(items) => items.is_empty(),
            Form::Large(large) => large.map.is_empty(),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sub_bytes
            + match &self.form {
                Form::Small(items) => items.capacity() * size_of::<Item>(),
                Form::Large(large) => {
                    size_of::<Large>()
                        + large.map.len() * TREE_ENTRY_BYTES
                        + large.dirty.capacity() * size_of::<Box<[u8]>>()
                        + large.dirty_bytes
                }
            }
    }

    fn state(&self, sub: &[u8]) -> Option<State> {
        match &self.form {
            Form::Small(items) => items.binary_search_by(|i| i.sub.as_ref().cmp(sub)).ok().map(|at| items[at].state),
            Form::Large(large) => large.map.get(sub).copied(),
        }
    }

    pub(super) fn get(&self, sub: &[u8]) -> Entry {
        self.state(sub).map_or_else(Entry::default, |state| state.entry)
    }

    /// Takes an entry from the database. Sub-keys come in order.
    pub(super) fn load(&mut self, sub: &[u8], entry: Entry) {
        self.insert(sub, State { entry, flags: STORED });
        self.live += 1;
    }

    /// Changes an entry; gives it before and after.
    pub(super) fn update(&mut self, sub: &[u8], change: impl FnOnce(&mut Entry)) -> (Entry, Entry) {
        let old = self.state(sub);
        let before = old.map_or_else(Entry::default, |state| state.entry);
        let mut after = before;
        change(&mut after);
        if after.count == 0 {
            after = Entry::default();
        }
        if before == after {
            return (before, after);
        }
        self.live = self.live + usize::from(after.count != 0) - usize::from(before.count != 0);
        match old {
            Some(state) if after.count == 0 && state.flags & STORED == 0 => self.forget(sub),
            Some(state) => self.replace(sub, State { entry: after, flags: state.flags | DIRTY }, state.flags & DIRTY == 0),
            None => {
                self.insert(sub, State { entry: after, flags: DIRTY });
                self.note_dirty(sub);
            }
        }
        (before, after)
    }

    fn note_dirty(&mut self, sub: &[u8]) {
        if let Form::Large(large) = &mut self.form {
            large.dirty.push(sub.into());
            large.dirty_bytes += allocated(sub.len());
        }
    }

    fn replace(&mut self, sub: &[u8], new: State, newly_dirty: bool) {
        match &mut self.form {
            Form::Small(items) => {
                if let Ok(at) = items.binary_search_by(|i| i.sub.as_ref().cmp(sub)) {
                    items[at].state = new;
                }
            }
            Form::Large(large) => {
                if let Some(state) = large.map.get_mut(sub) {
                    *state = new;
                }
            }
        }
        if newly_dirty {
            self.note_dirty(sub);
        }
    }

    fn insert(&mut self, sub: &[u8], state: State) {
        self.sub_bytes += allocated(sub.len());
        if let Form::Small(items) = &mut self.form {
            if items.len() < SMALL_MAX {
                let at = items.partition_point(|i| i.sub.as_ref() < sub);
                if items.len() == items.capacity() {
                    // From one entry on: most keys of a join have one.
                    items.reserve_exact((items.len() / 2).max(1));
                }
                items.insert(at, Item { sub: sub.into(), state });
                return;
            }
            let dirty = items.iter().filter(|i| i.state.flags & DIRTY != 0).map(|i| i.sub.clone()).collect::<Vec<_>>();
            let dirty_bytes = dirty.iter().map(|sub| allocated(sub.len())).sum();
            let map = items.drain(..).map(|i| (i.sub, i.state)).collect();
            self.form = Form::Large(Box::new(Large { map, dirty, dirty_bytes }));
        }
        if let Form::Large(large) = &mut self.form {
            large.map.insert(sub.into(), state);
        }
    }

    /// Drops an entry that is not stored.
    fn forget(&mut self, sub: &[u8]) {
        let found = match &mut self.form {
            Form::Small(items) => items.binary_search_by(|i| i.sub.as_ref().cmp(sub)).ok().map(|at| items.remove(at)).is_some(),
            Form::Large(large) => large.map.remove(sub).is_some(),
        };
        if found {
            self.sub_bytes -= allocated(sub.len());
        }
    }

    /// Removes all.
    pub(super) fn clear(&mut self) {
        let mut kept = Entries::default();
        match std::mem::replace(&mut self.form, Form::Small(Vec::new())) {
            Form::Small(items) => items.into_iter().for_each(|i| kept.bury(&i.sub, i.state)),
            Form::Large(large) => large.map.into_iter().for_each(|(sub, state)| kept.bury(&sub, state)),
        }
        *self = kept;
    }

    /// Keeps the mark of a removed entry if it is stored.
    fn bury(&mut self, sub: &[u8], state: State) {
        if state.flags & STORED != 0 {
            self.insert(sub, State { entry: Entry::default(), flags: STORED | DIRTY });
            self.note_dirty(sub);
        }
    }

    /// Visits entries in order, from the first after `after` on, until the visitor returns false.
    pub(super) fn scan(&self, after: Option<&[u8]>, mut visit: impl FnMut(&[u8], Entry) -> bool) {
        match &self.form {
            Form::Small(items) => {
                let start = after.map_or(0, |after| items.partition_point(|i| i.sub.as_ref() <= after));
                for item in &items[start..] {
                    if item.state.entry.count != 0 && !visit(&item.sub, item.state.entry) {
                        return;
                    }
                }
            }
            Form::Large(large) => {
                let start = after.map_or(Bound::Unbounded, Bound::Excluded);
                for (sub, state) in large.map.range::<[u8], _>((start, Bound::Unbounded)) {
                    if state.entry.count != 0 && !visit(sub, state.entry) {
                        return;
                    }
                }
            }
        }
    }

    pub(super) fn last(&self) -> Option<(&[u8], Entry)> {
        match &self.form {
            Form::Small(items) => items.iter().rev().find(|i| i.state.entry.count != 0).map(|i| (i.sub.as_ref(), i.state.entry)),
            Form::Large(large) => {
                large.map.iter().rev().find(|(_, s)| s.entry.count != 0).map(|(sub, s)| (sub.as_ref(), s.entry))
            }
        }
    }

    /// Hands out what must be written: an entry, or none for one to be deleted. Then all is clean.
    pub(super) fn flush<E>(&mut self, mut write: impl FnMut(&[u8], Option<Entry>) -> Result<(), E>) -> Result<(), E> {
        match &mut self.form {
            Form::Small(items) => {
                for item in items.iter_mut().filter(|i| i.state.flags & DIRTY != 0) {
                    write(&item.sub, Some(item.state.entry).filter(|e| e.count != 0))?;
                    item.state.flags = STORED;
                }
                let sub_bytes = &mut self.sub_bytes;
                items.retain(|i| {
                    let keep = i.state.entry.count != 0;
                    *sub_bytes -= if keep { 0 } else { allocated(i.sub.len()) };
                    keep
                });
            }
            Form::Large(large) => {
                large.dirty_bytes = 0;
                for sub in std::mem::take(&mut large.dirty) {
                    let Some(state) = large.map.get_mut(&sub) else { continue };
                    if state.flags & DIRTY == 0 {
                        continue;
                    }
                    write(&sub, Some(state.entry).filter(|e| e.count != 0))?;
                    state.flags = STORED;
                    if state.entry.count == 0 {
                        large.map.remove(&sub);
                        self.sub_bytes -= allocated(sub.len());
                    }
                }
            }
        }
        Ok(())
    }
}
