//! The source connector: partitions, discovery, acknowledged offsets.

use super::client::{self, KafkaContext};
use super::includes;
use super::options::{BoundedMode, KafkaSourceOptions};
use super::position::KafkaPosition;
use super::reader::KafkaReader;
use crate::decode::Format;
use crate::error::{ConnectorError, ConnectorResult, Responsible};
use crate::source::{Boundedness, Position, SourceConnector, SourceContext, SourceReader, SplitId};
use async_trait::async_trait;
use parking_lot::Mutex;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::object::ConnectorSpec;
use thalweg_catalog::{Column, SqlError, SqlResult, SqlState};

/// How often a topic that does not exist is looked for when a source is declared.
const NEW_TOPIC_TRIES: usize = 10;
/// How long between two looks.
const NEW_TOPIC_WAIT: Duration = Duration::from_millis(200);

/// A topic that is read.
#[derive(Clone)]
pub struct KafkaSource {
    shared: Arc<Shared>,
}

/// What the source and its readers share.
pub(super) struct Shared {
    pub options: KafkaSourceOptions,
    pub format: Format,
    pub spec: ConnectorSpec,
    known: Mutex<Known>,
    /// Asks for the topic's partitions. Kept, since every look for new ones would otherwise connect anew.
    lookup: Mutex<Option<Arc<BaseConsumer<KafkaContext>>>>,
    /// The job that reads, after which the group is named. Apart from what is locked while a commit waits.
    job: Mutex<Option<String>>,
    acknowledged: Mutex<Acknowledged>,
}

/// Which partitions were there from the start, so that one that comes later is read from its first record.
#[derive(Default)]
struct Known {
    first: Option<BTreeSet<i32>>,
    /// Some partition was assigned with a position, so the start is long past.
    resumed: bool,
}

/// The offsets that were committed to the group, to leave it alone while nothing moves.
#[derive(Default)]
struct Acknowledged {
    consumer: Option<Arc<BaseConsumer<KafkaContext>>>,
    offsets: BTreeMap<i32, i64>,
}

impl KafkaSource {
    /// The source that these options and columns declare.
    ///
    /// # Errors
    /// `22023` for a bad option, `42804` for an `INCLUDE` column of the wrong type, `0A000` or `42P16` for an encoding that
    /// records of a topic, or these columns, can't have.
    pub fn from_spec(spec: &ConnectorSpec, columns: &[Column]) -> SqlResult<KafkaSource> {
        let options = KafkaSourceOptions::parse(spec)?;
        includes::check(&spec.includes, columns)?;
        let Some(encode) = spec.encode else {
            return Err(SqlError::invalid_parameter("a Kafka source needs an encoding")
                .with_hint("Add FORMAT PLAIN ENCODE JSON, or CSV or BYTES."));
        };
        let format = Format::new(encode, &spec.encode_options)?;
        let included = |index: usize| spec.includes.iter().any(|include| include.column == index);
        let payload: Vec<Column> =
            columns.iter().enumerate().filter(|(index, _)| !included(*index)).map(|(_, column)| column.clone()).collect();
        format.check(&payload)?;
        let shared = Shared {
            options,
            format,
            spec: spec.clone(),
            known: Mutex::default(),
            lookup: Mutex::default(),
            job: Mutex::default(),
            acknowledged: Mutex::default(),
        };
        Ok(KafkaSource { shared: Arc::new(shared) })
    }

    /// The checked options.
    pub fn options(&self) -> &KafkaSourceOptions {
        &self.shared.options
    }
}

#[async_trait]
impl SourceConnector for KafkaSource {
    fn boundedness(&self) -> Boundedness {
        match self.shared.options.bounded {
            BoundedMode::Unbounded => Boundedness::Unbounded,
            BoundedMode::Latest => Boundedness::Bounded,
        }
    }

    async fn splits(&self) -> ConnectorResult<Vec<SplitId>> {
        let shared = Arc::clone(&self.shared);
        let partitions = blocking(move || shared.partitions()).await?;
        Ok(partitions.into_iter().map(|partition| SplitId::from(partition.to_string())).collect())
    }

    async fn check(&self, _context: SourceContext) -> SqlResult<()> {
        let mut tries = NEW_TOPIC_TRIES;
        loop {
            match self.splits().await {
                Ok(_) => return Ok(()),
                // A topic that is just being created is unknown for a moment.
                Err(error) if error.responsible == Responsible::User && tries > 1 => {
                    tries -= 1;
                    tokio::time::sleep(NEW_TOPIC_WAIT).await;
                }
                Err(error) => {
                    let hint = match error.responsible {
                        Responsible::User => "Create the topic first, or check its name.",
                        _ => "Check that a broker runs there, and that this machine may reach it.",
                    };
                    return Err(error.refusal(SqlState::UndefinedObject).with_hint(hint));
                }
            }
        }
    }

    fn discovery_interval(&self, _found: &[SplitId]) -> Option<Duration> {
        match self.shared.options.bounded {
            BoundedMode::Unbounded => self.shared.options.discovery_interval,
            BoundedMode::Latest => None,
        }
    }

    fn reader(&self, context: SourceContext) -> ConnectorResult<Box<dyn SourceReader>> {
        *self.shared.job.lock() = Some(context.job.clone());
        Ok(Box::new(KafkaReader::new(Arc::clone(&self.shared), context)?))
    }

