//! Accepts connections: a task for each, a limit on how many, and an orderly end.

use super::connection::Connection;
use super::connections::{Connections, Interrupt, Registration};
use super::guard::shutdown;
use super::message;
use super::negotiate::{Opened, open};
use super::scram;
use super::session::{Admission, ConnectionInfo, SessionFactory, TlsInfo};
use super::startup::{Beginning, begin};
use super::transport::{FrameReader, MessageWriter};
use crate::access::gate::Gate;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
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
    gate: Option<Arc<Gate>>,
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
                    let server = Server { factory, connections, limits, gate: gate.clone() };
                    tasks.spawn(async move { server.serve(stream, peer).await });
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

/// What a connection is served with.
struct Server<F> {
    factory: Arc<F>,
    connections: Arc<Connections>,
    limits: Limits,
    /// Where the encryption comes from; none if there can be none.
    gate: Option<Arc<Gate>>,
}

impl<F: SessionFactory> Server<F> {
    async fn serve(self, stream: TcpStream, peer: SocketAddr) {
        let tls = self.gate.as_ref().and_then(|gate| gate.tls());
        let opened = tokio::time::timeout(self.limits.startup_timeout, open(stream, tls)).await;
        // Who is silent, or can't agree on a cipher, can't be told anything.
        let Ok(Some(opened)) = opened else { return };
        match opened {
            Opened::Plain(stream, read) => {
                let (input, output) = stream.into_split();
                self.serve_bytes(FrameReader::after(read, input), MessageWriter::new(output), Some(peer), None).await;
            }
            Opened::Encrypted(stream, info) => {
                let (input, output) = tokio::io::split(*stream);
                self.serve_bytes(FrameReader::new(input), MessageWriter::new(output), Some(peer), Some(info)).await;
            }
        }
    }

    async fn serve_bytes<R, W>(
        self,
        mut reader: FrameReader<R>,
        mut writer: MessageWriter<W>,
        peer: Option<SocketAddr>,
        tls: Option<TlsInfo>,
    ) where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        let started = self.start(&mut reader, &mut writer, peer, tls);
        match tokio::time::timeout(self.limits.startup_timeout, started).await {
            // The client is silent: nobody is there to be told.
            Err(_) | Ok(Ok(None)) => writer.close().await,
            Ok(Ok(Some((session, registration)))) => {
                Connection::new(reader, writer, session, registration).serve().await;
            }
            Ok(Err(error)) => {
                message::put_error(&mut writer.out, "FATAL", &error, None);
                writer.close().await;
            }
        }
    }

    /// Goes from the first byte to a session; none if the connection was not meant to have one.
    async fn start<R, W>(
        &self,
        reader: &mut FrameReader<R>,
        writer: &mut MessageWriter<W>,
        peer: Option<SocketAddr>,
        tls: Option<TlsInfo>,
    ) -> SqlResult<Option<(F::Session, Registration)>>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        // Cancel requests don't count as connections: they must get through when all are taken.
        let Beginning::Startup(startup) = begin(reader, writer, &self.connections).await? else { return Ok(None) };
        let registration = self.connections.register(peer);
        let info = ConnectionInfo {
            user: startup.user,
            database: startup.database,
            settings: startup.settings,
            process_id: registration.entry.process_id,
            peer,
            tls,
            proven: false,
        };
        let entry = Arc::clone(&registration.entry);
        let session = tokio::select! {
            biased;
            () = entry.signal.terminated() => return Err(shutdown()),
            session = self.session(reader, writer, info.clone(), &registration) => session,
        };
        match session {
            Ok(session) => Ok(Some((session, registration))),
            Err(error) => {
                self.factory.refused(&info, &error);
                Err(error)
            }
        }
    }

    /// The session of a connection that proves what is asked of it.
    async fn session<R, W>(
        &self,
        reader: &mut FrameReader<R>,
        writer: &mut MessageWriter<W>,
        mut info: ConnectionInfo,
        registration: &Registration,
    ) -> SqlResult<F::Session>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send,
    {
        if self.connections.count() > self.limits.connections_max {
            return Err(SqlError::new(SqlState::TooManyConnections, "sorry, too many clients already"));
        }
        match self.factory.admit(&info)? {
            Admission::Trusted => {}
            Admission::Proven => info.proven = true,
            Admission::Password(verifier) => {
                let end_point = info.tls.as_ref().and_then(|tls| tls.end_point.as_deref());
                info.proven = scram::knows_password(reader, writer, &verifier, end_point).await?;
                if !info.proven {
                    let text = format!("password authentication failed for user \"{}\"", info.user);
                    return Err(SqlError::new(SqlState::InvalidPassword, text));
                }
            }
        }
        let application = info.settings.iter().find(|(name, _)| name == "application_name").map(|(_, value)| value.clone());
        let identity = (info.user.clone(), info.database.clone(), application.unwrap_or_default());
        *registration.entry.identity.lock() = identity;
        registration.entry.tls.lock().clone_from(&info.tls);
        self.factory.connect(info).await
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
    let server = Server { factory, connections, limits, gate: None };
    server.serve_bytes(FrameReader::new(read), MessageWriter::new(write), peer, None).await;
}
