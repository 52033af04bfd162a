//! Rows that could not be read or computed: the collection behind `thalweg.errors`.
//!
//! A job's errors are state: each worker saves those that were reported on it ([`saved`]), so that an error is gone only when its row
//! is. What is shown is kept for all workers together, here.
//!
//! Bounded: each job keeps at most [`ERRORS_MAX`] of its errors, the newest; how many there were in all is counted.

pub mod saved;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_catalog::ObjectId;

/// How many errors of one job are kept.
pub const ERRORS_MAX: usize = 10_000;

/// One kept error.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ErrorRow {
    /// The job whose row it is.
    pub job: ObjectId,
    /// The operator, by its path in the plan; or the source, by its name.
    pub operator: String,
    /// The split, for a record of a source.
    pub split: Option<String>,
    /// Where in the split.
    pub position: Option<String>,
    /// Why.
    pub reason: String,
    /// The row or the start of the record.
    pub row: String,
    /// How many such rows there are now.
    pub count: i64,
    /// When it was first seen, in milliseconds since 1970.
    pub first_seen_ms: u64,
}

/// What tells one error of a job from another.
type ErrorKey = (String, Option<String>, Option<String>, String, String);

impl ErrorRow {
    fn key(&self) -> ErrorKey {
        (self.operator.clone(), self.split.clone(), self.position.clone(), self.reason.clone(), self.row.clone())
    }
}

/// How many errors there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct ErrorCounts {
    /// In all, healed ones too.
    total: u64,
    /// Those that are no longer kept because there were too many, and have not healed as far as one can tell.
    cut: u64,
}

/// The kept errors of one job, oldest first.
#[derive(Debug, Default)]
struct JobErrors {
    rows: BTreeMap<u64, ErrorRow>,
    /// Where each error stands in `rows`.
    places: HashMap<ErrorKey, u64>,
    next: u64,
    counts: ErrorCounts,
}

impl JobErrors {
    /// Adds to the count of an error; one whose count becomes 0 has healed and goes. Gives the places that have changed: that of the
    /// error, and that of one which had to make room.
    fn add(&mut self, error: ErrorRow) -> [Option<u64>; 2] {
        self.counts.total += error.count.max(0) as u64;
        self.merge(error)
    }

    /// Like [`add`](Self::add), for an error that has been counted.
    fn merge(&mut self, error: ErrorRow) -> [Option<u64>; 2] {
        let key = error.key();
        if let Some(place) = self.places.get(&key).copied() {
            let kept = self.rows.get_mut(&place).expect("every place has its row");
            kept.count += error.count;
            if kept.count == 0 {
                self.rows.remove(&place);
                self.places.remove(&key);
            }
            return [Some(place), None];
        }
        if error.count < 0 && self.counts.cut > 0 {
            // The row of an error that is no longer kept.
            self.counts.cut = self.counts.cut.saturating_sub(error.count.unsigned_abs());
            return [None, None];
        }
        let place = self.next;
        self.put(place, error);
        [Some(place), self.make_room()]
    }

    fn put(&mut self, place: u64, error: ErrorRow) {
        self.next = self.next.max(place + 1);
        self.places.insert(error.key(), place);
        self.rows.insert(place, error);
    }

    fn make_room(&mut self) -> Option<u64> {
        if self.rows.len() <= ERRORS_MAX {
            return None;
        }
        let (place, oldest) = self.rows.pop_first()?;
        self.places.remove(&oldest.key());
        self.counts.cut += oldest.count.max(0) as u64;
        Some(place)
    }
}

/// All errors of an engine.
#[derive(Debug, Default)]
pub struct ErrorLog {
    jobs: Mutex<BTreeMap<ObjectId, JobErrors>>,
}

impl ErrorLog {
    /// Adds to the count of an error; one whose count becomes 0 has healed and goes.
    pub fn report(&self, error: ErrorRow) {
        self.jobs.lock().entry(error.job).or_default().add(error);
    }

    /// Takes up what a worker had saved of a job's errors.
    fn restore(&self, job: ObjectId, saved: &JobErrors) {
        let mut jobs = self.jobs.lock();
        let errors = jobs.entry(job).or_default();
        errors.counts.total += saved.counts.total;
        errors.counts.cut += saved.counts.cut;
        for error in saved.rows.values() {
            errors.merge(error.clone());
        }
    }

    /// Forgets a job.
    pub fn drop_job(&self, job: ObjectId) {
        self.jobs.lock().remove(&job);
    }

    /// All kept errors whose rows are still there, oldest first within a job.
    pub fn rows(&self) -> Vec<ErrorRow> {
        self.jobs.lock().values().flat_map(|errors| errors.rows.values().filter(|e| e.count > 0).cloned()).collect()
    }

    /// How many errors a job has had in all.
    pub fn total(&self, job: ObjectId) -> u64 {
        self.jobs.lock().get(&job).map_or(0, |errors| errors.counts.total)
    }
}

/// Now, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

#[cfg(test)]
mod tests;
