//! S14: another number of workers changes nothing of what is late.

use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::{rows, until, value};
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(60);
const FILES: usize = 8;

/// Appends a row to each file.
fn append(folder: &std::path::Path, time: &str) {
    use std::io::Write;
    for file in 0..FILES {
        let path = folder.join(format!("{file}.jsonl"));
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).expect("a file");
        writeln!(file, r#"{{"ts": "2024-01-01 {time}"}}"#).expect("a row");
    }
}

/// Waits for a checkpoint that began after this call: the one after the next, since that may be under way.
async fn checkpoint(client: &Client) {
    let number = "SELECT coalesce(max(number), 0) FROM thalweg.checkpoints WHERE state = 'durable'";
    for _ in 0..2 {
        let before = value(client, number).await.expect("a number");
        client.batch_execute("INSERT INTO other VALUES (1)").await.expect("an insert");
        until(client, &format!("SELECT ({number}) > {before}"), "t", LIMIT).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s14_workers_that_join_at_a_start_know_what_was_over_before() {
    let directory = tempfile::tempdir().expect("a folder");
    let inputs = directory.path().join("inputs");
    std::fs::create_dir(&inputs).expect("a folder");
    append(&inputs, "00:00:03");
    let mut server = Server::start(&directory.path().join("data"), Options::workers(1)).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = format!(
        "CREATE TABLE other (a int);
         CREATE SOURCE s (ts timestamp, WATERMARK FOR ts AS ts)
         WITH (connector = 'file', path = '{}/*.jsonl', follow = 'true', discovery_interval = '100ms') FORMAT PLAIN ENCODE JSON;
         CREATE MATERIALIZED VIEW came AS SELECT ts FROM s;
         CREATE MATERIALIZED VIEW closed AS
         SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL '10 seconds') GROUP BY window_start, window_end
         EMIT ON WINDOW CLOSE",
        inputs.display()
    );
    client.batch_execute(&sql).await.expect("objects");
    append(&inputs, "00:00:30");
    until(&client, "SELECT sum(n) FROM closed", &FILES.to_string(), LIMIT).await;
    checkpoint(&client).await;
    for workers in [4, 2, 3] {
        server.kill();
        append(&inputs, "00:00:12");
        server.set_workers(workers);
        server.start_again().expect("a start");
        let client = server.connect().await.expect("a connection");
        for job in ["came", "closed"] {
            let late = format!("SELECT sum(late_rows) FROM thalweg.operators WHERE job = '{job}'");
            until(&client, &late, &FILES.to_string(), LIMIT).await;
        }
        let closed = rows(&client, "SELECT window_start, n FROM closed").await.expect("rows");
        assert_eq!(closed, [vec!["2024-01-01 00:00:00".to_string(), FILES.to_string()]], "with {workers} workers");
        // The next start begins after these rows.
        checkpoint(&client).await;
    }
}
