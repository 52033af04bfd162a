//! The beginning of a connection: encryption refused where it was not agreed on before, cancel requests carried out, the
//! startup packet read.

use super::connections::Connections;
use super::message::{self, protocol_violation};
use super::transport::{FrameReader, MessageWriter, ReadError};
use super::value::read::utf8;
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use tokio::io::{AsyncRead, AsyncWrite};

/// The longest startup packet, in bytes; Postgres has the same.
const STARTUP_BYTES_MAX: usize = 10_000;

const CANCEL_REQUEST: u32 = 80_877_102;
pub(super) const SSL_REQUEST: u32 = 80_877_103;
pub(super) const GSS_REQUEST: u32 = 80_877_104;

/// The parameters of a startup packet, in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Startup {
    /// `user`.
    pub user: String,
    /// `database`, by default the user.
    pub database: String,
    /// Settings, also those within `options`.
    pub settings: Vec<(String, String)>,
}

/// How a connection begins.
pub enum Beginning {
    /// With a startup packet.
    Startup(Startup),
    /// It was only there to cancel another's statement, or has gone.
    Over,
}

/// Reads up to the startup packet.
///
/// # Errors
/// What the client is told before the connection is closed.
pub async fn begin<R, W>(
    reader: &mut FrameReader<R>,
    writer: &mut MessageWriter<W>,
    connections: &Connections,
) -> SqlResult<Beginning>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    // Each kind of encryption may be asked for once.
    for _ in 0..3 {
        let packet = match read_packet(reader).await {
            Ok(packet) => packet,
            Err(ReadError::Closed) => return Ok(Beginning::Over),
            Err(ReadError::Lost(error)) => return Err(error),
        };
        let code = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]);
        match code {
            SSL_REQUEST | GSS_REQUEST => {
                writer.out.extend_from_slice(b"N");
                if writer.flush().await.is_err() {
                    return Ok(Beginning::Over);
                }
            }
            CANCEL_REQUEST => {
                if let [_, _, _, _, a, b, c, d, e, f, g, h] = packet[..] {
                    connections.cancel_with_secret(i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h]));
                }
                return Ok(Beginning::Over);
            }
            _ if code >> 16 == 3 => {
                let (startup, unknown) = parse_startup(&packet[4..])?;
                if code & 0xffff > 0 || !unknown.is_empty() {
                    message::put_negotiate_version(&mut writer.out, &unknown);
                }
                return Ok(Beginning::Startup(startup));
            }
            _ => {
                return Err(SqlError::unsupported(format!(
                    "unsupported frontend protocol {}.{}: server supports 3.0 to 3.0",
                    code >> 16,
                    code & 0xffff
                )));
            }
        }
    }
    Err(protocol_violation("expected a startup packet"))
}

/// A packet without a type, at least its code.
async fn read_packet<R: AsyncRead + Unpin + Send>(reader: &mut FrameReader<R>) -> Result<bytes::Bytes, ReadError> {
    let head = reader.peek(4).await?;
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(ReadError::Lost(protocol_violation("invalid length of startup packet")));
    }
    Ok(reader.bytes(length).await?.slice(4..))
}

/// The parameters of a startup packet, and the names of protocol options, none of which is known here.
fn parse_startup(body: &[u8]) -> SqlResult<(Startup, Vec<String>)> {
    let malformed = || protocol_violation("invalid startup packet layout: expected terminator as last byte");
    let body = body.strip_suffix(&[0]).ok_or_else(malformed)?;
    let mut words = body.split(|b| *b == 0).map(utf8);
    let (mut startup, mut unknown, mut database) = (Startup::default(), vec![], None);
    while let Some(name) = words.next().transpose()?.filter(|name| !name.is_empty()) {
        let value = words.next().transpose()?.ok_or_else(malformed)?;
        match name {
            "user" => startup.user = value.to_string(),
            "database" => database = Some(value.to_string()),
            "options" => startup.settings.extend(parse_options(value)?),
            "replication" if matches!(value, "false" | "off" | "no" | "0") => {}
            "replication" => return Err(SqlError::unsupported("replication connections are not supported")),
            _ if name.starts_with("_pq_.") => unknown.push(name.to_string()),
            _ => startup.settings.push((name.to_string(), value.to_string())),
        }
    }
    if startup.user.is_empty() {
        return Err(SqlError::new(
            SqlState::InvalidAuthorizationSpecification,
            "no PostgreSQL user name specified in startup packet",
        ));
    }
    startup.database = database.filter(|name| !name.is_empty()).unwrap_or_else(|| startup.user.clone());
    Ok((startup, unknown))
}

/// The settings within `options`: `-c name=value`, `-cname=value`, `--name=value`; a backslash keeps a blank in a value.
fn parse_options(options: &str) -> SqlResult<Vec<(String, String)>> {
    let invalid = |word: &str| {
        SqlError::syntax(format!("invalid command-line argument for server process: {word}"))
            .with_hint("Settings are given as -c name=value.")
    };
    let mut settings = vec![];
    let mut words = split_words(options).into_iter();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next().ok_or_else(|| invalid(&word))?
        } else {
            let rest = word.strip_prefix("--").or_else(|| word.strip_prefix("-c"));
            rest.ok_or_else(|| invalid(&word))?.to_string()
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| invalid(&setting))?;
        settings.push((name.trim().replace('-', "_"), value.to_string()));
    }
    Ok(settings)
}

fn split_words(text: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests;
