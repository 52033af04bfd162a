//! Writes in a process of its own that is killed in the middle of it, over and over, on one directory.

use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const DIRECTORY: &str = "THALWEG_TEST_TABLE_LOG_DIRECTORY";
const CHILD: &str = "table_log::tests::crash::child_writes_until_it_is_killed";

/// Not a test by itself: without the variable that the test below sets, there is nothing to do.
#[test]
fn child_writes_until_it_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let store = ObjectStore::local(Path::new(&directory)).unwrap();
        let claim = Arc::new(GenerationClaim::claim(&store).await.unwrap());
        let log = TableLog::open_with(claim, 0, Files { segment_bytes: 50_000, ..Files::default() }).await.unwrap();
        let mut epoch = log.last_epoch().map_or(0, |e| e.0);
        loop {
            let answers: Vec<_> = (0..7)
                .map(|_| {
                    epoch += 1;
                    let answer = log.append(Epoch(epoch), vec![(TABLE, inserts(&[epoch as i64]))]);
                    async move { answer.await.map(|()| epoch) }
                })
                .collect();
            for epoch in futures::future::try_join_all(answers).await.unwrap() {
                println!("acknowledged {epoch}");
            }
        }
    });
}

#[tokio::test]
async fn d1_every_acknowledged_write_survives_kill_9() {
    let directory = TempDir::new().unwrap();
    let store = ObjectStore::local(directory.path()).unwrap();
    let mut last = 0;
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged = Vec::new();
        // A different moment each round: the child goes on while its lines are on the way here.
        for line in lines {
            if let Some((_, epoch)) = line.unwrap().split_once("acknowledged ") {
                acknowledged.push(epoch.parse::<u64>().unwrap());
                if acknowledged.len() == 3 + round * 37 {
                    child.kill().unwrap();
                }
            }
        }
        child.wait().unwrap();
        // The lock went with the process.
        let claim = Arc::new(GenerationClaim::claim(&store).await.unwrap());
        let log = TableLog::open(claim, 0).await.unwrap();
        let found = replayed(&log, last).await;
        let first = acknowledged[0];
        assert_eq!(first, last + 1);
        let epochs: Vec<_> = found.iter().map(|entry| entry.epoch.0).collect();
        assert!(epochs.starts_with(&acknowledged), "round {round}: lost a write");
        assert!(epochs.iter().copied().eq(first..first + epochs.len() as u64));
        for entry in &found {
            assert_same(&entry.writes[0].1, &inserts(&[entry.epoch.0 as i64]));
        }
        last = log.last_epoch().unwrap().0;
    }
    assert!(fs::read_dir(directory.path().join(SEGMENTS)).unwrap().count() > 8);
}
