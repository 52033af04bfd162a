//! Load: many connections, lookups beside views that are kept up to date, and clients that misbehave.
//!
//! What is run with the other tests is small. `THALWEG_LOAD=full cargo test --release -p thalweg-sqllogictest --test load -- --nocapture
//! --test-threads 1` runs the whole on a machine with two cores that does nothing else, and holds it to the full figures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::{rows, value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_postgres::Client;

/// How much of everything.
struct Load {
    idle: usize,
    busy: usize,
    lookups_per_s: u64,
    rows_per_s: u64,
    time: Duration,
    lookup_ms_p99: u64,
    insert_ms_p99: u64,
}

fn load() -> Load {
    match std::env::var("THALWEG_LOAD").as_deref() {
        Ok("full") => Load {
            idle: 1000,
            busy: 200,
            lookups_per_s: 5000,
            rows_per_s: 50_000,
            time: Duration::from_secs(20),
            lookup_ms_p99: 20,
            insert_ms_p99: 200,
        },
        Ok(other) => panic!("THALWEG_LOAD is \"{other}\", not \"full\""),
        // Other tests run beside it: only what is much too slow is seen.
        Err(_) => {
            let (lookups_per_s, rows_per_s) = (500, 5000);
            let time = Duration::from_secs(3);
            Load { idle: 200, busy: 40, lookups_per_s, rows_per_s, time, lookup_ms_p99: 500, insert_ms_p99: 2000 }
        }
    }
}

/// Memory of a process in MB, as the system counts it.
fn megabytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number") / 1024
}

/// The time below which so many of a hundred are.
fn percentile(times: &mut [Duration], of_100: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * of_100 / 100]
}

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
}

/// A server with a table of 100,000 rows.
async fn with_table(directory: &tempfile::TempDir) -> (Server, Client) {
    let options = Options { workers: 2, flags: vec!["--max-connections".into(), "1400".into()] };
    let server = Server::start(directory.path(), options).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = "CREATE TABLE t (id int PRIMARY KEY, name text, n bigint);
               INSERT INTO t SELECT g, 'name ' || g, g * 2 FROM generate_series(1, 100000) AS s(g)";
    run(&client, sql).await;
    // Other sessions see it now, and not some milliseconds later.
    run(&client, "FLUSH").await;
    (server, client)
}

