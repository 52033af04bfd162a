//! D1, D8, D13, S4, S14: a server that is killed again and again keeps every acknowledged row, and gives every row once.
//!
//! Lines are added to a followed file, records go to a Kafka topic (if there is a broker) and statements change a table and the
//! catalog, while the server dies: at every named point once, then at random points and moments, now and then with another
//! number of workers. Views over all
//! three (an aggregate, a join, windows), a file sink and a Kafka sink run meanwhile. After each start the table holds what was
//! acknowledged, the views equal their queries run as a batch over their inputs at the same epoch, and row errors are those of
//! the rows that are there. At the end nothing is lost and nothing doubled.
//!
//! [`bucket`] does the same with the store in a bucket, which goes away for a while, and with a disk that each kill empties.
//!
//! `THALWEG_TEST_SEED` replays the moments of a run; `THALWEG_TEST_KILLS` and `THALWEG_TEST_BUCKET_KILLS` set how many there are.

mod bucket;
mod checks;
mod dropped;
mod inputs;
mod s3;
mod table;

use inputs::{FileInput, TopicInput};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::time::Duration;
use table::{Death, TableModel, died};
use thalweg_sqllogictest::server::{Options, Server, crash_points};
use tokio_postgres::Client;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// A table, a followed file, views over `inputs`, and a file sink.
fn objects(file: &str, out: &str, inputs: &[&str]) -> String {
    let everything: Vec<String> = inputs.iter().map(|input| format!("SELECT id, k, v FROM {input}")).collect();
    format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, k int, v bigint);
         CREATE SOURCE lines (id bigint, k int, v bigint, ts timestamp, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
             WITH (connector = 'file', path = '{file}', follow = 'true') FORMAT PLAIN ENCODE JSON;
         CREATE MATERIALIZED VIEW from_file AS SELECT id, k, v, ts FROM lines;
         CREATE VIEW everything AS {};
         CREATE MATERIALIZED VIEW sums AS SELECT k, count(*) AS n, sum(v) AS s, min(v) AS low, max(v) AS high FROM everything GROUP BY k;
         CREATE MATERIALIZED VIEW pairs AS SELECT t.id, f.v FROM t JOIN from_file AS f ON t.id = f.id;
         CREATE MATERIALIZED VIEW faults AS SELECT id, 1 / (v % 50) AS q FROM t;
         CREATE MATERIALIZED VIEW windows AS SELECT window_start, window_end, count(*) AS n, sum(v) AS s
             FROM TUMBLE(lines, ts, INTERVAL '10 seconds') GROUP BY window_start, window_end EMIT ON WINDOW CLOSE;
         CREATE SINK file_out AS SELECT id, k, v FROM lines WITH (connector = 'file', path = '{out}', type = 'append-only') FORMAT PLAIN ENCODE JSON",
        everything.join(" UNION ALL ")
    )
}

/// The topic's side of the objects: what is read from it, and the sink once the view is there.
fn topic_objects(topic: Option<&Topic>) -> (String, String) {
    let columns = "id bigint, k int, v bigint";
    let Some(Topic { broker, name }) = topic else { return (format!("CREATE TABLE from_topic ({columns})"), String::new()) };
    let of = |name: &str| format!("connector = 'kafka', topic = '{name}', properties.bootstrap.server = '{broker}'");
    (
        format!("CREATE TABLE from_topic ({columns}) WITH ({}) FORMAT PLAIN ENCODE JSON", of(name)),
        format!("CREATE SINK topic_out FROM sums WITH ({}, type = 'upsert', primary_key = 'k')", of(&format!("{name}-out"))),
    )
}

struct Topic {
    broker: String,
    name: String,
}

/// How a server is to die.
#[derive(Debug)]
enum Round {
    /// At a named point, which it must pass.
    Point(String),
    /// At a random point, if it passes it.
    Perhaps(String),
    /// At a random moment.
    After(Duration),
}

impl Round {
    /// As many as are wanted: every point, then others.
    fn all(points: Vec<String>, count: usize, random: &mut StdRng) -> Vec<Round> {
        let mut rounds: Vec<Round> = points.iter().cloned().map(Round::Point).collect();
        rounds.shuffle(random);
        while rounds.len() < count {
            rounds.push(if random.random() {
                let point = &points[random.random_range(0..points.len())];
                Round::Perhaps(format!("{point}:{}", random.random_range(2..20)))
            } else {
                Round::After(Duration::from_millis(random.random_range(20..1500)))
            });
        }
        rounds
    }
}

