//! Reads partitions: one consumer with explicit assignment for each reader.

use super::client::{self, KafkaContext};
use super::options::{BoundedMode, LostOffsets, StartupMode};
use super::position::KafkaPosition;
use super::rows::Rows;
use super::source::{Shared, partition_of};
use crate::decode::{BATCH_BYTES, BATCH_ROWS};
use crate::error::{ConnectorError, ConnectorResult};
use crate::source::{Position, RecordError, SourceBatch, SourceContext, SourceEvent, SourceReader, SplitId};
use rdkafka::bindings;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

/// Reads some partitions of a topic.
pub struct KafkaReader {
    shared: Arc<Shared>,
    context: SourceContext,
    /// The topic's name as librdkafka takes it.
    topic: CString,
    consumer: Option<BaseConsumer<KafkaContext>>,
    partitions: BTreeMap<i32, Partition>,
    /// What was read and not yet given out.
    ready: VecDeque<SourceEvent>,
}

struct Partition {
    split: SplitId,
    position: KafkaPosition,
    rows: Rows,
    ended: bool,
}

impl KafkaReader {
    /// A reader of nothing yet.
    ///
    /// # Errors
    /// If the declared columns do not fit the encoding.
    pub fn new(shared: Arc<Shared>, context: SourceContext) -> ConnectorResult<KafkaReader> {
        // Made to see whether it can be; each partition makes its own.
        Rows::new(&shared.format, &shared.spec, &context)?;
        let topic = CString::new(shared.options.topic.as_str())
            .map_err(|_| ConnectorError::user("the topic's name has a zero byte in it"))?;
        Ok(KafkaReader { shared, context, topic, consumer: None, partitions: BTreeMap::new(), ready: VecDeque::new() })
    }

    fn no_rows(&self) -> ConnectorResult<Rows> {
        Rows::new(&self.shared.format, &self.shared.spec, &self.context)
    }

    fn consumer(&mut self) -> ConnectorResult<&BaseConsumer<KafkaContext>> {
        if self.consumer.is_none() {
            let client_id = format!("thalweg-{}-{}", self.context.name, self.context.job);
            self.consumer = Some(self.shared.consumer(&client_id, Some(&self.shared.group(&self.context.job)))?);
        }
        self.consumer.as_ref().ok_or_else(|| ConnectorError::internal("a reader has no consumer"))
    }

    /// Starts one partition: finds out where, tells that place before any row, and checks that it is still there.
    fn start(&mut self, split: SplitId, given: Option<&str>) -> ConnectorResult<()> {
        let partition = partition_of(&split)?;
        let (low, high) = self.watermarks(partition)?;
        let bounded = self.shared.options.bounded == BoundedMode::Latest;
        let mut errors = vec![];
        let position = match given {
            Some(text) => {
                let mut position = KafkaPosition::parse(text)?;
                if let Some(lost) = self.check(partition, &mut position, low, high)? {
                    errors.push(lost);
                }
                position
            }
            None => KafkaPosition { next: self.first_offset(partition, low, high)?, end: bounded.then_some(high) },
        };
        // The place is given out before there is a row, so that a restart before the first one starts here again even if
        // the options name a place that moves.
        if given.is_none() || !errors.is_empty() {
            self.ready.push_back(SourceEvent::Rows(SourceBatch {
                split: Arc::clone(&split),
                batch: self.no_rows()?.finish()?.0,
                position: position.to_string(),
                errors,
                lag: lag(position, high),
            }));
        }
        let ended = position.is_at_end();
        if ended {
            self.ready.push_back(SourceEvent::SplitEnd { split: Arc::clone(&split), position: position.to_string() });
        } else {
            let list = self.offsets(&[(partition, position.next)])?;
            let brokers = self.shared.options.brokers.clone();
            let consumer = self.consumer()?;
            consumer
                .incremental_assign(&list)
                .map_err(|error| client::external("assigning a partition", &brokers, &error, consumer.context()))?;
        }
        let rows = self.no_rows()?;
        self.partitions.insert(partition, Partition { split, position, rows, ended });
        Ok(())
    }

