//! The benchmark's queries: a view over so many events equals the query run as a batch over the same events.
//!
//! `THALWEG_TEST_EVENTS` sets how many events there are; 100,000 without it.

use std::path::PathBuf;
use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::{rows, until, until_job};
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(600);

/// Queries in which rows tie: of these columns every choice between equals is the same.
const TIES: [(&str, &str); 3] =
    [("q9", "id, price, \"bid_dateTime\""), ("q18", "auction, bidder, \"dateTime\""), ("q19", "auction, price, rank_number")];

fn queries() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../bench/queries");
    let mut queries = vec![];
    for entry in std::fs::read_dir(folder).expect("the folder of queries") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        queries.push((name, std::fs::read_to_string(&path).expect("a query")));
    }
    queries.sort();
    assert!(queries.len() >= 21, "queries are missing: {queries:?}");
    queries
}

async fn prepare(client: &Client, events: u64, splits: usize) {
    for table in ["person", "auction", "bid"] {
        let sql = format!(
            "CREATE SOURCE {table} ({}, WATERMARK FOR \"dateTime\" AS \"dateTime\" - INTERVAL '4 seconds')
             WITH (connector = 'nexmark', table = '{table}', events = {events}, splits = {splits})",
            columns(table)
        );
        client.batch_execute(&sql).await.expect("a source");
    }
    client.batch_execute("CREATE TABLE side_input (\"key\" bigint PRIMARY KEY, \"value\" text)").await.expect("a table");
    let fill = "INSERT INTO side_input SELECT value, 'value ' || value FROM generate_series(0, 9999) AS s(value)";
    client.batch_execute(fill).await.expect("rows");
}

fn columns(table: &str) -> &'static str {
    match table {
        "person" => {
            "id bigint, name text, \"emailAddress\" text, \"creditCard\" text, city text, state text, \"dateTime\" timestamp, extra text"
        }
        "auction" => {
            "id bigint, \"itemName\" text, description text, \"initialBid\" bigint, reserve bigint, \"dateTime\" timestamp, \
             expires timestamp, seller bigint, category bigint, extra text"
        }
        _ => "auction bigint, bidder bigint, price bigint, channel text, url text, \"dateTime\" timestamp, extra text",
    }
}

async fn check(workers: usize) {
    let events =
        std::env::var("THALWEG_TEST_EVENTS").map_or(100_000, |text| text.parse().expect("THALWEG_TEST_EVENTS is a number"));
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(workers)).expect("a server");
    let client = server.connect().await.expect("a connection");
    prepare(&client, events, workers).await;
    let mut differing = vec![];
    for (name, query) in queries() {
        let shown = TIES.iter().find(|(tied, _)| *tied == name).map_or("*", |(_, columns)| columns);
        client
            .batch_execute(&format!("CREATE MATERIALIZED VIEW v_{name} AS {query}"))
            .await
            .unwrap_or_else(|e| panic!("{name}: {e:?}"));
        // q13 also reads a table, which never ends: it is done when its bids are.
        if name == "q13" {
            let count = rows(&client, &format!("SELECT count(*) FROM ({query}) AS q")).await.expect("a count");
            until(&client, "SELECT count(*) FROM v_q13", &count[0][0], LIMIT).await;
        } else {
            until_job(&client, &format!("v_{name}"), "finished", LIMIT).await;
        }
        let view = sorted(&client, &format!("SELECT {shown} FROM v_{name}")).await;
        let batch = sorted(&client, &format!("SELECT {shown} FROM ({query}) AS q")).await;
        println!("{name} with {workers} workers: {} rows", view.len());
        if view != batch {
            let only = |a: &[Vec<String>], b: &[Vec<String>]| {
                a.iter().filter(|row| b.binary_search(row).is_err()).take(3).cloned().collect::<Vec<_>>()
            };
            differing.push(format!(
                "{name}: the view has {} rows, the batch {}; only in the view: {:?}; only in the batch: {:?}",
                view.len(),
                batch.len(),
                only(&view, &batch),
                only(&batch, &view)
            ));
        }
        client.batch_execute(&format!("DROP MATERIALIZED VIEW v_{name}")).await.expect("a drop");
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

async fn sorted(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let mut found = rows(client, sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_views_of_one_worker_equal_the_batch() {
    check(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_views_of_two_workers_equal_the_batch() {
    check(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_views_of_four_workers_equal_the_batch() {
    check(4).await;
}
