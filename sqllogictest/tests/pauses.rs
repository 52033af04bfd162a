//! D13: what the machine does to the server, and what must come of it: nothing is lost, and it recovers by itself.

use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::{until, value};

/// How long the process is stopped.
const STOPPED: Duration = Duration::from_secs(10);

fn signal(server: &Server, signal: i32) {
    // SAFETY: kill(2) with the id of a child that has not been waited for; no memory is involved.
    let sent = unsafe { libc::kill(server.pid() as i32, signal) };
    assert_eq!(sent, 0, "the signal could not be sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d13_a_process_that_was_stopped_for_ten_seconds_goes_on_and_has_lost_nothing() {
    let directory = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(&directory.path().join("data"), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql =
        "CREATE TABLE t (id int PRIMARY KEY, k int); CREATE MATERIALIZED VIEW n AS SELECT k, count(*) AS n FROM t GROUP BY k;
               INSERT INTO t SELECT i, i % 7 FROM generate_series(1, 1000) AS g(i)";
    client.batch_execute(sql).await.expect("objects");
    signal(&server, libc::SIGSTOP);
    // A statement that is sent meanwhile waits, and is answered.
    let late = server.port();
    let waiting = tokio::spawn(async move {
        let client = thalweg_sqllogictest::server::connect(late).await.expect("a connection");
        client.batch_execute("INSERT INTO t SELECT i, i % 7 FROM generate_series(1001, 2000) AS g(i)").await.expect("an insert");
    });
    tokio::time::sleep(STOPPED).await;
    assert!(!waiting.is_finished(), "a stopped process answers nobody");
    signal(&server, libc::SIGCONT);
    waiting.await.expect("the insert");
    until(&client, "SELECT sum(n) FROM n", "2000", Duration::from_secs(60)).await;
    server.kill();
    server.start_again().expect("a start");
    let client = server.connect().await.expect("a connection");
    assert_eq!(value(&client, "SELECT sum(n) FROM n").await.expect("a sum"), "2000");
}
