//! What goes in beside the table: a file that grows and a topic that fills, each by a thread, at its own pace.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rdkafka::config::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Rows by their id: key and value.
pub type Rows = BTreeMap<i64, (i32, i64)>;

/// When the first line happened; each is a tenth of a second later than the one before.
const FIRST_US: i64 = 1_704_067_200_000_000;

/// Keys are from 0 to this.
pub const KEYS: i32 = 50;

/// A line in so many is followed by one that can't be read.
pub const BAD_EVERY: i64 = 50;

/// A thread that adds lines to a file.
pub struct FileInput {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Rows>>,
}

impl FileInput {
    /// Adds to this file until it is stopped.
    pub fn start(path: &Path, seed: u64) -> FileInput {
        let mut file = std::fs::File::create(path).expect("a file");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut random = StdRng::seed_from_u64(seed);
            let mut rows = Rows::new();
            while !stopped.load(Ordering::Relaxed) {
                let mut text = String::new();
                for _ in 0..random.random_range(1..20) {
                    let id = rows.len() as i64;
                    let (k, v) = (random.random_range(0..KEYS), random.random_range(-1000..1000));
                    let ms = (FIRST_US + id * 100_000) / 1000;
                    text.push_str(&format!("{{\"id\": {id}, \"k\": {k}, \"v\": {v}, \"ts\": {ms}}}\n"));
                    rows.insert(id, (k, v));
                    if id % BAD_EVERY == 0 {
                        text.push_str(&format!("line {id} is no JSON\n"));
                    }
                }
                // Lines are cut in two now and then: a reader must wait for the rest.
                let cut = random.random_range(0..=text.len());
                file.write_all(&text.as_bytes()[..cut]).expect("written");
                std::thread::sleep(Duration::from_millis(random.random_range(0..50)));
                file.write_all(&text.as_bytes()[cut..]).expect("written");
            }
            rows
        });
        FileInput { stop, thread: Some(thread) }
    }

    /// Ends it; all that it wrote.
    pub fn stop(&mut self) -> Rows {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it ran").join().expect("it wrote all")
    }
}

/// A task that sends records to a topic.
pub struct TopicInput {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Rows>>,
}

impl TopicInput {
    /// Sends to this topic until it is stopped.
    pub fn start(broker: &str, topic: &str, seed: u64) -> TopicInput {
        let producer: FutureProducer =
            ClientConfig::new().set("bootstrap.servers", broker).set("enable.idempotence", "true").create().expect("a producer");
        let topic = topic.to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let runtime = tokio::runtime::Handle::current();
        let thread = std::thread::spawn(move || {
            let mut random = StdRng::seed_from_u64(seed);
            let mut rows = Rows::new();
            while !stopped.load(Ordering::Relaxed) {
                let id = 1_000_000_000 + rows.len() as i64;
                let (k, v) = (random.random_range(0..KEYS), random.random_range(-1000..1000));
                let text = format!("{{\"id\": {id}, \"k\": {k}, \"v\": {v}}}");
                let key = k.to_string();
                let record = FutureRecord::to(&topic).payload(&text).key(&key);
                runtime.block_on(producer.send(record, Duration::from_secs(60))).expect("the broker took it");
                rows.insert(id, (k, v));
                std::thread::sleep(Duration::from_millis(random.random_range(0..10)));
            }
            rows
        });
        TopicInput { stop, thread: Some(thread) }
    }

    /// Ends it; all that the broker took.
    pub fn stop(&mut self) -> Rows {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("it ran").join().expect("it sent all")
    }
}
