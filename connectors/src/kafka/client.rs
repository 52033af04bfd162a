//! The librdkafka clients that the source and the sink use: their settings, their messages, their errors.

use crate::error::{ConnectorError, ConnectorResult};
use parking_lot::Mutex;
use rdkafka::bindings;
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{IsError, KafkaError, RDKafkaErrorCode};
use rdkafka::types::{RDKafkaConfRes, RDKafkaRespErr, RDKafkaType};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{SqlError, SqlResult, suggest};

/// How long one question to the brokers may take: metadata, offsets. Long enough for a broker that is being restarted, short
/// enough that a job shows soon why it stands still.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Settings that decide what is read, sent and promised: set here, not by users. The first is written in another way; the
/// last would load code.
const RESERVED: [&str; 14] = [
    "metadata.broker.list",
    "group.id",
    "group.instance.id",
    "enable.auto.commit",
    "auto.commit.enable",
    "enable.auto.offset.store",
    "auto.offset.reset",
    "enable.partition.eof",
    "enable.idempotence",
    "acks",
    "request.required.acks",
    "transactional.id",
    "partitioner",
    "plugin.library.paths",
];

/// How librdkafka's settings for its own tests start. They take pointers, among other things.
const TEST_SETTINGS: [&str; 2] = ["ut_", "test."];

/// Hears what librdkafka has to say, and keeps the last trouble, which tells a user more than an error code.
#[derive(Clone, Default)]
pub struct KafkaContext {
    trouble: Arc<Mutex<Option<String>>>,
}

impl KafkaContext {
    /// The last trouble heard of, taken.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().take()
    }
}

impl ClientContext for KafkaContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::warn!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Warning | RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
                tracing::info!(target: "librdkafka", facility, "{message}");
            }
            RDKafkaLogLevel::Debug => tracing::debug!(target: "librdkafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::info!(target: "librdkafka", %error, "{reason}");
        // That all brokers are down follows from the reason that came before it, and says less.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.trouble.lock() = Some(reason.to_string());
        }
    }
}

impl ConsumerContext for KafkaContext {}

/// What source and sink set in common; the user's properties go on top.
pub fn client_config(brokers: &str, client_id: &str, properties: &BTreeMap<String, String>) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("client.id", client_id);
    // A broker that comes back is found again within a second.
    config.set("reconnect.backoff.ms", "100").set("reconnect.backoff.max.ms", "1000");
    config.set("socket.keepalive.enable", "true");
    for (name, value) in properties {
        config.set(name, value);
    }
    config
}

/// Refuses properties that librdkafka does not know or accept, or that are not the user's to set.
///
/// # Errors
/// `22023` that names the property, and the nearest known one.
pub fn check_properties(brokers: &str, properties: &BTreeMap<String, String>, kind: RDKafkaType) -> SqlResult<()> {
    for (name, value) in properties {
        if RESERVED.contains(&name.as_str()) || TEST_SETTINGS.iter().any(|start| name.starts_with(start)) {
            return Err(SqlError::invalid_parameter(format!("option \"properties.{name}\" can't be set: Thalweg sets it"))
                .with_hint("Leave it out."));
        }
        match ClientConfig::new().set(name, value).create_native_config() {
            Ok(_) => {}
            Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
                let known = known_properties();
                let error = SqlError::invalid_parameter(format!("connector \"kafka\" has no option \"properties.{name}\""));
                return Err(match suggest::nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => error.with_hint(format!("Did you mean \"properties.{near}\"?")),
                    None => error.with_hint("Options after \"properties.\" are those of librdkafka's CONFIGURATION.md."),
                });
            }
            Err(KafkaError::ClientConfig(_, reason, ..)) => {
                return Err(SqlError::invalid_parameter(format!("invalid value for option \"properties.{name}\": \"{value}\""))
                    .with_detail(format!("The Kafka client says: {reason}.")));
            }
            Err(error) => return Err(SqlError::invalid_parameter(format!("invalid option \"properties.{name}\": {error}"))),
        }
    }
    // Some values only clash with each other, or with what this build of librdkafka can do: a client is made to see.
    let mut config = client_config(brokers, "thalweg-check", properties);
    if kind == RDKafkaType::RD_KAFKA_PRODUCER {
        config.set("enable.idempotence", "true");
    }
    let native = config.create_native_config().map_err(|error| SqlError::invalid_parameter(error.to_string()))?;
    match Client::new(&config, native, kind, KafkaContext::default()) {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientCreation(reason)) => {
            Err(SqlError::invalid_parameter("the Kafka client refuses the given properties")
                .with_detail(format!("It says: {reason}.")))
        }
        Err(error) => Err(SqlError::invalid_parameter(format!("the Kafka client refuses the given properties: {error}"))),
    }
}

