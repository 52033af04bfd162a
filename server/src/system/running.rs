//! System relations about what runs: jobs, operators, checkpoints, freshness, sources, sinks, errors, progress.

use super::build::{Cell, batch, time_ms};
use crate::database::{Database, now_ms};
use arrow::array::RecordBatch;
use std::sync::atomic::Ordering;
use thalweg_catalog::SqlType::{Boolean, Int8, Text, TimestampTz};
use thalweg_catalog::{Catalog, Epoch, ObjectId, SqlResult, SqlType};
use thalweg_executor::job::JobShared;

/// The columns of `thalweg.jobs`.
pub const JOBS: [(&str, SqlType); 10] = [
    ("id", Int8),
    ("name", Text),
    ("kind", Text),
    ("state", Text),
    ("reason", Text),
    ("since_epoch", Int8),
    ("completed_epoch", Int8),
    ("state_bytes", Int8),
    ("memory_limit", Int8),
    ("errors", Int8),
];

/// The columns of `thalweg.operators`.
pub const OPERATORS: [(&str, SqlType); 11] = [
    ("job", Text),
    ("job_id", Int8),
    ("operator", Text),
    ("path", Text),
    ("worker", Int8),
    ("rows_in", Int8),
    ("rows_out", Int8),
    ("busy_us", Int8),
    ("state_bytes", Int8),
    ("late_rows", Int8),
    ("watermark", TimestampTz),
];

/// The columns of `thalweg.checkpoints`.
pub const CHECKPOINTS: [(&str, SqlType); 8] = [
    ("epoch", Int8),
    ("number", Int8),
    ("state", Text),
    ("reason", Text),
    ("took_ms", Int8),
    ("ended_at", TimestampTz),
    ("size_bytes", Int8),
    ("uploaded_bytes", Int8),
];

/// The columns of `thalweg.freshness`.
pub const FRESHNESS: [(&str, SqlType); 6] =
    [("name", Text), ("id", Int8), ("epoch", Int8), ("lag_ms", Int8), ("ended", Boolean), ("slowest_input", Text)];

/// The columns of `thalweg.sources`.
pub const SOURCES: [(&str, SqlType); 8] = [
    ("source", Text),
    ("job", Text),
    ("worker", Int8),
    ("split", Text),
    ("position", Text),
    ("rows", Int8),
    ("newest", TimestampTz),
    ("ended", Boolean),
];

/// The columns of `thalweg.sinks`.
pub const SINKS: [(&str, SqlType); 4] = [("sink", Text), ("id", Int8), ("guarantee", Text), ("delivered_epoch", Int8)];

/// The columns of `thalweg.errors`.
pub const ERRORS: [(&str, SqlType); 9] = [
    ("job", Text),
    ("job_id", Int8),
    ("operator", Text),
    ("split", Text),
    ("position", Text),
    ("reason", Text),
    ("row", Text),
    ("count", Int8),
    ("first_seen", TimestampTz),
];

/// The columns of `thalweg.ddl_progress`.
pub const DDL_PROGRESS: [(&str, SqlType); 5] =
    [("job", Text), ("id", Int8), ("rows_done", Int8), ("rows_total", Int8), ("percent", Int8)];

/// An object's name, or its id if it has gone.
pub fn name_of(catalog: &Catalog, id: ObjectId) -> String {
    catalog.get(id).map_or_else(|| id.to_string(), |o| o.name.clone())
}

/// An epoch as a number; nothing for one that never was, or for the end of time.
fn epoch(epoch: Epoch) -> Cell {
    if epoch == Epoch::END || epoch.0 == 0 { Cell::Null } else { epoch.0.into() }
}

fn lag_ms(job: &JobShared) -> Cell {
    match job.completed() {
        Epoch::END => 0u64.into(),
        Epoch(0) => Cell::Null,
        completed => now_ms().saturating_sub(completed.0).into(),
    }
}

pub fn jobs(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = JOBS;
    let row = |job: &JobShared| {
        let object = catalog.get(job.id)?;
        let state = job.state();
        let bytes: u64 = job.figures.iter().flatten().map(|f| f.state_bytes.load(Ordering::Relaxed)).sum();
        Some(vec![
            job.id.0.into(),
            object.name.clone().into(),
            object.kind().to_string().into(),
            state.name().into(),
            state.reason().into(),
            job.since().map_or(Cell::Null, epoch),
            epoch(job.completed()),
            bytes.into(),
            job.memory_bytes.into(),
            database.engine().errors().total(job.id).into(),
        ])
    };
    batch(&columns, database.engine().jobs().iter().filter_map(|job| row(job)).collect())
}

