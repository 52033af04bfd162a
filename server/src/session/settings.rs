//! A session's settings: what `SET` and `SHOW` know. Every setting that can be set has an effect, or is one of those whose
//! only useful value is the one that it has.

use crate::wire::settings::{ByteaOutput, IntervalStyle, OutputSettings};
use crate::wire::value::parse::boolean;
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_catalog::catalog::SYSTEM_SCHEMAS;
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::options::parse_duration_ms;
use thalweg_catalog::{SqlError, SqlResult, SqlState, suggest};

/// The version that clients are told: they choose their queries by it.
pub const SERVER_VERSION: &str = "15.0";

/// How a setting takes values.
#[derive(Clone, Copy)]
enum Kind {
    /// Can only be read.
    Fixed,
    /// Any text.
    Free,
    /// One of these words.
    Words(&'static [&'static str]),
    /// on or off.
    Switch,
    /// A number in this range.
    Number(i64, i64),
    /// A duration, kept in milliseconds; 0 is off.
    Duration,
    /// A time zone.
    TimeZone,
    /// `DateStyle`: only ISO with months before days is spoken.
    DateStyle,
}

struct Known {
    name: &'static str,
    default: &'static str,
    kind: Kind,
    description: &'static str,
    /// Whether clients are told when it changes.
    reported: bool,
}

const ON: &[&str] = &["on"];
const OFF: &[&str] = &["off"];

/// Names of encodings: that of all text here, and that of clients that take bytes as they come.
const ENCODINGS: &[&str] = &["UTF8", "UTF-8", "UTF_8", "UNICODE", "SQL_ASCII"];

const fn known(name: &'static str, default: &'static str, kind: Kind, description: &'static str) -> Known {
    Known { name, default, kind, description, reported: false }
}

const fn told(name: &'static str, default: &'static str, kind: Kind, description: &'static str) -> Known {
    Known { name, default, kind, description, reported: true }
}

