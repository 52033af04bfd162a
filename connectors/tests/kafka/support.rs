//! Topics, records and readers for the tests.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use thalweg_catalog::object::{ConnectorSpec, Encode, Include, MessagePart};
use thalweg_catalog::{Column, SqlType};
use thalweg_connectors::kafka::KafkaSource;
use thalweg_connectors::{ConnectorError, RecordError, SourceBatch, SourceConnector, SourceContext, SourceEvent, SourceReader};

/// How long anything that should come may take, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The address of the broker that all tests share.
pub fn broker() -> String {
    std::env::var("THALWEG_TEST_KAFKA").expect(
        "THALWEG_TEST_KAFKA is not set: run `make test`, or start a broker with `tests/services/kafka.sh start DIR` \
         and set it to the address that this prints",
    )
}

pub fn admin(broker: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", broker).create().expect("an admin client")
}

/// Creates a topic of a name that was never used before.
pub async fn new_topic(broker: &str, partitions: i32) -> String {
    let topic = format!("t-{:016x}", rand::random::<u64>());
    let new = NewTopic::new(&topic, partitions, TopicReplication::Fixed(1));
    let created = admin(broker).create_topics(&[new], &AdminOptions::new()).await.expect("an answer");
    created[0].as_ref().expect("the topic is created");
    topic
}

pub fn producer(broker: &str) -> FutureProducer {
    ClientConfig::new().set("bootstrap.servers", broker).create().expect("a producer")
}

/// Writes values to one partition, in order.
pub async fn produce(broker: &str, topic: &str, partition: i32, values: impl IntoIterator<Item = String>) {
    let producer = producer(broker);
    let sent: Vec<_> = values
        .into_iter()
        .map(|value| {
            let record: FutureRecord<'_, str, String> = FutureRecord::to(topic).partition(partition).payload(&value);
            producer.send_result(record).expect("room in the queue")
        })
        .collect();
    for report in sent {
        report.await.expect("a report").expect("the record is written");
    }
}

/// `{"id": n}` for each number.
pub fn ids(numbers: std::ops::Range<i64>) -> impl Iterator<Item = String> {
    numbers.map(|n| format!("{{\"id\": {n}}}"))
}

/// All records of a topic, by partition, in order.
pub fn dump(broker: &str, topic: &str) -> BTreeMap<i32, Vec<OwnedMessage>> {
    let consumer: BaseConsumer =
        ClientConfig::new().set("bootstrap.servers", broker).set("group.id", "dump").create().expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
    let mut found = BTreeMap::new();
    let mut left = 0;
    let mut list = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        let (low, high) = consumer.fetch_watermarks(topic, partition.id(), PATIENCE).expect("watermarks");
        found.insert(partition.id(), vec![]);
        left += high - low;
        list.add_partition_offset(topic, partition.id(), Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("assigned");
    let deadline = Instant::now() + PATIENCE;
    while left > 0 {
        assert!(Instant::now() < deadline, "{left} records of {topic} did not come");
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            found.entry(message.partition()).or_insert_with(Vec::new).push(message.detach());
            left -= 1;
        }
    }
    found
}

