//! The clock that epochs come from, shared by all jobs of a process.
//!
//! At any time one epoch is *open*: rows that enter carry it. A tick closes it and opens a later one. The clock does not
//! tick by itself: the engine does it, by default every 20 ms while rows come in, at once when a reader or a write asks for it,
//! and about once a second otherwise, so that idle jobs cost next to nothing.
//!
//! CLOCK-1: open epochs only grow, also over restarts and when the wall clock steps back.

use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use thalweg_catalog::Epoch;
use tokio::sync::Notify;

/// How many past epochs are remembered, to count how many are incomplete.
const HISTORY: usize = 256;

/// Gives out epochs.
#[derive(Debug)]
pub struct Clock {
    state: Mutex<State>,
    /// The open epoch, readable without the lock.
    open: AtomicU64,
    /// Whether rows came in since the last tick.
    active: AtomicBool,
    /// Wakes the ticker.
    wake: Notify,
    /// Whether somebody waits for the open epoch to close.
    demanded: AtomicBool,
}

#[derive(Debug)]
struct State {
    open: Epoch,
    /// The epochs that writes to tables have taken and not yet delivered; table inputs stay at the first.
    reserved: BTreeSet<Epoch>,
    /// Epochs that were opened, newest last.
    opened: VecDeque<Epoch>,
    /// Checkpoint epochs that operators must flush at, oldest first.
    checkpoints: Vec<Epoch>,
}

impl Clock {
    /// A clock that has opened `now_ms`, or the epoch after `after` if that is later.
    pub fn new(after: Epoch, now_ms: u64) -> Clock {
        let open = Epoch(now_ms).max(after.next());
        Clock {
            state: Mutex::new(State { open, reserved: BTreeSet::new(), opened: VecDeque::from([open]), checkpoints: vec![] }),
            open: AtomicU64::new(open.0),
            active: AtomicBool::new(false),
            wake: Notify::new(),
            demanded: AtomicBool::new(false),
        }
    }

    /// A clock that goes on right after an epoch, for what was logged after it to enter at the epochs that it had. It does not
    /// stand still at the past for long: the first tick brings it to the present.
    pub fn after(epoch: Epoch) -> Clock {
        Clock::new(epoch, 0)
    }

    /// The open epoch.
    pub fn open(&self) -> Epoch {
        Epoch(self.open.load(Ordering::SeqCst))
    }

    /// Closes the open epoch and opens a later one, which is returned. With `checkpoint`, the closed epoch is a checkpoint's:
    /// it is announced before any later row can exist.
    pub fn tick(&self, now_ms: u64, checkpoint: bool) -> (Epoch, Epoch) {
        let mut state = self.state.lock();
        let closed = state.open;
        if checkpoint {
            state.checkpoints.push(closed);
        }
        self.advance(&mut state, Epoch(now_ms));
        self.active.store(false, Ordering::SeqCst);
        self.demanded.store(false, Ordering::SeqCst);
        (closed, state.open)
    }

    fn advance(&self, state: &mut State, to: Epoch) {
        // CLOCK-1: a wall clock that stands still or steps back still gives a later epoch.
        state.open = to.max(state.open.next());
        state.opened.push_back(state.open);
        if state.opened.len() > HISTORY {
            state.opened.pop_front();
        }
        self.open.store(state.open.0, Ordering::SeqCst);
    }

    /// Takes an epoch of its own for a write to tables: table inputs do not pass it until the reservation is dropped.
    pub fn reserve(&self, now_ms: u64) -> Reservation<'_> {
        let mut state = self.state.lock();
        // Earlier writes may already be visible at the epoch that is open.
        self.advance(&mut state, Epoch(now_ms));
        let epoch = state.open;
        state.reserved.insert(epoch);
        Reservation { clock: self, epoch }
    }

    /// The epoch that table inputs may advance to: all rows below it have been delivered.
    pub fn table_frontier(&self) -> Epoch {
        let state = self.state.lock();
        state.reserved.first().copied().unwrap_or(state.open)
    }

    /// How many epochs after `completed` have been opened, the open one included; at most [`HISTORY`].
    pub fn incomplete_since(&self, completed: Epoch) -> usize {
        let state = self.state.lock();
        state.opened.iter().rev().take_while(|e| **e > completed).count()
    }

    /// Says that rows came in, so that the epoch should close soon.
    pub fn note_activity(&self) {
        if !self.active.swap(true, Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// Asks for the open epoch to be closed at once.
    pub fn demand(&self) {
        if !self.demanded.swap(true, Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// Whether rows came in since the last tick.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// Whether a tick was asked for since the last one.
    pub fn is_demanded(&self) -> bool {
        self.demanded.load(Ordering::SeqCst)
    }

    /// Returns when rows came in or a tick was asked for.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// The earliest announced checkpoint epoch after `flushed`.
    pub fn next_checkpoint(&self, flushed: Epoch) -> Option<Epoch> {
        self.state.lock().checkpoints.iter().copied().find(|e| *e > flushed)
    }

    /// Whether a checkpoint has been announced and not ended.
    pub fn checkpoint_running(&self) -> bool {
        !self.state.lock().checkpoints.is_empty()
    }

    /// Ends a checkpoint, whether it was made or given up. Operators that have not flushed at it yet no longer do.
    pub fn end_checkpoint(&self, epoch: Epoch) {
        self.state.lock().checkpoints.retain(|e| *e != epoch);
    }
}

/// The epoch of a write that is on its way. Dropped when its rows have been delivered, or never will be.
#[derive(Debug)]
pub struct Reservation<'a> {
    clock: &'a Clock,
    epoch: Epoch,
}

impl Reservation<'_> {
    /// The epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.clock.state.lock().reserved.remove(&self.epoch);
    }
}

#[cfg(test)]
mod tests;