    async fn checkpointed(&self, positions: &BTreeMap<SplitId, Position>) -> ConnectorResult<()> {
        let mut offsets = BTreeMap::new();
        for (split, position) in positions {
            offsets.insert(partition_of(split)?, KafkaPosition::parse(position)?.next);
        }
        let shared = Arc::clone(&self.shared);
        blocking(move || shared.acknowledge(offsets)).await
    }
}

impl Shared {
    /// Whether a partition that has no position yet was added after the start.
    pub fn came_later(&self, partition: i32) -> bool {
        let known = self.known.lock();
        known.resumed || known.first.as_ref().is_some_and(|first| !first.contains(&partition))
    }

    /// Notes that partitions are read on from where they had been read to.
    pub fn has_resumed(&self) {
        self.known.lock().resumed = true;
    }

    fn partitions(&self) -> ConnectorResult<Vec<i32>> {
        let consumer = {
            let mut lookup = self.lookup.lock();
            match &*lookup {
                Some(consumer) => Arc::clone(consumer),
                None => Arc::clone(lookup.insert(Arc::new(self.consumer("thalweg-lookup", None)?))),
            }
        };
        let options = &self.options;
        let heard = consumer.context().as_ref().clone();
        let partitions = client::partitions_of(consumer.client(), &heard, &options.brokers, &options.topic);
        // The client's log and error events are handled where it is polled; nothing else comes here.
        while consumer.poll(Duration::ZERO).is_some() {}
        let partitions = partitions?;
        self.known.lock().first.get_or_insert_with(|| partitions.iter().copied().collect());
        Ok(partitions)
    }

    /// A consumer with the user's properties. With a group it can be assigned partitions, and commit.
    pub fn consumer(&self, client_id: &str, group: Option<&str>) -> ConnectorResult<BaseConsumer<KafkaContext>> {
        let mut config = client::client_config(&self.options.brokers, client_id, &self.options.properties);
        config.set("enable.auto.commit", "false").set("enable.auto.offset.store", "false").set("auto.offset.reset", "error");
        if let Some(group) = group {
            config.set("group.id", group);
            // Nobody joins the group; this is how long a commit waits for a broker that is away.
            config.set("session.timeout.ms", "10000");
        }
        if self.options.bounded == BoundedMode::Latest {
            config.set("enable.partition.eof", "true");
        }
        let given = |name: &str| self.options.properties.contains_key(name);
        // A queue that has run full is filled again at once, not after a second, in which a fast reader would starve.
        if !given("fetch.queue.backoff.ms") {
            config.set("fetch.queue.backoff.ms", "10");
        }
        // The queue is per worker; it bounds the memory that a source takes before its rows are decoded.
        if !given("queued.max.messages.kbytes") {
            config.set("queued.max.messages.kbytes", "32768");
        }
        config
            .create_with_context(KafkaContext::default())
            .map_err(|error| ConnectorError::user(format!("the Kafka client could not be made: {error}")))
    }

    /// The group that a job commits its offsets to.
    pub fn group(&self, job: &str) -> String {
        format!("{}-{job}", self.options.group_prefix)
    }

    fn acknowledge(&self, offsets: BTreeMap<i32, i64>) -> ConnectorResult<()> {
        // If a commit still waits for a broker that is away, the next checkpoint has newer offsets anyway.
        let Some(mut acknowledged) = self.acknowledged.try_lock() else { return Ok(()) };
        let changed: Vec<(i32, i64)> =
            offsets.into_iter().filter(|(partition, next)| acknowledged.offsets.get(partition) != Some(next)).collect();
        let Some(job) = self.job.lock().clone() else { return Ok(()) };
        if changed.is_empty() {
            return Ok(());
        }
        let consumer = match &acknowledged.consumer {
            Some(consumer) => Arc::clone(consumer),
            None => {
                let consumer = Arc::new(self.consumer(&format!("thalweg-commit-{job}"), Some(&self.group(&job)))?);
                Arc::clone(acknowledged.consumer.insert(consumer))
            }
        };
        let mut list = TopicPartitionList::new();
        for (partition, next) in &changed {
            list.add_partition_offset(&self.options.topic, *partition, Offset::Offset(*next))
                .map_err(|error| ConnectorError::internal(format!("offset {next} can't be committed: {error}")))?;
        }
        let committed = consumer.commit(&list, CommitMode::Sync);
        while consumer.poll(Duration::ZERO).is_some() {}
        committed.map_err(|error| {
            let doing = format!("committing offsets of topic \"{}\"", self.options.topic);
            client::external(&doing, &self.options.brokers, &error, consumer.context())
        })?;
        acknowledged.offsets.extend(changed);
        Ok(())
    }
}

/// The partition that a split's name says.
pub(super) fn partition_of(split: &str) -> ConnectorResult<i32> {
    split
        .parse()
        .ok()
        .filter(|partition| *partition >= 0)
        .ok_or_else(|| ConnectorError::internal(format!("\"{split}\" is not the number of a Kafka partition")))
}

/// Runs what waits for the network where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> ConnectorResult<T> + Send + 'static,
) -> ConnectorResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ConnectorError::internal(format!("a call of the Kafka client ended early: {error}"))),
    }
}