    /// The offset of the first record that there is, and the one after the last.
    fn watermarks(&mut self, partition: i32) -> ConnectorResult<(i64, i64)> {
        let doing = format!("asking for the offsets of topic \"{}\" partition {partition}", self.shared.options.topic);
        let (topic, brokers) = (self.shared.options.topic.clone(), self.shared.options.brokers.clone());
        let consumer = self.consumer()?;
        let mut answer = consumer.fetch_watermarks(&topic, partition, client::REQUEST_TIMEOUT);
        // The client knows the partitions that it was told of before; a new one may have been found by another client.
        if matches!(&answer, Err(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::UnknownPartition)) {
            client::partitions_of(consumer.client(), consumer.context(), &brokers, &topic)?;
            answer = consumer.fetch_watermarks(&topic, partition, client::REQUEST_TIMEOUT);
        }
        answer.map_err(|error| match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                client::unknown_topic(&brokers, &topic)
            }
            _ => client::external(&doing, &brokers, &error, consumer.context()),
        })
    }

    /// Where the options say that this partition starts.
    fn first_offset(&mut self, partition: i32, low: i64, high: i64) -> ConnectorResult<i64> {
        if self.shared.came_later(partition) {
            return Ok(low);
        }
        let millis = match self.shared.options.startup {
            StartupMode::Earliest => return Ok(low),
            StartupMode::Latest => return Ok(high),
            StartupMode::Timestamp(millis) => millis,
        };
        let list = self.offsets(&[(partition, millis)])?;
        let brokers = self.shared.options.brokers.clone();
        let consumer = self.consumer()?;
        let answer = consumer
            .offsets_for_times(list, client::REQUEST_TIMEOUT)
            .map_err(|error| client::external("looking up offsets by time", &brokers, &error, consumer.context()))?;
        match answer.elements().first().map(|found| (found.error(), found.offset())) {
            Some((Ok(()), Offset::Offset(offset))) => Ok(offset),
            // No record is as late as that.
            Some((Ok(()), _)) => Ok(high),
            Some((Err(error), _)) => Err(client::external("looking up offsets by time", &brokers, &error, consumer.context())),
            None => Err(ConnectorError::external(format!("Kafka broker {brokers} did not say which offset has a time"))),
        }
    }

    /// Whether the place is still there. If not, and gaps are to be skipped, it moves, and the gap is told.
    fn check(&self, partition: i32, position: &mut KafkaPosition, low: i64, high: i64) -> ConnectorResult<Option<RecordError>> {
        let options = &self.shared.options;
        let next = position.next;
        if next > high {
            return Err(ConnectorError::user(format!(
                "topic \"{}\" partition {partition} ends at offset {high}, before offset {next} from where reading would go on: \
                 was it deleted and created again?",
                options.topic
            )));
        }
        if next >= low {
            return Ok(None);
        }
        match options.lost_offsets {
            LostOffsets::Fail => Err(ConnectorError::user(format!(
                "records of topic \"{}\" partition {partition} from offset {next} to {} were removed before they were read; \
                 scan.lost.offsets = 'skip' would go on after them",
                options.topic,
                low - 1
            ))),
            LostOffsets::Skip => {
                position.next = low;
                Ok(Some(RecordError {
                    position: format!("offset {next} to {}", low - 1),
                    reason: format!("records of partition {partition} were removed from the topic before they were read"),
                    excerpt: String::new(),
                }))
            }
        }
    }

    fn offsets(&self, offsets: &[(i32, i64)]) -> ConnectorResult<TopicPartitionList> {
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        for (partition, offset) in offsets {
            list.add_partition_offset(&self.shared.options.topic, *partition, Offset::Offset(*offset)).map_err(|error| {
                ConnectorError::internal(format!("offset {offset} of partition {partition} can't be used: {error}"))
            })?;
        }
        Ok(list)
    }

    /// Reads what has come: waits for the first record, then takes those that are there already.
    fn read(&mut self, timeout: Duration) -> ConnectorResult<()> {
        let mut wait = timeout;
        let mut bytes = 0;
        // The bound holds for all partitions together, however many there are.
        while bytes < BATCH_BYTES {
            let KafkaReader { consumer: Some(consumer), partitions, .. } = self else { break };
            match consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    bytes += message.payload_len() + message.key_len();
                    if let Some(partition) = partitions.get_mut(&message.partition())
                        && partition.take(&message)
                    {
                        break;
                    }
                }
                Some(Err(KafkaError::PartitionEOF(number))) => {
                    if let Some(partition) = partitions.get_mut(&number) {
                        partition.reached_end();
                    }
                }
                Some(Err(error)) => {
                    self.hear(&error)?;
                    break;
                }
            }
            wait = Duration::ZERO;
        }
        self.give_out()
    }

    /// Turns what the partitions have collected into batches.
    fn give_out(&mut self) -> ConnectorResult<()> {
        let KafkaReader { consumer: Some(consumer), partitions, ready, topic, .. } = self else { return Ok(()) };
        let mut ended = vec![];
        for (number, partition) in partitions.iter_mut().filter(|(_, partition)| !partition.ended) {
            if partition.rows.records() > 0 {
                let (batch, errors) = partition.rows.finish()?;
                ready.push_back(SourceEvent::Rows(SourceBatch {
                    split: Arc::clone(&partition.split),
                    batch,
                    position: partition.position.to_string(),
                    errors,
                    lag: cached_end(consumer, topic, *number).and_then(|high| lag(partition.position, high)),
                }));
            }
            if partition.position.is_at_end() {
                partition.ended = true;
                ended.push((*number, partition.position.next));
                let (split, position) = (Arc::clone(&partition.split), partition.position.to_string());
                ready.push_back(SourceEvent::SplitEnd { split, position });
            }
        }
        if !ended.is_empty() {
            self.unassign(&ended)?;
        }
        Ok(())
    }

    fn unassign(&self, offsets: &[(i32, i64)]) -> ConnectorResult<()> {
        let list = self.offsets(offsets)?;
        let Some(consumer) = &self.consumer else { return Ok(()) };
        consumer
            .incremental_unassign(&list)
            .map_err(|error| ConnectorError::internal(format!("a Kafka partition can't be given back: {error}")))
    }

    /// Decides whether an error that the client reports is one that it gets over by itself.
    fn hear(&mut self, error: &KafkaError) -> ConnectorResult<()> {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => self.find_lost_offsets(),
            Some(
                RDKafkaErrorCode::AllBrokersDown
                | RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::Resolve
                | RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::RequestTimedOut
                | RDKafkaErrorCode::NetworkException,
            ) => self.probe(),
            _ => Err(self.failure(error)),
        }
    }

    fn failure(&self, error: &KafkaError) -> ConnectorError {
        let options = &self.shared.options;
        let nothing_heard = KafkaContext::default();
        let heard = self.consumer.as_ref().map_or(&nothing_heard, |consumer| consumer.context());
        client::external(&format!("reading topic \"{}\"", options.topic), &options.brokers, error, heard)
    }

    /// The client connects again by itself, for ever and in silence, so a broker is asked: either it answers in time, or the
    /// job fails with a reason that can be seen, and is started again later.
    fn probe(&self) -> ConnectorResult<()> {
        let options = &self.shared.options;
        let Some(consumer) = &self.consumer else { return Ok(()) };
        let heard = consumer.context().as_ref().clone();
        client::partitions_of(consumer.client(), &heard, &options.brokers, &options.topic).map(|_| ())
    }

    /// Some partition's next offset is not there any more; the error does not say which one's.
    fn find_lost_offsets(&mut self) -> ConnectorResult<()> {
        let mut found = false;
        let running: Vec<i32> = self.partitions.iter().filter(|(_, p)| !p.ended).map(|(number, _)| *number).collect();
        for number in running {
            let (low, high) = self.watermarks(number)?;
            let Some(mut position) = self.partitions.get(&number).map(|p| p.position) else { continue };
            let Some(lost) = self.check(number, &mut position, low, high)? else { continue };
            found = true;
            self.give_out()?;
            self.unassign(&[(number, position.next)])?;
            let list = self.offsets(&[(number, position.next)])?;
            if let Some(consumer) = &self.consumer {
                consumer.incremental_assign(&list).map_err(|error| self.failure(&error))?;
            }
            let batch = self.no_rows()?.finish()?.0;
            if let Some(partition) = self.partitions.get_mut(&number) {
                partition.position = position;
                self.ready.push_back(SourceEvent::Rows(SourceBatch {
                    split: Arc::clone(&partition.split),
                    batch,
                    position: position.to_string(),
                    errors: vec![lost],
                    lag: lag(position, high),
                }));
            }
        }
        // The client has stopped reading a partition, so going on would mean to wait for ever.
        if found { Ok(()) } else { Err(self.failure(&KafkaError::MessageConsumption(RDKafkaErrorCode::OffsetOutOfRange))) }
    }
}

