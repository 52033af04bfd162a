//! Settings of the process: from flags, then the environment, then a TOML file, then defaults. One list serves all four, and
//! an unknown name is refused wherever it stands.

use crate::access::tls::TlsFiles;
use clap::Args;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_catalog::crash;
use thalweg_catalog::options::{parse_bytes, parse_duration_ms};
use thalweg_catalog::suggest;
use thalweg_storage::S3Options;

/// What every environment variable of ours starts with.
const ENVIRONMENT: &str = "THALWEG_";

/// Environment variables that are no settings: harnesses and tests use them.
const NOT_SETTINGS: [&str; 4] = ["THALWEG_TEST_", "THALWEG_SERVICES", "THALWEG_MOTO_SERVER", crash::VARIABLE];

/// The settings as they can be given. What is not given has a default: see [`Settings`].
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub struct Given {
    /// Directory for everything: the store (unless --store says otherwise) and the workers' state
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Where durable data goes: a directory, or s3://bucket/prefix
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Address for Postgres clients [default: 127.0.0.1:5460]
    #[arg(long, value_name = "ADDRESS")]
    pub pg_listen: Option<SocketAddr>,
    /// Address for /healthz and /metrics [default: 127.0.0.1:5461]
    #[arg(long, value_name = "ADDRESS")]
    pub http_listen: Option<SocketAddr>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Memory for the state of one job, unless it says itself [default: 512MB]
    #[arg(long, value_name = "SIZE")]
    pub job_memory: Option<String>,
    /// Memory that all state databases share for blocks and writes [default: 256MB]
    #[arg(long, value_name = "SIZE")]
    pub database_memory: Option<String>,
    /// Time between checkpoints while something changes [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub checkpoint_interval: Option<String>,
    /// How long rows are gathered before results follow, while rows come in [default: 20ms]
    #[arg(long, value_name = "TIME")]
    pub epoch_interval: Option<String>,
    /// Postgres connections at a time [default: 1000]
    #[arg(long, value_name = "N")]
    pub max_connections: Option<usize>,
    /// File with rules on who may connect from where, in the form of pg_hba.conf; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    pub rule_file: Option<PathBuf>,
    /// Let clients from other machines in without authentication
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub trust_remote: Option<bool>,
    /// Let anybody who reaches it read /healthz and /metrics from other machines
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub http_remote: Option<bool>,
    /// File with the server's certificate and those that lead to a root (PEM); read again when it changes
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// File with the certificate's private key (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// File with the roots of clients' certificates (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// File with the key that secrets are encrypted with [default: secrets.key in the data directory]
    #[arg(long, value_name = "FILE")]
    pub secrets_key_file: Option<PathBuf>,
    /// What to log, as in RUST_LOG [default: warn]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
    /// Write logs as text or json [default: text]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Address of an S3 service that is not Amazon's
    #[arg(long, value_name = "URL")]
    pub s3_endpoint: Option<String>,
    /// Region of the bucket
    #[arg(long, value_name = "REGION")]
    pub s3_region: Option<String>,
    /// Talk to the S3 service without TLS
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    pub s3_allow_http: Option<bool>,
    /// Id of the S3 access key
    #[arg(long, value_name = "ID")]
    pub s3_access_key_id: Option<String>,
    /// Secret of the S3 access key
    #[arg(long, value_name = "SECRET", hide_env_values = true)]
    pub s3_secret_access_key: Option<String>,
}

/// How logs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: an object a line.
    Json,
}

