//! Results that are larger than the memory that may be had for them: they are made as they are read, whatever they are read through.
//!
//! `THALWEG_TEST_ROWS` sets how many rows there are; a million without it.

use futures::{StreamExt, TryStreamExt, pin_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use tokio_postgres::{Client, SimpleQueryMessage};

/// How much more memory a result may take, in MB.
const MEGABYTES_MAX: u64 = 100;

fn row_count() -> u64 {
    std::env::var("THALWEG_TEST_ROWS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000)
}

fn megabytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number") / 1024
}

/// The most memory that a process has while something is done, sampled.
struct Watch {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    before: u64,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    fn start(pid: u32) -> Watch {
        let (stop, before) = (Arc::new(AtomicBool::new(false)), megabytes(pid));
        let most = Arc::new(AtomicU64::new(before));
        let (stopped, peak) = (Arc::clone(&stop), Arc::clone(&most));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                peak.fetch_max(megabytes(pid), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Watch { stop, most, before, thread }
    }

    fn end(self, what: &str) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a watch");
        let grown = self.most.load(Ordering::Relaxed).saturating_sub(self.before);
        println!("{what}: {grown} MB more");
        assert!(grown <= MEGABYTES_MAX, "{what} took {grown} MB");
    }
}

/// How many rows a simple query gives, and the sum of their first columns.
async fn drained(client: &Client, sql: &str) -> (u64, u64) {
    let stream = client.simple_query_raw(sql).await.expect("a result");
    pin_mut!(stream);
    let (mut count, mut sum) = (0, 0);
    while let Some(message) = stream.next().await {
        if let SimpleQueryMessage::Row(row) = message.expect("a row") {
            count += 1;
            sum += row.get(0).and_then(|text| text.parse::<u64>().ok()).expect("a number");
        }
    }
    (count, sum)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_results_are_made_as_they_are_read() {
    let rows = row_count();
    let all = (rows, rows * (rows + 1) / 2);
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options { workers: 2, flags: vec![] }).expect("a server");
    let mut client = server.connect().await.expect("a connection");
    let query = format!("SELECT g, 'the row with the number ' || g FROM generate_series(1, {rows}) AS s(g)");
    // What the first query makes for all others is not the result's.
    drained(&client, "SELECT g FROM generate_series(1, 100000) AS s(g)").await;

    let watch = Watch::start(server.pid());
    assert_eq!(drained(&client, &query).await, all);
    watch.end("a query");

    let watch = Watch::start(server.pid());
    let copied = client.copy_out(&format!("COPY ({query}) TO STDOUT")).await.expect("a copy");
    pin_mut!(copied);
    let mut lines = 0;
    while let Some(piece) = copied.try_next().await.expect("data") {
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    assert_eq!(lines, rows);
    watch.end("COPY");

    let watch = Watch::start(server.pid());
    client.batch_execute(&format!("BEGIN; DECLARE c CURSOR FOR {query}")).await.expect("a cursor");
    let mut found = (0, 0);
    loop {
        let (count, sum) = drained(&client, "FETCH 10000 FROM c").await;
        found = (found.0 + count, found.1 + sum);
        if count == 0 {
            break;
        }
    }
    assert_eq!(found, all);
    watch.end("a cursor, piece by piece");

    let watch = Watch::start(server.pid());
    client.batch_execute(&format!("DECLARE whole CURSOR WITH HOLD FOR {query}; COMMIT")).await.expect("a held cursor");
    assert_eq!(drained(&client, "FETCH ALL FROM whole").await, all);
    client.batch_execute("CLOSE whole").await.expect("an end");
    watch.end("a held cursor at once");

    let watch = Watch::start(server.pid());
    client.batch_execute(&format!("BEGIN; DECLARE s SCROLL CURSOR FOR {query}")).await.expect("a cursor that scrolls");
    client.batch_execute("MOVE 6 FROM s").await.expect("a move");
    // Without ORDER BY rows come in any order, but those that came stay where they are.
    let (_, seventh) = drained(&client, "FETCH 1 FROM s").await;
    client.batch_execute("MOVE ALL FROM s").await.expect("a move to the end");
    assert_eq!(drained(&client, "FETCH ABSOLUTE 7 FROM s").await, (1, seventh));
    let (_, last) = drained(&client, "FETCH LAST FROM s").await;
    assert_eq!(drained(&client, "FETCH BACKWARD ALL FROM s").await, (rows - 1, all.1 - last));
    client.batch_execute("COMMIT").await.expect("an end");
    watch.end("a cursor that scrolls");

    let watch = Watch::start(server.pid());
    let transaction = client.transaction().await.expect("a transaction");
    let portal = transaction.bind(&query, &[]).await.expect("a portal");
    let mut count = 0;
    loop {
        let piece = transaction.query_portal(&portal, 10_000).await.expect("rows");
        count += piece.len() as u64;
        if piece.len() < 10_000 {
            break;
        }
    }
    assert_eq!(count, rows);
    transaction.commit().await.expect("an end");
    watch.end("a portal with a fetch size");
}
