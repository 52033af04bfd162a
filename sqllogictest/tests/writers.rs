//! Many writers of one table with a key: each key is given once, every row that was acknowledged is there once, also after a crash, and
//! writers that are cancelled hold nobody up.
//!
//! `THALWEG_TEST_SEED` replays a run.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server, connect};
use thalweg_sqllogictest::wait::{rows, value};
use tokio_postgres::error::SqlState;

const WRITERS: u64 = 24;
const KEYS: i32 = 60;
const TURNS: usize = 25;

fn seed() -> u64 {
    let seed = std::env::var("THALWEG_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    println!("THALWEG_TEST_SEED={seed}");
    seed
}

/// Inserts rows of random keys, some in transactions that are rolled back, some that change what is there. Gives the keys that it was
/// told are its own.
async fn write(port: u16, number: u64, seed: u64) -> Vec<i32> {
    let mut random = StdRng::seed_from_u64(seed ^ number);
    let client = connect(port).await.expect("a connection");
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2, 0)").await.expect("a statement");
    let add = client.prepare("UPDATE t SET n = n + 1 WHERE id = $1").await.expect("a statement");
    let mut own = vec![];
    for _ in 0..TURNS {
        let key = random.random_range(0..KEYS);
        let rolled_back = random.random_bool(0.2);
        if rolled_back {
            client.batch_execute("BEGIN").await.expect("a transaction");
        }
        match client.execute(&insert, &[&key, &(number as i32)]).await {
            Ok(count) => {
                assert_eq!(count, 1);
                if !rolled_back {
                    own.push(key);
                }
            }
            Err(error) => assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{error:?}"),
        }
        if rolled_back {
            client.batch_execute("ROLLBACK").await.expect("a rollback");
        }
        let changed = client.execute(&add, &[&0]).await.expect("a change");
        assert!(changed <= 1);
    }
    own
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_is_given_to_one_writer_and_every_change_counts() {
    let seed = seed();
    let directory = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = "CREATE TABLE t (id int PRIMARY KEY, writer int, n bigint);
               INSERT INTO t VALUES (0, -1, 0);
               CREATE MATERIALIZED VIEW counts AS SELECT count(*) AS rows, sum(n) AS n FROM t";
    client.batch_execute(sql).await.expect("objects");
    let port = server.port();
    let writers: Vec<_> = (0..WRITERS).map(|number| tokio::spawn(write(port, number, seed))).collect();
    let (mut given, mut count) = (BTreeSet::from([0]), 1);
    for writer in writers {
        let own = writer.await.expect("a writer");
        count += own.len();
        given.extend(own);
    }
    assert_eq!(given.len(), count, "a key was given twice");
    client.batch_execute("FLUSH").await.expect("a flush");
    let expected = given.iter().map(|key| vec![key.to_string()]).collect::<Vec<_>>();
    assert_eq!(rows(&client, "SELECT id FROM t ORDER BY id").await.expect("keys"), expected);
    let changes = (WRITERS as usize * TURNS).to_string();
    let of_all = "SELECT rows, n FROM counts";
    assert_eq!(rows(&client, of_all).await.expect("counts"), [[count.to_string(), changes.clone()]]);
    server.kill();
    server.start_again().expect("a start");
    let client = server.connect().await.expect("a connection after the crash");
    assert_eq!(rows(&client, of_all).await.expect("counts"), [[count.to_string(), changes]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_waits_for_a_key_that_is_not_decided_and_nobody_for_one_that_gave_up() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let [first, second, third] =
        [server.connect().await.expect("one"), server.connect().await.expect("two"), server.connect().await.expect("three")];
    first.batch_execute("CREATE TABLE t (id int PRIMARY KEY); BEGIN; INSERT INTO t VALUES (1)").await.expect("a row");
    let cancel = second.cancel_token();
    let waiting = tokio::spawn(async move {
        let error = second.batch_execute("INSERT INTO t VALUES (1)").await.expect_err("a cancelled insert");
        (second, error.code().cloned())
    });
    // An insert of another key goes through beside those that wait.
    third.batch_execute("INSERT INTO t VALUES (2)").await.expect("another key");
    // A cancel that comes before its statement is lost.
    while !waiting.is_finished() {
        cancel.cancel_query(tokio_postgres::NoTls).await.expect("a cancel");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (second, code) = waiting.await.expect("a task");
    assert_eq!(code, Some(SqlState::QUERY_CANCELED));
    first.batch_execute("COMMIT").await.expect("a commit");
    let refused = second.batch_execute("INSERT INTO t VALUES (1)").await.expect_err("a key that is taken");
    assert_eq!(refused.code(), Some(&SqlState::UNIQUE_VIOLATION));
    // Two that want each other's keys: one of them is refused, and the other goes on.
    second.batch_execute("BEGIN; INSERT INTO t VALUES (10)").await.expect("a row");
    third.batch_execute("BEGIN; INSERT INTO t VALUES (11)").await.expect("a row");
    let (one, two) =
        tokio::join!(second.batch_execute("INSERT INTO t VALUES (11)"), third.batch_execute("INSERT INTO t VALUES (10)"));
    let refused: Vec<_> = [one, two].into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].code(), Some(&SqlState::T_R_DEADLOCK_DETECTED));
    second.batch_execute("COMMIT").await.expect("an end");
    third.batch_execute("COMMIT").await.expect("an end");
    first.batch_execute("FLUSH").await.expect("a flush");
    assert_eq!(value(&first, "SELECT count(*) FROM t WHERE id >= 10").await.expect("a count"), "2");
}
