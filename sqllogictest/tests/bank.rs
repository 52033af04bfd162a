//! S1: ten accounts and random transfers between them; the sum of all balances is 0 whenever anyone looks.
//!
//! `THALWEG_TEST_SEED` replays a run.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use thalweg_sqllogictest::server::{Options, Server, connect};
use thalweg_sqllogictest::wait::{rows, value};

const ACCOUNTS: i32 = 10;
const OBJECTS: &str = "
    CREATE TABLE transfers (id int PRIMARY KEY, source int, target int, amount bigint, ts timestamp);
    CREATE MATERIALIZED VIEW credits AS SELECT target AS account, sum(amount) AS credit FROM transfers GROUP BY target;
    CREATE MATERIALIZED VIEW debits AS SELECT source AS account, sum(amount) AS debit FROM transfers GROUP BY source;
    CREATE MATERIALIZED VIEW balances AS
        SELECT coalesce(c.account, d.account) AS account, coalesce(credit, 0) - coalesce(debit, 0) AS balance
        FROM credits AS c FULL JOIN debits AS d ON c.account = d.account;
    CREATE MATERIALIZED VIEW total AS SELECT coalesce(sum(balance), 0) AS total FROM balances";

/// Reads the sums again and again until told to stop; how often it did.
async fn watch(port: u16, stop: Arc<AtomicBool>, reads: Arc<AtomicUsize>) {
    let client = connect(port).await.expect("a connection");
    while !stop.load(Ordering::Relaxed) {
        let sql = "SELECT (SELECT total FROM total), (SELECT coalesce(sum(balance), 0) FROM balances),
                          (SELECT coalesce(sum(credit), 0) FROM credits) - (SELECT coalesce(sum(debit), 0) FROM debits)";
        let found = rows(&client, sql).await.expect("sums");
        let zero = |text: &String| text.parse::<f64>().is_ok_and(|number| number == 0.0);
        assert!(found.len() == 1 && found[0].iter().all(zero), "S1: a reader saw {found:?}");
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

/// Follows the balances by SUBSCRIBE until told to stop; after every moment that it is told of they add up to 0.
async fn follow(port: u16, stop: Arc<AtomicBool>, moments: Arc<AtomicUsize>) {
    let client = connect(port).await.expect("a connection");
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE TO balances").await.expect("a cursor");
    let mut sums: BTreeMap<String, i64> = BTreeMap::new();
    loop {
        // A fetch waits for a change, and none may come any more.
        let fetched = tokio::select! {
            fetched = rows(&client, "FETCH ALL c") => fetched.expect("changes"),
            () = stopped(&stop) => return,
        };
        // The columns are the moment, how often the row comes or goes, and the row.
        for row in fetched {
            let balance: f64 = row[row.len() - 1].parse().expect("a balance");
            let times: i64 = row[1].parse().expect("a weight");
            *sums.entry(row[0].clone()).or_default() += times * balance as i64;
        }
        // All changes of a moment come together, except that the last one may be cut off by the end of the fetch.
        let last = sums.pop_last();
        for (moment, sum) in std::mem::take(&mut sums) {
            assert_eq!(sum, 0, "S1: a subscriber saw {sum} at {moment}");
            moments.fetch_add(1, Ordering::Relaxed);
        }
        sums.extend(last);
    }
}

/// Returns once it is time to stop.
async fn stopped(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn transfer(port: u16, random: &mut StdRng, next: &mut i32, until: Instant) {
    let client = connect(port).await.expect("a connection");
    while Instant::now() < until {
        let mut values = vec![];
        for _ in 0..random.random_range(1..50) {
            let (source, target) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
            let (amount, second) = (random.random_range(1..1000), random.random_range(0..60));
            values.push(format!("({next}, {source}, {target}, {amount}, '2024-01-01 00:00:{second:02}')"));
            *next += 1;
        }
        client.batch_execute(&format!("INSERT INTO transfers VALUES {}", values.join(", "))).await.expect("an insert");
        let id = random.random_range(0..*next);
        let sql = match random.random_range(0..4) {
            0 => format!("DELETE FROM transfers WHERE id % 97 = {}", id % 97),
            1 => format!(
                "UPDATE transfers SET amount = amount + 1, target = (target + 1) % {ACCOUNTS} WHERE id % 89 = {}",
                id % 89
            ),
            _ => continue,
        };
        client.batch_execute(&sql).await.expect("a change");
    }
}

async fn check(workers: usize) {
    let seed = std::env::var("THALWEG_TEST_SEED")
        .map_or_else(|_| rand::random(), |text| text.parse().expect("THALWEG_TEST_SEED is a number"));
    println!("THALWEG_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(directory.path(), Options::workers(workers)).expect("a server");
    server.connect().await.expect("a connection").batch_execute(OBJECTS).await.expect("objects");
    let (reads, moments) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut next = 0;
    for life in 0..3 {
        let port = server.port();
        let stop = Arc::new(AtomicBool::new(false));
        let readers = [
            tokio::spawn(watch(port, Arc::clone(&stop), Arc::clone(&reads))),
            tokio::spawn(watch(port, Arc::clone(&stop), Arc::clone(&reads))),
            tokio::spawn(follow(port, Arc::clone(&stop), Arc::clone(&moments))),
        ];
        transfer(port, &mut random, &mut next, Instant::now() + Duration::from_secs(4)).await;
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.await.expect("a reader saw only sums of 0");
        }
        if life < 2 {
            server.kill();
            server.start_again().expect("it starts again");
        }
    }
    let client = server.connect().await.expect("a connection");
    println!("{next} transfers, {} reads, {} moments", reads.load(Ordering::Relaxed), moments.load(Ordering::Relaxed));
    assert!(reads.load(Ordering::Relaxed) > 0 && moments.load(Ordering::Relaxed) > 0, "nobody looked");
    let equal = "SELECT count(*) FROM (SELECT account, credit FROM credits EXCEPT SELECT target, sum(amount) FROM transfers GROUP BY target) AS d";
    assert_eq!(value(&client, equal).await.expect("a count"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_balances_add_up_with_one_worker() {
    check(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_balances_add_up_with_two_workers() {
    check(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s1_balances_add_up_with_four_workers() {
    check(4).await;
}
