//! What must hold after every start, and at the end.

use crate::inputs::{BAD_EVERY, Rows};
use crate::table::difference;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_sqllogictest::wait::{rows, until};
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(100);

/// What is wrong with a row for the view `faults`.
pub const FAULT: &str = "v % 50 = 0";

const SUMS: &str = "SELECT k, count(*) AS n, sum(v) AS s, min(v) AS low, max(v) AS high FROM everything GROUP BY k";
const PAIRS: &str = "SELECT t.id, f.v FROM t JOIN from_file AS f ON t.id = f.id";

/// Every job runs, or is on its way: none has failed.
pub async fn jobs_run(client: &Client) {
    until(client, "SELECT count(*) FROM thalweg.jobs WHERE state <> 'running'", "0", LIMIT).await;
}

/// There is a checkpoint to go on from.
pub async fn a_checkpoint_is_durable(client: &Client) {
    until(client, "SELECT count(*) > 0 FROM thalweg.checkpoints WHERE state = 'durable'", "t", LIMIT).await;
}

/// S27: a view's error is there as long as its row is, and once.
pub async fn errors_are_those_of_the_rows(client: &Client) {
    let sql = format!(
        "SELECT (SELECT coalesce(sum(count), 0) FROM thalweg.errors WHERE job = 'faults') - (SELECT count(*) FROM t WHERE {FAULT})"
    );
    until(client, &sql, "0", LIMIT).await;
}

/// Every line that can't be read is told of, once.
pub async fn bad_lines_are_told_of_once(client: &Client, lines: &Rows) {
    let bad = lines.keys().filter(|id| **id % BAD_EVERY == 0).count();
    let sql = "SELECT count(*) || ' ' || sum(count) FROM thalweg.errors WHERE job = 'from_file'";
    until(client, sql, &format!("{bad} {bad}"), LIMIT).await;
}

/// D1: no file of the file sink has a row that another has.
pub fn files_double_nothing(folder: &Path) {
    let found = read_files(folder);
    let by_id: Rows = found.iter().copied().collect();
    assert!(found.len() == by_id.len(), "D1: {} rows of the file sink are doubled", found.len() - by_id.len());
}