impl SourceReader for KafkaReader {
    fn assign(&mut self, splits: Vec<(SplitId, Option<Position>)>) -> ConnectorResult<()> {
        if splits.iter().any(|(_, position)| position.is_some()) {
            self.shared.has_resumed();
        }
        for (split, position) in splits {
            self.start(split, position.as_deref())?;
        }
        Ok(())
    }

    fn next(&mut self, timeout: Duration) -> ConnectorResult<SourceEvent> {
        if let Some(event) = self.ready.pop_front() {
            return Ok(event);
        }
        if self.partitions.values().all(|partition| partition.ended) {
            // Nothing can come before the next call of `assign`.
            std::thread::sleep(timeout);
            return Ok(SourceEvent::Idle);
        }
        self.read(timeout)?;
        Ok(self.ready.pop_front().unwrap_or(SourceEvent::Idle))
    }
}

impl Partition {
    /// Takes a record; whether the batch is full.
    fn take<M: Message>(&mut self, message: &M) -> bool {
        let offset = message.offset();
        // Records that were fetched before the position moved, and those after the end.
        if offset < self.position.next || self.position.is_at_end() {
            return false;
        }
        if self.position.end.is_some_and(|end| offset >= end) {
            self.reached_end();
            return false;
        }
        self.rows.push(message);
        self.position.next = offset + 1;
        self.rows.records() >= BATCH_ROWS
    }

    /// All that was in the partition when the end was asked for has been read. What is between the last record and the end
    /// are marks of transactions, which are never given out.
    fn reached_end(&mut self) {
        if let Some(end) = self.position.end {
            self.position.next = self.position.next.max(end);
        }
    }
}

/// How many records follow, as far as offsets tell.
fn lag(position: KafkaPosition, high: i64) -> Option<u64> {
    u64::try_from(position.end.unwrap_or(high) - position.next).ok()
}

/// The offset after the partition's last record, as the last fetch told it; asks no broker.
fn cached_end(consumer: &BaseConsumer<KafkaContext>, topic: &CString, partition: i32) -> Option<i64> {
    let (mut low, mut high) = (0, 0);
    // SAFETY: the client lives as long as the consumer that is borrowed here, the topic is a C string, and the two numbers
    // are written before the call returns.
    let answer = unsafe {
        bindings::rd_kafka_get_watermark_offsets(consumer.client().native_ptr(), topic.as_ptr(), partition, &mut low, &mut high)
    };
    (answer == bindings::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR && high >= 0).then_some(high)
}
