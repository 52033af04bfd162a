//! D1, D8, S4, S14: a server that is killed again and again keeps every acknowledged row, and gives every row once.
//!
//! Lines are added to a followed file, records go to a Kafka topic and statements change a table, while the server is killed
//! at random moments. Views over all three (an aggregate, a join, windows), a file sink and a Kafka sink run meanwhile. After
//! each start the table holds what was acknowledged, and the views equal their queries run as a batch over their inputs at
//! the same epoch. At the end nothing is lost and nothing doubled.
//!
//! `THALWEG_TEST_SEED` replays the moments of a run; `THALWEG_TEST_KILLS` sets how many there are.

mod checks;
mod inputs;
mod table;

use inputs::{FileInput, TopicInput};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use table::TableModel;
use thalweg_sqllogictest::server::{Options, Server};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn objects(file: &str, out: &str, broker: &str, topic: &str) -> String {
    format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, k int, v bigint);
         CREATE SOURCE lines (id bigint, k int, v bigint, ts timestamp, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
             WITH (connector = 'file', path = '{file}', follow = 'true') FORMAT PLAIN ENCODE JSON;
         CREATE MATERIALIZED VIEW from_file AS SELECT id, k, v, ts FROM lines;
         CREATE TABLE from_topic (id bigint, k int, v bigint)
             WITH (connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{broker}') FORMAT PLAIN ENCODE JSON;
         CREATE VIEW everything AS SELECT id, k, v FROM from_file UNION ALL SELECT id, k, v FROM from_topic UNION ALL SELECT id, k, v FROM t;
         CREATE MATERIALIZED VIEW sums AS SELECT k, count(*) AS n, sum(v) AS s, min(v) AS low, max(v) AS high FROM everything GROUP BY k;
         CREATE MATERIALIZED VIEW pairs AS SELECT t.id, f.v FROM t JOIN from_file AS f ON t.id = f.id;
         CREATE MATERIALIZED VIEW windows AS SELECT window_start, window_end, count(*) AS n, sum(v) AS s
             FROM TUMBLE(lines, ts, INTERVAL '10 seconds') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
         CREATE SINK file_out AS SELECT id, k, v FROM lines WITH (connector = 'file', path = '{out}', type = 'append-only') FORMAT PLAIN ENCODE JSON;
         CREATE SINK topic_out FROM sums WITH (connector = 'kafka', topic = '{topic}-out', properties.bootstrap.server = '{broker}', type = 'upsert', primary_key = 'k')"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn d1_twenty_kills_lose_nothing_and_double_nothing() {
    let seed = number("THALWEG_TEST_SEED", rand::random());
    println!("THALWEG_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let broker = std::env::var("THALWEG_TEST_KAFKA").expect("THALWEG_TEST_KAFKA is set, as `make test` does");
    let directory = tempfile::tempdir().expect("a folder");
    let (file, out) = (directory.path().join("in.jsonl"), directory.path().join("out"));
    let topic = format!("crash-{}-{}", std::process::id(), rand::random::<u32>());
    let mut file_input = FileInput::start(&file, random.random());
    let mut topic_input = TopicInput::start(&broker, &topic, random.random());
    let mut server = Server::start(&directory.path().join("data"), Options::workers(2)).expect("a server");
    let mut client = server.connect().await.expect("a connection");
    client
        .batch_execute(&objects(&file.display().to_string(), &out.display().to_string(), &broker, &topic))
        .await
        .expect("objects");

    let mut model = TableModel::new(random.random());
    let kills = number("THALWEG_TEST_KILLS", 20);
    for kill in 1..=kills {
        let life = Duration::from_millis(random.random_range(20..1500));
        model.change_until_killed(&client, &mut server, life).await;
        server.start_again().unwrap_or_else(|e| panic!("start {kill}: {e}"));
        client = server.connect().await.expect("a connection");
        model.settle(&client).await;
        checks::jobs_run(&client).await;
        checks::views_equal_their_queries(&client).await;
        println!("kill {kill} after {life:?}: {} rows in the table", model.len());
    }
    let (lines, records) = (file_input.stop(), topic_input.stop());
    println!("{} lines, {} records, {} rows", lines.len(), records.len(), model.len());
    checks::inputs_are_whole(&client, &lines, &records).await;
    model.settle(&client).await;
    checks::views_equal_their_queries(&client).await;
    checks::windows_equal_their_query(&client).await;
    checks::files_hold_every_row_once(&client, &out, &lines).await;
    checks::topic_holds_the_view(&client, &broker, &format!("{topic}-out")).await;
}
