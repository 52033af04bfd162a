//! Accepts connections: a task for each, a limit on how many, and an orderly end.

use super::connection::Connection;
use super::connections::{Connections, Interrupt, Registration};
use super::guard::shutdown;
use super::message;
use super::session::{ConnectionInfo, SessionFactory};
use super::startup::{Beginning, begin};
use super::transport::{FrameReader, MessageWriter};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{SqlError, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What bounds the connections of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many there may be at a time: `max_connections`.
    pub connections_max: usize,
    /// How long a client may take until its session stands.
    pub startup_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections_max: 1000, startup_timeout: Duration::from_secs(60) }
    }
}

/// Accepts connections until `stop` is cancelled; returns when the last of them has ended.
///
/// Connections that are there by then are told so (`57P01`) and closed, running statements are cancelled.
pub async fn serve<F: SessionFactory>(
    listener: TcpListener,
    factory: Arc<F>,
    connections: Arc<Connections>,
    limits: Limits,
    stop: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => log_panic(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%peer, %error, "nodelay could not be set");
                    }
                    let (factory, connections) = (Arc::clone(&factory), Arc::clone(&connections));
                    tasks.spawn(async move {
                        let (read, write) = stream.into_split();
                        serve_connection(read, write, Some(peer), factory, connections, limits).await;
                    });
                }
                Err(error) => {
                    // Mostly out of file descriptors: other connections must end before it can get better.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    drop(listener);
    for entry in connections.list() {
        entry.signal.raise(Interrupt::Terminate);
    }
    while let Some(ended) = tasks.join_next().await {
        log_panic(ended);
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a connection's task failed");
    }
}

/// Serves one client over two directions of bytes.
pub async fn serve_connection<R, W, F>(
    read: R,
    write: W,
    peer: Option<SocketAddr>,
    factory: Arc<F>,
    connections: Arc<Connections>,
    limits: Limits,
) where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    F: SessionFactory,
{
    let (mut reader, mut writer) = (FrameReader::new(read), MessageWriter::new(write));
    let started = start(&mut reader, &mut writer, peer, &*factory, &connections, limits);
    match tokio::time::timeout(limits.startup_timeout, started).await {
        // The client is silent: nobody is there to be told.
        Err(_) | Ok(Ok(None)) => writer.close().await,
        Ok(Ok(Some((session, registration)))) => Connection::new(reader, writer, session, registration).serve().await,
        Ok(Err(error)) => {
            message::put_error(&mut writer.out, "FATAL", &error, None);
            writer.close().await;
        }
    }
}

/// Goes from the first byte to a session; none if the connection was not meant to have one.
async fn start<R, W, F>(
    reader: &mut FrameReader<R>,
    writer: &mut MessageWriter<W>,
    peer: Option<SocketAddr>,
    factory: &F,
    connections: &Arc<Connections>,
    limits: Limits,
) -> Result<Option<(F::Session, Registration)>, SqlError>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
    F: SessionFactory,
{
    // Cancel requests don't count as connections: they must get through when all are taken.
    let Beginning::Startup(startup) = begin(reader, writer, connections).await? else { return Ok(None) };
    let registration = connections.register(peer);
    if connections.count() > limits.connections_max {
        return Err(SqlError::new(SqlState::TooManyConnections, "sorry, too many clients already"));
    }
    let application = startup.settings.iter().find(|(name, _)| name == "application_name").map(|(_, value)| value.clone());
    *registration.entry.identity.lock() = (startup.user.clone(), startup.database.clone(), application.unwrap_or_default());
    let info = ConnectionInfo {
        user: startup.user,
        database: startup.database,
        settings: startup.settings,
        process_id: registration.entry.process_id,
        peer,
    };
    let entry = Arc::clone(&registration.entry);
    let session = tokio::select! {
        biased;
        () = entry.signal.terminated() => return Err(shutdown()),
        session = factory.connect(info) => session?,
    };
    Ok(Some((session, registration)))
}