/// How long a server may take to pass its point.
const POINT_MAX: Duration = Duration::from_secs(60);
/// How long a server lives whose point may never come.
const PERHAPS_MAX: Duration = Duration::from_secs(2);

/// Has the server die as the round says. It runs, and does not afterwards.
async fn let_die(round: &Round, server: &mut Server, client: Client, model: &mut TableModel) {
    let (point, life) = match round {
        Round::After(life) => {
            model.change_until_dead(&client, server, *life).await;
            return;
        }
        Round::Point(point) => (point, POINT_MAX),
        Round::Perhaps(point) => (point, PERHAPS_MAX),
    };
    server.kill();
    // Changed now and then, so that state is dealt out anew; to what no checkpoint is of where that is what is to fail.
    server.set_workers(match point.starts_with("in-rescale") {
        true => 4,
        false if server.starts().is_multiple_of(5) => 3,
        false => 2,
    });
    let ready = server.start_again_to_crash(point).unwrap_or_else(|e| panic!("{round:?}: {e}"));
    if ready {
        let death = match server.connect().await {
            Ok(client) => model.change_until_dead(&client, server, life).await,
            Err(error) => died(server, "a connection", &error),
        };
        let must = matches!(round, Round::Point(_));
        assert!(!must || death == Death::Crashed, "{point} is not passed");
    }
    server.set_workers(2);
}

/// What must hold after every start.
async fn check(client: &Client, model: &mut TableModel, out: &Path) {
    model.undefine(client).await;
    model.settle(client).await;
    checks::jobs_run(client).await;
    checks::views_equal_their_queries(client).await;
    checks::errors_are_those_of_the_rows(client).await;
    checks::files_double_nothing(out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn d1_fifty_crashes_lose_nothing_and_double_nothing() {
    let seed = number("THALWEG_TEST_SEED", rand::random());
    println!("THALWEG_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let name = format!("crash-{}-{}", std::process::id(), rand::random::<u32>());
    let topic = std::env::var("THALWEG_TEST_KAFKA").ok().map(|broker| Topic { broker, name });
    let directory = tempfile::tempdir().expect("a folder");
    let (file, out) = (directory.path().join("in.jsonl"), directory.path().join("out"));
    let mut file_input = FileInput::start(&file, random.random());
    let mut topic_input = topic.as_ref().map(|t| TopicInput::start(&t.broker, &t.name, random.random()));
    let mut server = Server::start(&directory.path().join("data"), Options::workers(2)).expect("a server");
    let mut client = server.connect().await.expect("a connection");
    let (from_topic, topic_out) = topic_objects(topic.as_ref());
    let (path, folder) = (file.display().to_string(), out.display().to_string());
    let all = format!("{from_topic}; {}; {topic_out}", objects(&path, &folder, &["from_file", "from_topic", "t"]));
    client.batch_execute(&all).await.expect("objects");
    // Without a checkpoint there is nothing to restore, and so no point in it to die at.
    checks::a_checkpoint_is_durable(&client).await;

    let mut model = TableModel::new(random.random());
    let points = crash_points().expect("the points");
    let rounds = Round::all(points, number("THALWEG_TEST_KILLS", 50) as usize, &mut random);
    for (number, round) in rounds.iter().enumerate() {
        let_die(round, &mut server, client, &mut model).await;
        server.start_again().unwrap_or_else(|e| panic!("after {round:?}: {e}"));
        client = server.connect().await.expect("a connection");
        check(&client, &mut model, &out).await;
        println!("{}: {round:?}: {} rows in the table", number + 1, model.len());
    }
    let lines = file_input.stop();
    let records = topic_input.as_mut().map(TopicInput::stop).unwrap_or_default();
    println!("{} lines, {} records, {} rows", lines.len(), records.len(), model.len());
    checks::inputs_are_whole(&client, &lines, "from_file").await;
    // Without a broker it is a table that nobody writes to.
    checks::inputs_are_whole(&client, &records, "from_topic").await;
    check(&client, &mut model, &out).await;
    checks::windows_equal_their_query(&client).await;
    checks::bad_lines_are_told_of_once(&client, &lines).await;
    checks::files_hold_every_row_once(&client, &out, &lines).await;
    if let Some(Topic { broker, name }) = &topic {
        checks::topic_holds_the_view(&client, broker, &format!("{name}-out")).await;
    }
}
