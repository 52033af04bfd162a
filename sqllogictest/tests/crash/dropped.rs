//! D15: what is left of a job when the server dies between its end in the catalog and its clean-up.

use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::{until, value};

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d15_the_state_of_a_job_whose_drop_was_cut_off_goes_with_the_next_start() {
    let directory = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(&directory.path().join("data"), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2);
               CREATE MATERIALIZED VIEW gone AS SELECT a, count(*) AS n FROM t GROUP BY a";
    client.batch_execute(sql).await.expect("objects");
    // Once this gives rows they are in the database, and with the next checkpoint in the store.
    until(&client, "SELECT count(*) FROM thalweg_state.\"gone.materialize.rows\"", "2", LIMIT).await;
    let number = "SELECT coalesce(max(number), 0) FROM thalweg.checkpoints WHERE state = 'durable'";
    let before = value(&client, number).await.expect("a number");
    client.batch_execute("INSERT INTO t VALUES (3)").await.expect("an insert");
    until(&client, &format!("SELECT ({number}) > {before}"), "t", LIMIT).await;
    let id = value(&client, "SELECT id FROM thalweg.jobs WHERE name = 'gone'").await.expect("an id");

    server.kill();
    assert!(server.start_again_to_crash("before-job-drop").expect("a start"), "it dies at the drop and not before");
    let client = server.connect().await.expect("a connection");
    client.batch_execute("DROP MATERIALIZED VIEW gone").await.expect_err("the server dies");
    assert!(server.wait_for_crash(LIMIT).expect("it dies at its point"), "it has not passed the point");

    server.start_again().expect("a start");
    let client = server.connect().await.expect("a connection");
    assert_eq!(value(&client, "SELECT count(*) FROM thalweg.jobs WHERE name = 'gone'").await.expect("a count"), "0");
    // State whose object the catalog does not have is found by the object's id.
    let left = client.batch_execute(&format!("SELECT * FROM thalweg_state.\"{id}.materialize.rows\"")).await;
    let error = left.expect_err("nothing is left");
    assert_eq!(error.code().map(|code| code.code()), Some("42P01"), "{error:?}");
}
