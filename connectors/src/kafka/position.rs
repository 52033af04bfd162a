//! The position in a partition, as text.

use crate::error::{ConnectorError, ConnectorResult};
use std::fmt;

/// A place in a partition: before the record with offset `next`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KafkaPosition {
    /// The offset of the next record to read.
    pub next: i64,
    /// The offset before which reading ends, for a source that ends.
    pub end: Option<i64>,
}

impl KafkaPosition {
    /// Reads the text that [`fmt::Display`] wrote.
    ///
    /// # Errors
    /// If it is not such a text.
    pub fn parse(text: &str) -> ConnectorResult<KafkaPosition> {
        let (next, end) = match text.split_once('/') {
            None => (text, None),
            Some((next, end)) => (next, Some(end)),
        };
        let offset = |text: &str| text.parse::<i64>().ok().filter(|offset| *offset >= 0);
        match (offset(next), end.map(offset)) {
            (Some(next), None) => Ok(KafkaPosition { next, end: None }),
            (Some(next), Some(Some(end))) => Ok(KafkaPosition { next, end: Some(end) }),
            _ => Err(ConnectorError::internal(format!("\"{text}\" is not a position in a Kafka partition"))),
        }
    }

    /// Whether nothing is left to read.
    pub fn is_at_end(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }
}

impl fmt::Display for KafkaPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.next)?;
        match self.end {
            None => Ok(()),
            Some(end) => write!(f, "/{end}"),
        }
    }
}

#[cfg(test)]
mod tests;
