//! Points at which a test has the process die as a power cut or `kill -9` would have it: at once, without unwinding, without a
//! destructor. A test facility and nothing else: what is durable at which moment is only shown by dying at that moment.
//!
//! Armed by the environment variable [`VARIABLE`], as `point` or `point:n`: the process dies when it passes that point for the
//! n-th time. While none is armed a point costs one relaxed load.

use crate::suggest;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The environment variable that arms a point.
pub const VARIABLE: &str = "THALWEG_CRASH_AT";

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)*) => {
        /// A named point.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum CrashPoint { $($(#[$doc])* $point,)* }

        impl CrashPoint {
            /// All points.
            pub const ALL: &'static [CrashPoint] = &[$(CrashPoint::$point,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(CrashPoint::$point => $name,)* }
            }
        }
    };
}

points! {
    /// An operator is about to flush its state for a checkpoint.
    BeforeFlush = "before-flush",
    /// An operator has flushed its state for a checkpoint.
    AfterFlush = "after-flush",
    /// A worker is about to link its database's files.
    BeforeStateCopy = "before-state-copy",
    /// A worker has linked its database's files.
    AfterStateCopy = "after-state-copy",
    /// Nothing of a checkpoint has been uploaded.
    BeforeUpload = "before-upload",
    /// A worker's files of a checkpoint have been uploaded.
    AfterUpload = "after-upload",
    /// All files of a checkpoint are there, its manifest is not.
    BeforeManifest = "before-manifest",
    /// The manifest is there, and nobody has been told.
    AfterManifest = "after-manifest",
    /// A sink's rows are about to go to their target.
    BeforeDelivery = "before-delivery",
    /// A file sink has written a file, but not under its name.
    InDelivery = "in-delivery",
    /// The target has the rows, and the sink does not know.
    AfterDelivery = "after-delivery",
    /// The sink knows that the target has the rows.
    AfterDeliveryRecord = "after-delivery-record",
    /// A group of writes is in the table log's file, but not synced.
    BeforeTableLogSync = "before-table-log-sync",
    /// A group of writes is synced, and not acknowledged.
    AfterTableLogSync = "after-table-log-sync",
    /// A group of writes has been acknowledged.
    AfterAcknowledgement = "after-acknowledgement",
    /// The table log's new start has been put, and what is before it is still there.
    InTableLogTruncation = "in-table-log-truncation",
    /// A catalog transaction is about to be put.
    BeforeCatalogCommit = "before-catalog-commit",
    /// A catalog transaction has been put, and nothing that follows from it has been done.
    AfterCatalogCommit = "after-catalog-commit",
    /// A snapshot of the catalog has been put, and what it stands for is still there.
    InCatalogSnapshot = "in-catalog-snapshot",
    /// The catalog no longer has an object, and its job still runs.
    BeforeJobDrop = "before-job-drop",
    /// A dropped job's state has been deleted.
    AfterJobDrop = "after-job-drop",
    /// A start has claimed its generation, and read nothing.
    AfterClaim = "after-claim",
    /// A start has fetched the files of one worker.
    InRestore = "in-restore",
    /// A start has dealt state to one of another number of workers.
    InRescale = "in-rescale",
    /// A start runs all jobs again, and has replayed no write.
    BeforeReplay = "before-replay",
    /// Nothing that is no longer needed has been deleted.
    BeforeGarbage = "before-garbage",
    /// The manifests that are no longer needed have been deleted, their files have not.
    InGarbage = "in-garbage",
    /// All that is no longer needed has been deleted.
    AfterGarbage = "after-garbage",
}

/// Which point is armed, by its number; more than any if none is.
static ARMED: AtomicUsize = AtomicUsize::new(usize::MAX);
/// How often it is passed until it counts.
static PASSES_LEFT: AtomicU64 = AtomicU64::new(0);

impl CrashPoint {
    /// Passes the point: nothing happens, or the process dies.
    #[inline]
    pub fn pass(self) {
        if ARMED.load(Ordering::Relaxed) == self as usize && PASSES_LEFT.fetch_sub(1, Ordering::SeqCst) == 1 {
            die();
        }
    }
}

/// Arms the point that [`VARIABLE`] names, if it is set. To be called before threads are started.
///
/// # Errors
/// If there is no such point, or the count is none; then nothing is armed.
pub fn arm_from_environment() -> Result<(), String> {
    match std::env::var(VARIABLE) {
        Err(std::env::VarError::NotPresent) => Ok(()),
        Err(error) => Err(format!("{VARIABLE}: {error}")),
        Ok(text) => {
            let (point, passes) = parse(&text)?;
            PASSES_LEFT.store(passes, Ordering::SeqCst);
            ARMED.store(point as usize, Ordering::SeqCst);
            Ok(())
        }
    }
}

fn parse(text: &str) -> Result<(CrashPoint, u64), String> {
    let (name, passes) = text.split_once(':').unwrap_or((text, "1"));
    let names = CrashPoint::ALL.iter().map(|point| point.name());
    let point = CrashPoint::ALL.iter().find(|point| point.name() == name);
    let point = point.ok_or_else(|| format!("{VARIABLE}: there is no crash point \"{name}\". {}", suggest::hint(name, names)))?;
    match passes.parse() {
        Ok(passes) if passes > 0 => Ok((*point, passes)),
        _ => Err(format!("{VARIABLE}: \"{passes}\" is not how often a point is passed. Write {name}:1 for the first time.")),
    }
}

fn die() -> ! {
    // SAFETY: raises a signal for this process, which can be neither caught nor ignored; no memory is involved.
    unsafe { libc::raise(libc::SIGKILL) };
    unreachable!("the process has been killed")
}

#[cfg(test)]
mod tests;
