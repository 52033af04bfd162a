//! `WITH (…)` options: taken by name and type; what nobody took is refused.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::suggest;
use std::collections::BTreeMap;
use std::str::FromStr;

/// The options of one object, consumed one by one.
///
/// Every name asked for counts as known, so that [`Options::finish`] can refuse the rest and say what was meant.
pub struct Options {
    owner: String,
    values: BTreeMap<String, String>,
    known: Vec<&'static str>,
}

impl Options {
    /// Options of what `owner` names in messages, such as `connector "kafka"`.
    pub fn new(owner: impl Into<String>, values: &BTreeMap<String, String>) -> Options {
        Options { owner: owner.into(), values: values.clone(), known: vec![] }
    }

    /// The text of an option, if it was given.
    pub fn text(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        self.values.remove(name)
    }

    /// The text of an option that must be given.
    ///
    /// # Errors
    /// `22023` if it was not.
    pub fn required(&mut self, name: &'static str) -> SqlResult<String> {
        self.text(name).ok_or_else(|| {
            SqlError::invalid_parameter(format!("{} needs the option \"{name}\"", self.owner))
                .with_hint(format!("Add {name} = '…' to the WITH clause."))
        })
    }

    /// An option read as a number or other parsable type.
    ///
    /// # Errors
    /// `22023` if the text is none.
    pub fn parsed<T: FromStr>(&mut self, name: &'static str) -> SqlResult<Option<T>> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => text.trim().parse().map(Some).map_err(|_| self.bad_value(name, &text)),
        }
    }

    /// A yes-or-no option; false if not given.
    ///
    /// # Errors
    /// `22023` for anything but true, false, on, off, yes, no, 1 and 0.
    pub fn flag(&mut self, name: &'static str) -> SqlResult<bool> {
        match self.text(name) {
            None => Ok(false),
            Some(text) => match text.to_lowercase().as_str() {
                "true" | "on" | "yes" | "1" => Ok(true),
                "false" | "off" | "no" | "0" => Ok(false),
                _ => Err(self.bad_value(name, &text)),
            },
        }
    }

    /// A duration, such as `500ms`, `10s`, `5 minutes`; in milliseconds.
    ///
    /// # Errors
    /// `22023` if the text is none.
    pub fn duration_ms(&mut self, name: &'static str) -> SqlResult<Option<u64>> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => parse_duration_ms(&text).map(Some).ok_or_else(|| {
                self.bad_value(name, &text).with_hint("Write a number and a unit, such as '500ms', '10s' or '5 minutes'.")
            }),
        }
    }

    /// One of a few words.
    ///
    /// # Errors
    /// `22023` with the nearest word as a hint.
    pub fn one_of<T: Copy>(&mut self, name: &'static str, words: &[(&'static str, T)]) -> SqlResult<Option<T>> {
        match self.text(name) {
            None => Ok(None),
            Some(text) => match words.iter().find(|(word, _)| word.eq_ignore_ascii_case(&text)) {
                Some((_, value)) => Ok(Some(*value)),
                None => Err(self.bad_value(name, &text).with_hint(suggest::hint(&text, words.iter().map(|(word, _)| *word)))),
            },
        }
    }

    /// Takes every option whose name starts with `prefix`, by the rest of its name.
    pub fn with_prefix(&mut self, prefix: &str) -> BTreeMap<String, String> {
        let names: Vec<String> = self.values.keys().filter(|n| n.starts_with(prefix)).cloned().collect();
        names
            .into_iter()
            .filter_map(|name| self.values.remove(&name).map(|value| (name[prefix.len()..].to_string(), value)))
            .collect()
    }

    /// Refuses whatever nobody asked for.
    ///
    /// # Errors
    /// `22023` that names the first such option and the nearest known one.
    pub fn finish(self) -> SqlResult<()> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(name) => Err(SqlError::new(SqlState::InvalidParameterValue, format!("{} has no option \"{name}\"", self.owner))
                .with_hint(suggest::hint(name, self.known.iter().copied()))),
        }
    }

    fn bad_value(&self, name: &str, text: &str) -> SqlError {
        SqlError::invalid_parameter(format!("invalid value for option \"{name}\" of {}: \"{text}\"", self.owner))
    }
}

/// A duration in milliseconds from a number and a unit; a bare number is in milliseconds.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let factor = match text[split..].trim().to_lowercase().as_str() {
        "us" | "microsecond" | "microseconds" => 0.001,
        "" | "ms" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hr" | "hour" | "hours" => 3_600_000.0,
        "d" | "day" | "days" => 86_400_000.0,
        _ => return None,
    };
    let ms = number * factor;
    (ms.is_finite() && ms < 1e15).then_some(ms.round() as u64)
}

/// A size in bytes, such as `512MB`, `1 GiB` or `4096`; units are powers of 1024, as in Postgres.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let factor = match text[split..].trim().to_lowercase().as_str() {
        "" | "b" => 1u64,
        "kb" | "kib" | "k" => 1 << 10,
        "mb" | "mib" | "m" => 1 << 20,
        "gb" | "gib" | "g" => 1 << 30,
        "tb" | "tib" | "t" => 1 << 40,
        _ => return None,
    };
    let bytes = number * factor as f64;
    (bytes.is_finite() && bytes < 9e18).then_some(bytes as u64)
}

/// What an option's value begins with that names a secret: no text of SQL can hold it.
const SECRET_MARK: &str = "\0secret:";

/// The value of an option that is to have the value of a secret.
pub fn secret_reference(name: &str) -> String {
    format!("{SECRET_MARK}{name}")
}

/// The secret that an option's value names, if it names one.
pub fn referenced_secret(value: &str) -> Option<&str> {
    value.strip_prefix(SECRET_MARK)
}

#[cfg(test)]
mod tests;
