//! `thalweg run`: statements in one process, seen from outside: what it prints, when it ends, and with which code.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;
use thalweg_sqllogictest::server::program;

/// A command without the settings from around the test.
fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("THALWEG_")) {
        command.env_remove(name);
    }
    command
}

/// The command with a data directory of its own.
fn run(data: &TempDir) -> Command {
    let mut command = command(program());
    command.args(["run", "--workers", "2", "--data-dir"]).arg(data.path().join("data"));
    command
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory can be made")
}

fn output(command: &mut Command) -> (String, String, Option<i32>) {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    (String::from_utf8(stdout).expect("text"), String::from_utf8(stderr).expect("text"), status.code())
}

/// What these statements print; they must succeed.
fn printed(format: &str, sql: &str) -> String {
    let (stdout, stderr, code) = output(run(&directory()).args(["--format", format, "-e", sql]));
    assert_eq!(code, Some(0), "{stderr}");
    stdout
}

/// All lines of the files in a directory, sorted.
fn lines_of(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("the sink's directory is there");
    let text = |file: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(file.expect("an entry").path());
    let mut lines: Vec<String> =
        files.flat_map(|file| text(file).expect("text").lines().map(String::from).collect::<Vec<_>>()).collect();
    lines.sort();
    lines
}

const TABLE: &str = "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(5,2));
    INSERT INTO t VALUES (1, 'x,\"y', 1.5), (2, NULL, NULL);
    SELECT * FROM t ORDER BY a";

#[test]
fn a_result_is_printed_as_a_table_as_csv_or_as_json() {
    assert_eq!(printed("table", TABLE), " a | b    | c\n---+------+------\n 1 | x,\"y | 1.50\n 2 |      |\n(2 rows)\n");
    assert_eq!(printed("csv", TABLE), "a,b,c\n1,\"x,\"\"y\",1.50\n2,,\n");
    assert_eq!(printed("json", TABLE), "{\"a\":1,\"b\":\"x,\\\"y\",\"c\":1.50}\n{\"a\":2,\"b\":null,\"c\":null}\n");
}

#[test]
fn values_are_written_as_clients_get_them() {
    let sql = "SELECT true AS a, '' AS b, NULL AS c, 1e20::float8 AS d, ARRAY[1, NULL] AS e, '2020-01-02'::timestamp AS f, '\\x01'::bytea AS g";
    assert_eq!(printed("csv", sql), "a,b,c,d,e,f,g\nt,\"\",,1e+20,\"{1,NULL}\",2020-01-02 00:00:00,\\x01\n");
}

#[test]
fn a_query_over_what_ends_waits_for_all_of_it_and_sees_it_through_views() {
    let sql = "CREATE SOURCE bid WITH (connector = 'nexmark', table = 'bid', events = 50000);
        CREATE MATERIALIZED VIEW by_channel AS SELECT channel, count(*) AS n FROM bid GROUP BY channel;
        CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS n FROM by_channel;
        SELECT n FROM total;
        SELECT count(*) AS n FROM bid";
    assert_eq!(printed("csv", sql), "n\n46000\nn\n46000\n");
}

#[test]
fn the_first_error_ends_the_run_and_says_where_it_is() {
    let data = directory();
    let file = data.path().join("script.sql");
    std::fs::write(&file, "SELECT 1;\n\nSELECT\n  nosuch;\nSELECT 2;\n").expect("a file can be written");
    let (stdout, stderr, code) = output(run(&data).arg(&file));
    assert_eq!(code, Some(1));
    assert!(
        stdout.contains("(1 row)") && !stdout.contains('2'),
        "what stands before it has run, what stands after has not: {stdout}"
    );
    assert!(stderr.contains("nosuch") && stderr.contains("script.sql:4:3") && stderr.contains("42703"), "{stderr}");
}

#[test]
fn a_slip_anywhere_in_the_script_is_told_before_anything_runs() {
    let (stdout, stderr, code) = output(run(&directory()).args(["-e", "SELECT 1; SELEC 2"]));
    assert_eq!((stdout.as_str(), code), ("", Some(1)));
    assert!(stderr.contains("SELEC") && stderr.contains("1:11") && stderr.contains("42601"), "{stderr}");
}