/// All settings. A setting with one word can be set to that only: the client may ask for what it gets anyway.
static KNOWN: &[Known] = &[
    told("application_name", "", Kind::Free, "the client's name for itself"),
    known("array_nulls", "on", Kind::Words(ON), "NULL in an array literal is NULL"),
    known("backslash_quote", "safe_encoding", Kind::Words(&["safe_encoding"]), "how \\' is read"),
    known("bytea_output", "hex", Kind::Words(&["hex", "escape"]), "how bytea is shown"),
    told("client_encoding", "UTF8", Kind::Words(ENCODINGS), "the encoding of text to the client"),
    known("check_function_bodies", "on", Kind::Switch, "there are no functions of users whose bodies could be checked"),
    known(
        "client_min_messages",
        "notice",
        Kind::Words(&["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"]),
        "the least grave message that is sent",
    ),
    told("DateStyle", "ISO, MDY", Kind::DateStyle, "how dates are shown"),
    known("default_table_access_method", "heap", Kind::Words(&["heap"]), "how tables are kept"),
    known("default_tablespace", "", Kind::Words(&[""]), "there is one place for all tables"),
    known("default_transaction_deferrable", "off", Kind::Switch, "reads never wait for writers, whatever it says"),
    known(
        "default_transaction_isolation",
        "read committed",
        Kind::Words(&["read committed", "read uncommitted", "repeatable read", "serializable"]),
        "isolation of new transactions",
    ),
    told("default_transaction_read_only", "off", Kind::Switch, "whether new transactions are read-only"),
    known("escape_string_warning", "off", Kind::Words(OFF), "no such warning is given"),
    known("extra_float_digits", "1", Kind::Number(-15, 3), "digits of floats"),
    known("geqo", "off", Kind::Words(OFF), "the optimiser has no genetic search"),
    known("idle_in_transaction_session_timeout", "0", Kind::Words(&["0"]), "an idle transaction may stay open for any time"),
    told("in_hot_standby", "off", Kind::Fixed, "never a standby"),
    told("integer_datetimes", "on", Kind::Fixed, "times are whole microseconds"),
    told(
        "IntervalStyle",
        "postgres",
        Kind::Words(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "how intervals are shown",
    ),
    told("is_superuser", "on", Kind::Fixed, "whether the session acts as a superuser"),
    known("jit", "off", Kind::Words(OFF), "expressions are vectorised instead"),
    known("lc_collate", "C", Kind::Fixed, "text orders by its bytes"),
    known("lc_ctype", "C.UTF-8", Kind::Fixed, "classes of characters"),
    known("lc_messages", "C", Kind::Words(&["C"]), "language of messages"),
    known("lc_monetary", "C", Kind::Words(&["C"]), "format of money"),
    known("lc_numeric", "C", Kind::Words(&["C"]), "format of numbers"),
    known("lc_time", "C", Kind::Words(&["C"]), "format of times"),
    known("lock_timeout", "0", Kind::Duration, "how long a statement waits for a table's lock; 0 for 10s"),
    known("max_identifier_length", "63", Kind::Fixed, "the longest name"),
    known("max_index_keys", "32", Kind::Fixed, "columns of an index"),
    known("max_prepared_transactions", "0", Kind::Fixed, "there is no two-phase commit"),
    known("password_encryption", "scram-sha-256", Kind::Words(&["scram-sha-256"]), "md5 hashes are as good as passwords"),
    known("plan_cache_mode", "auto", Kind::Words(&["auto"]), "plans are made for each execution"),
    known("role", "none", Kind::Free, "as whom statements run"),
    known("row_security", "on", Kind::Words(&["on", "off"]), "whether policies hide rows rather than refuse queries"),
    known("search_path", "\"$user\", public", Kind::Free, "schemas that unqualified names are looked up in"),
    told("server_encoding", "UTF8", Kind::Fixed, "the encoding of text"),
    told("server_version", SERVER_VERSION, Kind::Fixed, "the version of Postgres that is spoken"),
    known("server_version_num", "150000", Kind::Fixed, "the same as a number"),
    told("session_authorization", "thalweg", Kind::Free, "whose session it is"),
    told("standard_conforming_strings", "on", Kind::Words(ON), "backslashes in strings are plain"),
    known("statement_timeout", "0", Kind::Duration, "how long a statement may run; 0 for any time"),
    known("synchronous_commit", "on", Kind::Words(ON), "a commit is durable when acknowledged"),
    known("target_partitions", "2", Kind::Number(1, 64), "threads of a query that is read once"),
    told("TimeZone", "UTC", Kind::TimeZone, "the zone that times are shown in"),
    known("transaction_deferrable", "off", Kind::Switch, "reads never wait for writers, whatever it says"),
    known(
        "transaction_isolation",
        "read committed",
        Kind::Words(&["read committed", "read uncommitted", "repeatable read", "serializable"]),
        "isolation of the transaction",
    ),
    known("transaction_read_only", "off", Kind::Switch, "whether the transaction is read-only"),
    known("work_mem", "4MB", Kind::Words(&["4MB"]), "queries share the process's memory"),
    known("xmloption", "content", Kind::Words(&["content"]), "there is no xml"),
    known("ssl", "off", Kind::Fixed, "whether connections can be encrypted"),
];

fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// The settings of one session. Cheap enough to copy at the start of a transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSettings {
    /// What differs from the default, by the setting's own name; names with a dot are the client's own.
    values: BTreeMap<String, String>,
    /// The values that `RESET` goes back to, where they differ from the default: what the client asked for when it connected.
    start: BTreeMap<String, String>,
}

impl SessionSettings {
    /// The settings of a user before anything was set.
    pub fn of_user(user: &str, superuser: bool) -> SessionSettings {
        let mut settings = SessionSettings::default();
        settings.values.insert("session_authorization".to_string(), user.to_string());
        settings.note_superuser(superuser);
        settings.start();
        settings
    }

    /// Whether the session acts as a superuser.
    pub fn note_superuser(&mut self, superuser: bool) {
        self.values.insert("is_superuser".to_string(), if superuser { "on" } else { "off" }.to_string());
    }

    /// Whether connections can be encrypted.
    pub fn note_tls(&mut self, tls: bool) {
        self.values.insert("ssl".to_string(), if tls { "on" } else { "off" }.to_string());
    }

    /// Whether a setting says who somebody is: those are not reset with the others.
    pub fn is_identity(name: &str) -> bool {
        matches!(canonical(name).as_str(), "role" | "session_authorization" | "is_superuser")
    }

    /// The session starts with what is set by now: `RESET` goes back to it.
    pub fn start(&mut self) {
        self.start = self.values.clone();
    }

    fn reset_value(&self, known: &Known) -> String {
        self.start.get(known.name).cloned().unwrap_or_else(|| known.default.to_string())
    }

    /// The value of a setting.
    ///
    /// # Errors
    /// `42704` if there is no such setting.
    pub fn get(&self, name: &str) -> SqlResult<String> {
        let name = canonical(name);
        match (self.values.get(&name), find(&name)) {
            (Some(value), _) => Ok(value.clone()),
            (None, Some(known)) => Ok(known.default.to_string()),
            (None, None) => Err(unknown(&name)),
        }
    }

