//! Everything durable in a bucket, against an S3 server that the test starts: `make test` installs it and says where.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use bytes::Bytes;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use thalweg_catalog::{CatalogChange, Delta, Epoch, ObjectId, WorkerIndex};
use thalweg_storage::object::Put;
use thalweg_storage::{
    CatalogLog, CheckpointManifest, CheckpointStore, GenerationClaim, ObjectStore, S3Options, StorageError, TableLog,
};

const SERVER: &str = "THALWEG_MOTO_SERVER";

/// A server with one bucket, which ends with the test.
struct S3 {
    server: Child,
    address: SocketAddr,
}

impl S3 {
    fn start() -> S3 {
        let Ok(program) = std::env::var(SERVER) else {
            panic!("this test needs an S3 server: run `make test`, which installs moto and names its moto_server in {SERVER}")
        };
        let mut server = Command::new(&program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("could not start {program}: {e}"));
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            if let Some((_, address)) = line.split_once("Running on http://") {
                break address.trim().parse().unwrap();
            }
        };
        // It logs every request: unread, the pipe would fill up and stop it.
        std::thread::spawn(move || lines.for_each(drop));
        let s3 = S3 { server, address };
        s3.create_bucket();
        s3
    }

    fn create_bucket(&self) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "PUT /bucket HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", self.address)
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    fn options(&self) -> S3Options {
        S3Options {
            endpoint: Some(format!("http://{}", self.address)),
            allow_http: true,
            region: Some("us-east-1".to_string()),
            access_key_id: Some("key".to_string()),
            secret_access_key: Some("secret".to_string()),
        }
    }

    async fn store(&self, prefix: &str) -> ObjectStore {
        ObjectStore::open(&format!("s3://bucket/{prefix}"), &self.options()).await.unwrap()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

async fn claim(store: &ObjectStore) -> Arc<GenerationClaim> {
    Arc::new(GenerationClaim::claim(store).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_holds_everything_durable() {
    let s3 = S3::start();
    objects(&s3).await;
    racing_puts(&s3).await;
    catalog(&s3).await;
    tables(&s3).await;
    checkpoints(&s3).await;
    refusals(&s3).await;
}

async fn objects(s3: &S3) {
    let store = s3.store("objects/deep").await;
    assert_eq!(store.put_if_absent("a/1", "one".into()).await.unwrap(), Put::Created);
    assert_eq!(store.put_if_absent("a/1", "other".into()).await.unwrap(), Put::Taken);
    assert_eq!(store.put_if_absent("a/1", "one".into()).await.unwrap(), Put::Created, "the same put tried again");
    assert_eq!(store.get("a/1").await.unwrap(), Bytes::from("one"));
    // More than one page of a listing, and than one call's worth of deletions.
    let paths: Vec<_> = (0..1100).map(|n| format!("many/{n:04}")).collect();
    for chunk in paths.chunks(16) {
        let puts = chunk.iter().map(|path| store.put_if_absent(path, Bytes::from_static(b"x")));
        futures::future::try_join_all(puts).await.unwrap();
    }
    let listed: Vec<_> = store.list("many").await.unwrap().into_iter().map(|o| o.path).collect();
    assert_eq!(listed, paths);
    store.delete(paths).await.unwrap();
    assert!(store.list("many").await.unwrap().is_empty());
    store.delete(vec!["many/0000".to_string()]).await.unwrap();
    assert!(matches!(store.get("many/0000").await, Err(StorageError::Missing { path }) if path == "many/0000"));
}

async fn racing_puts(s3: &S3) {
    let store = s3.store("race").await;
    for round in 0..10 {
        let path = format!("r/{round}");
        let racers = (0..8).map(|racer| {
            let (store, path) = (store.clone(), path.clone());
            tokio::spawn(async move { store.put_if_absent(&path, format!("racer {racer}").into()).await.unwrap() })
        });
        let results = futures::future::try_join_all(racers).await.unwrap();
        assert_eq!(results.iter().filter(|put| **put == Put::Created).count(), 1, "D4: exactly one wins");
    }
}

async fn catalog(s3: &S3) {
    let store = s3.store("catalog").await;
    let set = |value: usize| CatalogChange::Setting { name: "x".to_string(), value: Some(value.to_string()) };
    let (mut log, mut catalog) = CatalogLog::open(claim(&store).await).await.unwrap();
    for value in 0..140 {
        catalog = log.commit(&catalog, vec![set(value)]).await.unwrap();
    }
    let (mut newer, again) = CatalogLog::open(claim(&store).await).await.unwrap();
    assert_eq!(again.settings(), catalog.settings());
    assert!(matches!(log.commit(&catalog, vec![set(0)]).await, Err(StorageError::Fenced { .. })));
    newer.commit(&again, vec![set(1)]).await.unwrap();
}

async fn tables(s3: &S3) {
    let store = s3.store("tables").await;
    let log = TableLog::open(claim(&store).await, 0).await.unwrap();
    let rows = |epoch: u64| {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![epoch as i64; 3]));
        let batch = RecordBatch::try_from_iter([("id", column)]).unwrap();
        vec![(ObjectId(16384), Delta::weighted(batch, Int64Array::from(vec![1, -1, 2])))]
    };
    let answers: Vec<_> = (1..=300).map(|epoch| log.append(Epoch(epoch), rows(epoch))).collect();
    futures::future::try_join_all(answers).await.unwrap();
    assert!(log.stats().groups < 100, "writes that wait share an object");
    let newer = TableLog::open(claim(&store).await, log.newest_segment()).await.unwrap();
    assert!(matches!(log.append(Epoch(301), rows(301)).await, Err(StorageError::Fenced { .. })));
    let mut replay = newer.replay(Epoch(100));
    for epoch in 101..=300 {
        let entry = replay.next().await.unwrap().unwrap();
        assert_eq!(entry.epoch, Epoch(epoch));
        assert_eq!(entry.writes[0].1.batch(), rows(epoch)[0].1.batch());
        assert_eq!(entry.writes[0].1.weight(2), 2);
    }
    assert!(replay.next().await.unwrap().is_none());
    for epoch in 400..500 {
        newer.append(Epoch(epoch), rows(epoch)).await.unwrap();
    }
    newer.truncate(Epoch(499)).await.unwrap();
    let again = TableLog::open(claim(&store).await, 0).await.unwrap();
    assert!(again.stats().segments < 5);
    assert_eq!(again.last_epoch(), Some(Epoch(499)));
}

fn database(step: usize, directory: &Path) {
    fs::write(directory.join(format!("{step}.sst")), format!("table {step}")).unwrap();
    fs::write(directory.join("CURRENT"), format!("{step}")).unwrap();
    if step == 0 {
        // Goes up in parts.
        fs::write(directory.join("large.sst"), vec![7; 20 << 20]).unwrap();
    }
}

async fn checkpoint(store: &CheckpointStore, epoch: u64, directory: &Path) -> Arc<CheckpointManifest> {
    let attempt = store.begin();
    let previous = store.newest();
    let files = store.upload_worker(&attempt, WorkerIndex(0), directory, previous.as_deref()).await.unwrap();
    let manifest = CheckpointManifest {
        epoch: Epoch(epoch),
        generation: attempt.number().generation(),
        number: attempt.number(),
        workers: vec![files],
        jobs: Vec::new(),
        created_ms: 0,
        catalog_version: 0,
        table_log_segment: 0,
    };
    store.commit(attempt, manifest).await.unwrap()
}

async fn checkpoints(s3: &S3) {
    let store = s3.store("checkpoints").await;
    let work = TempDir::new().unwrap();
    let live = work.path().join("live");
    fs::create_dir(&live).unwrap();
    let checkpoints = CheckpointStore::open(claim(&store).await).await.unwrap();
    for step in 0..6 {
        database(step, &live);
        checkpoint(&checkpoints, step as u64 + 1, &live).await;
        checkpoints.collect_garbage().await.unwrap();
    }
    assert_eq!(store.list("checkpoint/data").await.unwrap().len(), 7 + 3, "seven table files, three small ones");
    let restarted = CheckpointStore::open(claim(&store).await).await.unwrap();
    let newest = restarted.newest().unwrap();
    assert_eq!(newest.epoch, Epoch(6));
    let restored = work.path().join("restored");
    restarted.restore_worker(&newest, WorkerIndex(0), &restored).await.unwrap();
    for name in ["0.sst", "5.sst", "large.sst", "CURRENT"] {
        assert_eq!(fs::read(restored.join(name)).unwrap(), fs::read(live.join(name)).unwrap());
    }
    let attempt = checkpoints.begin();
    let stale = CheckpointManifest { number: attempt.number(), generation: attempt.number().generation(), ..(*newest).clone() };
    assert!(matches!(checkpoints.commit(attempt, stale).await, Err(StorageError::Fenced { .. })));
    let lost = newest.workers[0].files[0].path.clone();
    store.delete(vec![lost.clone()]).await.unwrap();
    let again = restarted.restore_worker(&newest, WorkerIndex(0), &work.path().join("again")).await;
    assert!(matches!(again, Err(StorageError::Missing { path }) if path == lost), "D6: what is missing is named");
}

async fn refusals(s3: &S3) {
    let missing = ObjectStore::open("s3://no-such-bucket/x", &s3.options()).await;
    assert!(missing.is_err(), "a bucket that is not there is told at the start");
}