/// Works on a connection until told to stop: lookups, each right, and a write now and then. Gives the time of each lookup, and of
/// each write.
async fn work(client: Client, number: usize, stop: Arc<AtomicBool>) -> (Vec<Duration>, Vec<Duration>) {
    let select = client.prepare("SELECT name, n FROM t WHERE id = $1").await.expect("a statement");
    let insert = client.prepare("INSERT INTO written VALUES ($1, $2)").await.expect("a statement");
    let (mut lookups, mut inserts) = (vec![], vec![]);
    let mut turn = 0usize;
    while !stop.load(Ordering::Relaxed) {
        let started = Instant::now();
        let id = ((number * 7919 + turn * 104_729) % 100_000 + 1) as i32;
        if turn % 50 == 49 {
            assert_eq!(client.execute(&insert, &[&(number as i32), &(turn as i32)]).await.expect("a row"), 1);
            inserts.push(started.elapsed());
        } else {
            let row = client.query_one(&select, &[&id]).await.expect("a row");
            assert_eq!((row.get::<_, String>(0), row.get::<_, i64>(1)), (format!("name {id}"), i64::from(id) * 2));
            lookups.push(started.elapsed());
        }
        turn += 1;
    }
    (lookups, inserts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_connections_are_served_beside_many_idle_ones() {
    let load = load();
    let directory = tempfile::tempdir().expect("a folder");
    let (server, client) = with_table(&directory).await;
    run(&client, "CREATE TABLE written (client int, turn int, PRIMARY KEY (client, turn))").await;
    let before = megabytes(server.pid());
    let mut idle = vec![];
    for _ in 0..load.idle {
        idle.push(server.connect().await.expect("an idle connection"));
    }
    let with_idle = megabytes(server.pid());
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = vec![];
    for number in 0..load.busy {
        let client = server.connect().await.expect("a busy connection");
        tasks.push(tokio::spawn(work(client, number, Arc::clone(&stop))));
    }
    tokio::time::sleep(load.time).await;
    stop.store(true, Ordering::Relaxed);
    let (mut lookups, mut inserts) = (vec![], vec![]);
    for task in tasks {
        let (looked_up, inserted) = task.await.expect("a client that was served rightly");
        lookups.extend(looked_up);
        inserts.extend(inserted);
    }
    let count = lookups.len() + inserts.len();
    let both = |times: &mut [Duration]| format!("p50 {:?}, p99 {:?}", percentile(times, 50), percentile(times, 99));
    println!(
        "{} idle connections take {} MB; {} busy ones get {:.0} statements a second; lookups {}; {} inserts {}; {} MB in the end",
        load.idle,
        with_idle.saturating_sub(before),
        load.busy,
        count as f64 / load.time.as_secs_f64(),
        both(&mut lookups),
        inserts.len(),
        both(&mut inserts),
        megabytes(server.pid()),
    );
    assert!(count > load.busy * 10, "{count} statements for {} clients", load.busy);
    let insert_p99 = percentile(&mut inserts, 99);
    assert!(insert_p99 <= Duration::from_millis(load.insert_ms_p99), "p99 of inserts is {insert_p99:?}");
    assert_eq!(value(&client, "SELECT count(*) FROM written").await.expect("a count"), inserts.len().to_string());
    for client in idle.iter().step_by(10) {
        assert_eq!(value(client, "SELECT n FROM t WHERE id = 7").await.expect("an answer"), "14");
    }
    let per_connection_kb = with_idle.saturating_sub(before) * 1024 / load.idle as u64;
    assert!(per_connection_kb < 512, "an idle connection takes {per_connection_kb} kB");
}

/// Sends lookups at a fixed pace, whether or not those before are answered in time; the time of each from when it was due.
async fn paced(client: Client, every: Duration, until: Instant) -> Vec<Duration> {
    let select = client.prepare("SELECT name FROM t WHERE id = $1").await.expect("a statement");
    let (mut due, mut times) = (Instant::now(), vec![]);
    while due < until {
        tokio::time::sleep_until(due).await;
        let id = (times.len() * 104_729 % 100_000 + 1) as i32;
        let row = client.query_one(&select, &[&id]).await.expect("a row");
        assert_eq!(row.get::<_, String>(0), format!("name {id}"));
        times.push(due.elapsed());
        due += every;
    }
    times
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lookups_are_fast_while_views_are_kept_up_to_date() {
    const CONNECTIONS: u32 = 32;
    let load = load();
    let directory = tempfile::tempdir().expect("a folder");
    let (server, client) = with_table(&directory).await;
    let sql = format!(
        "CREATE SOURCE s (id bigint, k bigint) WITH (connector = 'datagen', rate = {}, fields.id.kind = 'sequence',
             fields.k.kind = 'random', fields.k.min = 0, fields.k.max = 9999);
         CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS n, max(id) AS newest FROM s GROUP BY k;
         CREATE MATERIALIZED VIEW top AS SELECT k, n FROM counts ORDER BY n DESC, k LIMIT 10",
        load.rows_per_s
    );
    run(&client, &sql).await;
    let seen = "SELECT coalesce(sum(n), 0)::bigint FROM counts";
    let before: u64 = value(&client, seen).await.expect("a count").parse().expect("a number");
    let (started, until) = (Instant::now(), Instant::now() + load.time);
    let every = Duration::from_secs_f64(f64::from(CONNECTIONS) / load.lookups_per_s as f64);
    let mut tasks = vec![];
    for _ in 0..CONNECTIONS {
        let client = server.connect().await.expect("a connection");
        tasks.push(tokio::spawn(paced(client, every, until)));
    }
    let mut times = vec![];
    for task in tasks {
        times.extend(task.await.expect("a client that was served rightly"));
    }
    let after: u64 = value(&client, seen).await.expect("a count").parse().expect("a number");
    let took = started.elapsed().as_secs_f64();
    let (looked_up, kept) = (times.len() as f64 / took, (after - before) as f64 / took);
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    println!("{looked_up:.0} lookups a second, p50 {p50:?}, p99 {p99:?}, while views take {kept:.0} rows a second");
    assert!(p99 <= Duration::from_millis(load.lookup_ms_p99), "p99 {p99:?}");
    assert!(looked_up >= 0.9 * load.lookups_per_s as f64, "{looked_up:.0} lookups a second");
    assert!(kept >= 0.9 * load.rows_per_s as f64, "{kept:.0} rows a second");
}

/// The packet that begins a session.
fn startup() -> Vec<u8> {
    let body = b"user\0load\0database\0thalweg\0\0";
    let length = (8 + body.len()) as u32;
    [&length.to_be_bytes()[..], &196_608u32.to_be_bytes(), body].concat()
}

/// A query that is answered by rows without end, or nearly.
fn endless_query() -> Vec<u8> {
    let body = b"SELECT a.n, b.n FROM generate_series(1, 100000) AS a(n), generate_series(1, 100000) AS b(n)\0";
    [&b"Q"[..], &((4 + body.len()) as u32).to_be_bytes(), body].concat()
}

/// Numbers that look random and are the same each time.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Sends bytes that mean nothing, before or after a proper start, until the server has had enough of them.
async fn send_garbage(port: u16, seed: u64, sent: Arc<AtomicU64>) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    if seed.is_multiple_of(2) {
        // The server may close while it is written to: that is the point.
        let _ = stream.write_all(&startup()).await;
    }
    if stream.write_all(&noise(seed, 4096)).await.is_ok() {
        sent.fetch_add(1, Ordering::Relaxed);
    }
    let mut answer = vec![0; 4096];
    // It may also wait for the rest of what looks like a long message.
    let _ = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut answer)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d19_clients_that_never_read_never_send_or_send_garbage_harm_no_one() {
    let load = load();
    let directory = tempfile::tempdir().expect("a folder");
    let (server, client) = with_table(&directory).await;
    let before = megabytes(server.pid());
    let mut silent = vec![];
    for number in 0..load.busy {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).await.expect("a connection");
        // Some never send, some stop in the middle of a packet, some begin and stop, some never read.
        let bytes = match number % 4 {
            0 => vec![],
            1 => startup()[..6].to_vec(),
            2 => startup(),
            _ => [startup(), endless_query()].concat(),
        };
        stream.write_all(&bytes).await.expect("bytes that are taken");
        silent.push(stream);
    }
    let (until, sent) = (Instant::now() + load.time, Arc::new(AtomicU64::new(0)));
    let mut times = vec![];
    let mut seed = 1;
    while Instant::now() < until {
        let garbage: Vec<_> = (0..8).map(|n| tokio::spawn(send_garbage(server.port(), seed + n, Arc::clone(&sent)))).collect();
        seed += 8;
        for id in [1, 50_000, 100_000] {
            let started = Instant::now();
            let found = rows(&client, &format!("SELECT n FROM t WHERE id = {id}")).await.expect("a row");
            assert_eq!(found, [[(id * 2).to_string()]]);
            times.push(started.elapsed());
        }
        for task in garbage {
            task.await.expect("a task");
        }
    }
    let (p50, p99) = (percentile(&mut times, 50), percentile(&mut times, 99));
    let grown = megabytes(server.pid()).saturating_sub(before);
    println!(
        "{} pieces of garbage; a good client has p50 {p50:?}, p99 {p99:?}; memory grew by {grown} MB",
        sent.load(Ordering::Relaxed)
    );
    assert!(sent.load(Ordering::Relaxed) > 0, "no garbage was sent");
    assert!(p99 < Duration::from_secs(1), "p99 {p99:?}");
    // Each result that nobody reads has what is sent ahead, and what its query has made ahead.
    assert!(grown < 200 + 4 * load.busy as u64, "memory grew by {grown} MB");
    drop(silent);
    assert_eq!(value(&client, "SELECT count(*) FROM t").await.expect("an answer"), "100000");
}