pub fn spec(broker: &str, topic: &str, options: &[(&str, &str)]) -> ConnectorSpec {
    let mut all: BTreeMap<String, String> = BTreeMap::from([
        ("topic".to_string(), topic.to_string()),
        ("properties.bootstrap.server".to_string(), broker.to_string()),
    ]);
    all.extend(options.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    ConnectorSpec {
        connector: "kafka".into(),
        options: all,
        encode: Some(Encode::Json),
        encode_options: BTreeMap::new(),
        includes: vec![],
    }
}

/// A declared source with what it is read with.
pub struct Declared {
    pub source: KafkaSource,
    pub columns: Vec<Column>,
    pub projection: Vec<usize>,
    pub job: String,
}

/// A source of JSON records with the column `id bigint`.
pub fn declare(broker: &str, topic: &str, options: &[(&str, &str)]) -> Declared {
    declare_as(spec(broker, topic, options), vec![Column::new("id", SqlType::Int8)], &[])
}

/// A source with these columns, and then these `INCLUDE` columns.
pub fn declare_as(mut spec: ConnectorSpec, mut columns: Vec<Column>, includes: &[(MessagePart, SqlType)]) -> Declared {
    for (part, sql_type) in includes {
        spec.includes.push(Include { column: columns.len(), part: *part });
        columns.push(Column::new(format!("{part:?}").to_lowercase(), sql_type.clone()));
    }
    let source = KafkaSource::from_spec(&spec, &columns).expect("a valid source");
    let projection = (0..columns.len()).collect();
    Declared { source, columns, projection, job: format!("job-{:08x}", rand::random::<u32>()) }
}

impl Declared {
    /// A reader of these splits.
    pub fn read(&self, splits: &[(&str, Option<&str>)]) -> Result<Reading, ConnectorError> {
        let mut reader = self.source.reader(SourceContext {
            name: "s".into(),
            job: self.job.clone(),
            columns: self.columns.clone(),
            projection: self.projection.clone(),
            time: None,
            runtime: tokio::runtime::Handle::current(),
        })?;
        reader.assign(splits.iter().map(|(split, position)| ((*split).into(), position.map(String::from))).collect())?;
        Ok(Reading { reader, positions: BTreeMap::new(), ended: vec![], rows: vec![], errors: vec![], batches: vec![] })
    }
}

/// What a reader has given so far.
pub struct Reading {
    reader: Box<dyn SourceReader>,
    /// The last position of each split.
    pub positions: BTreeMap<String, String>,
    /// The splits that have ended.
    pub ended: Vec<String>,
    /// The rows as text, with ` | ` between columns.
    pub rows: Vec<String>,
    pub errors: Vec<RecordError>,
    /// Split, rows and position of each batch.
    pub batches: Vec<(String, usize, String)>,
}

impl Reading {
    pub fn assign(&mut self, split: &str, position: Option<&str>) -> Result<(), ConnectorError> {
        self.reader.assign(vec![(split.into(), position.map(String::from))])
    }

    /// Takes one event; whether there was one.
    pub fn step(&mut self, timeout: Duration) -> Result<bool, ConnectorError> {
        match self.reader.next(timeout)? {
            SourceEvent::Idle => return Ok(false),
            SourceEvent::SplitEnd { split, position } => {
                self.positions.insert(split.to_string(), position);
                self.ended.push(split.to_string());
            }
            SourceEvent::Rows(SourceBatch { split, batch, position, errors, .. }) => {
                self.batches.push((split.to_string(), batch.num_rows(), position.clone()));
                self.positions.insert(split.to_string(), position);
                self.rows.extend(lines(&batch));
                self.errors.extend(errors);
            }
        }
        Ok(true)
    }

    /// Reads until the condition holds.
    pub fn until(&mut self, done: impl Fn(&Reading) -> bool) -> Result<(), ConnectorError> {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(
                Instant::now() < deadline,
                "only {} rows and {} errors came, positions {:?}",
                self.rows.len(),
                self.errors.len(),
                self.positions
            );
            self.step(Duration::from_millis(100))?;
        }
        Ok(())
    }

    /// Reads until there are so many rows, and a little longer to see that no more come.
    pub fn rows(&mut self, count: usize) -> &[String] {
        self.until(|reading| reading.rows.len() >= count).expect("rows");
        while self.step(Duration::from_millis(300)).expect("no error") {}
        &self.rows
    }
}

/// The rows of a batch as text.
pub fn lines(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).expect("a printable column")).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" | "))
        .collect()
}

pub fn strings(numbers: impl IntoIterator<Item = i64>) -> Vec<String> {
    numbers.into_iter().map(|n| n.to_string()).collect()
}
