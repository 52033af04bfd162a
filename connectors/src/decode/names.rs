//! Which column a name in the data belongs to.

use ahash::AHashMap;

/// How many different keys are remembered; more would be data in the place of names.
const REMEMBERED: usize = 4096;

/// Where the value of a key goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    /// The builder; none if nobody reads the value.
    pub(crate) builder: Option<usize>,
    /// Whether the key is the column's name to the letter, not only in another case.
    exact: bool,
}

/// The names of a record's fields, in two speeds: the keys of one object are expected to be those of the object before, in the
/// same order; a key that is not is looked up.
pub(crate) struct Names {
    /// All declared names, in lower case too, with the builder of each.
    declared: Vec<(String, String, Option<usize>)>,
    /// The keys of the last object, with their quotes, as they were written.
    shape: Vec<(Box<[u8]>, Slot)>,
    /// Keys that were looked up before.
    known: AHashMap<Box<[u8]>, Slot>,
    /// For each builder the last object in which its value came by a key in another case.
    loose: Vec<u64>,
    /// Counts objects.
    serial: u64,
}

impl Names {
    /// Names with the builder of each, none for a column that is not read.
    pub(crate) fn new(names: impl Iterator<Item = (String, Option<usize>)>) -> Names {
        let declared: Vec<_> = names.map(|(name, builder)| (name.clone(), name.to_lowercase(), builder)).collect();
        let builders = declared.iter().filter_map(|(_, _, builder)| *builder).max().map_or(0, |last| last + 1);
        Names { declared, shape: vec![], known: AHashMap::new(), loose: vec![0; builders], serial: 0 }
    }

    /// A new object begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.serial += 1;
    }

    /// Where the key goes that stands at the start of `rest` if it is the one expected at this place; and how long it is.
    #[inline(always)]
    pub(crate) fn expected(&self, place: usize, rest: &[u8]) -> Option<(Slot, usize)> {
        let (key, slot) = self.shape.get(place)?;
        rest.starts_with(key).then_some((*slot, key.len()))
    }

    /// Where a key goes: `raw` as it is written, with its quotes, and `name` as it is meant. Expects it at this place from now on.
    pub(crate) fn look_up(&mut self, place: usize, raw: &[u8], name: &str) -> Slot {
        let slot = match self.known.get(raw) {
            Some(slot) => *slot,
            None => {
                let slot = self.resolve(name);
                if self.known.len() < REMEMBERED {
                    self.known.insert(raw.into(), slot);
                }
                slot
            }
        };
        if place < self.shape.len() {
            self.shape[place] = (raw.into(), slot);
        } else if place == self.shape.len() && place < REMEMBERED {
            self.shape.push((raw.into(), slot));
        }
        slot
    }

    /// The column of exactly this name, else the first of this name in another case.
    pub(crate) fn resolve(&self, name: &str) -> Slot {
        if let Some((_, _, builder)) = self.declared.iter().find(|(declared, _, _)| declared == name) {
            return Slot { builder: *builder, exact: true };
        }
        let lower = name.to_lowercase();
        let builder = self.declared.iter().find(|(_, declared, _)| *declared == lower).and_then(|(_, _, builder)| *builder);
        Slot { builder, exact: false }
    }

    /// Notes that a builder gets its value by this key; false if it has a better one already in this object. `again` says
    /// that it has some value.
    #[inline(always)]
    pub(crate) fn accept(&mut self, builder: usize, slot: Slot, again: bool) -> bool {
        if slot.exact && !again {
            return true;
        }
        let was_exact = again && self.loose[builder] != self.serial;
        if !slot.exact && was_exact {
            return false;
        }
        self.loose[builder] = if slot.exact { 0 } else { self.serial };
        true
    }
}
