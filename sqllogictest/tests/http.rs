//! What a server tells over HTTP: whether it answers, and its figures for Prometheus.

use std::io::{Read, Write};
use std::net::TcpStream;
use thalweg_sqllogictest::server::{Options, Server};

/// The status and the body of what is at a path.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the port takes connections");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("a request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer comes");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (status.expect("a status"), body.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_figures_are_told_over_http() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    let sql = "CREATE TABLE t (a int PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t; INSERT INTO t VALUES (1), (2)";
    client.batch_execute(sql).await.expect("objects");
    let n: i64 = client.query_one("SELECT n FROM v", &[]).await.expect("a row").get(0);
    assert_eq!(n, 2);

    let log = server.log();
    let (_, rest) = log.split_once("HTTP on ").expect("the server says where");
    let address = rest.split(')').next().expect("an address");
    assert_eq!(get(address, "/healthz"), (200, "ok\n".into()));
    assert_eq!(get(address, "/nosuch").0, 404);
    let (status, metrics) = get(address, "/metrics");
    assert_eq!(status, 200);
    let samples: Vec<&str> = metrics.lines().filter(|line| !line.starts_with('#')).collect();
    for sample in &samples {
        let value = sample.rsplit(' ').next().expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{sample}");
    }
    let rows_of_v = |line: &&&str| line.starts_with("thalweg_operator_rows_in_total{") && line.contains("job=\"v\"");
    let rows: f64 = samples.iter().filter(rows_of_v).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
    assert!(rows >= 2.0, "{metrics}");
}
