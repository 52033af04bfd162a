use super::*;
use crate::feed::{FeedEvent, Order};
use crate::job::JobShared;
use std::io::Write;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::Instant;
use thalweg_catalog::object::{ConnectorSpec, Encode};
use thalweg_catalog::types::SqlType;
use thalweg_catalog::{Column, ObjectId};
use thalweg_connectors::SourceContext;
use thalweg_plan::StreamPlan;

const LIMIT: Duration = Duration::from_secs(60);

fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < LIMIT, "waited for too long until {what}");
        std::thread::yield_now();
    }
}

/// The number of the next rows.
fn rows(events: &Receiver<FeedEvent>) -> usize {
    loop {
        match events.recv_timeout(LIMIT).expect("an event") {
            FeedEvent::Rows(batch) => return batch.batch.num_rows(),
            FeedEvent::Assigned(_) => {}
            _ => panic!("neither rows nor splits"),
        }
    }
}

#[test]
fn a_file_that_rests_takes_no_thread_and_is_read_again_when_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    std::fs::write(&path, "{\"a\":1}\n").unwrap();
    let path = path.to_string_lossy().into_owned();
    let options = [("path", path.as_str()), ("follow", "true")].map(|(k, v)| (k.to_string(), v.to_string()));
    let spec = ConnectorSpec {
        connector: "file".to_string(),
        options: options.into(),
        encode: Some(Encode::Json),
        encode_options: [].into(),
        includes: vec![],
    };
    let columns = vec![Column::new("a", SqlType::Int8)];
    let connector = thalweg_connectors::registry::source(&spec, &columns).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let context = SourceContext {
        name: "s".to_string(),
        job: "1".to_string(),
        columns,
        projection: vec![0],
        time: None,
        runtime: runtime.handle().clone(),
    };
    let job = Arc::new(JobShared::new(ObjectId::FIRST_USER, Arc::new(StreamPlan { nodes: vec![] }), 1, 1 << 30, None));
    let resting = Arc::new(Resting { after: Duration::ZERO, ..Resting::default() });
    let (orders, inbox) = channel();
    let (give, events) = sync_channel(4);
    let reading = Reading::new(connector, context, Arc::clone(&job), (inbox, give), Box::new(|| ()), 0);
    reading.begin(Arc::clone(&resting)).unwrap();
    let at_rest = || resting.state.lock().readings.len();
    until("it rests before it has a split", || at_rest() == 1);
    orders.send(Order::Assign(vec![(path.as_str().into(), None)])).unwrap();
    for (round, line) in ["", "{\"a\":2}\n{\"a\":3}\n"].into_iter().enumerate() {
        std::fs::File::options().append(true).open(&path).unwrap().write_all(line.as_bytes()).unwrap();
        assert_eq!(rows(&events), round + 1);
        until("it rests again", || at_rest() == 1);
    }
    job.cancel();
    until("it is gone with its job", || at_rest() == 0);
    until("nobody looks any more", || !resting.state.lock().is_looked_after);
}
