//! Who is let in: rules, passwords, certificates, limits; with psql, as it is used.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use thalweg_sqllogictest::server::{Options, Server};

/// How long a server may take until it goes by what its files now say.
const RELOAD_MAX: Duration = Duration::from_secs(20);

/// A server in a folder with its rules.
struct Guarded {
    folder: tempfile::TempDir,
    server: Server,
}

impl Guarded {
    /// Starts one whose bootstrap role has the password `top`, and that lets in by these rules then.
    fn start(rules: &str, tls: bool) -> Guarded {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("rules"), "host all all all trust\n").expect("written");
        let mut options = Options::workers(1).with("--rule-file", &file("rules").display().to_string());
        if tls {
            certificates(folder.path());
            for (flag, name) in
                [("--tls-certificate", "server.pem"), ("--tls-key", "server.key"), ("--tls-client-ca", "root.pem")]
            {
                options = options.with(flag, &file(name).display().to_string());
            }
        }
        let server = Server::start(&file("data"), options).expect("a server");
        let guarded = Guarded { folder, server };
        guarded.ok("user=thalweg", "ALTER ROLE thalweg PASSWORD 'top'");
        guarded.set_rules(rules);
        guarded.ok("user=thalweg", "SELECT pg_reload_conf()");
        guarded
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set_rules(&self, rules: &str) {
        std::fs::write(self.path("rules"), rules).expect("written");
    }

    fn psql(&self, connection: &str, password: &str, sql: &str) -> Output {
        let port = self.server.port();
        let at = format!("host=127.0.0.1 port={port} dbname=thalweg gssencmode=disable {connection}");
        let mut command = Command::new("psql");
        command.args(["-X", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql, &at]);
        command.env("PGPASSWORD", password).env("PGPASSFILE", "/dev/null").env("HOME", self.folder.path());
        command.output().expect("psql is installed")
    }

    /// What a statement answers.
    fn ok(&self, connection: &str, sql: &str) -> String {
        self.ok_with(connection, "top", sql)
    }

    fn ok_with(&self, connection: &str, password: &str, sql: &str) -> String {
        let output = self.psql(connection, password, sql);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{connection}: {sql}: {errors}\n{}", self.server.log());
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    }

