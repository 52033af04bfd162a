//! D15, D16, D17: many views, created, dropped and waiting: what is there goes on as before.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thalweg_sqllogictest::server::{Options, Server, connect};
use thalweg_sqllogictest::wait::{rows, until, value};
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(120);

/// How much slower than before counts as slower, on a machine that does much else.
const SLOWER: u32 = 3;

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// The bytes of all files below a folder.
fn size(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    // Files come and go while the server runs; one that is gone has no size.
    entries
        .flatten()
        .map(|entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().map_or(0, |m| m.len()) })
        .sum()
}

/// Waits until a checkpoint has what is there now.
async fn checkpointed(client: &Client) {
    let newest = "SELECT coalesce(max(number), 0) FROM thalweg.checkpoints WHERE state = 'durable'";
    // The first of the two may have begun before.
    for change in ["INSERT INTO t VALUES (-1, 0)", "DELETE FROM t WHERE a = -1"] {
        let before = value(client, newest).await.expect("a number");
        run(client, change).await;
        until(client, &format!("SELECT ({newest}) > {before}"), "t", LIMIT).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d15_five_hundred_views_created_and_dropped_leave_nothing_and_the_next_is_as_fast() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    run(
        &client,
        "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 1000) AS s(g)",
    )
    .await;
    let operators = value(&client, "SELECT count(*) FROM thalweg.operators").await.expect("a count");
    let mut took = vec![];
    for pair in 0..500 {
        let started = Instant::now();
        run(&client, "CREATE MATERIALIZED VIEW v AS SELECT b, count(*) AS n, max(a) AS high FROM t GROUP BY b").await;
        run(&client, "DROP MATERIALIZED VIEW v").await;
        took.push(started.elapsed());
        if pair == 20 {
            checkpointed(&client).await;
        }
    }
    let (first, last) = (median(&took[20..70]), median(&took[450..]));
    println!("a pair takes {first:?}, and {last:?} after 500");
    assert!(last < first * SLOWER, "a pair took {first:?}, and {last:?} after 500");

    assert_eq!(rows(&client, "SELECT name FROM thalweg.jobs").await.expect("jobs"), [["t"]]);
    assert_eq!(rows(&client, "SELECT * FROM thalweg.lineage").await.expect("lineage"), Vec::<Vec<String>>::new());
    until(&client, "SELECT count(*) FROM thalweg.operators", &operators, LIMIT).await;
    checkpointed(&client).await;
    let store = size(&directory.path().join("store"));
    println!("the store has {} kB", store / 1024);
    assert!(store < 32 << 20, "the store has {store} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d15_a_view_over_much_data_shows_its_progress_and_leaves_no_trace_when_it_is_dropped() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    run(
        &client,
        "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT g, g % 1000 FROM generate_series(1, 200000) AS s(g)",
    )
    .await;
    let operators = value(&client, "SELECT count(*) FROM thalweg.operators").await.expect("a count");
    for (pause, drop) in
        [(0, "CANCEL JOB v"), (20, "DROP MATERIALIZED VIEW v"), (100, "CANCEL JOB v"), (500, "DROP MATERIALIZED VIEW v")]
    {
        // Forty million pairs: nobody waits for them.
        run(&client, "CREATE MATERIALIZED VIEW v AS SELECT x.a, y.a AS other FROM t AS x JOIN t AS y ON x.b = y.b").await;
        let progress = rows(&client, "SELECT job, rows_done <= rows_total FROM thalweg.ddl_progress").await.expect("progress");
        if pause == 0 {
            assert_eq!(progress, [["v", "t"]]);
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
        run(&client, drop).await;
        until(&client, "SELECT count(*) FROM thalweg.jobs", "1", LIMIT).await;
        until(&client, "SELECT count(*) FROM thalweg.operators", &operators, LIMIT).await;
        assert_eq!(value(&client, "SELECT count(*) FROM thalweg.ddl_progress").await.expect("a count"), "0");
    }
    run(&client, "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t").await;
    assert_eq!(value(&client, "SELECT n FROM v").await.expect("a count"), "200000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn d16_twenty_views_are_created_at_once_while_rows_change() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    run(
        &client,
        "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT g, g % 100 FROM generate_series(1, 100000) AS s(g);
         CREATE MATERIALIZED VIEW present AS SELECT count(*) AS n, sum(b) AS s FROM t",
    )
    .await;
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write(server.port(), Arc::clone(&stop)));
    let creations = (0..20).map(|view| {
        let port = server.port();
        tokio::spawn(async move {
            let client = connect(port).await.expect("a connection");
            let sql = format!(
                "CREATE MATERIALIZED VIEW v{view} AS SELECT b % {} AS k, count(*) AS n, max(a) AS high FROM t GROUP BY 1",
                view + 1
            );
            run(&client, &sql).await;
        })
    });
    for creation in creations.collect::<Vec<_>>() {
        creation.await.expect("a view");
    }
    until(&client, "SELECT count(*) FROM thalweg.jobs WHERE state = 'running'", "22", LIMIT).await;
    stop.store(true, Ordering::Relaxed);
    let (writes, slowest) = writer.await.expect("writes");
    println!("{writes} writes meanwhile, the slowest seen in the view after {slowest:?}");
    assert!(writes > 0 && slowest < Duration::from_secs(5), "a view lagged by {slowest:?}");
    for view in 0..20 {
        let k = view + 1;
        let differing = format!(
            "SELECT count(*) FROM ((SELECT * FROM v{view}) EXCEPT ALL (SELECT b % {k}, count(*), max(a) FROM t GROUP BY 1)) AS d"
        );
        assert_eq!(value(&client, &differing).await.expect("a count"), "0", "v{view}");
        assert_eq!(value(&client, &format!("SELECT sum(n) = (SELECT n FROM present) FROM v{view}")).await.expect("a sum"), "t");
    }
}

/// Inserts until told to stop, and reads each row in the view; how many, and the longest that one took.
async fn write(port: u16, stop: Arc<AtomicBool>) -> (usize, Duration) {
    let client = connect(port).await.expect("a connection");
    let (mut writes, mut slowest) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        writes += 1;
        run(&client, &format!("INSERT INTO t VALUES ({}, 1)", 1_000_000 + writes)).await;
        assert_eq!(value(&client, "SELECT n FROM present").await.expect("a count"), (100_000 + writes).to_string());
        slowest = slowest.max(started.elapsed());
    }
    (writes, slowest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d17_the_last_of_ten_views_in_a_row_is_at_most_twice_as_late_as_the_first() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    run(&client, "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE MATERIALIZED VIEW v1 AS SELECT a, b + 1 AS b FROM t").await;
    for view in 2..=10 {
        let sql = format!("CREATE MATERIALIZED VIEW v{view} AS SELECT a, max(b) + 1 AS b FROM v{} GROUP BY a", view - 1);
        run(&client, &sql).await;
    }
    let (mut first, mut last) = (vec![], vec![]);
    for a in 0..60 {
        let (view, took) = if a % 2 == 0 { (1, &mut first) } else { (10, &mut last) };
        let started = Instant::now();
        run(&client, &format!("INSERT INTO t VALUES ({a}, 0)")).await;
        assert_eq!(value(&client, &format!("SELECT b FROM v{view} WHERE a = {a}")).await.expect("a row"), view.to_string());
        took.push(started.elapsed());
    }
    let (first, last) = (median(&first), median(&last));
    println!("a row is in the first view after {first:?}, in the tenth after {last:?}");
    assert!(last < first * 2, "a row is in the first view after {first:?}, in the tenth after {last:?}");
}
