//! How rows of one side are forgotten by the other's watermark, because of what the condition says of times.
//!
//! Rows are stored with their time first, so those below a time are the first of their key; and keys are indexed by the time
//! of their first row. The index is held in memory and rebuilt from state on opening.

use super::side::Side;
use crate::error::OperatorError;
use crate::operator::EpochInput;
use crate::operators::build::Context;
use crate::operators::horizon::Horizon;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::rc::Rc;
use thalweg_plan::JoinBound;

/// A side's bound at work.
pub(super) struct Bound {
    /// The number of the side.
    side: usize,
    rule: JoinBound,
    /// The watermark of the other side's column, whose rows below it are late.
    pub horizon: Horizon,
    pub index: FirstTimes,
}

impl Bound {
    /// The bound of the side with number `side`.
    pub fn open(rule: JoinBound, side: usize, sides: &[Side; 2], context: &Context) -> Result<Bound, OperatorError> {
        let mut index = FirstTimes::default();
        // What their first times are is learnt when the horizon first moves.
        sides[side].for_each_key(&mut |hash, key| {
            index.note(i64::MIN, hash, key);
            Ok(())
        })?;
        Ok(Bound { side, rule, horizon: Horizon::named(["left_horizon", "right_horizon"][side], &context.state)?, index })
    }

    /// The column of this side's rows that tells when they are forgotten.
    pub fn column(&self) -> usize {
        self.rule.column
    }

    /// The column of the other side's rows whose watermark is looked at.
    pub fn other(&self) -> usize {
        self.rule.other
    }

    /// The time below which rows are to be forgotten after an epoch, and the other's watermark then.
    pub fn limit(&self, input: &EpochInput) -> (i64, Option<i64>) {
        let mark = |port: usize, column: usize| input.watermarks.get(port).and_then(|w| w.get(&column)).map(|mark| mark.value);
        let other = mark(1 - self.side, self.rule.other);
        let met = match other.unwrap_or(i64::MIN).max(self.horizon.value()) {
            i64::MAX => i64::MAX,
            watermark => watermark.saturating_sub(self.rule.shift_us),
        };
        let own = if self.rule.own { mark(self.side, self.rule.column).unwrap_or(i64::MIN) } else { i64::MAX };
        (met.min(own), other)
    }
}

/// The keys of a side by the time of their first row, or an earlier one, rounded up to whole seconds: a key whose rows come all the
/// time is not looked at more often.
#[derive(Default)]
pub(super) struct FirstTimes {
    due: BTreeMap<i64, Vec<(u64, Rc<[u8]>)>>,
    /// Each key's hash, the key, and where it is in `due`; it can stand at later times there too.
    known: HashTable<(u64, Rc<[u8]>, i64)>,
}

impl FirstTimes {
    /// Notes that a key has a row with this time.
    pub fn note(&mut self, time: i64, hash: u64, key: &[u8]) {
        let due = end_of_second(time);
        let found = self.known.find_mut(hash, |known| known.0 == hash && *known.1 == *key);
        let key: Rc<[u8]> = match found {
            Some(known) if known.2 <= due => return,
            Some(known) => {
                known.2 = due;
                Rc::clone(&known.1)
            }
            None => {
                let key: Rc<[u8]> = key.into();
                self.known.insert_unique(hash, (hash, Rc::clone(&key), due), |known| known.0);
                key
            }
        };
        self.due.entry(due).or_default().push((hash, key));
    }

    /// Takes out up to `keys_max` keys whose first row is below `time`, with their hashes, earliest first.
    pub fn take_below(&mut self, time: i64, keys_max: usize) -> Vec<(u64, Rc<[u8]>)> {
        let mut taken = Vec::new();
        while taken.len() < keys_max {
            let Some(mut entry) = self.due.first_entry().filter(|entry| *entry.key() < time) else { break };
            let due = *entry.key();
            let Some((hash, key)) = entry.get_mut().pop() else {
                entry.remove();
                continue;
            };
            if let Ok(known) = self.known.find_entry(hash, |known| known.2 == due && known.0 == hash && *known.1 == *key) {
                known.remove();
                taken.push((hash, key));
            }
        }
        taken
    }
}

/// The first whole second that is not before `time`, in microseconds; the ends of time stay what they are.
fn end_of_second(time: i64) -> i64 {
    const SECOND_US: i64 = 1_000_000;
    match time.rem_euclid(SECOND_US) {
        0 => time,
        _ if time == i64::MIN => time,
        past => time.saturating_add(SECOND_US - past),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_by_their_first_time_and_once() {
        let mut index = FirstTimes::default();
        for (time, key) in [(2_500_000, b"a"), (1_500_000, b"a"), (7_000_000, b"b"), (1_600_000, b"a"), (i64::MIN, b"c")] {
            index.note(time, 7, key);
        }
        assert_eq!(index.take_below(i64::MIN + 1, 9), [(7, Rc::from(*b"c"))]);
        assert!(index.take_below(2_000_000, 9).is_empty(), "its second is not over");
        assert_eq!(index.take_below(2_000_001, 9), [(7, Rc::from(*b"a"))]);
        assert!(index.take_below(7_000_000, 9).is_empty(), "a was taken, b is not below");
        index.note(3_000_000, 7, b"a");
        assert_eq!(index.take_below(i64::MAX, 1), [(7, Rc::from(*b"a"))]);
        assert_eq!(index.take_below(i64::MAX, 1), [(7, Rc::from(*b"b"))]);
    }
}
