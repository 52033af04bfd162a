//! HTTP: `/healthz` and `/metrics`.

use crate::database::{Database, now_ms};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use parking_lot::RwLock;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_catalog::Epoch;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Whether the server is up, and what it serves.
#[derive(Clone, Default)]
pub struct Health {
    database: Arc<RwLock<Option<Arc<Database>>>>,
}

impl Health {
    /// The database is open.
    pub fn ready(&self, database: &Arc<Database>) {
        *self.database.write() = Some(Arc::clone(database));
    }

    fn database(&self) -> Option<Arc<Database>> {
        self.database.read().clone()
    }
}

/// Serves until `stop`.
pub async fn serve(listener: TcpListener, health: Health, stop: CancellationToken) {
    let router = Router::new().route("/healthz", get(healthz)).route("/metrics", get(metrics)).with_state(health);
    let served = axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await });
    if let Err(error) = served.await {
        tracing::error!(%error, "the HTTP server has ended");
    }
}

/// 200 once statements are answered, 503 before: while a checkpoint is being restored, say.
async fn healthz(State(health): State<Health>) -> impl IntoResponse {
    match health.database() {
        Some(_) => (StatusCode::OK, "ok\n"),
        None => (StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
    }
}

async fn metrics(State(health): State<Health>) -> impl IntoResponse {
    match health.database() {
        Some(database) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
            (StatusCode::OK, kind, exposition(&database))
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, [(header::CONTENT_TYPE, "text/plain")], "starting\n".to_string()),
    }
}

/// One metric in Prometheus's text form.
struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<(String, f64)>,
}

fn exposition(database: &Database) -> String {
    let mut text = String::new();
    for metric in collect(database) {
        // Writing to a string can't fail.
        let _ = writeln!(text, "# HELP {} {}\n# TYPE {} {}", metric.name, metric.help, metric.name, metric.kind);
        for (labels, value) in metric.samples {
            let _ = writeln!(text, "{}{labels} {value}", metric.name);
        }
    }
    text
}

fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn collect(database: &Database) -> Vec<Metric> {
    let catalog = database.catalog();
    let engine = database.engine();
    let jobs = engine.jobs();
    let mut up = vec![];
    let (mut lag, mut rows_in, mut rows_out, mut busy, mut state) = (vec![], vec![], vec![], vec![], vec![]);
    let mut errors = vec![];
    for job in &jobs {
        let Some(object) = catalog.get(job.id) else { continue };
        let name = label(&object.name);
        let job_state = job.state();
        up.push((format!("{{job=\"{name}\",state=\"{}\"}}", job_state.name()), 1.0));
        if job.completed() != Epoch::END && job.completed() != Epoch(0) {
            lag.push((format!("{{job=\"{name}\"}}"), now_ms().saturating_sub(job.completed().0) as f64 / 1000.0));
        }
        errors.push((format!("{{job=\"{name}\"}}"), engine.errors().total(job.id) as f64));
        for (node, workers) in job.plan.nodes.iter().zip(&job.figures) {
            let sum = |get: &dyn Fn(&thalweg_executor::job::OperatorFigures) -> u64| workers.iter().map(get).sum::<u64>() as f64;
            let labels = format!("{{job=\"{name}\",operator=\"{}\"}}", label(&node.path));
            rows_in.push((labels.clone(), sum(&|f| f.rows_in.load(Ordering::Relaxed))));
            rows_out.push((labels.clone(), sum(&|f| f.rows_out.load(Ordering::Relaxed))));
            busy.push((labels.clone(), sum(&|f| f.busy_ns.load(Ordering::Relaxed)) / 1e9));
            state.push((labels, sum(&|f| f.state_bytes.load(Ordering::Relaxed))));
        }
    }
    let checkpoints = engine.checkpoints();
    let last = checkpoints.iter().rev().find(|c| c.outcome.is_ok());
    let age = last.map(|c| (String::new(), now_ms().saturating_sub(c.ended_ms) as f64 / 1000.0));
    let size = last.map(|c| (String::new(), c.size_bytes as f64));
    let gauge = |name, help, samples| Metric { name, kind: "gauge", help, samples };
    let counter = |name, help, samples| Metric { name, kind: "counter", help, samples };
    vec![
        gauge(
            "thalweg_uptime_seconds",
            "Time since the process started.",
            vec![(String::new(), now_ms().saturating_sub(database.started_ms()) as f64 / 1000.0)],
        ),
        gauge("thalweg_jobs", "Jobs, by name and state.", up),
        gauge("thalweg_job_lag_seconds", "How far a job's result is behind the clock.", lag),
        counter("thalweg_job_errors_total", "Rows that could not be read or computed.", errors),
        counter("thalweg_operator_rows_in_total", "Rows taken by an operator.", rows_in),
        counter("thalweg_operator_rows_out_total", "Rows given by an operator.", rows_out),
        counter("thalweg_operator_busy_seconds_total", "Time spent by an operator.", busy),
        gauge("thalweg_operator_state_bytes", "Memory held by an operator's state.", state),
        gauge("thalweg_checkpoint_age_seconds", "Time since the last durable checkpoint.", age.into_iter().collect()),
        gauge("thalweg_checkpoint_size_bytes", "Size of the last durable checkpoint.", size.into_iter().collect()),
    ]
}