pub fn operators(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = OPERATORS;
    let mut rows = vec![];
    for job in database.engine().jobs() {
        for (node, workers) in job.plan.nodes.iter().zip(&job.figures) {
            for (worker, figures) in workers.iter().enumerate() {
                let watermark = match figures.watermark.load(Ordering::Relaxed) {
                    i64::MIN | i64::MAX => Cell::Null,
                    value => Cell::Time(value),
                };
                rows.push(vec![
                    name_of(catalog, job.id).into(),
                    job.id.0.into(),
                    node.operator.name().into(),
                    node.path.clone().into(),
                    worker.into(),
                    figures.rows_in.load(Ordering::Relaxed).into(),
                    figures.rows_out.load(Ordering::Relaxed).into(),
                    (figures.busy_ns.load(Ordering::Relaxed) / 1000).into(),
                    figures.state_bytes.load(Ordering::Relaxed).into(),
                    figures.late_rows.load(Ordering::Relaxed).into(),
                    watermark,
                ]);
            }
        }
    }
    batch(&columns, rows)
}

pub fn checkpoints(database: &Database) -> SqlResult<RecordBatch> {
    let columns = CHECKPOINTS;
    let rows = database.engine().checkpoints().into_iter().map(|record| {
        let state = if record.outcome.is_ok() { "durable" } else { "failed" };
        vec![
            epoch(record.epoch),
            record.outcome.as_ref().ok().copied().into(),
            state.into(),
            record.outcome.err().into(),
            record.took_ms.into(),
            time_ms(record.ended_ms),
            record.size_bytes.into(),
            record.uploaded_bytes.into(),
        ]
    });
    batch(&columns, rows.collect())
}

pub fn freshness(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = FRESHNESS;
    let engine = database.engine();
    let rows = engine.jobs().into_iter().map(|job| {
        let reads = job.plan.reads().into_iter().filter_map(|id| engine.job(id));
        let slowest = reads.min_by_key(|input| input.completed()).map(|input| name_of(catalog, input.id));
        vec![
            name_of(catalog, job.id).into(),
            job.id.0.into(),
            epoch(job.completed()),
            lag_ms(&job),
            (job.completed() == Epoch::END).into(),
            slowest.into(),
        ]
    });
    batch(&columns, rows.collect())
}

pub fn sources(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = SOURCES;
    let rows = database.engine().splits().into_iter().map(|split| {
        vec![
            name_of(catalog, split.source).into(),
            name_of(catalog, split.job).into(),
            split.worker.into(),
            split.split.into(),
            split.state.position.into(),
            split.state.rows.into(),
            split.state.newest_us.map_or(Cell::Null, Cell::Time),
            split.state.ended.into(),
        ]
    });
    batch(&columns, rows.collect())
}

pub fn sinks(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = SINKS;
    let rows = database.engine().sinks().into_iter().map(|sink| {
        vec![name_of(catalog, sink.sink).into(), sink.sink.0.into(), sink.guarantee.to_string().into(), epoch(sink.delivered)]
    });
    batch(&columns, rows.collect())
}

pub fn errors(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = ERRORS;
    let rows = database.engine().errors().rows().into_iter().map(|error| {
        vec![
            name_of(catalog, error.job).into(),
            error.job.0.into(),
            error.operator.into(),
            error.split.into(),
            error.position.into(),
            error.reason.into(),
            error.row.into(),
            error.count.into(),
            time_ms(error.first_seen_ms),
        ]
    });
    batch(&columns, rows.collect())
}

pub fn ddl_progress(database: &Database, catalog: &Catalog) -> SqlResult<RecordBatch> {
    let columns = DDL_PROGRESS;
    let jobs = database.engine().jobs();
    let rows = jobs.iter().filter(|job| job.since().is_none() && !job.is_stopped()).map(|job| {
        let (done, total) = (job.backfill_rows.load(Ordering::Relaxed), job.backfill_total.load(Ordering::Relaxed));
        let percent = (done * 100).checked_div(total).map(|p| p.min(100));
        vec![name_of(catalog, job.id).into(), job.id.0.into(), done.into(), total.into(), percent.into()]
    });
    batch(&columns, rows.collect())
}
