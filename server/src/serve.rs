//! `thalweg serve`: the database behind a Postgres port and an HTTP port, until a signal ends it.

use crate::config::Settings;
use crate::database::Database;
use crate::http;
use crate::session::factory::ClientSessions;
use crate::wire::connections::Connections;
use crate::wire::listener::{Limits, serve};
use std::net::SocketAddr;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Serves until SIGINT or SIGTERM, then closes connections, makes a last checkpoint and ends.
///
/// # Errors
/// If an address can't be listened on, or the database can't be opened.
pub async fn run(settings: Settings) -> SqlResult<()> {
    let pg = listen(settings.pg_listen).await?;
    let web = listen(settings.http_listen).await?;
    let limits = Limits { connections_max: settings.max_connections, ..Limits::default() };
    let (pg_address, web_address) = (address(&pg)?, address(&web)?);
    let health = http::Health::default();
    let stop = CancellationToken::new();
    let web = tokio::spawn(http::serve(web, health.clone(), stop.clone()));
    let database = Database::open(settings).await?;
    let reloads = tokio::spawn(reload_on_hangup(Arc::clone(&database), stop.clone()));
    health.ready(&database);
    let connections = Connections::new();
    let sessions = Arc::new(ClientSessions { database: Arc::clone(&database), connections: Arc::clone(&connections) });
    eprintln!(
        "thalweg is ready: psql -h {} -p {} -U thalweg thalweg (HTTP on {web_address})",
        pg_address.ip(),
        pg_address.port()
    );
    let gate = Some(Arc::clone(database.gate()));
    let wire = tokio::spawn(serve(pg, sessions, connections, limits, gate, stop.clone()));
    wait_for_signal().await?;
    eprintln!("thalweg is stopping");
    stop.cancel();
    let closed = database.close().await;
    for task in [wire, web, reloads] {
        if let Err(error) = task.await {
            tracing::error!(%error, "a server task panicked");
        }
    }
    closed
}

async fn listen(address: SocketAddr) -> SqlResult<TcpListener> {
    TcpListener::bind(address)
        .await
        .map_err(|e| SqlError::new(SqlState::ConnectionFailure, format!("could not listen on {address}: {e}")))
}

fn address(listener: &TcpListener) -> SqlResult<SocketAddr> {
    listener.local_addr().map_err(|e| SqlError::new(SqlState::ConnectionFailure, e.to_string()))
}

/// Reads rules and certificate again whenever SIGHUP comes.
async fn reload_on_hangup(database: Arc<Database>, stop: CancellationToken) {
    let mut hangup = match signal(SignalKind::hangup()) {
        Ok(hangup) => hangup,
        Err(error) => {
            return tracing::error!(%error, "SIGHUP can't be waited for: rules are read again with pg_reload_conf() only");
        }
    };
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = hangup.recv() => {
                // Whether they could be read is logged there.
                let _ = database.gate().reload();
            }
        }
    }
}

async fn wait_for_signal() -> SqlResult<()> {
    let failed = |e: std::io::Error| SqlError::new(SqlState::SystemError, format!("could not wait for signals: {e}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}