#[test]
fn a_job_that_fails_fails_the_run() {
    let sql = "CREATE SOURCE s (a bigint) WITH (connector = 'file', path = '/nowhere/at/all.json') FORMAT PLAIN ENCODE JSON;
        CREATE SINK k FROM s WITH (connector = 'blackhole', type = 'append-only')";
    let (_, stderr, code) = output(run(&directory()).args(["-e", sql]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("/nowhere/at/all.json"), "{stderr}");
}

#[test]
fn d12_the_run_ends_when_sinks_have_everything_that_is_theirs() {
    let data = directory();
    let out = data.path().join("out");
    let sql = format!(
        "CREATE SOURCE bid (auction bigint, price bigint, \"dateTime\" timestamp, WATERMARK FOR \"dateTime\" AS \"dateTime\" - INTERVAL '4 seconds')
             WITH (connector = 'nexmark', table = 'bid', events = 50000);
         CREATE SINK windows AS
             SELECT window_start, count(*) AS n FROM TUMBLE(bid, \"dateTime\", INTERVAL '1 second') GROUP BY window_start, window_end
             EMIT ON WINDOW CLOSE WITH (connector = 'file', path = '{0}', type = 'append-only') FORMAT PLAIN ENCODE JSON;
         SELECT window_start, count(*) AS n FROM TUMBLE(bid, \"dateTime\", INTERVAL '1 second') GROUP BY window_start, window_end",
        out.display()
    );
    let (stdout, stderr, code) = output(run(&data).args(["--format", "json", "-e", &sql]));
    assert_eq!(code, Some(0), "{stderr}");
    let mut expected: Vec<String> = stdout.lines().map(String::from).collect();
    expected.sort();
    assert!(expected.len() > 3);
    assert_eq!(lines_of(&out), expected, "the last windows too");
}

#[test]
fn a_query_over_what_never_ends_prints_changes_until_it_is_interrupted() {
    for (format, first) in [("csv", "1,1"), ("json", "{\"diff\":1,\"n\":1}"), ("table", "1 | 1")] {
        let sql =
            "CREATE SOURCE s (n bigint) WITH (connector = 'datagen', rate = 50, fields.n.kind = 'sequence', fields.n.start = 1);
            SELECT n FROM s";
        let mut command = run(&directory());
        command.args(["--format", format, "-e", sql]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map(|line| line.expect("text"));
        assert!(lines.any(|line| line == first), "{format}: the first row comes while the source goes on");
        assert!(lines.nth(20).is_some(), "{format}: and others after it");
        let pid = i32::try_from(child.id()).expect("a process id");
        // SAFETY: kill(2) with the id of a child that has not been waited for; no memory is involved.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
        lines.for_each(drop);
        let mut stderr = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{format}: it ends as it should: {stderr}");
    }
}

#[test]
fn a_run_that_is_interrupted_keeps_what_has_come_and_goes_on_from_there() {
    let data = directory();
    let create = "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2)";
    let (_, stderr, code) = output(run(&data).args(["-e", create]));
    assert_eq!(code, Some(0), "{stderr}");
    let (stdout, stderr, code) =
        output(run(&data).args(["--format", "csv", "-e", "INSERT INTO t VALUES (3); SELECT sum(a) AS s FROM t"]));
    assert_eq!((stdout.as_str(), code), ("s\n6\n", Some(0)), "{stderr}");
}

#[test]
fn progress_is_shown_on_a_terminal_and_nowhere_else() {
    let sql = "CREATE SOURCE bid WITH (connector = 'nexmark', table = 'bid', events = 2000000);
        CREATE SINK k AS SELECT channel, count(*) FROM bid GROUP BY channel WITH (connector = 'blackhole', type = 'upsert', primary_key = 'channel')";
    let (_, stderr, code) = output(run(&directory()).args(["-e", sql]));
    assert_eq!((stderr.as_str(), code), ("", Some(0)));
    let data = directory();
    // `script` gives the program a terminal.
    let file = data.path().join("script.sql");
    std::fs::write(&file, sql).expect("a file can be written");
    let line = format!("{} run --data-dir {} {}", program().display(), data.path().join("data").display(), file.display());
    let (shown, stderr, code) = output(command("script").args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(shown.contains("rows"), "{shown:?}");
}

#[test]
fn d21_flags_file_and_environment_are_one_list_and_what_is_unknown_is_refused() {
    let data = directory();
    let file = data.path().join("thalweg.toml");
    let workers = "SELECT value FROM thalweg.settings WHERE name = 'checkpoint_interval'";
    std::fs::write(&file, "checkpoint_interval = \"700ms\"\n").expect("a file can be written");
    let with_file =
        |command: &mut Command| output(command.args(["--format", "csv", "--config"]).arg(&file).args(["-e", workers]));
    assert_eq!(with_file(&mut run(&data)).0, "value\n700ms\n");
    assert_eq!(with_file(run(&data).env("THALWEG_CHECKPOINT_INTERVAL", "800ms")).0, "value\n800ms\n");
    let flag = ["--checkpoint-interval", "900ms"];
    assert_eq!(with_file(run(&data).env("THALWEG_CHECKPOINT_INTERVAL", "800ms").args(flag)).0, "value\n900ms\n");
    std::fs::write(&file, "checkpoint_intervall = \"700ms\"\n").expect("a file can be written");
    let refused = [
        with_file(&mut run(&data)),
        output(run(&data).env("THALWEG_CHECKPOINT_INTERVALL", "1s").args(["-e", workers])),
        output(run(&data).args(["--checkpoint-intervall", "1s", "-e", workers])),
    ];
    for (stdout, stderr, code) in refused {
        assert!(stdout.is_empty() && code != Some(0));
        assert!(stderr.to_lowercase().replace('-', "_").contains("checkpoint_intervall"), "{stderr}");
        assert!(
            stderr.contains("checkpoint_interval\"") || stderr.contains("'--checkpoint-interval'"),
            "the nearest known one is named: {stderr}"
        );
    }
}

#[test]
fn every_command_explains_itself() {
    for arguments in [&["--help"][..], &["serve", "--help"], &["run", "--help"]] {
        let (stdout, _, code) = output(command(program()).args(arguments));
        assert_eq!(code, Some(0));
        assert!(stdout.contains("Usage: "), "{stdout}");
    }
}
