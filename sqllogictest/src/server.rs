//! One server of a test: started from the built program, on free ports, with a data directory that outlives it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};

/// How long a server may take from its start to its first statement, on a machine that does much else.
const START_MAX: Duration = Duration::from_secs(120);

/// How long a process may take from the end of its output to its own.
const END_MAX: Duration = Duration::from_secs(10);

/// How many of the last lines of its log are shown when it fails.
const LOG_LINES_MAX: usize = 60;

/// What a server prints when it takes connections; its port follows.
const READY: &str = "thalweg is ready";

/// The variable that names the point at which a server dies.
const CRASH_AT: &str = "THALWEG_CRASH_AT";

/// What can go wrong with a server under test.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// There is no program to start.
    #[error("there is no program at {0}; build it with `cargo build --release -p thalweg`, or set THALWEG_BIN")]
    NoProgram(PathBuf),
    /// It could not be started or reached.
    #[error("{what}: {reason}")]
    Io {
        /// What was being tried.
        what: &'static str,
        /// Why it failed.
        reason: String,
    },
    /// It died at a named point before it was ready.
    #[error("the server died at the point that was named")]
    Crashed,
    /// It ended, or did not get ready.
    #[error("the server did not get ready; its last lines:\n{0}")]
    NotReady(String),
}

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker threads.
    pub workers: usize,
    /// Further flags.
    pub flags: Vec<String>,
}

impl Options {
    /// So many workers, and checkpoints often enough that a test meets many.
    pub fn workers(workers: usize) -> Options {
        Options { workers, flags: vec!["--checkpoint-interval".into(), "200ms".into()] }
    }

    /// The same with one more flag and its value.
    #[must_use]
    pub fn with(mut self, flag: &str, value: &str) -> Options {
        self.flags.extend([flag.to_string(), value.to_string()]);
        self
    }
}

/// A running server. Dropping it kills it.
pub struct Server {
    options: Options,
    data: PathBuf,
    child: Child,
    port: u16,
    log: Arc<Mutex<VecDeque<String>>>,
    starts: usize,
}

/// The program under test: `THALWEG_BIN`, else what was built beside this test.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("THALWEG_BIN") {
        return path.into();
    }
    // A test runs from target/<profile>/deps, a program from target/<profile>.
    let here = std::env::current_exe().unwrap_or_default();
    let folder = here.ancestors().skip(1).find(|folder| !folder.ends_with("deps"));
    folder.unwrap_or(Path::new(".")).join("thalweg")
}

impl Server {
    /// A server over the data in `data`, ready for connections.
    ///
    /// # Errors
    /// If the program is not there, or does not get ready.
    pub fn start(data: &Path, options: Options) -> Result<Server, ServerError> {
        let (child, log, port) = launch(data, &options, None)?;
        Ok(Server { options, data: data.to_path_buf(), child, port, log, starts: 1 })
    }

    /// Kills the process at once, as a power cut would.
    pub fn kill(&mut self) {
        // It may have ended by itself; then there is nothing to kill, and `wait` tells.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// If it ends with anything but success.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        let pid = i32::try_from(self.child.id()).map_err(|e| io("stopping the server", e))?;
        // SAFETY: kill(2) with the id of a child that has not been waited for; no memory is involved.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let status = self.child.wait().map_err(|e| io("waiting for the server", e))?;
        if status.success() { Ok(()) } else { Err(ServerError::NotReady(format!("{status}\n{}", self.log()))) }
    }

    /// Starts it again over the same data, after [`Server::kill`] or [`Server::stop`].
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_again(&mut self) -> Result<(), ServerError> {
        (self.child, self.log, self.port) = launch(&self.data, &self.options, None)?;
        self.starts += 1;
        Ok(())
    }

