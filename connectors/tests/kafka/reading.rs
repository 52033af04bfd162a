//! Reading: where it starts, what it gives, how it resumes and ends.

use crate::support::{PATIENCE, admin, broker, declare, declare_as, ids, new_topic, produce, producer, spec, strings};
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, FutureRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use thalweg_catalog::object::{Encode, MessagePart};
use thalweg_catalog::{Column, SqlType};
use thalweg_connectors::{Boundedness, Responsible, SourceConnector};

#[tokio::test(flavor = "multi_thread")]
async fn earliest_reads_every_record_of_every_partition_in_order() {
    let broker = broker();
    let topic = new_topic(&broker, 3).await;
    for partition in 0..3 {
        produce(&broker, &topic, partition, ids(i64::from(partition) * 10_000..i64::from(partition) * 10_000 + 9_000)).await;
    }
    let declared = declare(&broker, &topic, &[]);
    let splits = declared.source.splits().await.unwrap();
    assert_eq!(splits.iter().map(|s| s.as_ref()).collect::<Vec<_>>(), ["0", "1", "2"]);

    let mut reading = declared.read(&[("0", None), ("1", None), ("2", None)]).unwrap();
    reading.rows(27_000);
    assert_eq!(reading.rows.len(), 27_000);
    for partition in 0..3 {
        let first = partition * 10_000;
        let own: Vec<_> =
            reading.rows.iter().filter(|row| (first..first + 10_000).contains(&row.parse::<i64>().unwrap())).cloned().collect();
        assert_eq!(own, strings(first..first + 9_000));
    }
    assert!(reading.batches.iter().all(|(_, rows, _)| *rows <= 8_192));
    assert_eq!(reading.positions, BTreeMap::from(["0", "1", "2"].map(|split| (split.to_string(), "9000".to_string()))));
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_again_from_any_position_gives_exactly_the_rest() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce(&broker, &topic, 0, ids(0..12)).await;
    let declared = declare(&broker, &topic, &[]);
    for position in 0..12 {
        let mut reading = declared.read(&[("0", Some(&position.to_string()))]).unwrap();
        reading.until(|reading| reading.rows.len() as i64 >= 12 - position).unwrap();
        assert_eq!(reading.rows, strings(position..12));
        assert_eq!(reading.positions["0"], "12");
    }
    let mut at_end = declared.read(&[("0", Some("12"))]).unwrap();
    assert!(at_end.rows(0).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_is_pinned_before_the_first_record() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce(&broker, &topic, 0, ids(0..5)).await;
    let declared = declare(&broker, &topic, &[("scan.startup.mode", "latest")]);
    declared.source.splits().await.unwrap();
    let mut reading = declared.read(&[("0", None)]).unwrap();
    reading.until(|reading| reading.positions.contains_key("0")).unwrap();
    assert_eq!((reading.positions["0"].as_str(), reading.rows.len()), ("5", 0));
    drop(reading);

    // What is written while nobody reads is not lost.
    produce(&broker, &topic, 0, ids(5..8)).await;
    let mut again = declared.read(&[("0", Some("5"))]).unwrap();
    assert_eq!(again.rows(3), strings(5..8));
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamp_starts_at_the_first_record_of_that_time() {
    let broker = broker();
    let topic = new_topic(&broker, 2).await;
    let producer = producer(&broker);
    for (id, millis) in [(1, 1_700_000_000_000), (2, 1_700_000_001_000), (3, 1_700_000_002_000)] {
        let value = format!("{{\"id\": {id}}}");
        let record: FutureRecord<'_, str, String> = FutureRecord::to(&topic).partition(0).payload(&value).timestamp(millis);
        producer.send(record, PATIENCE).await.unwrap();
    }
    let startup = |millis: &'static str| {
        declare(&broker, &topic, &[("scan.startup.mode", "timestamp"), ("scan.startup.timestamp.millis", millis)])
    };
    let mut reading = startup("1700000000500").read(&[("0", None), ("1", None)]).unwrap();
    assert_eq!(reading.rows(2), ["2", "3"]);
    assert_eq!(reading.positions["1"], "0");

    let mut after_all = startup("1800000000000").read(&[("0", None)]).unwrap();
    assert!(after_all.rows(0).is_empty());
    assert_eq!(after_all.positions["0"], "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_added_later_is_read_from_its_first_record() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce(&broker, &topic, 0, ids(0..3)).await;
    let declared = declare(&broker, &topic, &[("scan.startup.mode", "latest"), ("discovery.interval", "100ms")]);
    assert_eq!(declared.source.discovery_interval(&[]), Some(Duration::from_millis(100)));
    assert_eq!(declared.source.splits().await.unwrap().len(), 1);
    let mut reading = declared.read(&[("0", None)]).unwrap();

    admin(&broker).create_partitions(&[NewPartitions::new(&topic, 2)], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
    let deadline = Instant::now() + PATIENCE;
    while declared.source.splits().await.unwrap().len() < 2 {
        assert!(Instant::now() < deadline, "the new partition was not found");
    }
    produce(&broker, &topic, 1, ids(100..103)).await;
    reading.assign("1", None).unwrap();
    assert_eq!(reading.rows(3), strings(100..103));

    // The same after a restart that found it: what has positions shows that the start is long past.
    let restarted = declare(&broker, &topic, &[("scan.startup.mode", "latest")]);
    restarted.source.splits().await.unwrap();
    let mut reading = restarted.read(&[("0", Some("3")), ("1", None)]).unwrap();
    assert_eq!(reading.rows(3), strings(100..103));
}

#[tokio::test(flavor = "multi_thread")]
async fn includes_hold_what_is_around_a_record() {
    let broker = broker();
    let topic = new_topic(&broker, 2).await;
    let producer = producer(&broker);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "trace", value: Some("a\"b") })
        .insert(Header { key: "trace", value: None::<&str> })
        .insert(Header { key: "raw", value: Some(&[0xffu8, 0x01]) });
    let record =
        FutureRecord::to(&topic).partition(1).key("k1").payload("{\"id\": 1}").timestamp(1_700_000_000_123).headers(headers);
    producer.send(record, PATIENCE).await.unwrap();
    let bare: FutureRecord<'_, str, str> =
        FutureRecord::to(&topic).partition(1).payload("{\"id\": 2}").timestamp(1_700_000_000_456);
    producer.send(bare, PATIENCE).await.unwrap();

    let mut declared = declare_as(
        spec(&broker, &topic, &[]),
        vec![Column::new("id", SqlType::Int8)],
        &[
            (MessagePart::Key, SqlType::Bytea),
            (MessagePart::Partition, SqlType::Int4),
            (MessagePart::Offset, SqlType::Int8),
            (MessagePart::Timestamp, SqlType::TimestampTz),
            (MessagePart::Headers, SqlType::Jsonb),
        ],
    );
    let mut reading = declared.read(&[("1", None)]).unwrap();
    let headers = r#"[{"key": "trace", "value": "a\"b"}, {"key": "trace", "value": null}, {"key": "raw", "value": "\\xff01"}]"#;
    assert_eq!(
        reading.rows(2),
        [
            format!("1 | 6b31 | 1 | 0 | 2023-11-14T22:13:20.123Z | {headers}"),
            "2 | NULL | 1 | 1 | 2023-11-14T22:13:20.456Z | []".to_string(),
        ]
    );

    // Only what a query needs, in its order; even nothing at all.
    declared.projection = vec![3, 0];
    assert_eq!(declared.read(&[("1", None)]).unwrap().rows(2), ["0 | 1", "1 | 2"]);
    declared.projection = vec![];
    assert_eq!(declared.read(&[("1", None)]).unwrap().rows(2), ["", ""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_records_and_tombstones_are_errors_and_stop_nothing() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce(&broker, &topic, 0, [r#"{"id": 1}"#, r#"{"id": "#, r#"{"id": "x"}"#].map(String::from)).await;
    let tombstone: FutureRecord<'_, str, str> = FutureRecord::to(&topic).key("gone");
    producer(&broker).send(tombstone, PATIENCE).await.unwrap();
    produce(&broker, &topic, 0, [r#"{"id": 2}"#.to_string()]).await;

    let mut reading = declare(&broker, &topic, &[]).read(&[("0", None)]).unwrap();
    assert_eq!(reading.rows(2), ["1", "2"]);
    assert_eq!(reading.positions["0"], "5");
    let errors: Vec<_> = reading.errors.iter().map(|e| (e.position.as_str(), e.excerpt.as_str())).collect();
    assert_eq!(errors, [("offset 1", r#"{"id": "#), ("offset 2", r#"{"id": "x"}"#), ("offset 3", "gone")]);
    assert_eq!(reading.errors[2].reason, "message has no value");
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_and_bytes_records_are_read() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce(&broker, &topic, 0, ["7,seven".to_string()]).await;
    let mut csv = spec(&broker, &topic, &[]);
    csv.encode = Some(Encode::Csv);
    let columns = vec![Column::new("n", SqlType::Int4), Column::new("name", SqlType::Text)];
    let mut reading = declare_as(csv, columns, &[(MessagePart::Offset, SqlType::Int8)]).read(&[("0", None)]).unwrap();
    assert_eq!(reading.rows(1), ["7 | seven | 0"]);

    let mut bytes = spec(&broker, &topic, &[]);
    bytes.encode = Some(Encode::Bytes);
    let columns = vec![Column::new("payload", SqlType::Bytea)];
    let mut reading = declare_as(bytes, columns, &[(MessagePart::Partition, SqlType::Int4)]).read(&[("0", None)]).unwrap();
    assert_eq!(reading.rows(1), ["372c736576656e | 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn d12_a_bounded_source_ends_where_it_ended_when_it_was_first_read() {
    let broker = broker();
    let topic = new_topic(&broker, 2).await;
    produce(&broker, &topic, 0, ids(0..10)).await;
    let declared = declare(&broker, &topic, &[("scan.bounded.mode", "latest")]);
    assert_eq!(declared.source.boundedness(), Boundedness::Bounded);
    assert_eq!(declared.source.discovery_interval(&[]), None);

    let mut reading = declared.read(&[("0", None), ("1", None)]).unwrap();
    produce(&broker, &topic, 0, ids(10..20)).await;
    reading.until(|reading| reading.ended.len() == 2).unwrap();
    assert_eq!(reading.rows, strings(0..10));
    assert_eq!((reading.positions["0"].as_str(), reading.positions["1"].as_str()), ("10/10", "0/0"));

    // A restart halfway keeps the end, and one at the end ends at once.
    let mut resumed = declared.read(&[("0", Some("6/10"))]).unwrap();
    resumed.until(|reading| !reading.ended.is_empty()).unwrap();
    assert_eq!(resumed.rows, strings(6..10));
    let mut at_end = declared.read(&[("0", Some("10/10"))]).unwrap();
    at_end.until(|reading| !reading.ended.is_empty()).unwrap();
    assert!(at_end.rows.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_aborted_transactions_are_not_read_and_their_marks_do_not_hold_the_end() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    let topic_for_writer = topic.clone();
    let address = broker.clone();
    tokio::task::spawn_blocking(move || {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", &address).set("transactional.id", &topic_for_writer).create().unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        for (id, commit) in [(1, true), (2, false), (3, true)] {
            producer.begin_transaction().unwrap();
            let value = format!("{{\"id\": {id}}}");
            let record: BaseRecord<'_, str, str> = BaseRecord::to(&topic_for_writer).partition(0).payload(&value);
            producer.send(record).map_err(|(error, _)| error).unwrap();
            producer.flush(PATIENCE).unwrap();
            if commit { producer.commit_transaction(PATIENCE).unwrap() } else { producer.abort_transaction(PATIENCE).unwrap() }
        }
    })
    .await
    .unwrap();
    let mut reading = declare(&broker, &topic, &[("scan.bounded.mode", "latest")]).read(&[("0", None)]).unwrap();
    reading.until(|reading| !reading.ended.is_empty()).unwrap();
    assert_eq!(reading.rows, ["1", "3"]);
    assert_eq!(reading.positions["0"], "6/6");
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_only_checkpointed_offsets_are_committed_to_the_group() {
    let broker = broker();
    let topic = new_topic(&broker, 2).await;
    produce(&broker, &topic, 0, ids(0..10)).await;
    let declared = declare(&broker, &topic, &[("group.id.prefix", "watched")]);
    let mut reading = declared.read(&[("0", None), ("1", None)]).unwrap();
    reading.rows(10);

    let group: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &broker)
        .set("group.id", format!("watched-{}", declared.job))
        .create()
        .unwrap();
    let committed = || {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&topic, 0, 1);
        let found = group.committed_offsets(list, PATIENCE).unwrap();
        found.elements().iter().map(|e| e.offset()).collect::<Vec<_>>()
    };
    assert_eq!(committed(), [Offset::Invalid, Offset::Invalid]);
    declared.source.checkpointed(&BTreeMap::from([("0".into(), "4".into())])).await.unwrap();
    assert_eq!(committed(), [Offset::Offset(4), Offset::Invalid]);
    declared.source.checkpointed(&BTreeMap::from([("0".into(), "10".into()), ("1".into(), "0".into())])).await.unwrap();
    assert_eq!(committed(), [Offset::Offset(10), Offset::Offset(0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_not_there_is_named() {
    let broker = broker();
    let declared = declare(&broker, "no-such-topic", &[]);
    let error = declared.source.splits().await.unwrap_err();
    assert_eq!(error.message, format!("topic \"no-such-topic\" does not exist on Kafka broker {broker}"));
    assert_eq!((error.responsible, error.retry), (Responsible::User, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn d14_an_unreachable_broker_is_named_in_bounded_time() {
    // Bound and never listened on, so that nothing answers there.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    drop(silent);
    let declared = declare(&address, "t", &[]);
    let started = Instant::now();
    let error = declared.source.splits().await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(20), "it took {:?}", started.elapsed());
    assert!(error.message.contains(&address), "{}", error.message);
    assert_eq!((error.responsible, error.retry), (Responsible::External, true));
    let Err(error) = declared.read(&[("0", None)]) else { panic!("it can't be read") };
    assert!(error.retry && error.message.contains(&address), "{}", error.message);
}
