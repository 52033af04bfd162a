//! The entries of one key: packed into one piece of memory while they are few, a tree when there are many.
//!
//! Most keys of a join have a handful of rows. Key and entries in one piece cost one miss of the processor's cache where a
//! vector of boxed rows costs three, and about half the memory.

use super::Entry;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Place;
use std::ops::Bound;

/// Above this many bytes a key's entries move to a tree: a packed piece is searched from its start, and moved on inserts.
const PACKED_BYTES_MAX: usize = 2048;
/// What stands before each sub-key in the packed piece: its length (u32), the entry's number (u32), whether it is dirty (u8), count and
/// extra (i64 each).
const HEAD_BYTES: usize = 25;
/// The number of an entry that the database has nothing of.
const NOT_STORED: u32 = 0;
/// What an entry costs in a tree besides the bytes of its sub-key: nodes are about two thirds full.
const TREE_ENTRY_BYTES: usize = (size_of::<SubKey>() + size_of::<State>()) * 3 / 2;
/// Up to this length a sub-key lies in the tree itself: a 64-bit number is 9 bytes.
const INLINE_BYTES: usize = 16;

/// A sub-key in a tree.
type SubKey = SmallVec<[u8; INLINE_BYTES]>;

/// An entry and how it stands to the database. A removed entry that is still stored has a count of 0.
#[derive(Clone, Copy)]
struct State {
    entry: Entry,
    /// Under which number the database has the entry, perhaps an older one, among those of its key; or [`NOT_STORED`].
    number: u32,
    /// The database has something else than memory.
    dirty: bool,
}

impl State {
    /// What is left of an entry that is removed here and still stored.
    fn removed(self) -> State {
        State { entry: Entry::default(), number: self.number, dirty: true }
    }
}

/// What becomes of an entry.
#[derive(Clone, Copy)]
enum Next {
    /// What it was.
    Same,
    /// Nothing: it was removed, and the database has nothing of it.
    Forget,
    Keep(State),
}

impl Next {
    fn entry(self) -> Entry {
        match self {
            Next::Keep(state) => state.entry,
            Next::Same | Next::Forget => Entry::default(),
        }
    }
}

/// Changes an entry, if there is one: what it was, and what becomes of it.
fn changed(old: Option<State>, change: impl FnOnce(&mut Entry)) -> (Entry, Next) {
    let before = old.map_or_else(Entry::default, |state| state.entry);
    let mut after = before;
    change(&mut after);
    if after.count == 0 {
        after = Entry::default();
    }
    let number = old.map_or(NOT_STORED, |old| old.number);
    let next = match before == after {
        true => Next::Same,
        false if after.count == 0 && number == NOT_STORED => Next::Forget,
        false => Next::Keep(State { entry: after, number, dirty: true }),
    };
    (before, next)
}

/// The numbers that new entries of a key get. Those of removed entries are given again, so they do not run out.
#[derive(Default)]
struct Numbers {
    /// Above it none is taken.
    highest: u32,
    /// Below it these, and perhaps others, are not.
    free: Vec<u32>,
}

#[derive(Default)]
struct Tree {
    map: BTreeMap<SubKey, State>,
    /// Sub-keys whose entries may be dirty, so that a flush does not visit a million clean ones.
    dirty: Vec<SubKey>,
    numbers: Numbers,
    /// What sub-keys of both hold on the heap.
    heap_bytes: usize,
}

/// A key and its entries in order of their sub-keys.
#[derive(Default)]
pub(super) struct Entries {
    /// The key's bytes, and after them the entries if they are not in the tree.
    packed: Vec<u8>,
    key_bytes: u32,
    /// How many entries there are, without the removed ones.
    live: u32,
    tree: Option<Box<Tree>>,
}

/// The memory of a heap allocation of `len` bytes.
fn allocated(len: usize) -> usize {
    len.next_multiple_of(16)
}

/// What a sub-key in a tree holds on the heap.
fn heap_bytes(sub: &[u8]) -> usize {
    if sub.len() <= INLINE_BYTES { 0 } else { allocated(sub.len()) }
}

fn read<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at..at + N]);
    word
}

/// An entry of the packed piece.
struct Item<'a> {
    sub: &'a [u8],
    state: State,
    /// Where the next one starts.
    next: usize,
}

/// The entry that starts at `at`.
#[inline]
fn item(packed: &[u8], at: usize) -> Option<Item<'_>> {
    if at >= packed.len() {
        return None;
    }
    let sub = at + HEAD_BYTES;
    let next = sub + u32::from_le_bytes(read(packed, at)) as usize;
    let number = u32::from_le_bytes(read(packed, at + 4));
    let count = i64::from_le_bytes(read(packed, at + 9));
    let extra = i64::from_le_bytes(read(packed, at + 17));
    let state = State { entry: Entry { count, extra }, number, dirty: packed[at + 8] != 0 };
    Some(Item { sub: &packed[sub..next], state, next })
}