    /// Starts it again so that it dies at a named point, passed for the n-th time if the name ends in `:n`. Returns false if it has
    /// done so before it was ready.
    ///
    /// # Errors
    /// As [`Server::start`], if it ended for another reason.
    pub fn start_again_to_crash(&mut self, at: &str) -> Result<bool, ServerError> {
        match launch(&self.data, &self.options, Some(at)) {
            Ok((child, log, port)) => {
                (self.child, self.log, self.port) = (child, log, port);
                self.starts += 1;
                Ok(true)
            }
            Err(ServerError::Crashed) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until it has died by itself as if it had been killed; false if it does not in time.
    ///
    /// # Errors
    /// If it ended in another way.
    pub fn wait_for_crash(&mut self, limit: Duration) -> Result<bool, ServerError> {
        let deadline = Instant::now() + limit;
        loop {
            match self.child.try_wait().map_err(|e| io("waiting for the server", e))? {
                Some(status) if status.signal() == Some(libc::SIGKILL) => return Ok(true),
                Some(status) => return Err(ServerError::NotReady(format!("{status}\n{}", self.log()))),
                None if Instant::now() >= deadline => return Ok(false),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// How many workers it has from its next start on.
    pub fn set_workers(&mut self, workers: usize) {
        self.options.workers = workers;
    }

    /// How often it has been started.
    pub fn starts(&self) -> usize {
        self.starts
    }

    /// Its port for Postgres clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The last lines that it printed.
    pub fn log(&self) -> String {
        self.log.lock().unwrap_or_else(|e| e.into_inner()).iter().cloned().collect::<Vec<_>>().join("\n")
    }

    /// A new connection.
    ///
    /// # Errors
    /// If the server does not take it.
    pub async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        connect(self.port).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the server's last lines:\n{}", self.log());
        }
    }
}

/// A connection to a server on this port.
///
/// # Errors
/// If the server does not take it.
pub async fn connect(port: u16) -> Result<Client, tokio_postgres::Error> {
    let text = format!("host=127.0.0.1 port={port} user=test dbname=thalweg");
    let (client, connection) = tokio_postgres::connect(&text, NoTls).await?;
    // It ends with the client; what it reports then is reported by the client's own calls too.
    tokio::spawn(connection);
    Ok(client)
}

fn io(what: &'static str, error: impl std::fmt::Display) -> ServerError {
    ServerError::Io { what, reason: error.to_string() }
}

type Launched = (Child, Arc<Mutex<VecDeque<String>>>, u16);

/// The points at which a server can be told to die: it lists them when it is given another.
///
/// # Errors
/// If the program can't be started.
pub fn crash_points() -> Result<Vec<String>, ServerError> {
    let output = Command::new(program()).arg("serve").env(CRASH_AT, "?").output().map_err(|e| io("starting the server", e))?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let names = text.trim_end().rsplit_once("Known are ").and_then(|(_, names)| names.strip_suffix('.'));
    let names = names.ok_or_else(|| ServerError::NotReady(text.clone()))?;
    Ok(names.split(", ").map(str::to_string).collect())
}

fn launch(data: &Path, options: &Options, crash_at: Option<&str>) -> Result<Launched, ServerError> {
    let program = program();
    if !program.exists() {
        return Err(ServerError::NoProgram(program));
    }
    let mut command = Command::new(program);
    command.args(["serve", "--pg-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(data).arg("--workers").arg(options.workers.to_string()).args(&options.flags);
    // Variables of the harness are no settings of the server, and the user's settings are none of the test's.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THALWEG_")) {
        command.env_remove(name);
    }
    command.envs(crash_at.map(|at| (CRASH_AT, at)));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| io("starting the server", e))?;
    let log = Arc::new(Mutex::new(VecDeque::new()));
    let ready = follow(child.stderr.take(), Arc::clone(&log));
    match ready.recv_timeout(START_MAX) {
        Ok(port) => Ok((child, log, port)),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            // Best effort: it failed already, and what is reported is why. Only its own end can have been at a point.
            let ended = end_of(&mut child);
            if crash_at.is_some() && ended.is_some_and(|status| status.signal() == Some(libc::SIGKILL)) {
                return Err(ServerError::Crashed);
            }
            let _ = child.kill();
            let _ = child.wait();
            let lines = log.lock().unwrap_or_else(|e| e.into_inner()).iter().cloned().collect::<Vec<_>>();
            Err(ServerError::NotReady(lines.join("\n")))
        }
    }
}

/// How a process ended that prints no more: the end of its output comes some moments before its own.
fn end_of(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + END_MAX;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
            Ok(ended) => return ended,
            Err(_) => return None,
        }
    }
}

/// Reads what a server prints until it ends, keeps the last of it, and gives the port when it is ready.
fn follow(stderr: Option<std::process::ChildStderr>, log: Arc<Mutex<VecDeque<String>>>) -> Receiver<u16> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in stderr.into_iter().flat_map(|pipe| BufReader::new(pipe).lines()).map_while(Result::ok) {
            if let Some(port) = ready_port(&line) {
                // The receiver is gone if it took too long; the log is kept all the same.
                let _ = sender.send(port);
            }
            let mut log = log.lock().unwrap_or_else(|e| e.into_inner());
            if log.len() == LOG_LINES_MAX {
                log.pop_front();
            }
            log.push_back(line);
        }
    });
    receiver
}

/// The port in the line with which a server says that it is ready.
fn ready_port(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once(READY)?;
    let mut words = rest.split_whitespace().skip_while(|word| *word != "-p").skip(1);
    words.next()?.trim_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}
