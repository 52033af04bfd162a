//! Connectors by name: finds out at `CREATE` whether what was declared can be.

use crate::blackhole::BlackholeSink;
use crate::datagen::{DatagenOptions, DatagenSource};
use crate::file::{FileSink, FileSource};
use crate::kafka::{KafkaSink, KafkaSource};
use crate::nexmark::{self, NexmarkOptions, NexmarkSource};
use crate::print::PrintSink;
use crate::sink::SinkConnector;
use crate::source::SourceConnector;
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::object::SinkMode;
use thalweg_catalog::options::Options;
use thalweg_catalog::{Column, ConnectorSpec, SqlError, SqlResult, SqlState, suggest};

/// The connectors that are sources.
pub const SOURCES: [&str; 4] = ["datagen", "file", "kafka", "nexmark"];

/// The connectors that are sinks.
pub const SINKS: [&str; 4] = ["blackhole", "file", "kafka", "print"];

/// The source that was declared. Does no I/O: whether what it names is there shows when it is asked for its splits.
///
/// # Errors
/// `22023` for an unknown connector, option or value; `0A000` for an encoding that the connector does not have; others for columns
/// that it can't fill.
pub fn source(spec: &ConnectorSpec, columns: &[Column]) -> SqlResult<Arc<dyn SourceConnector>> {
    if spec.connector != "kafka" && !spec.includes.is_empty() {
        return Err(SqlError::unsupported(format!("connector \"{}\" has nothing to INCLUDE", spec.connector))
            .with_hint("INCLUDE goes with connector = 'kafka'."));
    }
    match spec.connector.as_str() {
        "nexmark" => {
            no_encoding(spec)?;
            Ok(Arc::new(NexmarkSource::new(NexmarkOptions::parse(&spec.options)?, columns)?))
        }
        "datagen" => {
            no_encoding(spec)?;
            Ok(Arc::new(DatagenSource::new(DatagenOptions::parse(&spec.options, columns)?)))
        }
        "file" => Ok(Arc::new(FileSource::from_spec(spec, columns)?)),
        "kafka" => Ok(Arc::new(KafkaSource::from_spec(spec, columns)?)),
        other => Err(unknown("source", other, &SOURCES, &SINKS)),
    }
}

/// The sink `name` that was declared, which gets these columns in this shape; `key` has the columns of an upsert sink's key. Does
/// no I/O.
///
/// # Errors
/// `22023` for an unknown connector, option or value; `0A000` for an encoding or a mode that the connector does not have; `42P16`
/// for an upsert sink without a key.
pub fn sink(
    spec: &ConnectorSpec,
    columns: &[Column],
    mode: SinkMode,
    key: &[usize],
    name: &str,
) -> SqlResult<Arc<dyn SinkConnector>> {
    if mode == SinkMode::Upsert && key.is_empty() {
        return Err(SqlError::new(SqlState::InvalidTableDefinition, format!("upsert sink \"{name}\" has no key"))
            .with_hint("Add primary_key = 'column, …' to the WITH clause."));
    }
    if let Some(place) = key.iter().find(|place| **place >= columns.len()) {
        return Err(SqlError::internal(format!("the key of sink \"{name}\" has a column {place} that is not there")));
    }
    match spec.connector.as_str() {
        "blackhole" => {
            no_encoding(spec)?;
            no_options(spec)?;
            Ok(Arc::new(BlackholeSink::default()))
        }
        "print" => {
            no_encoding(spec)?;
            no_options(spec)?;
            Ok(Arc::new(PrintSink))
        }
        "file" => Ok(Arc::new(FileSink::from_spec(spec, mode)?)),
        "kafka" if mode == SinkMode::Changelog => Err(SqlError::unsupported("kafka sinks are append-only or upsert")
            .with_hint("Use type = 'upsert' with primary_key: a row that goes is sent as a record without a value.")),
        "kafka" => Ok(Arc::new(KafkaSink::from_spec(spec, columns)?)),
        other => Err(unknown("sink", other, &SINKS, &SOURCES)),
    }
}

/// The columns of a source for which none were declared, if the connector knows them.
///
/// # Errors
/// `22023` for an unknown option or value.
pub fn default_columns(connector: &str, options: &BTreeMap<String, String>) -> SqlResult<Option<Vec<Column>>> {
    match connector {
        "nexmark" => Ok(Some(nexmark::default_columns(NexmarkOptions::parse(options)?.table))),
        _ => Ok(None),
    }
}

fn unknown(kind: &str, name: &str, known: &[&str], others: &[&str]) -> SqlError {
    if others.contains(&name) {
        return SqlError::unsupported(format!("connector \"{name}\" cannot be a {kind}"))
            .with_hint(format!("A {kind} can be one of {}.", known.join(", ")));
    }
    SqlError::invalid_parameter(format!("there is no connector \"{name}\"")).with_hint(suggest::hint(name, known.iter().copied()))
}

fn no_encoding(spec: &ConnectorSpec) -> SqlResult<()> {
    match spec.encode {
        None => Ok(()),
        Some(encode) => Err(SqlError::unsupported(format!("connector \"{}\" takes no ENCODE {encode}", spec.connector))
            .with_hint("Leave out FORMAT and ENCODE: there are no bytes to read or write.")),
    }
}

fn no_options(spec: &ConnectorSpec) -> SqlResult<()> {
    Options::new(format!("connector \"{}\"", spec.connector), &spec.options).finish()
}

#[cfg(test)]
mod tests;