/// All settings with their values.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory for everything.
    pub data_dir: PathBuf,
    /// Where durable data goes.
    pub store: String,
    /// Address for Postgres clients.
    pub pg_listen: SocketAddr,
    /// Address for `/healthz` and `/metrics`.
    pub http_listen: SocketAddr,
    /// Worker threads.
    pub workers: usize,
    /// Memory for the state of one job, in bytes.
    pub job_memory_bytes: u64,
    /// Memory that all state databases share, in bytes.
    pub database_memory_bytes: u64,
    /// Time between checkpoints.
    pub checkpoint_interval: Duration,
    /// How long rows are gathered before results follow, while rows come in.
    pub epoch_interval: Duration,
    /// Postgres connections at a time.
    pub max_connections: usize,
    /// File with rules on who may connect from where; none for this machine only, without authentication.
    pub rule_file: Option<PathBuf>,
    /// Whether clients from other machines may be let in without authentication.
    pub trust_remote: bool,
    /// Whether anybody may read health and metrics.
    pub http_remote: bool,
    /// What connections are encrypted with, if they can be.
    pub tls: Option<TlsFiles>,
    /// File with the key that secrets are encrypted with.
    pub secrets_key_file: PathBuf,
    /// What to log.
    pub log: String,
    /// How logs are written.
    pub log_format: LogFormat,
    /// How to reach S3.
    pub s3: S3Options,
}

/// A setting that can't be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

type ConfigResult<T> = Result<T, ConfigError>;

/// The most workers that the key space can be dealt to.
const WORKERS_MAX: usize = 256;

impl Settings {
    /// The settings of a process that was given these flags, this file and this environment.
    ///
    /// # Errors
    /// If a name is unknown or a value can't be read, saying where it stands.
    pub fn load(
        flags: Given,
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        default_data_dir: &Path,
    ) -> ConfigResult<Settings> {
        let file = match file {
            Some(path) => Given::from_file(path)?,
            None => Given::default(),
        };
        let given = flags.or(Given::from_environment(environment)?).or(file);
        given.resolve(default_data_dir)
    }

    /// Every setting with its value as text, for `thalweg.settings`. Secrets are not shown.
    pub fn shown(&self) -> Vec<(&'static str, String, &'static str)> {
        let hidden = |secret: &Option<String>| if secret.is_some() { "(hidden)".to_string() } else { String::new() };
        let path = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
        vec![
            ("data_dir", self.data_dir.display().to_string(), "directory for everything"),
            ("store", self.store.clone(), "where durable data goes"),
            ("pg_listen", self.pg_listen.to_string(), "address for Postgres clients"),
            ("http_listen", self.http_listen.to_string(), "address for /healthz and /metrics"),
            ("workers", self.workers.to_string(), "worker threads"),
            ("job_memory", self.job_memory_bytes.to_string(), "memory for the state of one job, in bytes"),
            ("database_memory", self.database_memory_bytes.to_string(), "memory that all state databases share, in bytes"),
            ("checkpoint_interval", format!("{}ms", self.checkpoint_interval.as_millis()), "time between checkpoints"),
            ("epoch_interval", format!("{}ms", self.epoch_interval.as_millis()), "how long rows are gathered"),
            ("max_connections", self.max_connections.to_string(), "Postgres connections at a time"),
            ("rule_file", path(self.rule_file.as_ref()), "file with rules on who may connect from where"),
            ("trust_remote", self.trust_remote.to_string(), "whether others than this machine may be let in unasked"),
            ("http_remote", self.http_remote.to_string(), "whether anybody may read /healthz and /metrics"),
            ("tls_certificate", path(self.tls.as_ref().map(|tls| &tls.certificate)), "file with the server's certificate"),
            ("tls_key", path(self.tls.as_ref().map(|tls| &tls.key)), "file with the certificate's private key"),
            ("tls_client_ca", path(self.tls.as_ref().and_then(|tls| tls.client_ca.as_ref())), "roots of clients' certificates"),
            ("secrets_key_file", self.secrets_key_file.display().to_string(), "file with the key of secrets"),
            ("log", self.log.clone(), "what to log"),
            ("log_format", format!("{:?}", self.log_format).to_lowercase(), "how logs are written"),
            ("s3_endpoint", self.s3.endpoint.clone().unwrap_or_default(), "address of an S3 service that is not Amazon's"),
            ("s3_region", self.s3.region.clone().unwrap_or_default(), "region of the bucket"),
            ("s3_allow_http", self.s3.allow_http.to_string(), "whether to talk to the S3 service without TLS"),
            ("s3_access_key_id", self.s3.access_key_id.clone().unwrap_or_default(), "id of the S3 access key"),
            ("s3_secret_access_key", hidden(&self.s3.secret_access_key), "secret of the S3 access key"),
        ]
    }
}

