//! Rows that could not be read or computed: the collection behind `thalweg.errors`.
//!
//! Bounded: each job keeps at most [`ERRORS_MAX`] of its errors, the newest; how many there were in all is counted.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};
use thalweg_catalog::ObjectId;

/// How many errors of one job are kept.
pub const ERRORS_MAX: usize = 10_000;

/// One kept error.
#[derive(Clone, PartialEq, Eq, Debug)]
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

/// All errors of an engine.
#[derive(Debug, Default)]
pub struct ErrorLog {
    jobs: Mutex<BTreeMap<ObjectId, JobErrors>>,
}

#[derive(Debug, Default)]
struct JobErrors {
    rows: BTreeMap<u64, ErrorRow>,
    /// Where an error of this operator, row and reason stands in `rows`.
    places: HashMap<(String, Option<String>, Option<String>, String, String), u64>,
    next: u64,
    total: u64,
}

impl ErrorLog {
    /// Adds to the count of an error; one whose count becomes 0 has healed and goes.
    pub fn report(&self, error: ErrorRow) {
        let mut jobs = self.jobs.lock();
        let errors = jobs.entry(error.job).or_default();
        let key = (error.operator.clone(), error.split.clone(), error.position.clone(), error.reason.clone(), error.row.clone());
        if let Some(place) = errors.places.get(&key).copied() {
            let kept = errors.rows.get_mut(&place).expect("every place has its row");
            kept.count += error.count;
            if kept.count == 0 {
                errors.rows.remove(&place);
                errors.places.remove(&key);
            }
            return;
        }
        errors.total += error.count.max(0) as u64;
        let place = errors.next;
        errors.next += 1;
        errors.rows.insert(place, error);
        errors.places.insert(key, place);
        if errors.rows.len() > ERRORS_MAX
            && let Some((_, oldest)) = errors.rows.pop_first()
        {
            errors.places.remove(&(oldest.operator, oldest.split, oldest.position, oldest.reason, oldest.row));
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
        self.jobs.lock().get(&job).map_or(0, |errors| errors.total)
    }
}

/// Now, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}
