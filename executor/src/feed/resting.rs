//! Those who read and have found nothing for long: one thread looks for all of them.

use super::reading::{Reading, Task};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How often each is looked at: half of what a connector waits between two looks at what rests, so that none is put off by much.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// After so long without rows a reading gives its thread back.
const REST_AFTER: Duration = Duration::from_secs(20);

/// Readings at rest. The thread that came with the first of them looks at all, until none is left.
pub(crate) struct Resting {
    /// After how long a reading comes here.
    pub(super) after: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    readings: Vec<Reading>,
    is_looked_after: bool,
}

impl Default for Resting {
    fn default() -> Resting {
        Resting { after: REST_AFTER, state: Mutex::default() }
    }
}

impl Resting {
    /// Takes one in, with the thread that it has read on. It gets another when there is something to do.
    pub(super) fn take(self: Arc<Self>, reading: Reading) {
        let mut state = self.state.lock();
        state.readings.push(reading);
        if !std::mem::replace(&mut state.is_looked_after, true) {
            drop(state);
            self.look_after();
        }
    }

    fn look_after(self: Arc<Self>) {
        loop {
            std::thread::sleep(LOOK_EVERY);
            let mut place = 0;
            loop {
                let mut state = self.state.lock();
                let Some(reading) = state.readings.get_mut(place) else { break };
                match reading.next(Duration::ZERO) {
                    Task::Wait => place += 1,
                    task => {
                        let reading = state.readings.swap_remove(place);
                        drop(state);
                        self.wake(reading, task);
                    }
                }
            }
            let mut state = self.state.lock();
            if state.readings.is_empty() {
                state.is_looked_after = false;
                return;
            }
        }
    }

    fn wake(self: &Arc<Self>, reading: Reading, task: Task) {
        if matches!(task, Task::End) {
            return;
        }
        let job = reading.job();
        if let Err(error) = reading.go_on(task, Arc::clone(self)) {
            job.fail(format!("could not start a thread: {error}"));
        }
    }
}

#[cfg(test)]
mod tests;
