//! The sink connector: JSON records through an idempotent producer.

use super::client::{self, KafkaContext};
use super::options::KafkaSinkOptions;
use super::source::blocking;

use crate::encode::JsonRows;
use crate::error::{ConnectorError, ConnectorResult, Responsible};
use crate::sink::{Delivery, Guarantee, SinkBatch, SinkConnector, SinkContext, SinkWriter};
use async_trait::async_trait;
use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext, PurgeConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thalweg_catalog::object::{ConnectorSpec, Encode, SinkMode};
use thalweg_catalog::{Column, Epoch, SqlError, SqlResult};

/// How long the producer is served before what it has done is looked at again. It takes all of this time, so it is short.
const POLL: Duration = Duration::from_millis(2);

/// How long a record may take until the broker has it. Then the delivery fails, is shown as failed, and is tried again.
const DELIVERY_TIMEOUT_MS: &str = "30000";

/// A topic that is written to.
#[derive(Clone, Debug)]
pub struct KafkaSink {
    options: Arc<KafkaSinkOptions>,
}

impl KafkaSink {
    /// The sink that these options declare.
    ///
    /// # Errors
    /// `22023` for a bad option, `0A000` for an encoding other than JSON.
    pub fn from_spec(spec: &ConnectorSpec, _columns: &[Column]) -> SqlResult<KafkaSink> {
        let options = KafkaSinkOptions::parse(spec)?;
        match spec.encode {
            None | Some(Encode::Json) => Ok(KafkaSink { options: Arc::new(options) }),
            Some(other) => {
                Err(SqlError::unsupported(format!("a Kafka sink can't write {other}"))
                    .with_hint("Use ENCODE JSON, or leave it out."))
            }
        }
    }

    /// The checked options.
    pub fn options(&self) -> &KafkaSinkOptions {
        &self.options
    }
}

#[async_trait]
impl SinkConnector for KafkaSink {
    fn delivery(&self) -> Delivery {
        Delivery::OnEpoch
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    async fn writer(&self, context: SinkContext) -> ConnectorResult<Box<dyn SinkWriter>> {
        if context.mode == SinkMode::Upsert && context.key.is_empty() {
            return Err(ConnectorError::user(format!("upsert sink \"{}\" has no key", context.name)));
        }
        let options = Arc::clone(&self.options);
        let client_id = format!("thalweg-{}-{}", context.name, context.writer);
        let producer = blocking(move || open(&options, &client_id)).await?;
        Ok(Box::new(KafkaWriter { options: Arc::clone(&self.options), context: Arc::new(context), producer }))
    }
}

/// Makes a producer and sees whether the topic is there; a broker that creates topics on demand does it now.
fn open(options: &KafkaSinkOptions, client_id: &str) -> ConnectorResult<Arc<BaseProducer<Reports>>> {
    let mut config = client::client_config(&options.brokers, client_id, &options.properties);
    config.set("enable.idempotence", "true").set("acks", "all");
    // As Java producers do it, so that records with one key meet in one partition whoever wrote them.
    config.set("partitioner", "murmur2_random");
    // Both names of a setting, since the client takes whichever comes last.
    for (names, value) in [
        (["message.timeout.ms", "delivery.timeout.ms"].as_slice(), DELIVERY_TIMEOUT_MS),
        (&["queue.buffering.max.kbytes"], "65536"),
    ] {
        if !names.iter().any(|name| options.properties.contains_key(*name)) {
            config.set(names[0], value);
        }
    }
    let producer: BaseProducer<Reports> = config
        .create_with_context(Reports::default())
        .map_err(|error| ConnectorError::user(format!("the Kafka client could not be made: {error}")))?;
    let heard = producer.context().heard.clone();
    // A topic that is just being created is unknown for a moment, so the question is put more than once.
    let mut tries = 5;
    loop {
        let answer = client::partitions_of(producer.client(), &heard, &options.brokers, &options.topic);
        producer.poll(Duration::ZERO);
        match answer {
            Ok(_) => return Ok(Arc::new(producer)),
            Err(error) if error.responsible == Responsible::User && tries > 1 => {
                tries -= 1;
                producer.poll(Duration::from_millis(200));
            }
            Err(error) => return Err(error),
        }
    }
}

struct KafkaWriter {
    options: Arc<KafkaSinkOptions>,
    context: Arc<SinkContext>,
    producer: Arc<BaseProducer<Reports>>,
}

#[async_trait]
impl SinkWriter for KafkaWriter {
    /// The topic does not tell.
    async fn delivered(&mut self) -> ConnectorResult<Option<Epoch>> {
        Ok(None)
    }

