//! What is wrong with a record.

use crate::decode::value::Misfit;
use std::fmt;
use thalweg_catalog::SqlType;

/// How much of a record or a value is shown, in bytes.
const EXCERPT_BYTES: usize = 120;

/// The reason why a record is left out. Small, since every step of decoding can return one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault(Box<str>);

/// The result of a step of decoding.
pub(crate) type Fit<T> = Result<T, Fault>;

impl Fault {
    #[cold]
    pub(crate) fn new(reason: impl Into<String>) -> Fault {
        Fault(reason.into().into_boxed_str())
    }

    /// A text that is no value of the type.
    #[cold]
    pub(crate) fn misfit(misfit: Misfit, sql_type: &SqlType, text: &[u8]) -> Fault {
        let shown = excerpt(text);
        Fault::new(match misfit {
            Misfit::Syntax => format!("invalid input for type {sql_type}: \"{shown}\""),
            Misfit::Range => format!("value \"{shown}\" is out of range for type {sql_type}"),
        })
    }

    /// The same, with the column in which it was found.
    #[cold]
    pub(crate) fn within(self, column: &str) -> Fault {
        Fault::new(match self.0.strip_prefix("column \"").and_then(|rest| rest.split_once("\": ")) {
            Some((inner, reason)) => format!("column \"{column}.{inner}\": {reason}"),
            None => format!("column \"{column}\": {self}"),
        })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The start of these bytes, as text.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(EXCERPT_BYTES)]).into_owned();
    if bytes.len() > EXCERPT_BYTES {
        // The cut may have gone through a character.
        while text.ends_with(char::REPLACEMENT_CHARACTER) {
            text.pop();
        }
        text.push('…');
    }
    text
}
