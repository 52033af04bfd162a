//! What the server takes of the machine: processor time when idle, memory when state is large.
//!
//! `THALWEG_TEST_KEYS` sets how many keys the memory test has; 20 million without it.

use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::{rows, until, until_job, value};

/// Clock ticks in a second, as `/proc` counts processor time.
fn ticks_per_second() -> f64 {
    // SAFETY: sysconf(3) reads a constant of the system.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    assert!(ticks > 0, "the system has no clock tick");
    ticks as f64
}

/// Seconds of processor time that a process has taken.
fn processor_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process runs");
    // The name stands in brackets and may hold spaces; user and system time are the 12th and 13th field after it.
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    ticks as f64 / ticks_per_second()
}

/// The most memory that a process has had, in MB.
fn peak_megabytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a peak");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number") / 1024
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d17_a_hundred_idle_views_take_under_5_percent_of_a_core() {
    let directory = tempfile::tempdir().expect("a folder");
    let inputs = directory.path().join("inputs");
    std::fs::create_dir(&inputs).expect("a folder");
    let options = Options { workers: 2, flags: vec![] };
    let server = Server::start(&directory.path().join("data"), options).expect("a server");
    let client = server.connect().await.expect("a connection");
    let source = format!(
        "CREATE TABLE t (a int, b int); INSERT INTO t VALUES (1, 2), (2, 3);
         CREATE SOURCE s (a int, b int) WITH (connector = 'file', path = '{}/*.jsonl', follow = 'true') FORMAT PLAIN ENCODE JSON",
        inputs.display()
    );
    client.batch_execute(&source).await.expect("inputs");
    for view in 0..100 {
        let input = if view % 2 == 0 { "t" } else { "s" };
        let sql =
            format!("CREATE MATERIALIZED VIEW v{view} AS SELECT a % {} AS k, sum(b) AS s FROM {input} GROUP BY 1", view + 1);
        client.batch_execute(&sql).await.expect("a view");
    }
    until(&client, "SELECT count(*) FROM thalweg.jobs WHERE state = 'running'", "101", Duration::from_secs(120)).await;
    // What creating them left to do ends with a checkpoint; ten seconds are then measured as they are.
    until(&client, "SELECT count(*) > 0 FROM thalweg.checkpoints WHERE state = 'durable'", "t", Duration::from_secs(60)).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let before = processor_seconds(server.pid());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let percent = (processor_seconds(server.pid()) - before) * 10.0;
    println!("100 idle views take {percent:.2} % of a core");
    client.batch_execute("INSERT INTO t VALUES (3, 4)").await.expect("an insert");
    assert_eq!(value(&client, "SELECT sum(s) FROM v0").await.expect("a sum"), "9");
    assert!(percent < 5.0, "100 idle views take {percent:.2} % of a core");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d18_many_keys_are_grouped_within_the_memory_of_the_job() {
    let keys: u64 =
        std::env::var("THALWEG_TEST_KEYS").map_or(20_000_000, |text| text.parse().expect("THALWEG_TEST_KEYS is a number"));
    // A fifth of the keys comes twice, long after they came first, so that what was spilled is needed again.
    let events = keys + keys / 5;
    let directory = tempfile::tempdir().expect("a folder");
    let options = Options { workers: 2, flags: vec!["--job-memory".into(), "512MB".into()] };
    let server = Server::start(&directory.path().join("data"), options).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = format!(
        "CREATE SOURCE d (id bigint) WITH (connector = 'datagen', rows = {events}, splits = 2, fields.id.kind = 'sequence');
         CREATE MATERIALIZED VIEW g AS SELECT id % {keys} AS k, count(*) AS n, sum(id) AS s FROM d GROUP BY 1"
    );
    let started = std::time::Instant::now();
    client.batch_execute(&sql).await.expect("a view");
    until_job(&client, "g", "finished", Duration::from_secs(1200)).await;
    let took = started.elapsed();
    let found = rows(&client, "SELECT count(*), sum(n), min(n), max(n), sum(s), count(*) FILTER (WHERE n = 2) FROM g")
        .await
        .expect("sums");
    let peak = peak_megabytes(server.pid());
    println!("{keys} keys: {:.0} s, peak memory {peak} MB", took.as_secs_f64());
    let sum = u128::from(events) * u128::from(events - 1) / 2;
    let expected = [keys.to_string(), events.to_string(), "1".into(), "2".into(), sum.to_string(), (keys / 5).to_string()];
    assert_eq!(found, [expected.to_vec()]);
    // The two budgets are 768 MB; the rest is what files being merged, batches on their way and the allocator hold.
    assert!(peak < 1792, "the process took {peak} MB");
}

/// The ids in all files of a file sink, in order.
fn delivered_ids(folder: &std::path::Path) -> Vec<u64> {
    let mut ids = vec![];
    for entry in std::fs::read_dir(folder).expect("the sink's folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("a file");
            let id = |line: &str| line.split(['{', ':', ',']).nth(2).and_then(|id| id.trim().parse::<u64>().ok());
            ids.extend(text.lines().map(|line| id(line).expect("a line begins with its id")));
        }
    }
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s8_d14_a_sink_that_is_stuck_takes_disk_and_no_memory_and_holds_nobody_up() {
    let rows: u64 = 5_000_000;
    let directory = tempfile::tempdir().expect("a folder");
    let (out, options) = (directory.path().join("out"), Options { workers: 2, flags: vec![] });
    // Where the sink's folder should be there is a file: it can be neither made nor written to.
    std::fs::write(&out, "in the way").expect("a file");
    let options = options.with("--job-memory", "64MB").with("--database-memory", "64MB");
    let mut server = Server::start(&directory.path().join("data"), options).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = format!(
        "CREATE SOURCE d (id bigint) WITH (connector = 'datagen', rows = {rows}, splits = 2, fields.id.kind = 'sequence');
         CREATE MATERIALIZED VIEW v AS SELECT id, repeat('x', 200) AS text FROM d;
         CREATE SINK stuck FROM v WITH (connector = 'file', path = '{}', type = 'append-only') FORMAT PLAIN ENCODE JSON",
        out.display()
    );
    client.batch_execute(&sql).await.expect("objects");
    let limit = Duration::from_secs(300);
    until_job(&client, "v", "finished", limit).await;
    assert_eq!(value(&client, "SELECT count(*) FROM v").await.expect("a count"), rows.to_string());
    until_job(&client, "stuck", "retrying", limit).await;
    // Everything is in the sink log once a later checkpoint is durable.
    let number = "SELECT coalesce(max(number), 0) FROM thalweg.checkpoints WHERE state = 'durable'";
    let before = value(&client, number).await.expect("a number");
    client.batch_execute("CREATE TABLE other (a int); INSERT INTO other VALUES (1)").await.expect("other statements");
    until(&client, &format!("SELECT ({number}) > {before}"), "t", limit).await;
    // The view alone takes some 600 MB; whoever held what waits in memory too would take more than 1,600.
    let peak = peak_megabytes(server.pid());
    println!("{} MB wait for the sink; peak memory {peak} MB", rows * 208 / 1_000_000);
    assert!(peak < 1100, "the process took {peak} MB");

    // What waits outlives a crash too.
    server.kill();
    server.start_again().expect("a start");
    std::fs::remove_file(&out).expect("the way is free");
    let client = server.connect().await.expect("a connection");
    until_job(&client, "stuck", "finished", limit).await;
    let ids = delivered_ids(&out);
    assert_eq!(ids.len() as u64, rows, "D1: every row arrives once");
    assert!(ids.iter().enumerate().all(|(at, id)| *id == at as u64), "D1: every row arrives once");
    let peak = peak_megabytes(server.pid());
    println!("peak memory of the delivery {peak} MB");
    assert!(peak < 1100, "the process took {peak} MB");
}
