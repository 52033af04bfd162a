//! D2, D13: the broker is killed and comes back.

use crate::support::{Declared, Reading, declare, dump, ids, new_topic, produce, strings};
use crate::writing::{changes, text, writer};
use rdkafka::message::Message;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use thalweg_catalog::Epoch;
use thalweg_catalog::object::SinkMode;

/// A broker of this test alone.
struct OwnBroker {
    directory: tempfile::TempDir,
    address: String,
}

impl OwnBroker {
    fn start() -> OwnBroker {
        let directory = tempfile::tempdir().unwrap();
        let address = script("start", directory.path());
        OwnBroker { directory, address }
    }

    fn kill(&self) {
        script("kill", self.directory.path());
    }

    fn restart(&self) {
        assert_eq!(script("start", self.directory.path()), self.address);
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        let _ = run("kill", self.directory.path());
    }
}

fn run(action: &str, directory: &Path) -> std::io::Result<Output> {
    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "tests", "services", "kafka.sh"].iter().collect();
    Command::new("bash").arg(script).arg(action).arg(directory).output()
}

fn script(action: &str, directory: &Path) -> String {
    let output = run(action, directory).expect("bash runs");
    assert!(output.status.success(), "kafka.sh {action}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Reads until there are so many rows. When the reader fails, a new one goes on from its last position, as the engine does.
fn read_on(
    declared: &Declared,
    mut reading: Option<Reading>,
    rows: &mut Vec<String>,
    position: &mut String,
    count: usize,
) -> Option<Reading> {
    let deadline = Instant::now() + Duration::from_secs(120);
    while rows.len() < count {
        assert!(Instant::now() < deadline, "only {} of {count} rows came", rows.len());
        let Some(current) = &mut reading else {
            match declared.read(&[("0", Some(position))]) {
                Ok(new) => reading = Some(new),
                Err(error) => assert!(error.retry, "{error}"),
            }
            continue;
        };
        match current.step(Duration::from_millis(100)) {
            Ok(_) => {
                rows.append(&mut current.rows);
                if let Some(last) = current.positions.get("0") {
                    *position = last.clone();
                }
            }
            Err(error) => {
                assert!(error.retry, "{error}");
                reading = None;
            }
        }
    }
    reading
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_broker_killed_while_it_is_read_loses_and_doubles_nothing() {
    let broker = OwnBroker::start();
    let topic = new_topic(&broker.address, 1).await;
    produce(&broker.address, &topic, 0, ids(0..1_000)).await;
    let declared = declare(&broker.address, &topic, &[]);
    let (mut rows, mut position) = (vec![], "0".to_string());
    let mut reading = read_on(&declared, None, &mut rows, &mut position, 1_000);
    for round in 1..3 {
        broker.kill();
        // The reader notices, and says so in bounded time.
        let noticed = Instant::now();
        if let Some(current) = &mut reading {
            let error = loop {
                match current.step(Duration::from_millis(100)) {
                    Ok(_) => assert!(noticed.elapsed() < Duration::from_secs(30), "an outage went unnoticed"),
                    Err(error) => break error,
                }
            };
            assert!(error.retry && error.message.contains(&broker.address), "{error}");
        }
        broker.restart();
        produce(&broker.address, &topic, 0, ids(round * 1_000..(round + 1) * 1_000)).await;
        reading = read_on(&declared, None, &mut rows, &mut position, (round as usize + 1) * 1_000);
    }
    assert_eq!(rows, strings(0..3_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_a_broker_killed_during_delivery_gets_every_row_in_order_in_the_end() {
    let broker = OwnBroker::start();
    let topic = new_topic(&broker.address, 1).await;
    let options = [("properties.message.timeout.ms", "3000")];
    let mut writer = writer(&broker.address, &topic, &options, SinkMode::Upsert, &[0]).await.unwrap();
    writer.deliver(Epoch(0), vec![changes(0, &[(0, Some("first"), 1)])]).await.unwrap();
    broker.kill();
    let rows: Vec<Vec<(i64, Option<&str>, i64)>> =
        ["a", "b", "c"].iter().map(|version| (0..200).map(|key| (key, Some(*version), 1)).collect()).collect();
    let batches: Vec<_> = rows.iter().zip(1..).map(|(rows, epoch)| changes(epoch, rows)).collect();
    let started = Instant::now();
    let error = writer.deliver(Epoch(3), batches.clone()).await.unwrap_err();
    assert!(error.retry && error.message.contains(&broker.address), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20), "it took {:?}", started.elapsed());

    broker.restart();
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = writer.deliver(Epoch(3), batches.clone()).await {
        assert!(error.retry && Instant::now() < deadline, "{error}");
    }
    let records = &dump(&broker.address, &topic)[&0];
    for key in 0..200 {
        let values: Vec<String> = records
            .iter()
            .filter(|record| text(record.key()) == format!("{{\"id\":{key}}}"))
            .map(|record| text(record.payload()))
            .collect();
        let version = |name: &str| format!("{{\"id\":{key},\"name\":\"{name}\"}}");
        // Whatever an earlier try has left, the last one is there as a whole.
        assert!(values.ends_with(&["a", "b", "c"].map(version)), "{values:?}");
    }
}
