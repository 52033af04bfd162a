//! What comes before everything else: whether the connection is to be encrypted.

use super::session::TlsInfo;
use super::startup::{GSS_REQUEST, SSL_REQUEST};
use crate::access::der::common_name;
use crate::access::tls::{Loaded, Tls};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::{ProtocolVersion, ServerConnection};
use tokio_rustls::server::TlsStream;

/// A connection whose encryption is settled.
pub enum Opened {
    /// None, and what was read of the startup packet.
    Plain(TcpStream, BytesMut),
    /// Encrypted.
    Encrypted(Box<TlsStream<TcpStream>>, TlsInfo),
}

/// The bytes of a request for encryption: its length and its code. No startup packet is shorter.
const REQUEST_BYTES: usize = 8;

/// Agrees on encryption. None if the client leaves, or the handshake fails.
///
/// Not a byte more than the request is read before the handshake: what somebody in between put behind it must not be taken for
/// the client's.
pub async fn open(mut stream: TcpStream, tls: Option<&Tls>) -> Option<Opened> {
    // Each kind of encryption may be asked for once.
    for _ in 0..2 {
        let mut head = [0; REQUEST_BYTES];
        stream.read_exact(&mut head).await.ok()?;
        let code = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let is_request = head[..4] == [0, 0, 0, 8] && matches!(code, SSL_REQUEST | GSS_REQUEST);
        if !is_request {
            return Some(Opened::Plain(stream, BytesMut::from(&head[..])));
        }
        match tls {
            Some(tls) if code == SSL_REQUEST => {
                stream.write_all(b"S").await.ok()?;
                return encrypt(stream, &tls.current()).await;
            }
            _ => stream.write_all(b"N").await.ok()?,
        }
    }
    Some(Opened::Plain(stream, BytesMut::new()))
}

async fn encrypt(stream: TcpStream, loaded: &Loaded) -> Option<Opened> {
    let peer = stream.peer_addr().ok();
    match loaded.acceptor.accept(stream).await {
        Ok(stream) => {
            let info = info(stream.get_ref().1, loaded);
            Some(Opened::Encrypted(Box::new(stream), info))
        }
        Err(error) => {
            tracing::info!(peer = ?peer, %error, "a TLS handshake failed");
            None
        }
    }
}

fn info(connection: &ServerConnection, loaded: &Loaded) -> TlsInfo {
    let certificate = connection.peer_certificates().and_then(|certificates| certificates.first());
    TlsInfo {
        common_name: certificate.and_then(|certificate| common_name(certificate)),
        end_point: loaded.end_point.clone(),
        version: match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3".into(),
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2".into(),
            other => format!("{other:?}"),
        },
        cipher: connection.negotiated_cipher_suite().map_or_else(String::new, |suite| format!("{:?}", suite.suite())),
    }
}