/// S3: views equal their queries over their inputs, all read in one statement and so at one epoch.
pub async fn views_equal_their_queries(client: &Client) {
    for (view, query) in [("SELECT k, n, s, low, high FROM sums", SUMS), ("SELECT id, v FROM pairs", PAIRS)] {
        let sql = format!(
            "SELECT 'only in the view', * FROM (({view}) EXCEPT ALL ({query})) AS a
             UNION ALL SELECT 'only in the batch', * FROM (({query}) EXCEPT ALL ({view})) AS b"
        );
        let found = rows(client, &sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        assert!(found.is_empty(), "{view}: {} rows differ, such as {:?}", found.len(), &found[..found.len().min(5)]);
    }
}

/// Every row of an input is in the relation that keeps it, once.
pub async fn inputs_are_whole(client: &Client, expected: &Rows, relation: &str) {
    let deadline = Instant::now() + LIMIT;
    let sql = format!("SELECT id, k, v FROM {relation}");
    let mut found = rows(client, &sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    while found.len() < expected.len() {
        assert!(Instant::now() < deadline, "{relation} has {} of {} rows", found.len(), expected.len());
        tokio::time::sleep(PAUSE).await;
        found = rows(client, &sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
    let by_id: Rows = found.iter().map(|row| (number(&row[0]), (number(&row[1]) as i32, number(&row[2])))).collect();
    assert!(found.len() == by_id.len(), "{relation}: {} rows are doubled", found.len() - by_id.len());
    assert!(by_id == *expected, "{relation}: {}", difference(&by_id, expected));
}

/// S14, S15: the windows that have closed are those of a run without crashes, each once.
pub async fn windows_equal_their_query(client: &Client) {
    let closed = "SELECT window_start, window_end, count(*) AS n, sum(v) AS s FROM TUMBLE(from_file, ts, INTERVAL '10 seconds')
                  WHERE window_end <= (SELECT max(ts) - INTERVAL '5 seconds' FROM from_file) GROUP BY window_start, window_end";
    let sql = format!(
        "SELECT count(*) FROM (SELECT * FROM ((SELECT * FROM windows) EXCEPT ALL ({closed})) AS a
         UNION ALL SELECT * FROM (({closed}) EXCEPT ALL (SELECT * FROM windows)) AS b) AS c"
    );
    until(client, &sql, "0", LIMIT).await;
}

/// The file sink's files hold every row once.
pub async fn files_hold_every_row_once(client: &Client, folder: &Path, expected: &Rows) {
    let deadline = Instant::now() + LIMIT;
    let mut found = read_files(folder);
    while found.len() < expected.len() {
        assert!(Instant::now() < deadline, "the files hold {} of {} rows", found.len(), expected.len());
        tokio::time::sleep(PAUSE).await;
        found = read_files(folder);
    }
    // Whatever would come a second time comes with a later checkpoint.
    let newest = "SELECT coalesce(max(number), 0) FROM thalweg.checkpoints WHERE state = 'durable'";
    let before = number(&thalweg_sqllogictest::wait::value(client, newest).await.expect("a number"));
    client.batch_execute("INSERT INTO t VALUES (-1, 0, 0)").await.expect("an insert");
    until(
        client,
        &format!("SELECT coalesce(max(number), 0) > {before} FROM thalweg.checkpoints WHERE state = 'durable'"),
        "t",
        LIMIT,
    )
    .await;
    let found = read_files(folder);
    let by_id: Rows = found.iter().copied().collect();
    assert!(found.len() == by_id.len(), "D1: {} rows of the file sink are doubled", found.len() - by_id.len());
    assert!(by_id == *expected, "D1: the file sink: {}", difference(&by_id, expected));
}

fn read_files(folder: &Path) -> Vec<(i64, (i32, i64))> {
    let mut found = vec![];
    for entry in std::fs::read_dir(folder).expect("the sink's folder") {
        let path = entry.expect("an entry").path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if hidden || !path.is_file() {
            continue;
        }
        for line in std::fs::read_to_string(&path).expect("a file").lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {line}: {e}", path.display()));
            let field = |name: &str| row[name].as_i64().unwrap_or_else(|| panic!("{line} has no {name}"));
            found.push((field("id"), (field("k") as i32, field("v"))));
        }
    }
    found
}

/// An upsert topic that is read to its end is the view.
pub async fn topic_holds_the_view(client: &Client, broker: &str, topic: &str) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let sql = "SELECT k, n, s, low, high FROM sums";
        let view = rows(client, sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let view: BTreeMap<i64, Vec<i64>> =
            view.iter().map(|row| (number(&row[0]), row[1..].iter().map(|cell| number(cell)).collect())).collect();
        let sent = read_topic(broker, topic);
        if sent == view {
            return;
        }
        let differing: Vec<_> = view.iter().filter(|(k, row)| sent.get(k) != Some(row)).take(3).collect();
        assert!(Instant::now() < deadline, "the topic has {} keys, the view {}; {differing:?} differ", sent.len(), view.len());
        tokio::time::sleep(PAUSE).await;
    }
}

/// The last value of each key, without those whose last record is a tombstone.
fn read_topic(broker: &str, topic: &str) -> BTreeMap<i64, Vec<i64>> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("group.id", "crash-test")
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer");
    let (_, end) = consumer.fetch_watermarks(topic, 0, LIMIT).expect("the topic's end");
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, Offset::Beginning).expect("a partition");
    consumer.assign(&partitions).expect("assigned");
    let mut found = BTreeMap::new();
    let mut next = 0;
    while next < end {
        let record = consumer.poll(LIMIT).expect("a record before the end").expect("no error");
        next = record.offset() + 1;
        let key: serde_json::Value = serde_json::from_slice(record.key().expect("a key")).expect("a JSON key");
        let key = key["k"].as_i64().expect("k in the key");
        match record.payload() {
            None => found.remove(&key),
            Some(payload) => {
                let row: serde_json::Value = serde_json::from_slice(payload).expect("a JSON value");
                let field =
                    |name: &str| row[name].to_string().parse::<i64>().unwrap_or_else(|_| panic!("{row} has no whole {name}"));
                found.insert(key, vec![field("n"), field("s"), field("low"), field("high")])
            }
        };
    }
    found
}

fn number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("\"{text}\" is no whole number"))
}