/// The names of all properties that librdkafka lists.
fn known_properties() -> Vec<String> {
    let Ok(native) = ClientConfig::new().create_native_config() else { return vec![] };
    let mut count = 0;
    let mut names = vec![];
    // SAFETY: the dump is an array of `count` C strings, names and values in turn, valid until it is freed below; the
    // configuration that it is of lives until the end of this function.
    unsafe {
        let dump = bindings::rd_kafka_conf_dump(native.ptr(), &mut count);
        if !dump.is_null() {
            for index in (0..count).step_by(2) {
                names.push(CStr::from_ptr(*dump.add(index)).to_string_lossy().into_owned());
            }
            bindings::rd_kafka_conf_dump_free(dump, count);
        }
    }
    names
}

/// A client's error while it was `doing` something, with the brokers' names and the last trouble that they made.
pub fn external(doing: &str, brokers: &str, error: &KafkaError, context: &KafkaContext) -> ConnectorError {
    let reason = match error.rdkafka_error_code() {
        Some(code) => reason_of(code),
        None => error.to_string(),
    };
    let trouble = match context.take_trouble() {
        Some(trouble) => format!(" ({trouble})"),
        None => String::new(),
    };
    ConnectorError::external(format!("{doing} on Kafka broker {brokers} failed: {reason}{trouble}"))
}

/// What an error code means, in words.
pub fn reason_of(code: RDKafkaErrorCode) -> String {
    match code {
        RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown => "it can't be reached".into(),
        RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::MessageTimedOut | RDKafkaErrorCode::TimedOutQueue => {
            "it did not answer in time".into()
        }
        RDKafkaErrorCode::Resolve => "its name can't be resolved".into(),
        other => other.to_string(),
    }
}

/// The numbers of the topic's partitions, sorted.
///
/// # Errors
/// If the broker can't be asked, or has no such topic.
pub fn partitions_of<C: ClientContext>(
    client: &Client<C>,
    heard: &KafkaContext,
    brokers: &str,
    topic: &str,
) -> ConnectorResult<Vec<i32>> {
    let doing = format!("looking up topic \"{topic}\"");
    let metadata =
        client.fetch_metadata(Some(topic), REQUEST_TIMEOUT).map_err(|error| external(&doing, brokers, &error, heard))?;
    let Some(found) = metadata.topics().iter().find(|t| t.name() == topic) else {
        return Err(ConnectorError::external(format!("{doing} on Kafka broker {brokers} failed: the answer lacks it")));
    };
    match found.error() {
        None => {}
        Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) => return Err(unknown_topic(brokers, topic)),
        Some(error) if error.is_error() => {
            return Err(external(&doing, brokers, &KafkaError::MetadataFetch(error.into()), heard));
        }
        Some(_) => {}
    }
    let mut partitions: Vec<i32> = found.partitions().iter().map(|p| p.id()).collect();
    if partitions.is_empty() {
        return Err(unknown_topic(brokers, topic));
    }
    partitions.sort_unstable();
    Ok(partitions)
}

/// The user must create the topic; as soon as he has, trying again helps.
pub fn unknown_topic(brokers: &str, topic: &str) -> ConnectorError {
    ConnectorError::missing(format!("topic \"{topic}\" does not exist on Kafka broker {brokers}"))
}