    async fn deliver(&mut self, _through: Epoch, batches: Vec<SinkBatch>) -> ConnectorResult<()> {
        if batches.iter().all(|batch| batch.batch.num_rows() == 0) {
            return Ok(());
        }
        if self.producer.client().fatal_error().is_some() {
            // Such a producer never sends again; a new one can.
            let (options, client_id) =
                (Arc::clone(&self.options), format!("thalweg-{}-{}", self.context.name, self.context.writer));
            self.producer = blocking(move || open(&options, &client_id)).await?;
        }
        let delivery = DeliveryRound {
            options: Arc::clone(&self.options),
            context: Arc::clone(&self.context),
            producer: Arc::clone(&self.producer),
        };
        blocking(move || delivery.run(&batches)).await
    }
}

/// One call of `deliver`, where it may block.
struct DeliveryRound {
    options: Arc<KafkaSinkOptions>,
    context: Arc<SinkContext>,
    producer: Arc<BaseProducer<Reports>>,
}

impl DeliveryRound {
    fn run(&self, batches: &[SinkBatch]) -> ConnectorResult<()> {
        let reports = self.producer.context();
        reports.begin();
        let mut sent = Ok(());
        for batch in batches {
            sent = self.send_batch(batch);
            if sent.is_err() {
                // What still waits must not come after what the next try sends.
                self.producer.purge(PurgeConfig::default().queue());
                break;
            }
        }
        while reports.outstanding.load(Ordering::Acquire) > 0 {
            self.producer.poll(POLL);
        }
        sent?;
        match reports.failure.lock().take() {
            None => Ok(()),
            Some(error) => Err(self.failure(&error)),
        }
    }

    fn send_batch(&self, batch: &SinkBatch) -> ConnectorResult<()> {
        let context = &*self.context;
        let all: Vec<usize> = (0..context.columns.len()).collect();
        let keys = JsonRows::new(&batch.batch, &context.columns, &context.key)?;
        let values = JsonRows::new(&batch.batch, &context.columns, &all)?;
        let (mut key_bytes, mut value_bytes) = (vec![], vec![]);
        for row in 0..batch.batch.num_rows() {
            let weight = batch.weights.as_ref().map_or(1, |weights| weights.value(row));
            key_bytes.clear();
            keys.write(row, &mut key_bytes);
            value_bytes.clear();
            values.write(row, &mut value_bytes);
            let key = (!context.key.is_empty()).then_some(key_bytes.as_slice());
            let value = Some(value_bytes.as_slice());
            match (self.context.mode, weight) {
                (_, 0) => {}
                (SinkMode::AppendOnly, 1..) => {
                    for _ in 0..weight {
                        self.send(key, value)?;
                    }
                }
                (SinkMode::Upsert, 1) => self.send(key, value)?,
                (SinkMode::Upsert, -1) => self.send(key, None)?,
                (mode, weight) => {
                    return Err(ConnectorError::internal(format!(
                        "a row of weight {weight} came to the {mode:?} sink \"{}\"",
                        self.context.name
                    )));
                }
            }
        }
        Ok(())
    }

    /// Queues one record; waits while the queue is full.
    fn send(&self, key: Option<&[u8]>, value: Option<&[u8]>) -> ConnectorResult<()> {
        let reports = self.producer.context();
        let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&self.options.topic);
        record.key = key;
        record.payload = value;
        reports.outstanding.fetch_add(1, Ordering::AcqRel);
        loop {
            match self.producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                    record = refused;
                    self.producer.poll(POLL);
                    // Once one record has failed all will be sent again, so no more are queued.
                    if let Some(error) = reports.failure.lock().clone() {
                        reports.outstanding.fetch_sub(1, Ordering::AcqRel);
                        return Err(self.failure(&error));
                    }
                }
                Err((error, _)) => {
                    reports.outstanding.fetch_sub(1, Ordering::AcqRel);
                    return Err(self.failure(&error));
                }
            }
        }
        Ok(())
    }

    fn failure(&self, error: &KafkaError) -> ConnectorError {
        let doing = format!("writing to topic \"{}\"", self.options.topic);
        let failure = client::external(&doing, &self.options.brokers, error, &self.producer.context().heard);
        match error.rdkafka_error_code() {
            Some(
                RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition,
            ) => client::unknown_topic(&self.options.brokers, &self.options.topic),
            // The same record will be refused every time.
            Some(
                RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidMessageSize
                | RDKafkaErrorCode::InvalidRecord
                | RDKafkaErrorCode::PolicyViolation
                | RDKafkaErrorCode::InvalidMessage,
            ) => ConnectorError::user(failure.message),
            // Someone must give the right; then trying again helps.
            Some(RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed) => {
                ConnectorError { responsible: Responsible::User, ..failure }
            }
            _ => failure,
        }
    }
}

/// Counts the records whose fate is open, and keeps the first failure.
#[derive(Clone, Default)]
struct Reports {
    heard: KafkaContext,
    outstanding: Arc<AtomicUsize>,
    failure: Arc<Mutex<Option<KafkaError>>>,
}

impl Reports {
    fn begin(&self) {
        *self.failure.lock() = None;
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.heard.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.heard.error(error, reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            self.failure.lock().get_or_insert_with(|| error.clone());
        }
        self.outstanding.fetch_sub(1, Ordering::AcqRel);
    }
}
