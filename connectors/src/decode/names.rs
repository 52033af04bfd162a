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

/// A key that is expected, with its quotes, as it was written.
struct Guess {
    key: Box<[u8]>,
    slot: Slot,
    /// The key's first sixteen bytes and which of them count: most keys are compared as two numbers.
    word: u128,
    mask: u128,
}

impl Guess {
    fn new(key: &[u8], slot: Slot) -> Guess {
        let mut word = [0; 16];
        let length = key.len().min(16);
        word[..length].copy_from_slice(&key[..length]);
        let mask = if length == 16 { u128::MAX } else { (1 << (length * 8)) - 1 };
        Guess { key: key.into(), slot, word: u128::from_le_bytes(word), mask }
    }

    #[inline(always)]
    fn starts(&self, rest: &[u8]) -> bool {
        match rest.first_chunk::<16>() {
            Some(chunk) if self.key.len() <= 16 => (u128::from_le_bytes(*chunk) ^ self.word) & self.mask == 0,
            _ => rest.starts_with(&self.key),
        }
    }
}

/// The names of a record's fields, in two speeds: the keys of one object are expected to be those of the object before, in the
/// same order; a key that is not is looked up.
pub(crate) struct Names {
    /// All declared names, in lower case too, with the builder of each.
    declared: Vec<(String, String, Option<usize>)>,
    /// The keys of the last object.
    shape: Vec<Guess>,
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
        let guess = self.shape.get(place)?;
        guess.starts(rest).then_some((guess.slot, guess.key.len()))
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
            self.shape[place] = Guess::new(raw, slot);
        } else if place == self.shape.len() && place < REMEMBERED {
            self.shape.push(Guess::new(raw, slot));
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
