//! One file of statements against one fresh server.

use crate::database::Database;
use crate::server::{Options, Server};
use sqllogictest::{Runner, default_column_validator, default_normalizer, default_validator};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

/// How a file is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Results must be what the file says.
    Check,
    /// The file is written anew with the results that come.
    Rewrite,
}

/// Runs a file with so many workers.
///
/// In its text `$__TEST_DIR__` is a folder of the run's own, `$FIXTURES` the folder of input files, `$KAFKA` the
/// broker's address and `$TOPIC` a name that no other run has, once `control substitution on` has been given.
///
/// # Errors
/// What differed, with its place in the file, and the server's last lines.
pub async fn run(file: &Path, workers: usize, mode: Mode) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let server = Server::start(&directory.path().join("data"), Options::workers(workers)).map_err(|e| e.to_string())?;
    let server = Arc::new(Mutex::new(server));
    let made = Arc::clone(&server);
    let mut runner = Runner::new(move || {
        let server = Arc::clone(&made);
        async move { Ok(Database::new(server)) }
    });
    runner.set_var("FIXTURES".into(), root().join("fixtures").display().to_string());
    // Topics outlive a run, so each run has its own.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    runner.set_var("TOPIC".into(), format!("{now}-{workers}"));
    match std::env::var("THALWEG_TEST_KAFKA") {
        Ok(address) => runner.set_var("KAFKA".into(), address),
        Err(_) if needs_kafka(file) => {
            return Err("THALWEG_TEST_KAFKA is not set: run `make test`, or start a broker with tests/services/kafka.sh".into());
        }
        Err(_) => {}
    }
    let outcome = match mode {
        Mode::Check => runner.run_file_async(file).await.map_err(|e| e.to_string()),
        Mode::Rewrite => runner
            .update_test_file(file, " ", default_validator, default_normalizer, default_column_validator)
            .await
            .map_err(|e| e.to_string()),
    };
    let log = server.lock().await.log();
    outcome.map_err(|e| format!("{} with {workers} workers: {e}\nthe server's last lines:\n{log}", file.display()))
}

/// The folder in which the areas stand.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The files of an area, in the order of their names.
///
/// # Errors
/// If the folder can't be read.
pub fn files(area: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut files = vec![];
    for entry in std::fs::read_dir(root().join(area))? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "slt") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Files that talk to a broker are named for it.
fn needs_kafka(file: &Path) -> bool {
    file.file_stem().is_some_and(|name| name.to_string_lossy().contains("kafka"))
}