fn write_state(packed: &mut [u8], at: usize, state: State) {
    packed[at + 4..at + 8].copy_from_slice(&state.number.to_le_bytes());
    packed[at + 8] = u8::from(state.dirty);
    packed[at + 9..at + 17].copy_from_slice(&state.entry.count.to_le_bytes());
    packed[at + 17..at + HEAD_BYTES].copy_from_slice(&state.entry.extra.to_le_bytes());
}

impl Numbers {
    /// The numbers beside these, which are taken.
    fn beside(mut taken: SmallVec<[u32; 16]>) -> Numbers {
        taken.sort_unstable();
        let highest = taken.last().copied().unwrap_or(NOT_STORED);
        // As many as there are entries: what is more is found another time.
        let gaps = taken.windows(2).flat_map(|pair| pair[0] + 1..pair[1]).take(taken.len());
        Numbers { highest, free: gaps.collect() }
    }

    /// Gives an entry a number if it has none, from these if there are any.
    fn give(&mut self, state: &mut State, gone: &mut SmallVec<[u32; 16]>) {
        if state.number == NOT_STORED {
            state.number = gone.pop().or_else(|| self.free.pop()).unwrap_or_else(|| {
                self.highest += 1;
                self.highest
            });
        }
    }
}

impl Tree {
    fn insert(&mut self, sub: &[u8], state: State) {
        self.heap_bytes += heap_bytes(sub);
        self.map.insert(SubKey::from_slice(sub), state);
        self.numbers.highest = self.numbers.highest.max(state.number);
        if state.dirty {
            self.note_dirty(sub);
        }
    }

    /// Changes an entry, in one search; gives it before and after.
    fn update(&mut self, sub: &[u8], change: impl FnOnce(&mut Entry)) -> (Entry, Entry) {
        match self.map.entry(SubKey::from_slice(sub)) {
            Place::Vacant(place) => {
                let (before, new) = changed(None, change);
                if let Next::Keep(state) = new {
                    place.insert(state);
                    self.heap_bytes += heap_bytes(sub);
                    self.note_dirty(sub);
                }
                (before, new.entry())
            }
            Place::Occupied(mut place) => {
                let was_dirty = place.get().dirty;
                let (before, new) = changed(Some(*place.get()), change);
                match new {
                    Next::Same => return (before, before),
                    Next::Forget => {
                        place.remove();
                        self.heap_bytes -= heap_bytes(sub);
                    }
                    Next::Keep(state) => {
                        *place.get_mut() = state;
                        if !was_dirty {
                            self.note_dirty(sub);
                        }
                    }
                }
                (before, new.entry())
            }
        }
    }

    fn note_dirty(&mut self, sub: &[u8]) {
        self.heap_bytes += heap_bytes(sub);
        self.dirty.push(SubKey::from_slice(sub));
    }

    fn memory_bytes(&self) -> usize {
        let lists = self.map.len() * TREE_ENTRY_BYTES + self.dirty.capacity() * size_of::<SubKey>();
        size_of::<Tree>() + lists + self.numbers.free.capacity() * size_of::<u32>() + self.heap_bytes
    }
}

impl Entries {
    pub(super) fn new(key: &[u8]) -> Entries {
        Entries { packed: key.to_vec(), key_bytes: key.len() as u32, live: 0, tree: None }
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        &self.packed[..self.key_bytes as usize]
    }

    pub(super) fn live(&self) -> usize {
        self.live as usize
    }

    /// Whether there is nothing to remember: no entries, and none to be deleted.
    pub(super) fn is_blank(&self) -> bool {
        match &self.tree {
            None => self.packed.len() == self.key_bytes as usize,
            Some(tree) => tree.map.is_empty(),
        }
    }

    /// What key and entries hold on the heap.
    #[inline]
    pub(super) fn memory_bytes(&self) -> usize {
        allocated(self.packed.capacity()) + self.tree.as_ref().map_or(0, |tree| tree.memory_bytes())
    }

    fn items(&self) -> impl Iterator<Item = (usize, Item<'_>)> {
        let start = self.key_bytes as usize;
        let first = item(&self.packed, start).map(|first| (start, first));
        std::iter::successors(first, |(_, last)| item(&self.packed, last.next).map(|next| (last.next, next)))
    }

    /// Where the entry of a sub-key is in the packed piece, or where it would go.
    fn locate(&self, sub: &[u8]) -> Result<(usize, State), usize> {
        for (at, item) in self.items() {
            match item.sub.cmp(sub) {
                std::cmp::Ordering::Less => {}
                std::cmp::Ordering::Equal => return Ok((at, item.state)),
                std::cmp::Ordering::Greater => return Err(at),
            }
        }
        Err(self.packed.len())
    }

