//! D13: a full disk loses nothing that was acknowledged, and when there is room again all goes on by itself.
//!
//! Mounts a small file system for the data directory, which takes the right to mount: without it there is nothing to test.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::{until, value};
use tokio_postgres::Client;

const LIMIT: Duration = Duration::from_secs(60);

/// A file system of its own, of 48 MB, as long as this lives.
struct Disk {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Disk {
    /// None if this process may not mount.
    fn mount() -> Option<Disk> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_path_buf();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"]).arg(&path).status().ok()?;
        mounted.success().then_some(Disk { _folder: folder, path })
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Leaves no room.
    fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.filler()).expect("a file");
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Gives the room back.
    fn free(&self) {
        fs::remove_file(self.filler()).expect("the filler is there");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.path).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("could not unmount {}", self.path.display());
        }
    }
}

fn data(disk: &Disk) -> PathBuf {
    Path::new(&disk.path).join("data")
}

/// Adds a hundred rows from `first` on; whether it was done.
async fn insert(client: &Client, first: i64) -> bool {
    let sql = format!("INSERT INTO t SELECT i, i % 7, repeat('x', 1000) FROM generate_series({first}, {}) AS g(i)", first + 99);
    match client.batch_execute(&sql).await {
        Ok(()) => true,
        Err(error) => {
            let code = error.code().unwrap_or_else(|| panic!("{error:?}")).code();
            assert_eq!(code, "53100", "{error:?}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d13_a_full_disk_loses_nothing_and_all_goes_on_when_there_is_room() {
    let Some(disk) = Disk::mount() else {
        println!("not run: this process may not mount a file system");
        return;
    };
    let options = Options::workers(2).with("--job-memory", "1MB").with("--database-memory", "2MB");
    let mut server = Server::start(&data(&disk), options).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = "CREATE TABLE t (id bigint PRIMARY KEY, k bigint, text text);
               CREATE MATERIALIZED VIEW n AS SELECT k, count(*) AS n FROM t GROUP BY k";
    client.batch_execute(sql).await.expect("objects");
    let mut rows = 0;
    let (mut refused, mut tried) = (0, 0);
    while refused < 20 {
        disk.fill();
        if insert(&client, tried * 100).await {
            rows += 100
        } else {
            refused += 1
        }
        tried += 1;
        assert!(tried < 1000, "a full disk takes everything");
    }
    println!("{rows} rows were taken, {refused} statements refused");
    let failed = client.batch_execute("CREATE VIEW refused AS SELECT k FROM t").await;
    disk.free();
    let deadline = Instant::now() + LIMIT;
    while !insert(&client, tried * 100).await {
        tried += 1;
        assert!(Instant::now() < deadline, "there is room, and a write is refused");
    }
    rows += 100;
    until(&client, "SELECT sum(n) FROM n", &rows.to_string(), LIMIT).await;
    if failed.is_err() {
        client.batch_execute("CREATE VIEW refused AS SELECT k FROM t").await.expect("the catalog can be changed again");
    }
    let newest = "SELECT coalesce(max(number), 0) FROM thalweg.checkpoints WHERE state = 'durable'";
    let before = value(&client, newest).await.expect("a number");
    client.batch_execute("DELETE FROM t WHERE id = -1; INSERT INTO t VALUES (-1, 0, '')").await.expect("an insert");
    rows += 1;
    until(&client, &format!("SELECT ({newest}) > {before}"), "t", LIMIT).await;
    server.kill();
    server.start_again().expect("a start");
    let client = server.connect().await.expect("a connection");
    until(&client, "SELECT count(*) FROM t", &rows.to_string(), LIMIT).await;
    until(&client, "SELECT sum(n) FROM n", &rows.to_string(), LIMIT).await;
}
