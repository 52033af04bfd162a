//! S3, S17, S18, S20, S24, S25: random views over random tables are, after random changes, what their queries give as a batch.
//!
//! Each round has tables of all types, with NULLs and few different values, views over them and over each other, and inserts,
//! updates, deletes and transactions. After every few of these each view is compared with its query, which the same server
//! runs as a batch. In some rounds the server is killed in between. A difference is printed with a script that shows it.
//!
//! Rounds are the same each time, unless `THALWEG_TEST_ROUNDS` asks for so many other ones for each number of workers.
//! `THALWEG_TEST_SEED` replays a round.

mod expressions;
mod queries;
mod round;
mod script;
mod tables;
mod types;

use round::{Counts, run};
use thalweg_sqllogictest::server::{Options, Server};

/// Without `THALWEG_TEST_ROUNDS`.
const ROUNDS: u64 = 12;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

async fn check(workers: usize) {
    let directory = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(directory.path(), Options::workers(workers)).expect("a server");
    let replayed = number("THALWEG_TEST_SEED");
    let random = number("THALWEG_TEST_ROUNDS");
    let rounds = if replayed.is_some() { 1 } else { random.unwrap_or(ROUNDS) };
    let mut counts = Counts::default();
    for round in 0..rounds {
        let usual = 1000 * workers as u64 + round;
        let seed = replayed.unwrap_or_else(|| random.map_or(usual, |_| rand::random()));
        if let Err(fault) = run(&mut server, seed, &mut counts).await {
            panic!("THALWEG_TEST_SEED={seed} with {workers} workers: {fault}\n\nthe server's last lines:\n{}", server.log());
        }
    }
    println!("{rounds} rounds with {workers} workers: {counts:?}");
    assert!(counts.refused < counts.views, "most views were refused: {counts:?}");
    assert!(counts.failed < counts.compared / 4, "most queries failed: {counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_random_views_of_one_worker_equal_their_queries() {
    check(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_random_views_of_two_workers_equal_their_queries() {
    check(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_random_views_of_four_workers_equal_their_queries() {
    check(4).await;
}
