//! Where jobs meet: the change log of a kept relation on one worker, and those who follow it.
//!
//! A relation's `Materialize` publishes each epoch's net change; every follower has a queue of its own. Publisher and
//! followers run on one thread, and a follower joins between two epochs, so it gets a snapshot and then every later
//! change, once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use thalweg_catalog::{Delta, Epoch};
use thalweg_storage::state::ViewReader;

use crate::operator::Watermarks;

/// The change log of one relation on one worker.
pub struct Hub {
    reader: ViewReader,
    /// All changes below this epoch have been published.
    frontier: Epoch,
    watermarks: Watermarks,
    followers: Vec<Weak<RefCell<Follower>>>,
}

/// What one follower has not taken yet.
pub struct Follower {
    /// Changes, oldest first.
    pub changes: VecDeque<(Epoch, Delta)>,
    /// Watermarks by the epoch at whose end they hold, oldest first.
    pub marks: VecDeque<(Epoch, Watermarks)>,
    /// All changes below this epoch are in `changes` or were taken from there.
    pub frontier: Epoch,
    wake: Box<dyn Fn()>,
}

impl Hub {
    /// The log of a relation that starts (or starts again) with what `reader` shows.
    pub fn new(reader: ViewReader) -> Hub {
        Hub { reader, frontier: Epoch(0), watermarks: Watermarks::new(), followers: vec![] }
    }

    /// What readers of the relation use.
    pub fn reader(&self) -> &ViewReader {
        &self.reader
    }

    /// All changes below this epoch have been published.
    pub fn frontier(&self) -> Epoch {
        self.frontier
    }

    /// The watermarks of the relation's columns.
    pub fn watermarks(&self) -> &Watermarks {
        &self.watermarks
    }

    /// Publishes the net change of an epoch at or above the frontier.
    pub fn publish(&mut self, epoch: Epoch, delta: &Delta) {
        if delta.is_empty() {
            return;
        }
        self.each(|follower| follower.changes.push_back((epoch, delta.clone())));
    }

    /// Publishes watermarks that hold at the end of `epoch`.
    pub fn publish_watermarks(&mut self, epoch: Epoch, watermarks: &Watermarks) {
        if self.watermarks != *watermarks {
            self.watermarks = watermarks.clone();
            self.each(|follower| follower.marks.push_back((epoch, watermarks.clone())));
        }
    }

    /// Says that nothing more comes below `frontier`, and wakes the followers.
    pub fn advance(&mut self, frontier: Epoch) {
        if frontier > self.frontier {
            self.frontier = frontier;
            self.each(|follower| {
                follower.frontier = frontier;
                (follower.wake)();
            });
        }
    }

    /// Joins: gets every change from the frontier on.
    pub fn follow(&mut self, wake: Box<dyn Fn()>) -> Rc<RefCell<Follower>> {
        let follower =
            Rc::new(RefCell::new(Follower { changes: VecDeque::new(), marks: VecDeque::new(), frontier: self.frontier, wake }));
        self.followers.push(Rc::downgrade(&follower));
        follower
    }

    fn each(&mut self, mut tell: impl FnMut(&mut Follower)) {
        self.followers.retain(|follower| match follower.upgrade() {
            Some(follower) => {
                tell(&mut follower.borrow_mut());
                true
            }
            None => false,
        });
    }
}