    pub(super) fn get(&self, sub: &[u8]) -> Entry {
        let state = match &self.tree {
            None => self.locate(sub).ok().map(|(_, state)| state),
            Some(tree) => tree.map.get(sub).copied(),
        };
        state.map_or_else(Entry::default, |state| state.entry)
    }

    /// A key with entries as the database has them, each with its number.
    pub(super) fn load(key: &[u8], mut stored: Vec<(Vec<u8>, u32, Entry)>) -> Entries {
        let mut loaded = Entries::new(key);
        loaded.live = stored.len() as u32;
        let numbers = stored.iter().map(|(_, number, _)| *number).collect();
        // They lie in order of their numbers.
        stored.sort_unstable();
        for (sub, number, entry) in &stored {
            let state = State { entry: *entry, number: *number, dirty: false };
            match &mut loaded.tree {
                Some(tree) => tree.insert(sub, state),
                None => loaded.insert_packed(loaded.packed.len(), sub, state),
            }
        }
        if let Some(tree) = &mut loaded.tree {
            tree.numbers = Numbers::beside(numbers);
        }
        loaded
    }

    /// Changes an entry; gives it before and after.
    pub(super) fn update(&mut self, sub: &[u8], change: impl FnOnce(&mut Entry)) -> (Entry, Entry) {
        let (before, after) = match &mut self.tree {
            None => self.update_packed(sub, change),
            Some(tree) => tree.update(sub, change),
        };
        self.live = self.live + u32::from(after.count != 0) - u32::from(before.count != 0);
        (before, after)
    }

    fn update_packed(&mut self, sub: &[u8], change: impl FnOnce(&mut Entry)) -> (Entry, Entry) {
        let place = self.locate(sub);
        let old = place.ok().map(|(_, state)| state);
        let (before, new) = changed(old, change);
        match (place, new) {
            (_, Next::Same) => return (before, before),
            (Ok((at, _)), Next::Forget) => drop(self.packed.drain(at..at + HEAD_BYTES + sub.len())),
            (Ok((at, _)), Next::Keep(new)) => write_state(&mut self.packed, at, new),
            (Err(at), Next::Keep(new)) => self.insert_packed(at, sub, new),
            (Err(_), Next::Forget) => {}
        }
        (before, new.entry())
    }

    /// Puts an entry into the packed piece, or all entries into a tree if they are too many for it.
    fn insert_packed(&mut self, at: usize, sub: &[u8], state: State) {
        let (length, more) = (self.packed.len(), HEAD_BYTES + sub.len());
        if length + more > PACKED_BYTES_MAX {
            let mut tree = Box::<Tree>::default();
            self.items().for_each(|(_, item)| tree.insert(item.sub, item.state));
            tree.insert(sub, state);
            self.packed.truncate(self.key_bytes as usize);
            self.packed.shrink_to_fit();
            self.tree = Some(tree);
            return;
        }
        if self.packed.capacity() - length < more {
            // Exactly for the first entry: most keys have no other.
            let first = length == self.key_bytes as usize;
            self.packed.reserve_exact(if first { more } else { more.max(length / 2) });
        }
        self.packed.resize(length + more, 0);
        self.packed.copy_within(at..length, at + more);
        self.packed[at..at + 4].copy_from_slice(&(sub.len() as u32).to_le_bytes());
        write_state(&mut self.packed, at, state);
        self.packed[at + HEAD_BYTES..at + more].copy_from_slice(sub);
    }

    /// Removes all. Those that are stored leave a mark.
    pub(super) fn clear(&mut self) {
        let mut kept = Entries::new(self.key());
        let mut bury = |sub: &[u8], state: State| {
            if state.number != NOT_STORED {
                match &mut kept.tree {
                    Some(tree) => tree.insert(sub, state.removed()),
                    None => kept.insert_packed(kept.packed.len(), sub, state.removed()),
                }
            }
        };
        match &self.tree {
            None => self.items().for_each(|(_, item)| bury(item.sub, item.state)),
            Some(tree) => tree.map.iter().for_each(|(sub, state)| bury(sub, *state)),
        }
        *self = kept;
    }

