//! The exchange, played by a client that knows the password, or cheats.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

const CERTIFICATE: &[u8] = b"the hash of a certificate";

/// How the client behaves.
struct Client {
    password: &'static str,
    mechanism: &'static str,
    flag: &'static str,
    /// What it says that it sees of the channel.
    sees: &'static [u8],
    /// What it makes of the server's nonce.
    nonce: fn(&str) -> String,
}

const HONEST: Client = Client { password: "pencil", mechanism: PLAIN, flag: "n", sees: b"", nonce: |nonce| nonce.to_string() };

async fn message(stream: &mut DuplexStream) -> Option<(i32, String)> {
    let kind = stream.read_u8().await.ok()?;
    assert_eq!(kind, b'R');
    let length = stream.read_i32().await.ok()?;
    let code = stream.read_i32().await.ok()?;
    let mut body = vec![0; usize::try_from(length).unwrap() - 8];
    stream.read_exact(&mut body).await.ok()?;
    Some((code, String::from_utf8(body).unwrap()))
}

async fn send(stream: &mut DuplexStream, body: &[u8]) {
    stream.write_u8(b'p').await.unwrap();
    stream.write_i32(i32::try_from(body.len()).unwrap() + 4).await.unwrap();
    stream.write_all(body).await.unwrap();
}

/// Plays the client; the server's proof, if it came to that.
async fn play(mut stream: DuplexStream, client: Client) -> Option<String> {
    let (code, offered) = message(&mut stream).await?;
    assert!(code == 10 && offered.contains(PLAIN));
    let header = format!("{},,", client.flag);
    let bare = "n=,r=abc";
    let first = format!("{header}{bare}");
    let mut body = [client.mechanism.as_bytes(), b"\0"].concat();
    body.extend_from_slice(&i32::try_from(first.len()).unwrap().to_be_bytes());
    body.extend_from_slice(first.as_bytes());
    send(&mut stream, &body).await;
    let (code, server_first) = message(&mut stream).await?;
    assert_eq!(code, 11);
    let part = |name: &str| server_first.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_string();
    let verifier = Verifier::derive(client.password, &BASE64_STANDARD.decode(part("s=")).unwrap(), part("i=").parse().unwrap());
    let bound = BASE64_STANDARD.encode([header.as_bytes(), client.sees].concat());
    let without_proof = format!("c={bound},r={}", (client.nonce)(&part("r=")));
    let text = format!("{bare},{server_first},{without_proof}");
    // Only who knows the password has the client's key.
    let key = client_key(client.password, &verifier);
    let signature = sign(&verifier.stored_key, text.as_bytes());
    let proof: Vec<u8> = key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    send(&mut stream, format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)).as_bytes()).await;
    let (code, last) = message(&mut stream).await?;
    assert_eq!(code, 12);
    assert_eq!(last, format!("v={}", BASE64_STANDARD.encode(sign(&verifier.server_key, text.as_bytes()))));
    Some(last)
}

fn client_key(password: &str, verifier: &Verifier) -> Key {
    let mut salted: Key = [0; 32];
    let rounds = std::num::NonZeroU32::new(verifier.iterations).unwrap();
    ring::pbkdf2::derive(ring::pbkdf2::PBKDF2_HMAC_SHA256, rounds, &verifier.salt, password.as_bytes(), &mut salted);
    sign(&salted, b"Client Key")
}

/// What the server makes of a client, and whether the client has seen the server's proof.
async fn exchange(client: Client, end_point: Option<&'static [u8]>) -> (SqlResult<bool>, bool) {
    let (server, other) = duplex(1 << 16);
    let played = tokio::spawn(play(other, client));
    let (read, write) = tokio::io::split(server);
    let (mut reader, mut writer) = (FrameReader::new(read), MessageWriter::new(write));
    let verifier = Verifier::derive("pencil", b"some salt", 4096);
    let known = knows_password(&mut reader, &mut writer, &verifier, end_point).await;
    writer.close().await;
    drop((reader, writer));
    (known, played.await.unwrap().is_some())
}

#[tokio::test]
async fn only_the_password_opens_and_the_server_proves_itself() {
    assert_eq!(exchange(HONEST, None).await, (Ok(true), true));
    assert_eq!(exchange(Client { password: "pencils", ..HONEST }, None).await, (Ok(false), false));
    assert_eq!(exchange(Client { flag: "y", ..HONEST }, None).await, (Ok(true), true));
    assert_eq!(exchange(HONEST, Some(CERTIFICATE)).await, (Ok(true), true));
}

#[tokio::test]
async fn a_login_that_is_bound_to_another_channel_is_refused() {
    let bound = Client { mechanism: PLUS, flag: BINDING, sees: CERTIFICATE, ..HONEST };
    assert_eq!(exchange(bound, Some(CERTIFICATE)).await, (Ok(true), true));
    let relayed = Client { mechanism: PLUS, flag: BINDING, sees: b"another certificate", ..HONEST };
    let (known, proved) = exchange(relayed, Some(CERTIFICATE)).await;
    assert_eq!((known.unwrap_err().state.code(), proved), ("28000", false));
    // Somebody in between has told the client that the server can't bind.
    let (known, _) = exchange(Client { flag: "y", ..HONEST }, Some(CERTIFICATE)).await;
    assert_eq!(known.unwrap_err().state.code(), "28000");
}

#[tokio::test]
async fn messages_of_another_exchange_are_refused() {
    for client in [
        Client { nonce: |_| "abcdef".to_string(), ..HONEST },
        Client { mechanism: "SCRAM-SHA-1", ..HONEST },
        Client { mechanism: PLUS, flag: BINDING, ..HONEST },
        Client { flag: BINDING, ..HONEST },
        Client { flag: "x", ..HONEST },
    ] {
        let (known, proved) = exchange(client, None).await;
        assert_eq!((known.unwrap_err().state.code(), proved), ("08P01", false));
    }
}
