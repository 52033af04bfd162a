//! Password login: the server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677), with and without binding to the TLS channel.
//!
//! The client proves that it knows the password, and the server that it knows the verifier; neither is sent. A user who does
//! not exist is asked like any other, and refused at the end.

use super::message::{self, protocol_violation};
use super::transport::{FrameReader, MessageWriter, ReadError};
use crate::access::verifier::{Key, Verifier, hash, random, sign};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Buf, Bytes};
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};

const PLAIN: &str = "SCRAM-SHA-256";
const PLUS: &str = "SCRAM-SHA-256-PLUS";
const BINDING: &str = "p=tls-server-end-point";
const NONCE_BYTES: usize = 18;

/// Whether a client knows the password.
///
/// # Errors
/// `08P01` for messages that are none of SCRAM's, `28000` if client and server don't see the same channel.
pub async fn knows_password<R, W>(
    reader: &mut FrameReader<R>,
    writer: &mut MessageWriter<W>,
    verifier: &Verifier,
    end_point: Option<&[u8]>,
) -> SqlResult<bool>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let mechanisms: &[&str] = if end_point.is_some() { &[PLUS, PLAIN] } else { &[PLAIN] };
    message::put_sasl_mechanisms(&mut writer.out, mechanisms);
    let (mechanism, first) = initial_response(answer(reader, writer).await?)?;
    let first = First::parse(&first, &mechanism, end_point)?;
    let mut nonce = [0; NONCE_BYTES];
    random(&mut nonce)?;
    let nonce = format!("{}{}", first.nonce, BASE64_STANDARD.encode(nonce));
    let server_first = format!("r={nonce},s={},i={}", BASE64_STANDARD.encode(&verifier.salt), verifier.iterations);
    message::put_sasl_data(&mut writer.out, false, server_first.as_bytes());
    let last = answer(reader, writer).await?;
    let last = Last::parse(&last)?;
    if last.nonce != nonce {
        return Err(malformed("nonce does not match"));
    }
    if last.binding != BASE64_STANDARD.encode(first.bound(end_point)) {
        return Err(channel_error("SCRAM channel binding check failed"));
    }
    let text = format!("{},{server_first},{}", first.bare, last.without_proof);
    let signature = sign(&verifier.stored_key, text.as_bytes());
    let client_key: Vec<u8> = last.proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    if !same(&hash(&client_key), &verifier.stored_key) {
        return Ok(false);
    }
    let proof = BASE64_STANDARD.encode(sign(&verifier.server_key, text.as_bytes()));
    message::put_sasl_data(&mut writer.out, true, format!("v={proof}").as_bytes());
    Ok(true)
}

/// Whether two keys are the same, in a time that does not tell where they differ.
fn same(a: &Key, b: &Key) -> bool {
    a.iter().zip(b).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// Sends what is gathered, and waits for the client's next message.
async fn answer<R, W>(reader: &mut FrameReader<R>, writer: &mut MessageWriter<W>) -> SqlResult<Bytes>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let gone = || SqlError::new(SqlState::ConnectionFailure, "the client has gone while it was asked for its password");
    writer.flush().await.map_err(|_| gone())?;
    reader.password().await.map_err(|error| match error {
        ReadError::Closed => gone(),
        ReadError::Lost(error) => error,
    })
}

/// The mechanism that the client chose, and its first message.
fn initial_response(mut body: Bytes) -> SqlResult<(String, String)> {
    let end = body.iter().position(|byte| *byte == 0).ok_or_else(|| malformed("the mechanism has no end"))?;
    let mechanism = text_of(body.split_to(end))?;
    body.advance(1);
    if body.len() < 4 || body.get_i32() != i32::try_from(body.len()).unwrap_or(-1) {
        return Err(malformed("the first message has another length than it says"));
    }
    Ok((mechanism, text_of(body)?))
}

fn text_of(bytes: Bytes) -> SqlResult<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| malformed("it is not UTF-8"))
}

fn malformed(why: &str) -> SqlError {
    protocol_violation("malformed SCRAM message").with_detail(format!("{}{}.", why[..1].to_uppercase(), &why[1..]))
}

fn channel_error(text: &str) -> SqlError {
    SqlError::new(SqlState::InvalidAuthorizationSpecification, text)
}

/// The client's first message.
struct First {
    /// `n,,` and its like: whether the client binds to the channel.
    header: String,
    /// What follows it.
    bare: String,
    nonce: String,
}

impl First {
    fn parse(text: &str, mechanism: &str, end_point: Option<&[u8]>) -> SqlResult<First> {
        let mut parts = text.splitn(3, ',');
        let (Some(flag), Some(identity), Some(bare)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(malformed("parts are missing"));
        };
        if !identity.is_empty() {
            return Err(SqlError::unsupported("client uses authorization identity, but it is not supported"));
        }
        match (mechanism, flag) {
            (PLAIN, "n") => {}
            // The client could have bound, and thinks that the server can't: somebody in between has said so.
            (PLAIN, "y") if end_point.is_none() => {}
            (PLAIN, "y") => return Err(channel_error("SCRAM channel binding negotiation error")),
            (PLUS, BINDING) if end_point.is_some() => {}
            (PLUS, _) | (PLAIN, _) => return Err(malformed("the channel binding does not go with the mechanism")),
            _ => return Err(protocol_violation("client selected an invalid SASL authentication mechanism")),
        }
        let mut attributes = bare.split(',');
        // The user's name is that of the startup packet, whatever stands here.
        attributes.next().filter(|name| name.starts_with("n=")).ok_or_else(|| malformed("the user's name is missing"))?;
        let nonce = attributes.next().and_then(|nonce| nonce.strip_prefix("r=")).filter(|nonce| !nonce.is_empty());
        let nonce = nonce.ok_or_else(|| malformed("the nonce is missing"))?;
        Ok(First { header: format!("{flag},,"), bare: bare.to_string(), nonce: nonce.to_string() })
    }

    /// What the client must say that it sees of the channel.
    fn bound(&self, end_point: Option<&[u8]>) -> Vec<u8> {
        let mut bound = self.header.clone().into_bytes();
        if self.header.starts_with(BINDING) {
            bound.extend_from_slice(end_point.unwrap_or_default());
        }
        bound
    }
}

/// The client's last message.
struct Last {
    binding: String,
    nonce: String,
    proof: Key,
    /// All of it before the proof.
    without_proof: String,
}

impl Last {
    fn parse(body: &Bytes) -> SqlResult<Last> {
        let text = text_of(body.clone())?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(|| malformed("the proof is missing"))?;
        let proof = BASE64_STANDARD.decode(proof).ok().and_then(|proof| Key::try_from(proof).ok());
        let mut attributes = without_proof.split(',');
        let mut attribute = |name: &str| {
            let value = attributes.next().and_then(|text| text.strip_prefix(name)).map(str::to_string);
            value.ok_or_else(|| malformed("an attribute is missing"))
        };
        let (binding, nonce) = (attribute("c=")?, attribute("r=")?);
        let proof = proof.ok_or_else(|| malformed("the proof is no proof"))?;
        Ok(Last { binding, nonce, proof, without_proof: without_proof.to_string() })
    }
}

#[cfg(test)]
mod tests;
