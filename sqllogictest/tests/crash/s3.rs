//! An S3 server of the test's own, behind a gate that can be shut.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use thalweg_sqllogictest::server::Options;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

const PROGRAM: &str = "THALWEG_MOTO_SERVER";

/// How a bucket can be out of reach.
#[derive(Clone, Copy, Debug)]
pub enum Outage {
    /// Connections break, and new ones are refused.
    Refuses,
    /// Connections stand, and nothing answers.
    Hangs,
}

/// A server with one bucket, which ends with the test.
pub struct S3 {
    server: Child,
    address: SocketAddr,
    open: watch::Sender<bool>,
}

impl S3 {
    /// Starts it, and makes the bucket.
    pub async fn start() -> S3 {
        let program = std::env::var(PROGRAM).unwrap_or_else(|_| panic!("{PROGRAM} is set, as `make test` does"));
        let mut server = Command::new(&program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("could not start {program}: {e}"));
        let mut lines = BufReader::new(server.stderr.take().expect("its log")).lines();
        let behind: SocketAddr = loop {
            let line = lines.next().expect("it says where it listens").expect("a line");
            if let Some((_, address)) = line.split_once("Running on http://") {
                break address.trim().parse().expect("an address");
            }
        };
        // It logs every request: unread, the pipe would fill up and stop it.
        std::thread::spawn(move || lines.for_each(drop));
        create_bucket(behind);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (open, opened) = watch::channel(true);
        tokio::spawn(gate(listener, behind, opened));
        S3 { server, address, open }
    }

    /// The same server, with everything durable in this bucket.
    pub fn as_store(&self, options: Options) -> Options {
        options
            .with("--store", "s3://bucket/some/where")
            .with("--s3-endpoint", &format!("http://{}", self.address))
            .with("--s3-allow-http", "true")
            .with("--s3-region", "us-east-1")
            .with("--s3-access-key-id", "key")
            .with("--s3-secret-access-key", "secret")
    }

    /// Puts the bucket out of reach for so long.
    pub async fn away(&self, outage: Outage, time: Duration) {
        self.set_reachable(outage, false);
        tokio::time::sleep(time).await;
        self.set_reachable(outage, true);
    }

    fn set_reachable(&self, outage: Outage, reachable: bool) {
        match outage {
            Outage::Refuses => drop(self.open.send_replace(reachable)),
            Outage::Hangs => {
                let pid = i32::try_from(self.server.id()).expect("a process id");
                // SAFETY: kill(2) with the id of a child that has not been waited for; no memory is involved.
                let done = unsafe { libc::kill(pid, if reachable { libc::SIGCONT } else { libc::SIGSTOP }) };
                assert_eq!(done, 0, "the S3 server takes signals");
            }
        }
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // It may have ended by itself; the test has told by then.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Passes connections on while it is open. Shut, it breaks them and listens no more.
async fn gate(first: TcpListener, behind: SocketAddr, mut open: watch::Receiver<bool>) {
    let address = first.local_addr().expect("its address");
    let mut listener = Some(first);
    while open.wait_for(|open| *open).await.is_ok() {
        let entry = match listener.take() {
            Some(listener) => listener,
            None => TcpListener::bind(address).await.expect("the same port again"),
        };
        let mut passing = JoinSet::new();
        loop {
            tokio::select! {
                accepted = entry.accept() => {
                    let (mut client, _) = accepted.expect("a connection");
                    passing.spawn(async move {
                        let mut server = tokio::net::TcpStream::connect(behind).await?;
                        tokio::io::copy_bidirectional(&mut client, &mut server).await
                    });
                }
                // What has passed is taken out, so that a long test does not gather it.
                Some(_) = passing.join_next() => {}
                _ = open.wait_for(|open| !*open) => break,
            }
        }
    }
}

fn create_bucket(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "PUT /bucket HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