    /// What a statement is refused with.
    fn refused(&self, connection: &str, password: &str, sql: &str) -> String {
        let output = self.psql(connection, password, sql);
        assert!(!output.status.success(), "{connection}: {sql} was not refused");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn openssl(folder: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.current_dir(folder).args(arguments.split(' ')).output().expect("openssl is installed");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// A root, and certificates of it for the server, for `ada` and for `eve`.
fn certificates(folder: &Path) {
    openssl(folder, &format!("req -x509 {KEY} -days 2 -subj /CN=root -keyout root.key -out root.pem"));
    std::fs::write(folder.join("server.ext"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").expect("written");
    std::fs::write(folder.join("client.ext"), "basicConstraints=CA:FALSE\n").expect("written");
    for (name, extensions) in [("server", "server.ext"), ("ada", "client.ext"), ("eve", "client.ext")] {
        issue(folder, name, extensions);
    }
}

fn issue(folder: &Path, name: &str, extensions: &str) {
    openssl(folder, &format!("req {KEY} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
    openssl(
        folder,
        &format!(
            "x509 -req -in {name}.csr -CA root.pem -CAkey root.key -CAcreateserial -days 2 -extfile {extensions} -out {name}.pem"
        ),
    );
}

#[test]
fn a_password_is_asked_for_and_is_not_kept() {
    let guarded = Guarded::start("host all all 127.0.0.1/32 scram-sha-256\n", false);
    assert!(guarded.refused("user=thalweg", "wrong", "SELECT 1").contains("password authentication failed for user \"thalweg\""));
    guarded.ok("user=thalweg", "CREATE ROLE ada LOGIN PASSWORD 'vérité'");
    assert_eq!(guarded.ok_with("user=ada", "vérité", "SELECT current_user"), "ada");
    // A user who does not exist is told the same as one with another password.
    for user in ["ada", "nobody"] {
        let text = guarded.refused(&format!("user={user}"), "verite", "SELECT 1");
        assert!(text.contains(&format!("password authentication failed for user \"{user}\"")), "{text}");
    }
    guarded.ok("user=thalweg", "CREATE ROLE late LOGIN PASSWORD 'x' VALID UNTIL '2001-01-01'");
    assert!(guarded.refused("user=late", "x", "SELECT 1").contains("password authentication failed"));
    assert!(
        guarded.refused("user=thalweg", "top", "ALTER ROLE ada PASSWORD 'md5aaaabbbbccccddddaaaabbbbccccdddd'").contains("md5")
    );
    // The catalog on disk holds neither the password nor what one could log in with.
    let mut found = false;
    for entry in walk(&guarded.path("data/store/catalog")) {
        let bytes = std::fs::read(entry).expect("readable");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("vérité") && !text.contains("\"top\""));
        found |= text.contains("SCRAM-SHA-256$4096:");
    }
    assert!(found, "no verifier is on disk");
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn roles_and_passwords_survive_a_kill() {
    let mut guarded = Guarded::start("host all all all scram-sha-256\n", false);
    guarded.ok("user=thalweg", "CREATE ROLE ada LOGIN PASSWORD 'a'; CREATE TABLE t (n int); GRANT SELECT ON t TO ada");
    guarded.server.kill();
    guarded.server.start_again().expect("started");
    assert_eq!(guarded.ok_with("user=ada", "a", "SELECT count(*) FROM t"), "0");
    assert!(guarded.refused("user=ada", "a", "INSERT INTO t VALUES (1)").contains("permission denied for table t"));
    assert!(guarded.refused("user=thalweg", "", "SELECT 1").contains("no password supplied"));
}

#[test]
fn rules_are_read_again_and_a_fault_in_them_changes_nothing() {
    let guarded = Guarded::start("host all ada all reject\nhost all all all trust\n", false);
    guarded.ok("user=thalweg", "CREATE ROLE ada LOGIN; CREATE ROLE group_only");
    assert!(guarded.refused("user=ada", "", "SELECT 1").contains("pg_hba.conf rejects connection for host \"127.0.0.1\""));
    assert!(guarded.refused("user=group_only", "", "SELECT 1").contains("is not permitted to log in"));
    assert!(guarded.refused("user=nobody", "", "SELECT 1").contains("role \"nobody\" does not exist"));
    guarded.set_rules("host all all all md5\n");
    assert_eq!(guarded.ok("user=thalweg", "SELECT pg_reload_conf()"), "f");
    assert!(guarded.refused("user=ada", "", "SELECT 1").contains("rejects"));
    guarded.set_rules("host all thalweg all trust\n");
    let pid = i32::try_from(guarded.server.pid()).expect("a process id");
    // SAFETY: kill(2) with the id of a child that runs; no memory is involved.
    unsafe { libc::kill(pid, libc::SIGHUP) };
    let deadline = Instant::now() + RELOAD_MAX;
    while !guarded.refused("user=ada", "", "SELECT 1").contains("no pg_hba.conf entry for host") {
        assert!(Instant::now() < deadline, "the rules were not read again: {}", guarded.server.log());
    }
    assert_eq!(guarded.ok("user=thalweg", "SELECT auth_method FROM pg_hba_file_rules"), "trust");
}

#[test]
fn connections_are_encrypted_and_logins_bound_to_them() {
    let guarded = Guarded::start("hostssl all all all scram-sha-256\n", true);
    let root = guarded.path("root.pem");
    let full = format!("user=thalweg sslmode=verify-full sslrootcert={}", root.display());
    assert_eq!(guarded.ok(&full, "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"), "t|TLSv1.3");
    assert_eq!(guarded.ok(&format!("{full} channel_binding=require"), "SELECT current_user"), "thalweg");
    assert_eq!(guarded.ok(&format!("{full} channel_binding=disable"), "SHOW ssl"), "on");
    assert!(guarded.ok("user=thalweg sslmode=require ssl_max_protocol_version=TLSv1.2", "SELECT 1") == "1");
    let plain = guarded.refused("user=thalweg sslmode=disable", "top", "SELECT 1");
    assert!(plain.contains("no pg_hba.conf entry for host") && plain.contains("no encryption"), "{plain}");
    assert!(guarded.refused(&full, "wrong", "SELECT 1").contains("password authentication failed"));
    // Another root does not vouch for the server.
    let other = guarded.path("ada.pem");
    let text = guarded.refused(&format!("user=thalweg sslmode=verify-full sslrootcert={}", other.display()), "top", "SELECT 1");
    assert!(text.contains("certificate verify failed"), "{text}");
}

#[test]
fn a_certificate_logs_in_whom_it_names() {
    let guarded = Guarded::start("hostssl all ada all cert\nhost all thalweg all trust\nhost all all all reject\n", true);
    let with = |user: &str, name: &str| {
        let (certificate, key) = (guarded.path(&format!("{name}.pem")), guarded.path(&format!("{name}.key")));
        format!("user={user} sslmode=require sslcert={} sslkey={}", certificate.display(), key.display())
    };
    // Until there are roles every name is trusted to be the first; a certificate proves one name only.
    assert!(guarded.refused(&with("ada", "ada"), "", "SELECT 1").contains("role \"ada\" does not exist"));
    guarded.ok("user=thalweg", "CREATE ROLE ada LOGIN");
    assert_eq!(guarded.ok_with(&with("ada", "ada"), "", "SELECT session_user"), "ada");
    let text = guarded.refused(&with("ada", "eve"), "", "SELECT 1");
    assert!(text.contains("certificate authentication failed for user \"ada\""), "{text}");
    assert!(guarded.refused("user=ada sslmode=require", "", "SELECT 1").contains("requires a valid client certificate"));
}

#[test]
fn a_new_certificate_is_used_without_a_restart() {
    let guarded = Guarded::start("hostssl all all all trust\n", true);
    let serial = || {
        let at = format!("127.0.0.1:{}", guarded.server.port());
        let shown = Command::new("openssl").args(["s_client", "-starttls", "postgres", "-connect", &at]).output();
        let text = String::from_utf8_lossy(&shown.expect("openssl is installed").stdout).into_owned();
        let start = text.find("-----BEGIN CERTIFICATE").unwrap_or_else(|| panic!("no certificate in {text}"));
        text[start..].lines().take_while(|line| !line.starts_with("-----END")).collect::<String>()
    };
    let before = serial();
    assert_eq!(before, serial());
    issue(guarded.folder.path(), "server", "server.ext");
    let deadline = Instant::now() + RELOAD_MAX;
    while serial() == before {
        assert!(Instant::now() < deadline, "the certificate was not read again: {}", guarded.server.log());
    }
}

#[tokio::test]
async fn a_role_has_no_more_connections_than_its_limit() {
    let guarded = Guarded::start("host all all all trust\n", false);
    guarded.ok("user=thalweg", "CREATE ROLE ada LOGIN CONNECTION LIMIT 1");
    let text = format!("host=127.0.0.1 port={} user=ada dbname=thalweg", guarded.server.port());
    let (first, connection) = tokio_postgres::connect(&text, tokio_postgres::NoTls).await.expect("the first is let in");
    let running = tokio::spawn(connection);
    let error = tokio_postgres::connect(&text, tokio_postgres::NoTls).await.err().expect("the second is not");
    assert_eq!(error.code().map(|code| code.code()), Some("53300"));
    drop(first);
    running.await.expect("no panic").expect("closed in good order");
    let deadline = Instant::now() + RELOAD_MAX;
    while tokio_postgres::connect(&text, tokio_postgres::NoTls).await.is_err() {
        assert!(Instant::now() < deadline, "the place was not given back");
    }
}

#[test]
fn logins_and_changes_of_the_catalog_are_kept_without_passwords() {
    let guarded = Guarded::start("host all all all scram-sha-256\n", false);
    guarded.ok("user=thalweg", "CREATE ROLE ada LOGIN PASSWORD 'hush'");
    guarded.refused("user=ada", "other", "SELECT 1");
    guarded.refused("user=ada", "hush", "CREATE TABLE t (n int)");
    let kept = guarded.ok(
        "user=thalweg",
        "SELECT a.kind, a.session_user, a.sqlstate, a.detail FROM thalweg.audit AS a WHERE a.kind <> 'logout' ORDER BY a.at, a.process_id",
    );
    for line in [
        "ddl|thalweg|00000|CREATE ROLE (its text holds a secret)",
        "login|ada|28P01|password authentication failed for user \"ada\"",
        "login|ada|00000|proved, in the clear, database thalweg",
        "ddl|ada|42501|CREATE TABLE t (n int)",
    ] {
        assert!(kept.lines().any(|known| known == line), "{line} is not in\n{kept}");
    }
    assert!(!kept.contains("hush"));
    assert!(guarded.refused("user=ada", "hush", "SELECT * FROM thalweg.audit").contains("permission denied"));
}
