//! S5, S6: what a subscriber is told of an epoch is its net change, and nothing of how it came about.

use futures::StreamExt;
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::rows;
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(60);

const OBJECTS: &str = "
    CREATE TABLE a (id int PRIMARY KEY, k int);
    CREATE TABLE b (id int PRIMARY KEY, k int);
    CREATE MATERIALIZED VIEW pairs AS SELECT a.id, b.id AS other FROM a LEFT JOIN b ON a.k = b.k;
    CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM a";

/// Each is one epoch. With it, what it changes in `pairs` and in `counted`.
const STEPS: [(&str, &[&str], &[&str]); 7] = [
    ("INSERT INTO a VALUES (1, 1), (2, 2), (3, 3)", &["+1 1 NULL", "+1 2 NULL", "+1 3 NULL"], &["+1 3", "-1 0"]),
    ("BEGIN; INSERT INTO a VALUES (4, 9); INSERT INTO b VALUES (4, 9); COMMIT", &["+1 4 4"], &["+1 4", "-1 3"]),
    ("UPDATE a SET k = k", &[], &[]),
    ("UPDATE a SET k = 9 WHERE id = 1", &["+1 1 4", "-1 1 NULL"], &[]),
    ("BEGIN; DELETE FROM b WHERE id = 4; INSERT INTO b VALUES (5, 9); COMMIT", &["+1 1 5", "+1 4 5", "-1 1 4", "-1 4 4"], &[]),
    ("DELETE FROM b", &["+1 1 NULL", "+1 4 NULL", "-1 1 5", "-1 4 5"], &[]),
    ("DELETE FROM a", &["-1 1 NULL", "-1 2 NULL", "-1 3 NULL", "-1 4 NULL"], &["+1 0", "-1 4"]),
];

async fn subscribe(server: &Server, view: &str) -> Client {
    let client = server.connect().await.expect("a connection");
    let sql = format!("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE TO {view} WITH (snapshot = false)");
    client.batch_execute(&sql).await.expect("a cursor");
    client
}

/// The changes of each epoch in which there are some, once there are so many of them.
async fn changes(client: &Client, count: usize) -> Vec<Vec<String>> {
    let mut epochs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while epochs.values().map(Vec::len).sum::<usize>() < count {
        let told = tokio::time::timeout(LIMIT, rows(client, "FETCH ALL c")).await;
        for row in told.unwrap_or_else(|_| panic!("only these have come: {epochs:?}")).expect("changes") {
            let times: i64 = row[1].parse().expect("how many times");
            epochs.entry(row[0].clone()).or_default().push(format!("{times:+} {}", row[2..].join(" ")));
        }
    }
    epochs.values_mut().for_each(|changes| changes.sort());
    epochs.into_values().collect()
}

async fn check(workers: usize) {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(workers)).expect("a server");
    let client = server.connect().await.expect("a connection");
    client.batch_execute(OBJECTS).await.expect("objects");
    let (pairs, counted) = (subscribe(&server, "pairs").await, subscribe(&server, "counted").await);
    for (sql, ..) in STEPS {
        client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
    let of_pairs: Vec<_> = STEPS.iter().map(|step| step.1).filter(|changes| !changes.is_empty()).collect();
    let of_counted: Vec<_> = STEPS.iter().map(|step| step.2).filter(|changes| !changes.is_empty()).collect();
    assert_eq!(changes(&pairs, of_pairs.concat().len()).await, of_pairs, "with {workers} workers");
    assert_eq!(changes(&counted, of_counted.concat().len()).await, of_counted, "with {workers} workers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s5_s6_no_row_is_given_and_taken_back_in_one_epoch_and_an_update_is_one_pair() {
    for workers in [1, 2, 4] {
        check(workers).await;
    }
}

/// What `COPY (SUBSCRIBE …) TO STDOUT` sends comes line by line, while it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_changes_sends_each_as_it_happens() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    client.batch_execute(OBJECTS).await.expect("objects");
    let follower = server.connect().await.expect("a connection");
    let stream = follower.copy_out("COPY (SUBSCRIBE TO counted) TO STDOUT").await.expect("a stream");
    let mut stream = std::pin::pin!(stream);
    let mut seen = String::new();
    for (sql, expected) in [("INSERT INTO a VALUES (1, 1)", 3), ("INSERT INTO a VALUES (2, 2), (3, 3)", 5)] {
        client.batch_execute(sql).await.expect("an insert");
        while seen.lines().count() < expected {
            let piece = tokio::time::timeout(LIMIT, stream.next()).await.unwrap_or_else(|_| panic!("only this has come: {seen}"));
            seen.push_str(std::str::from_utf8(&piece.expect("it goes on").expect("a piece")).expect("text"));
        }
    }
    // Epoch, how many times, and the row: the snapshot first.
    let mut changes: Vec<Vec<&str>> = seen.lines().map(|line| line.split('\t').skip(1).collect()).collect();
    changes[1..3].sort_unstable();
    changes[3..5].sort_unstable();
    assert_eq!(changes, [["1", "0"], ["-1", "0"], ["1", "1"], ["-1", "1"], ["1", "3"]]);
}
