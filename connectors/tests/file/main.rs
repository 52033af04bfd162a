//! The file sink and source in a bucket, against an S3 server that the test starts: `make test` installs it and says where.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::object::{Encode, SinkMode};
use thalweg_catalog::{Column, ConnectorSpec, Epoch, SqlType, schema_of};
use thalweg_connectors::{SinkBatch, SinkContext, SinkWriter, SourceContext, SourceEvent, registry};

const SERVER: &str = "THALWEG_MOTO_SERVER";

/// A server with one bucket, which ends with the test.
struct S3 {
    server: Child,
    address: SocketAddr,
}

impl S3 {
    fn start() -> S3 {
        let Ok(program) = std::env::var(SERVER) else {
            panic!("this test needs an S3 server: run `make test`, which installs moto and names its moto_server in {SERVER}")
        };
        let mut server = Command::new(&program)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("could not start {program}: {error}"));
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the server says where it listens").unwrap();
            if let Some((_, address)) = line.split_once("Running on http://") {
                break address.trim().parse().unwrap();
            }
        };
        // It logs every request: unread, the pipe would fill up and stop it.
        std::thread::spawn(move || lines.for_each(drop));
        let s3 = S3 { server, address };
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "PUT /bucket HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        s3
    }

    fn spec(&self, path: &str, encode: Encode, more: &[(&str, &str)]) -> ConnectorSpec {
        let endpoint = format!("http://{}", self.address);
        let options = [
            ("path", path),
            ("s3.endpoint", endpoint.as_str()),
            ("s3.allow_http", "true"),
            ("s3.region", "us-east-1"),
            ("s3.access_key", "key"),
            ("s3.secret_key", "secret"),
        ];
        ConnectorSpec {
            connector: "file".into(),
            options: options.iter().chain(more).map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            encode: Some(encode),
            encode_options: Default::default(),
            includes: vec![],
        }
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn columns() -> Vec<Column> {
    vec![Column::new("a", SqlType::Int8), Column::new("b", SqlType::Text)]
}

fn batch(values: std::ops::Range<i64>) -> SinkBatch {
    let texts = StringArray::from_iter_values(values.clone().map(|value| format!("a text that is not short, number {value}")));
    let arrays: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(values)), Arc::new(texts)];
    SinkBatch { epoch: Epoch(1), batch: RecordBatch::try_new(schema_of(&columns()), arrays).unwrap(), weights: None }
}

async fn writer(spec: &ConnectorSpec) -> Box<dyn SinkWriter> {
    let sink = registry::sink(spec, &columns(), SinkMode::AppendOnly, &[], "out").unwrap();
    let context =
        SinkContext { name: "out".into(), columns: columns(), mode: SinkMode::AppendOnly, key: vec![], writer: 0, writers: 1 };
    sink.writer(context).await.unwrap()
}

/// The numbers that are read from all splits, or from the positions given.
fn read(spec: &ConnectorSpec, runtime: &tokio::runtime::Runtime, position: Option<String>) -> (Vec<i64>, Option<String>) {
    let source = registry::source(spec, &columns()).unwrap();
    let splits = runtime.block_on(source.splits()).unwrap();
    let context = SourceContext {
        name: "s".into(),
        job: "j".into(),
        columns: columns(),
        projection: vec![0],
        time: None,
        runtime: runtime.handle().clone(),
    };
    let mut reader = source.reader(context).unwrap();
    let mut left = splits.len();
    reader.assign(splits.into_iter().map(|split| (split, position.clone())).collect()).unwrap();
    let (mut numbers, mut first_position) = (vec![], None);
    while left > 0 {
        match reader.next(Duration::from_secs(1)).unwrap() {
            SourceEvent::Rows(rows) => {
                numbers.extend(rows.batch.column(0).as_primitive::<Int64Type>().values());
                first_position.get_or_insert(rows.position);
            }
            SourceEvent::SplitEnd { .. } => left -= 1,
            SourceEvent::Idle => {}
        }
    }
    (numbers, first_position)
}

#[test]
fn d1_what_a_sink_puts_into_a_bucket_once_a_source_reads_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let s3 = S3::start();
    // More than one block of an object is fetched.
    let rows = 150_000;
    for (encode, more) in
        [(Encode::Json, vec![]), (Encode::Json, vec![("compression", "gzip")]), (Encode::Csv, vec![]), (Encode::Parquet, vec![])]
    {
        let path = format!("s3://bucket/{encode}{}/out", more.len());
        let spec = s3.spec(&path, encode, &more);
        runtime.block_on(async {
            let mut first = writer(&spec).await;
            assert_eq!(first.delivered().await.unwrap(), None);
            first.deliver(Epoch(3), vec![batch(0..rows)]).await.unwrap();
            let mut again = writer(&spec).await;
            assert_eq!(again.delivered().await.unwrap(), Some(Epoch(3)));
            again.deliver(Epoch(3), vec![batch(0..rows)]).await.unwrap();
        });
        let source = s3.spec(&path, encode, &[]);
        let (numbers, position) = read(&source, &runtime, None);
        assert_eq!(numbers, (0..rows).collect::<Vec<_>>(), "{path}");
        assert_eq!(read(&source, &runtime, position).0, (8192..rows).collect::<Vec<_>>(), "{path}, from a position");
        runtime.block_on(async {
            let mut later = writer(&spec).await;
            later.deliver(Epoch(4), vec![batch(rows..rows + 5)]).await.unwrap();
            assert_eq!(later.delivered().await.unwrap(), Some(Epoch(4)));
        });
        let glob = s3.spec(&format!("{path}/out-*4-0-of-1.*"), encode, &[]);
        assert_eq!(read(&glob, &runtime, None).0, (rows..rows + 5).collect::<Vec<_>>(), "{path}, by glob");
    }
}