macro_rules! given_fields {
    ($do:ident) => {
        $do!(
            data_dir,
            store,
            pg_listen,
            http_listen,
            workers,
            job_memory,
            database_memory,
            checkpoint_interval,
            epoch_interval,
            max_connections,
            rule_file,
            trust_remote,
            http_remote,
            tls_certificate,
            tls_key,
            tls_client_ca,
            secrets_key_file,
            log,
            log_format,
            s3_endpoint,
            s3_region,
            s3_allow_http,
            s3_access_key_id,
            s3_secret_access_key
        )
    };
}

impl Given {
    /// The names of all settings.
    fn names() -> &'static [&'static str] {
        macro_rules! names {
            ($($name:ident),*) => { &[$(stringify!($name)),*] };
        }
        given_fields!(names)
    }

    /// These settings, and `other`'s where these say nothing.
    fn or(self, other: Given) -> Given {
        macro_rules! either {
            ($($name:ident),*) => { Given { $($name: self.$name.or(other.$name)),* } };
        }
        given_fields!(either)
    }

    fn from_file(path: &Path) -> ConfigResult<Given> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| ConfigError(format!("could not read configuration file \"{}\": {e}", path.display())))?;
        let table: toml::Table = text.parse().map_err(|e| ConfigError(format!("in \"{}\": {e}", path.display())))?;
        for name in table.keys() {
            if !Given::names().contains(&name.as_str()) {
                let hint = suggest::hint(name, Given::names().iter().copied());
                return Err(ConfigError(format!("unknown setting \"{name}\" in \"{}\". {hint}", path.display())));
            }
        }
        Given::deserialize(table).map_err(|e| ConfigError(format!("in \"{}\": {e}", path.display())))
    }

    fn from_environment(variables: impl Iterator<Item = (String, String)>) -> ConfigResult<Given> {
        let mut values: BTreeMap<String, String> = BTreeMap::new();
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix(ENVIRONMENT) else { continue };
            if NOT_SETTINGS.iter().any(|other| variable.starts_with(other)) {
                continue;
            }
            let name = name.to_lowercase();
            if name == "config" {
                continue;
            }
            if !Given::names().contains(&name.as_str()) {
                let hint = suggest::hint(&name, Given::names().iter().copied());
                return Err(ConfigError(format!("unknown setting in environment variable {variable}. {hint}")));
            }
            values.insert(name, value);
        }
        let mut table = toml::Table::new();
        for (name, value) in values {
            // Numbers and booleans in the form that the file has them; whatever else is text.
            let typed = match name.as_str() {
                "workers" | "max_connections" => value.parse::<i64>().map(toml::Value::Integer).ok(),
                "s3_allow_http" | "trust_remote" | "http_remote" => value.parse::<bool>().map(toml::Value::Boolean).ok(),
                _ => None,
            };
            table.insert(name, typed.unwrap_or(toml::Value::String(value)));
        }
        Given::deserialize(table).map_err(|e| ConfigError(format!("in the environment: {}", e.message())))
    }

    fn resolve(self, default_data_dir: &Path) -> ConfigResult<Settings> {
        let bytes = |name: &str, text: Option<String>, default: u64| match text {
            None => Ok(default),
            Some(text) => parse_bytes(&text).filter(|bytes| *bytes >= 1 << 20).ok_or_else(|| {
                ConfigError(format!("setting \"{name}\" must be a size of at least 1MB, such as '512MB', not \"{text}\""))
            }),
        };
        let data_dir = self.data_dir.unwrap_or_else(|| default_data_dir.to_path_buf());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.unwrap_or(cores);
        if !(1..=WORKERS_MAX).contains(&workers) {
            return Err(ConfigError(format!("setting \"workers\" must be from 1 to {WORKERS_MAX}, not {workers}")));
        }
        let pg_listen = self.pg_listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 5460)));
        let http_listen = self.http_listen.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 5461)));
        let (trust_remote, http_remote) = (self.trust_remote.unwrap_or(false), self.http_remote.unwrap_or(false));
        let tls = tls_files(self.tls_certificate, self.tls_key, self.tls_client_ca)?;
        Ok(Settings {
            secrets_key_file: self.secrets_key_file.unwrap_or_else(|| data_dir.join("secrets.key")),
            store: self.store.unwrap_or_else(|| data_dir.join("store").display().to_string()),
            data_dir,
            pg_listen: on_loopback(pg_listen, self.rule_file.is_some() || trust_remote, PG_REMOTE)?,
            http_listen: on_loopback(http_listen, http_remote, HTTP_REMOTE)?,
            rule_file: self.rule_file,
            trust_remote,
            http_remote,
            tls,
            workers,
            job_memory_bytes: bytes("job_memory", self.job_memory, 512 << 20)?,
            database_memory_bytes: bytes("database_memory", self.database_memory, 256 << 20)?,
            checkpoint_interval: interval("checkpoint_interval", self.checkpoint_interval, 1000, 10, u64::MAX)?,
            epoch_interval: interval("epoch_interval", self.epoch_interval, 20, 1, 60_000)?,
            max_connections: self.max_connections.unwrap_or(1000),
            log: self.log.unwrap_or_else(|| "warn".into()),
            log_format: self.log_format.unwrap_or_default(),
            s3: S3Options {
                endpoint: self.s3_endpoint,
                allow_http: self.s3_allow_http.unwrap_or(false),
                region: self.s3_region,
                access_key_id: self.s3_access_key_id,
                secret_access_key: self.s3_secret_access_key,
            },
        })
    }
}

