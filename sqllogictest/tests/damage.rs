//! D6: what is damaged on disk is found and named, and nothing is built on it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::{until, value};

const LIMIT: Duration = Duration::from_secs(60);

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Changes a byte in the middle of a file.
fn damage(path: &Path) {
    let file = File::options().read(true).write(true).open(path).expect("a file");
    let middle = file.metadata().expect("its size").len() / 2;
    let mut byte = [0];
    file.read_exact_at(&mut byte, middle).expect("a byte");
    file.write_all_at(&[byte[0] ^ 0x10], middle).expect("another byte");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d6_no_checkpoint_is_made_on_a_damaged_one() {
    let directory = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(directory.path(), Options::workers(1)).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = "CREATE TABLE t (a int PRIMARY KEY, b text);
               INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 20000) AS s(g)";
    client.batch_execute(sql).await.expect("a table");
    let durable = "SELECT count(*) > 0 FROM thalweg.checkpoints WHERE state = 'durable'
                   AND size_bytes > 500000";
    until(&client, durable, "t", LIMIT).await;
    server.kill();
    let tables = files(directory.path()).into_iter().filter(|path| {
        let in_store = path.components().any(|part| part.as_os_str() == "checkpoint");
        in_store && path.extension().is_some_and(|extension| extension == "sst")
    });
    let largest = tables.max_by_key(|path| path.metadata().expect("its size").len()).expect("a file of the checkpoint");
    damage(&largest);

    server.start_again().expect("a start");
    let client = server.connect().await.expect("a connection");
    // The check runs beside: a checkpoint that ends before it does is no harm, as the one before is kept.
    let failed = "SELECT count(*) > 0 FROM thalweg.checkpoints WHERE state = 'failed'";
    let mut key = -1;
    while value(&client, failed).await.expect("a flag") != "t" {
        client.batch_execute(&format!("INSERT INTO t VALUES ({key}, '')")).await.expect("an insert");
        key -= 1;
    }
    let reason = value(&client, "SELECT max(reason) FROM thalweg.checkpoints WHERE state = 'failed'").await.expect("a reason");
    let name = largest.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(reason.contains("started from is damaged") && reason.contains(&name), "{reason} does not name {name}");
}