    /// Removes the entries below a sub-key. Those that are stored leave a mark.
    pub(super) fn remove_below(&mut self, bound: &[u8]) {
        if let Some(tree) = &mut self.tree {
            let rest = tree.map.split_off(bound);
            for (sub, state) in std::mem::replace(&mut tree.map, rest) {
                if state.entry.count == 0 {
                    tree.map.insert(sub, state);
                    continue;
                }
                self.live -= 1;
                tree.heap_bytes -= heap_bytes(&sub);
                if state.number != NOT_STORED {
                    tree.insert(&sub, state.removed());
                }
            }
            return;
        }
        let mut at = self.key_bytes as usize;
        // From here to `at` lie entries that go without a mark.
        let mut start = at;
        while let Some(item) = item(&self.packed, at).filter(|item| item.sub < bound) {
            let (state, next) = (item.state, item.next);
            self.live -= u32::from(state.entry.count != 0);
            if state.number == NOT_STORED {
                at = next;
                continue;
            }
            write_state(&mut self.packed, at, state.removed());
            self.packed.drain(start..at);
            start += next - at;
            at = start;
        }
        self.packed.drain(start..at);
    }

    /// The first entry's sub-key.
    pub(super) fn first(&self) -> Option<&[u8]> {
        let mut items = self.items().filter(|(_, item)| item.state.entry.count != 0);
        match &self.tree {
            None => items.next().map(|(_, item)| item.sub),
            Some(tree) => tree.map.iter().find(|(_, state)| state.entry.count != 0).map(|(sub, _)| sub.as_ref()),
        }
    }

    /// Visits entries in order, from the first after `after` on, until the visitor returns false.
    pub(super) fn scan(&self, after: Option<&[u8]>, mut visit: impl FnMut(&[u8], Entry) -> bool) {
        match &self.tree {
            None => {
                for (_, item) in self.items() {
                    let due = item.state.entry.count != 0 && after.is_none_or(|after| item.sub > after);
                    if due && !visit(item.sub, item.state.entry) {
                        return;
                    }
                }
            }
            Some(tree) => {
                let start = after.map_or(Bound::Unbounded, Bound::Excluded);
                for (sub, state) in tree.map.range::<[u8], _>((start, Bound::Unbounded)) {
                    if state.entry.count != 0 && !visit(sub, state.entry) {
                        return;
                    }
                }
            }
        }
    }

    pub(super) fn last(&self) -> Option<(&[u8], Entry)> {
        match &self.tree {
            None => {
                let live = self.items().filter(|(_, item)| item.state.entry.count != 0);
                live.last().map(|(_, item)| (item.sub, item.state.entry))
            }
            Some(tree) => {
                let last = tree.map.iter().rev().find(|(_, state)| state.entry.count != 0);
                last.map(|(sub, state)| (sub.as_ref(), state.entry))
            }
        }
    }

    /// Hands out what must be written: the number of an entry, and the entry with its sub-key, or none for one to be deleted. Then all is
    /// clean. An entry that is new gets the number of one that goes, so that both are one write, or one that is free.
    pub(super) fn flush<E>(&mut self, mut write: impl FnMut(u32, Option<(&[u8], Entry)>) -> Result<(), E>) -> Result<(), E> {
        let mut gone = SmallVec::<[u32; 16]>::new();
        let Some(tree) = &mut self.tree else {
            let mut numbers = Numbers::beside(self.items().map(|(_, item)| item.state.number).collect());
            let mut at = self.key_bytes as usize;
            while let Some(item) = item(&self.packed, at) {
                let (state, next) = (item.state, item.next);
                if state.entry.count == 0 {
                    gone.push(state.number);
                    self.packed.drain(at..next);
                } else {
                    at = next;
                }
            }
            at = self.key_bytes as usize;
            while let Some(item) = item(&self.packed, at) {
                let (mut state, next) = (item.state, item.next);
                if state.dirty {
                    numbers.give(&mut state, &mut gone);
                    write(state.number, Some((item.sub, state.entry)))?;
                    write_state(&mut self.packed, at, State { dirty: false, ..state });
                }
                at = next;
            }
            return gone.into_iter().try_for_each(|number| write(number, None));
        };
        let mut dirty = std::mem::take(&mut tree.dirty);
        dirty.retain(|sub| {
            let removed = tree.map.get(sub).filter(|state| state.dirty && state.entry.count == 0).copied();
            let Some(state) = removed else { return true };
            gone.push(state.number);
            tree.map.remove(sub);
            // Of the entry, and of its place in the list.
            tree.heap_bytes -= 2 * heap_bytes(sub);
            false
        });
        for sub in dirty {
            tree.heap_bytes -= heap_bytes(&sub);
            let Some(state) = tree.map.get_mut(&sub).filter(|state| state.dirty) else { continue };
            tree.numbers.give(state, &mut gone);
            write(state.number, Some((sub.as_ref(), state.entry)))?;
            state.dirty = false;
        }
        tree.numbers.free.extend_from_slice(&gone);
        gone.into_iter().try_for_each(|number| write(number, None))
    }
}