/// How an address is refused that other machines can reach, and what lets it pass.
struct Remote {
    name: &'static str,
    hint: &'static str,
}

const PG_REMOTE: Remote = Remote {
    name: "pg_listen",
    hint: "clients would be let in without authentication: give a rule_file, or set trust_remote if that is meant",
};

const HTTP_REMOTE: Remote = Remote { name: "http_listen", hint: "anybody could read metrics: set http_remote if that is meant" };

/// A setting that is a time. Default and limits are in milliseconds.
fn interval(name: &str, given: Option<String>, default: u64, least: u64, most: u64) -> ConfigResult<Duration> {
    let Some(text) = given else { return Ok(Duration::from_millis(default)) };
    let range = if most == u64::MAX { format!("of at least {least}ms") } else { format!("from {least}ms to {most}ms") };
    match parse_duration_ms(&text).filter(|ms| (least..=most).contains(ms)) {
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => Err(ConfigError(format!("setting \"{name}\" must be a time {range}, not \"{text}\""))),
    }
}

/// What other machines can reach without authentication must have been asked for by name.
fn on_loopback(address: SocketAddr, allowed: bool, remote: Remote) -> ConfigResult<SocketAddr> {
    if address.ip().is_loopback() || allowed {
        return Ok(address);
    }
    Err(ConfigError(format!("setting \"{}\" is no loopback address but {address}: {}", remote.name, remote.hint)))
}

fn tls_files(certificate: Option<PathBuf>, key: Option<PathBuf>, client_ca: Option<PathBuf>) -> ConfigResult<Option<TlsFiles>> {
    match (certificate, key, client_ca) {
        (Some(certificate), Some(key), client_ca) => Ok(Some(TlsFiles { certificate, key, client_ca })),
        (None, None, None) => Ok(None),
        _ => Err(ConfigError("settings \"tls_certificate\" and \"tls_key\" go together, and \"tls_client_ca\" with them".into())),
    }
}

#[cfg(test)]
mod tests;