    /// The setting's own spelling of its name, for the column of `SHOW`.
    pub fn spelling(name: &str) -> String {
        canonical(name)
    }

    /// Sets a setting, or resets it. Gives the name and value that the client is to be told of, if it is.
    ///
    /// # Errors
    /// `42704` for an unknown setting, `22023` for a value that it can't have, `55P02` for one that can't be set.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> SqlResult<Option<(String, String)>> {
        let name = canonical(name);
        let Some(known) = find(&name) else {
            if !name.contains('.') {
                return Err(unknown(&name));
            }
            match value {
                Some(value) => self.values.insert(name, value.to_string()),
                None => self.values.remove(&name),
            };
            return Ok(None);
        };
        let value = match value {
            None => self.reset_value(known),
            Some(value) => checked(known, value)?,
        };
        self.values.insert(known.name.to_string(), value.clone());
        Ok(known.reported.then(|| (known.name.to_string(), value)))
    }

    /// Resets everything that was set.
    pub fn reset_all(&mut self) {
        let kept: Vec<(String, String)> =
            self.values.iter().filter(|(name, _)| Self::is_identity(name)).map(|(n, v)| (n.clone(), v.clone())).collect();
        self.values = self.start.clone();
        self.values.extend(kept);
    }

    /// What differs in `self` of what clients are told, against `other`.
    pub fn told_differences(&self, other: &SessionSettings) -> Vec<(String, String)> {
        let value = |settings: &SessionSettings, known: &Known| {
            settings.values.get(known.name).cloned().unwrap_or_else(|| known.default.into())
        };
        KNOWN
            .iter()
            .filter(|known| known.reported && value(self, known) != value(other, known))
            .map(|known| (known.name.to_string(), value(self, known)))
            .collect()
    }

    /// All that clients are told at the start.
    pub fn told(&self) -> Vec<(String, String)> {
        KNOWN
            .iter()
            .filter(|known| known.reported)
            .map(|known| (known.name.to_string(), self.values.get(known.name).cloned().unwrap_or_else(|| known.default.into())))
            .collect()
    }

    /// All settings: name, value, description; sorted.
    pub fn all(&self) -> Vec<(String, String, String)> {
        let mut rows: Vec<_> = KNOWN
            .iter()
            .map(|known| {
                (
                    known.name.to_string(),
                    self.values.get(known.name).cloned().unwrap_or_else(|| known.default.into()),
                    known.description.to_string(),
                )
            })
            .collect();
        rows.extend(
            self.values
                .iter()
                .filter(|(name, _)| find(name).is_none())
                .map(|(name, value)| (name.clone(), value.clone(), "the client's own".to_string())),
        );
        rows.sort();
        rows
    }

    /// The schemas that unqualified names are looked up in.
    pub fn search_path(&self) -> Vec<String> {
        let text = self.get("search_path").unwrap_or_default();
        // `$user` is as whom statements run.
        let user = self.get("role").ok().filter(|role| role != "none");
        let user = user.unwrap_or_else(|| self.get("session_authorization").unwrap_or_default());
        let name = |part: &str| {
            let part = part.trim();
            match part.strip_prefix('"').and_then(|p| p.strip_suffix('"')) {
                Some(quoted) => quoted.replace("\"\"", "\""),
                None => part.trim_matches('\'').to_lowercase(),
            }
        };
        text.split(',')
            .map(name)
            .map(|part| if part == "$user" { user.clone() } else { part })
            .filter(|part| !part.is_empty() && !SYSTEM_SCHEMAS.contains(&part.as_str()))
            .collect()
    }

    /// `statement_timeout`, none if off.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.duration("statement_timeout")
    }

    /// How long a statement waits for a table's lock.
    pub fn lock_timeout(&self) -> Duration {
        self.duration("lock_timeout").unwrap_or(Duration::from_secs(10))
    }

    fn duration(&self, name: &str) -> Option<Duration> {
        let ms = self.get(name).ok().and_then(|text| parse_duration_ms(&text)).unwrap_or(0);
        (ms > 0).then(|| Duration::from_millis(ms))
    }

    /// The session's time zone.
    pub fn time_zone(&self) -> SessionTimeZone {
        let name = self.get("TimeZone").unwrap_or_default();
        SessionTimeZone::of_setting(&name).map_or(OutputSettings::default().time_zone, |(zone, _)| zone)
    }

    /// What encoders need.
    pub fn output(&self) -> OutputSettings {
        let escape = self.get("bytea_output").is_ok_and(|v| v == "escape");
        OutputSettings {
            time_zone: self.time_zone(),
            bytea_output: if escape { ByteaOutput::Escape } else { ByteaOutput::Hex },
            extra_float_digits: self.get("extra_float_digits").ok().and_then(|v| v.parse().ok()).unwrap_or(1),
            interval_style: IntervalStyle::parse(&self.get("IntervalStyle").unwrap_or_default())
                .unwrap_or(OutputSettings::default().interval_style),
        }
    }

    /// How a query that is read once is planned.
    pub fn planning(&self) -> thalweg_planner::SessionSettings {
        let zone = match self.time_zone() {
            SessionTimeZone::Named(zone) => zone.name().to_string(),
            SessionTimeZone::Fixed(offset) => offset.to_string(),
        };
        thalweg_planner::SessionSettings {
            time_zone: if zone == "UTC" { "+00:00".into() } else { zone },
            target_partitions: self.get("target_partitions").ok().and_then(|v| v.parse().ok()).unwrap_or(2),
            ..thalweg_planner::SessionSettings::default()
        }
    }
}

