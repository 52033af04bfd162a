//! The store in a bucket: the disk is lost with each kill, and the bucket goes away for a while.

use crate::inputs::FileInput;
use crate::s3::{Outage, S3};
use crate::table::TableModel;
use crate::{check, checks, number, objects};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use thalweg_sqllogictest::server::{Options, Server};
use thalweg_sqllogictest::wait::value;

/// The bucket is away from the first second of a life on.
const BEFORE_OUTAGE: Duration = Duration::from_secs(1);
const OUTAGE: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn d1_d13_a_server_over_a_bucket_outlives_its_disk_and_waits_for_the_bucket() {
    let seed = number("THALWEG_TEST_SEED", rand::random());
    println!("THALWEG_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let s3 = S3::start().await;
    let directory = tempfile::tempdir().expect("a folder");
    let (data, file, out) = (directory.path().join("data"), directory.path().join("in.jsonl"), directory.path().join("out"));
    let mut file_input = FileInput::start(&file, random.random());
    let mut server = Server::start(&data, s3.as_store(Options::workers(2))).expect("a server");
    let mut client = server.connect().await.expect("a connection");
    client
        .batch_execute(&objects(&file.display().to_string(), &out.display().to_string(), &["from_file", "t"]))
        .await
        .expect("objects");

    let mut model = TableModel::new(random.random());
    for kill in 1..=number("THALWEG_TEST_BUCKET_KILLS", 6) {
        // The kill comes with the bucket there, then while it is away, then when it is back.
        let (outage, life) = match kill % 3 {
            1 => (None, random.random_range(20..1500)),
            2 => (Some(Outage::Refuses), random.random_range(1000..9000)),
            _ => (Some(Outage::Hangs), random.random_range(1000..9000)),
        };
        let life = Duration::from_millis(life);
        tokio::join!(model.change_until_dead(&client, &mut server, life), async {
            if let Some(outage) = outage {
                tokio::time::sleep(BEFORE_OUTAGE).await;
                s3.away(outage, OUTAGE).await;
            }
        });
        std::fs::remove_dir_all(&data).expect("the disk is lost");
        server.start_again().unwrap_or_else(|e| panic!("start {kill}: {e}"));
        client = server.connect().await.expect("a connection");
        check(&client, &mut model, &out).await;
        println!("kill {kill} after {life:?}, {outage:?}: {} rows in the table", model.len());
    }

    // Nobody is killed now: what waits for the bucket goes on, and nothing has failed.
    for outage in [Outage::Refuses, Outage::Hangs] {
        let insert = async {
            tokio::time::sleep(OUTAGE / 4).await;
            model.change_once(&client).await;
        };
        tokio::join!(s3.away(outage, OUTAGE), insert);
    }
    let lines = file_input.stop();
    println!("{} lines, {} rows", lines.len(), model.len());
    checks::inputs_are_whole(&client, &lines, "from_file").await;
    check(&client, &mut model, &out).await;
    checks::windows_equal_their_query(&client).await;
    checks::files_hold_every_row_once(&client, &out, &lines).await;
    let failed = "SELECT count(*) FROM thalweg.checkpoints WHERE state = 'failed'";
    assert_eq!(value(&client, failed).await.expect("a count"), "0", "D13: a checkpoint waits for the bucket");
}
