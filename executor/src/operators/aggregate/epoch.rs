//! The groups that an epoch has touched, with what they were before it.

use thalweg_storage::state::Slot;

/// Touched groups in the order of their first touch.
pub(super) struct Touched {
    width: usize,
    /// Whether a slot is touched, by its number.
    marks: Vec<bool>,
    pub slots: Vec<Slot>,
    /// The values before the epoch, one after another.
    old: Vec<u8>,
    /// For each result that comes from a set, the encoded value before the epoch of each touched group.
    pub old_extremes: Vec<Vec<Option<Vec<u8>>>>,
    /// The time of each group, if a key carries a watermark.
    pub times: Vec<Option<i64>>,
}

impl Touched {
    /// None are touched. `extremes` results come from sets.
    pub fn new(width: usize, extremes: usize) -> Touched {
        Touched {
            width,
            marks: Vec::new(),
            slots: Vec::new(),
            old: Vec::new(),
            old_extremes: vec![Vec::new(); extremes],
            times: Vec::new(),
        }
    }

    /// Whether this is the first touch of the slot; then its value must be noted with `note`.
    #[inline]
    pub fn touch(&mut self, slot: Slot) -> bool {
        let place = slot.0 as usize;
        if place >= self.marks.len() {
            self.marks.resize(place + 1, false);
        }
        !std::mem::replace(&mut self.marks[place], true)
    }

    /// Notes the value of a slot that was touched for the first time.
    pub fn note(&mut self, slot: Slot, value: &[u8]) {
        debug_assert_eq!(value.len(), self.width, "every group's value has the layout's width");
        self.slots.push(slot);
        self.old.extend_from_slice(value);
    }

    /// The value before the epoch of the group that was touched as number `place`.
    pub fn old(&self, place: usize) -> &[u8] {
        &self.old[place * self.width..(place + 1) * self.width]
    }

    /// Ends the epoch.
    pub fn clear(&mut self) {
        for slot in self.slots.drain(..) {
            self.marks[slot.0 as usize] = false;
        }
        self.old.clear();
        self.times.clear();
        self.old_extremes.iter_mut().for_each(Vec::clear);
    }
}