/// A duration in the largest unit that it is a whole number of.
fn shown_duration(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms")];
    match units.into_iter().find(|(length, _)| ms.is_multiple_of(*length)) {
        Some((length, unit)) if ms > 0 => format!("{}{unit}", ms / length),
        _ => "0".into(),
    }
}

/// Postgres's other spellings of a setting's name.
fn canonical(name: &str) -> String {
    let lower = name.to_lowercase();
    let lower = match lower.as_str() {
        "time zone" => "timezone",
        "transaction isolation level" => "transaction_isolation",
        "session authorization" => "session_authorization",
        "names" => "client_encoding",
        other => other,
    };
    find(lower).map_or_else(|| lower.to_string(), |known| known.name.to_string())
}

fn unknown(name: &str) -> SqlError {
    let error = SqlError::new(SqlState::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""));
    match suggest::nearest(name, KNOWN.iter().map(|known| known.name)) {
        Some(near) => error.with_hint(format!("Did you mean \"{near}\"?")),
        None => error,
    }
}

fn checked(known: &Known, value: &str) -> SqlResult<String> {
    let invalid = || SqlError::invalid_parameter(format!("invalid value for parameter \"{}\": \"{value}\"", known.name));
    let text = value.trim().trim_matches('\'');
    Ok(match known.kind {
        Kind::Fixed => {
            return Err(SqlError::new(
                SqlState::CantChangeRuntimeParam,
                format!("parameter \"{}\" cannot be changed", known.name),
            ));
        }
        Kind::Free => value.to_string(),
        Kind::Words(words) => {
            let word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
            let word = word.ok_or_else(|| {
                let reason = format!("The setting says that {}.", known.description);
                let error = invalid().with_hint(format!("Available values: {}.", words.join(", ")));
                if words.len() == 1 { error.with_detail(reason) } else { error }
            })?;
            if known.name == "client_encoding" && *word != "SQL_ASCII" { "UTF8".into() } else { (*word).to_string() }
        }
        Kind::Switch => match boolean(text) {
            Ok(on) => if on { "on" } else { "off" }.into(),
            Err(_) => {
                return Err(SqlError::invalid_parameter(format!("parameter \"{}\" requires a Boolean value", known.name)));
            }
        },
        Kind::Number(least, most) => {
            let number: i64 = text.parse().map_err(|_| invalid())?;
            if !(least..=most).contains(&number) {
                return Err(SqlError::invalid_parameter(format!(
                    "{number} is outside the valid range for parameter \"{}\" ({least} .. {most})",
                    known.name
                )));
            }
            number.to_string()
        }
        Kind::Duration => {
            let ms = parse_duration_ms(text).ok_or_else(invalid)?;
            shown_duration(ms)
        }
        Kind::TimeZone => SessionTimeZone::of_setting(text).ok_or_else(invalid)?.1,
        Kind::DateStyle => {
            let parts: Vec<String> = text.split(',').map(|p| p.trim().to_uppercase()).collect();
            if parts.iter().any(|p| !["ISO", "MDY"].contains(&p.as_str())) {
                return Err(invalid().with_hint("Dates are shown in the ISO style, and 1/2/2024 is read as the 2nd of January."));
            }
            "ISO, MDY".into()
        }
    })
}

#[cfg(test)]
mod tests;
