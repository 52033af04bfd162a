//! What README shows is typed as it stands there: into a shell, and into psql connected to the demo.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use thalweg_sqllogictest::server::{connect, program};
use thalweg_sqllogictest::wait::until;

const README: &str = include_str!("../../README.md");
const LIMIT: Duration = Duration::from_secs(60);

/// What comes before each of these lines is README's indentation of a block.
const INDENT: &str = "    ";

/// A statement or command, and the answer that is shown below it.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    typed: String,
    shown: Vec<String>,
}

/// All that stands behind this prompt in the blocks of a text. What is typed goes on where lines
/// are indented once more.
fn steps(text: &str, prompt: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = vec![];
    let mut in_block = false;
    for line in text.lines() {
        let Some(line) = line.strip_prefix(INDENT) else {
            in_block &= line.is_empty();
            continue;
        };
        match (line.strip_prefix(prompt), steps.last_mut()) {
            (Some(typed), _) => {
                steps.push(Step { typed: typed.to_string(), shown: vec![] });
                in_block = true;
            }
            (None, Some(step)) if in_block && step.shown.is_empty() && line.starts_with(INDENT) => {
                step.typed.push('\n');
                step.typed.push_str(line);
            }
            (None, Some(step)) if in_block => step.shown.push(line.to_string()),
            _ => {}
        }
    }
    steps
}

#[test]
fn what_is_typed_goes_on_where_lines_are_indented() {
    let text = "Do:\n\n    => SELECT a\n         FROM t;\n     a\n    => \\q\n\nor not\n\n    $ x\n";
    let step =
        |typed: &str, shown: &[&str]| Step { typed: typed.to_string(), shown: shown.iter().map(ToString::to_string).collect() };
    assert_eq!(steps(text, "=> "), [step("SELECT a\n     FROM t;", &[" a"]), step("\\q", &[])]);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The demo as `make run` starts it, in a folder of its own. Ends with the test.
struct Demo {
    script: Child,
    output: Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl Demo {
    fn start(folder: &Path) -> Demo {
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let (pg, http) = (free(), free());
        let mut command = Command::new(root().join("tests/run.sh"));
        command.arg(program()).args(["data", &pg.to_string(), &http.to_string()]).current_dir(folder);
        let mut script = without_settings(&mut command).stdout(Stdio::piped()).spawn().expect("tests/run.sh");
        let output = BufReader::new(script.stdout.take().expect("its output")).lines();
        Demo { script, output, port: pg.port() }
    }

    /// Waits for a line, whatever comes before it.
    fn says(&mut self, line: &str) {
        let line = line.replace("5460", &self.port.to_string());
        let found = self.output.by_ref().map_while(Result::ok).any(|said| said.trim() == line.trim());
        assert!(found, "make run does not say \"{line}\"");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let pid = i32::try_from(self.script.id()).expect("a process id");
        // SAFETY: kill(2) with the id of a child that has not been waited for; no memory is involved.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let _ = self.script.wait();
    }
}

/// The harness's own variables are no settings of the program.
fn without_settings(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("THALWEG_")) {
        command.env_remove(name);
    }
    command
}

/// psql, fed as a user types.
struct Psql {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Psql {
    fn start(port: u16) -> Psql {
        let mut child = Command::new("psql")
            .args(["-X", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", &port.to_string(), "-U", "thalweg", "thalweg"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("psql");
        let (input, output) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        Psql { child, input, output: BufReader::new(output).lines() }
    }

    /// What it prints for this.
    fn types(&mut self, text: &str) -> Vec<String> {
        writeln!(self.input, "{text}\n\\echo --done--").expect("psql reads on");
        let printed: Vec<String> = self.output.by_ref().map_while(Result::ok).take_while(|line| line != "--done--").collect();
        assert!(self.child.try_wait().expect("its state").is_none(), "psql ended at {text}: {printed:?}");
        printed
    }

    /// Sends this, and waits for a line that has these words.
    fn types_until(&mut self, text: &str, words: &str) {
        writeln!(self.input, "{text}").expect("psql reads on");
        assert!(self.output.by_ref().map_while(Result::ok).any(|line| line.contains(words)), "{text} never gives {words}");
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_five_minutes_are_as_readme_prints_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut demo = Demo::start(folder.path());
    let make = steps(README, "$ make run").remove(0);
    assert!(make.shown.iter().any(|line| line.contains("psql -h")), "README shows how to connect: {make:?}");
    for line in make.shown.iter().filter(|line| !line.is_empty()) {
        demo.says(line);
    }
    // One looks a while before one types on.
    let client = connect(demo.port).await.expect("a connection");
    until(&client, "SELECT count(*) FROM hot_auctions", "5", LIMIT).await;
    let session = steps(README, "thalweg=> ");
    assert!(session.len() >= 7, "README shows a session: {session:?}");
    let mut psql = Psql::start(demo.port);
    for step in session {
        if step.typed.starts_with("\\watch") {
            // It goes on until it is stopped; bids on what is watched come sooner or later.
            psql.types_until(&step.typed, "hot");
            break;
        }
        let printed = psql.types(&step.typed);
        match step.shown.as_slice() {
            [] => assert!(printed.last().is_some_and(|line| line.is_empty()), "{} gives {printed:?}", step.typed),
            shown => assert_eq!(printed, shown, "{}", step.typed),
        }
    }
}

#[test]
fn the_script_without_a_server_gives_what_readme_prints() {
    let run = steps(README, "$ thalweg run").remove(0);
    let mut command = Command::new("bash");
    command.arg("-c").arg(format!("{} run{}", program().display(), run.typed));
    let output = without_settings(&mut command).output().expect("bash");
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert_eq!(printed.lines().collect::<Vec<_>>(), run.shown);
}
