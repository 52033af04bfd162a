//! D11: records that are gone before they were read.

use crate::support::{admin, broker, declare, ids, new_topic, produce, strings};
use rdkafka::admin::AdminOptions;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};
use thalweg_connectors::Responsible;

/// Removes the records before an offset, as retention does.
async fn remove_before(broker: &str, topic: &str, offset: i64) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Offset(offset)).unwrap();
    let removed = admin(broker).delete_records(&list, &AdminOptions::new()).await.unwrap();
    removed.elements()[0].error().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn d11_a_position_that_retention_has_passed_is_a_clear_error() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce(&broker, &topic, 0, ids(0..20)).await;
    remove_before(&broker, &topic, 15).await;
    let Err(error) = declare(&broker, &topic, &[]).read(&[("0", Some("5"))]) else { panic!("a gap was passed over in silence") };
    assert_eq!(
        error.message,
        format!(
            "records of topic \"{topic}\" partition 0 from offset 5 to 14 were removed before they were read; \
             scan.lost.offsets = 'skip' would go on after them"
        )
    );
    assert_eq!((error.responsible, error.retry), (Responsible::User, false));
    // Whoever starts anew starts at what is left.
    assert_eq!(declare(&broker, &topic, &[]).read(&[("0", None)]).unwrap().rows(5), strings(15..20));
}

#[tokio::test(flavor = "multi_thread")]
async fn d11_with_skip_the_gap_is_told_and_reading_goes_on() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce(&broker, &topic, 0, ids(0..20)).await;
    remove_before(&broker, &topic, 15).await;
    let mut reading = declare(&broker, &topic, &[("scan.lost.offsets", "skip")]).read(&[("0", Some("5"))]).unwrap();
    assert_eq!(reading.rows(5), strings(15..20));
    assert_eq!(reading.errors.len(), 1);
    assert_eq!(reading.errors[0].position, "offset 5 to 14");
    assert_eq!(reading.positions["0"], "20");
}

/// A source that fetches few records ahead, so that some can be removed before they are fetched.
const FETCH_LITTLE: [(&str, &str); 4] = [
    ("properties.queued.min.messages", "1"),
    ("properties.queued.max.messages.kbytes", "1"),
    ("properties.fetch.message.max.bytes", "1000"),
    ("properties.fetch.max.bytes", "1000"),
];

/// A fetch gives at least one whole batch, so records that are to be fetched one after another must not come in one.
async fn produce_in_small_batches(broker: &str, topic: &str, numbers: std::ops::Range<i64>) {
    let options = [("bootstrap.servers", broker), ("batch.num.messages", "20"), ("linger.ms", "5")];
    let config: ClientConfig = options.map(|(name, value)| (name.to_string(), value.to_string())).into_iter().collect();
    let producer: FutureProducer = config.create().unwrap();
    let values: Vec<String> = ids(numbers).collect();
    let sent: Vec<_> = values
        .iter()
        .map(|value| {
            let record: FutureRecord<'_, str, String> = FutureRecord::to(topic).partition(0).payload(value);
            producer.send_result(record).unwrap()
        })
        .collect();
    for report in sent {
        report.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d11_records_removed_while_they_are_read_are_a_clear_error() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce_in_small_batches(&broker, &topic, 0..2_000).await;
    let mut options = FETCH_LITTLE.to_vec();
    options.push(("properties.message.max.bytes", "1000"));
    let mut reading = declare(&broker, &topic, &options).read(&[("0", None)]).unwrap();
    reading.until(|reading| !reading.rows.is_empty()).unwrap();
    remove_before(&broker, &topic, 1_999).await;
    let error = reading.until(|reading| reading.rows.len() == 2_000).unwrap_err();
    assert!(error.message.contains("to 1998 were removed before they were read"), "{}", error.message);
    assert!(!error.retry);
    assert_eq!(reading.rows, strings(0..reading.rows.len() as i64));

    options.push(("scan.lost.offsets", "skip"));
    produce_in_small_batches(&broker, &topic, 2_000..4_000).await;
    let mut reading = declare(&broker, &topic, &options).read(&[("0", None)]).unwrap();
    reading.until(|reading| !reading.rows.is_empty()).unwrap();
    remove_before(&broker, &topic, 3_999).await;
    reading.until(|reading| reading.positions["0"] == "4000").unwrap();
    assert_eq!(reading.rows.last().map(String::as_str), Some("3999"));
    assert_eq!(reading.errors.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn d11_a_position_beyond_the_end_is_a_clear_error() {
    let broker = broker();
    let topic = new_topic(&broker, 1).await;
    produce(&broker, &topic, 0, ids(0..3)).await;
    for options in [[].as_slice(), &[("scan.lost.offsets", "skip")]] {
        let Err(error) = declare(&broker, &topic, options).read(&[("0", Some("7"))]) else { panic!("there is no such offset") };
        assert!(error.message.contains("ends at offset 3, before offset 7"), "{}", error.message);
        assert!(!error.retry);
    }
}
