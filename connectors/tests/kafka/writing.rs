//! Writing: what records look like, their order, what is refused.

use crate::support::{broker, dump, new_topic, spec};
use arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use rdkafka::message::{Message, OwnedMessage};
use std::collections::BTreeMap;
use std::sync::Arc;
use thalweg_catalog::object::SinkMode;
use thalweg_catalog::{Column, Epoch, SqlType, schema_of};
use thalweg_connectors::kafka::KafkaSink;
use thalweg_connectors::{ConnectorError, Delivery, Guarantee, Responsible, SinkBatch, SinkConnector, SinkContext, SinkWriter};

fn columns() -> Vec<Column> {
    vec![Column::new("id", SqlType::Int8), Column::new("name", SqlType::Text)]
}

/// Rows of id, name and weight.
pub fn changes(epoch: u64, rows: &[(i64, Option<&str>, i64)]) -> SinkBatch {
    let ids = Int64Array::from_iter_values(rows.iter().map(|row| row.0));
    let names: StringArray = rows.iter().map(|row| row.1).collect();
    let columns: Vec<Arc<dyn Array>> = vec![Arc::new(ids), Arc::new(names)];
    SinkBatch {
        epoch: Epoch(epoch),
        batch: RecordBatch::try_new(schema_of(&self::columns()), columns).unwrap(),
        weights: Some(Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
    }
}

pub async fn writer(
    broker: &str,
    topic: &str,
    options: &[(&str, &str)],
    mode: SinkMode,
    key: &[usize],
) -> Result<Box<dyn SinkWriter>, ConnectorError> {
    let sink = KafkaSink::from_spec(&spec(broker, topic, options), &columns()).unwrap();
    assert_eq!((sink.delivery(), sink.guarantee()), (Delivery::OnEpoch, Guarantee::AtLeastOnce));
    sink.writer(SinkContext { name: "k".into(), columns: columns(), mode, key: key.to_vec(), writer: 0, writers: 1 }).await
}

pub fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or("-".into(), |bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

/// Key and value of each record.
fn pairs(records: &[OwnedMessage]) -> Vec<(String, String)> {
    records.iter().map(|record| (text(record.key()), text(record.payload()))).collect()
}

fn pair(key: &str, value: &str) -> (String, String) {
    (key.to_string(), value.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_only_sink_writes_each_row_as_often_as_it_weighs() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    let mut writer = writer(&broker, &topic, &[], SinkMode::AppendOnly, &[]).await.unwrap();
    assert_eq!(writer.delivered().await.unwrap(), None);
    let batches = vec![changes(1, &[(1, Some("a\n"), 1), (2, None, 2)]), changes(2, &[(3, Some("c"), 1)])];
    writer.deliver(Epoch(2), batches).await.unwrap();
    writer.deliver(Epoch(3), vec![]).await.unwrap();
    writer.finish().await.unwrap();
    let null = r#"{"id":2,"name":null}"#;
    assert_eq!(
        pairs(&dump(&broker, &topic)[&0]),
        [pair("-", r#"{"id":1,"name":"a\n"}"#), pair("-", null), pair("-", null), pair("-", r#"{"id":3,"name":"c"}"#)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_sink_writes_keys_and_tombstones() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    let mut writer = writer(&broker, &topic, &[], SinkMode::Upsert, &[0]).await.unwrap();
    writer.deliver(Epoch(1), vec![changes(1, &[(1, Some("a"), 1), (2, Some("b"), 1)])]).await.unwrap();
    writer.deliver(Epoch(2), vec![changes(2, &[(1, Some("a"), -1), (2, Some("B"), 1)])]).await.unwrap();
    assert_eq!(
        pairs(&dump(&broker, &topic)[&0]),
        [
            pair(r#"{"id":1}"#, r#"{"id":1,"name":"a"}"#),
            pair(r#"{"id":2}"#, r#"{"id":2,"name":"b"}"#),
            pair(r#"{"id":1}"#, "-"),
            pair(r#"{"id":2}"#, r#"{"id":2,"name":"B"}"#),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn s23_records_of_one_key_stay_in_one_partition_and_in_order() {
    let broker = broker();
    let topic = new_topic(&broker, 4).await;
    let mut writer = writer(&broker, &topic, &[], SinkMode::Upsert, &[0]).await.unwrap();
    let versions: Vec<String> = (0..50).map(|version| format!("{version:02}")).collect();
    for (epoch, version) in versions.iter().enumerate() {
        let rows: Vec<_> = (0..20).map(|key| (key, Some(version.as_str()), 1)).collect();
        writer.deliver(Epoch(epoch as u64), vec![changes(epoch as u64, &rows)]).await.unwrap();
    }
    let mut seen: BTreeMap<String, (i32, Vec<String>)> = BTreeMap::new();
    let found = dump(&broker, &topic);
    assert!(found.values().filter(|records| !records.is_empty()).count() > 1, "all keys went to one partition");
    for (partition, records) in found {
        for (key, value) in pairs(&records) {
            let (first, values) = seen.entry(key).or_insert((partition, vec![]));
            assert_eq!(*first, partition);
            values.push(value);
        }
    }
    assert_eq!(seen.len(), 20);
    for (key, (_, values)) in seen {
        let id = key.trim_start_matches("{\"id\":").trim_end_matches('}');
        let wanted: Vec<_> = versions.iter().map(|version| format!("{{\"id\":{id},\"name\":\"{version}\"}}")).collect();
        assert_eq!(values, wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_rows_than_the_queue_holds_are_all_delivered() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    let options = [("properties.queue.buffering.max.messages", "100")];
    let mut writer = writer(&broker, &topic, &options, SinkMode::AppendOnly, &[]).await.unwrap();
    let rows: Vec<_> = (0..5_000).map(|id| (id, Some("x"), 1)).collect();
    writer.deliver(Epoch(1), vec![changes(1, &rows)]).await.unwrap();
    let found = dump(&broker, &topic);
    let wanted: Vec<_> = (0..5_000).map(|id| pair("-", &format!("{{\"id\":{id},\"name\":\"x\"}}"))).collect();
    assert_eq!(pairs(&found[&0]), wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn d14_a_record_that_is_too_large_is_refused_for_good() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    let mut writer = writer(&broker, &topic, &[], SinkMode::AppendOnly, &[]).await.unwrap();
    let large = "x".repeat(2_000_000);
    let error = writer.deliver(Epoch(1), vec![changes(1, &[(1, Some(&large), 1)])]).await.unwrap_err();
    assert_eq!((error.responsible, error.retry), (Responsible::User, false));
    assert!(
        error.message.starts_with(&format!("writing to topic \"{topic}\" on Kafka broker {broker} failed: ")),
        "{}",
        error.message
    );
    // The writer is not broken by it.
    writer.deliver(Epoch(2), vec![changes(2, &[(2, None, 1)])]).await.unwrap();
    assert_eq!(dump(&broker, &topic)[&0].len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_is_made_by_the_broker_or_named() {
    let broker = broker();
    let topic = format!("made-{:08x}", rand::random::<u32>());
    let refused = [("properties.allow.auto.create.topics", "false")];
    let Err(error) = writer(&broker, &topic, &refused, SinkMode::AppendOnly, &[]).await else { panic!("the topic was made") };
    assert_eq!(error.message, format!("topic \"{topic}\" does not exist on Kafka broker {broker}"));
    assert!(error.retry);
    let mut made = writer(&broker, &topic, &[], SinkMode::AppendOnly, &[]).await.unwrap();
    made.deliver(Epoch(1), vec![changes(1, &[(1, None, 1)])]).await.unwrap();
    assert_eq!(dump(&broker, &topic)[&0].len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upsert_sink_without_a_key_is_refused() {
    let Err(error) = writer("127.0.0.1:1", "t", &[], SinkMode::Upsert, &[]).await else { panic!("it has no key") };
    assert_eq!(error.message, "upsert sink \"k\" has no key");
}
