//! The `WITH` options of Kafka sources and sinks.

use super::client;
use rdkafka::types::RDKafkaType;
use std::collections::BTreeMap;
use std::time::Duration;
use thalweg_catalog::object::ConnectorSpec;
use thalweg_catalog::options::Options;
use thalweg_catalog::{SqlError, SqlResult};

/// Where reading starts in a partition that has no position yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartupMode {
    /// At its first record.
    Earliest,
    /// After its last record.
    Latest,
    /// At its first record of this time or later, in milliseconds since 1970.
    Timestamp(i64),
}

/// Whether a source ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundedMode {
    /// It does not.
    Unbounded,
    /// It ends where each partition ended when it was first read.
    Latest,
}

/// What happens when records are gone before they were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LostOffsets {
    /// The source fails.
    Fail,
    /// Reading goes on at the first record that is left, and the gap is reported as an error row.
    Skip,
}

/// The options of a Kafka source.
#[derive(Clone, Debug)]
pub struct KafkaSourceOptions {
    /// `topic`, must be given: the topic to read.
    pub topic: String,
    /// `properties.bootstrap.server`, must be given: `host:port` of one or more brokers, with commas between them. May also
    /// be written `properties.bootstrap.servers` or `bootstrap.servers`.
    pub brokers: String,
    /// `scan.startup.mode`, default `earliest`: `earliest`, `latest` or `timestamp`. Partitions that are added later are read
    /// from their first record in any case. With `timestamp`, `scan.startup.timestamp.millis` says which, in milliseconds since 1970.
    pub startup: StartupMode,
    /// `scan.bounded.mode`, default `unbounded`: `latest` ends each partition where it ended at the first start.
    pub bounded: BoundedMode,
    /// `scan.lost.offsets`, default `fail`: what happens if retention has removed records before they were read, `fail` or
    /// `skip`.
    pub lost_offsets: LostOffsets,
    /// `discovery.interval`, default `5s`: how often to look for new partitions; `0` for never.
    pub discovery_interval: Option<Duration>,
    /// `group.id.prefix`, default `thalweg`: offsets are committed to the group `prefix-job`.
    pub group_prefix: String,
    /// `properties.…`: any other setting of the librdkafka client.
    pub properties: BTreeMap<String, String>,
}

/// The options of a Kafka sink.
#[derive(Clone, Debug)]
pub struct KafkaSinkOptions {
    /// `topic`, must be given: the topic to write to.
    pub topic: String,
    /// `properties.bootstrap.server`, must be given: `host:port` of one or more brokers, with commas between them. May also
    /// be written `properties.bootstrap.servers` or `bootstrap.servers`.
    pub brokers: String,
    /// `properties.…`: any other setting of the librdkafka client.
    pub properties: BTreeMap<String, String>,
}

impl KafkaSourceOptions {
    /// Reads and checks the options of a source.
    ///
    /// # Errors
    /// `22023` for an option that is missing, not known, or has a value that it can't have.
    pub fn parse(spec: &ConnectorSpec) -> SqlResult<KafkaSourceOptions> {
        let mut options = Options::new("connector \"kafka\"", &spec.options);
        let (brokers, properties) = take_properties(&mut options, RDKafkaType::RD_KAFKA_CONSUMER)?;
        let topic = required_topic(&mut options)?;
        let startup = startup_mode(&mut options)?;
        let bounded = options
            .one_of("scan.bounded.mode", &[("unbounded", BoundedMode::Unbounded), ("latest", BoundedMode::Latest)])?
            .unwrap_or(BoundedMode::Unbounded);
        let lost_offsets = options
            .one_of("scan.lost.offsets", &[("fail", LostOffsets::Fail), ("skip", LostOffsets::Skip)])?
            .unwrap_or(LostOffsets::Fail);
        let discovery_ms = options.duration_ms("discovery.interval")?.unwrap_or(5_000);
        let group_prefix = options.text("group.id.prefix").unwrap_or_else(|| "thalweg".into());
        options.finish()?;
        Ok(KafkaSourceOptions {
            topic,
            brokers,
            startup,
            bounded,
            lost_offsets,
            discovery_interval: (discovery_ms > 0).then(|| Duration::from_millis(discovery_ms)),
            group_prefix,
            properties,
        })
    }
}

impl KafkaSinkOptions {
    /// Reads and checks the options of a sink.
    ///
    /// # Errors
    /// `22023` for an option that is missing, not known, or has a value that it can't have.
    pub fn parse(spec: &ConnectorSpec) -> SqlResult<KafkaSinkOptions> {
        let mut options = Options::new("connector \"kafka\"", &spec.options);
        let (brokers, properties) = take_properties(&mut options, RDKafkaType::RD_KAFKA_PRODUCER)?;
        let topic = required_topic(&mut options)?;
        options.finish()?;
        Ok(KafkaSinkOptions { topic, brokers, properties })
    }
}

/// A topic's name as the broker will accept it, so that a slip is found when the object is created.
fn required_topic(options: &mut Options) -> SqlResult<String> {
    let topic = options.required("topic")?;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if topic.is_empty() || topic.len() > 249 || topic == "." || topic == ".." || !topic.chars().all(fits) {
        return Err(SqlError::invalid_parameter(format!("\"{topic}\" is not the name of a Kafka topic"))
            .with_hint("A topic's name has 1 to 249 letters, digits, dots, underscores and hyphens."));
    }
    Ok(topic)
}

fn startup_mode(options: &mut Options) -> SqlResult<StartupMode> {
    let modes = [("earliest", 'e'), ("latest", 'l'), ("timestamp", 't')];
    let mode = options.one_of("scan.startup.mode", &modes)?.unwrap_or('e');
    let millis = options.parsed::<i64>("scan.startup.timestamp.millis")?;
    match (mode, millis) {
        ('t', Some(millis)) if millis >= 0 => Ok(StartupMode::Timestamp(millis)),
        ('t', _) => Err(SqlError::invalid_parameter("scan.startup.mode = 'timestamp' needs a time to start from")
            .with_hint("Add scan.startup.timestamp.millis = '…' with milliseconds since 1970.")),
        (_, Some(_)) => Err(SqlError::invalid_parameter(
            "scan.startup.timestamp.millis has no effect without scan.startup.mode = 'timestamp'",
        )
        .with_hint("Add scan.startup.mode = 'timestamp'.")),
        ('l', None) => Ok(StartupMode::Latest),
        (_, None) => Ok(StartupMode::Earliest),
    }
}

/// The brokers, and the client's other properties, which librdkafka has checked.
fn take_properties(options: &mut Options, kind: RDKafkaType) -> SqlResult<(String, BTreeMap<String, String>)> {
    // Asked for by all their names, so that a misspelt one is answered with the nearest.
    let names = ["properties.bootstrap.server", "properties.bootstrap.servers", "bootstrap.servers"];
    let given: Vec<String> = names.into_iter().filter_map(|name| options.text(name)).collect();
    let brokers = match given.as_slice() {
        [one] if !one.trim().is_empty() => one.trim().to_string(),
        [] => options.required(names[0])?,
        [_] => return Err(SqlError::invalid_parameter("the brokers' address is empty").with_hint("Write host:port.")),
        _ => {
            return Err(SqlError::invalid_parameter("the brokers are given twice")
                .with_hint("Keep properties.bootstrap.server and leave its other spellings out."));
        }
    };
    let properties = options.with_prefix("properties.");
    client::check_properties(&brokers, &properties, kind)?;
    Ok((brokers, properties))
}

#[cfg(test)]
mod tests;
