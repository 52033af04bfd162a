//! Message sequences against those of Postgres 15, with a session whose statements are a few words.

use crate::wire::connections::{Connections, Interrupt};
use crate::wire::copy::CopyOptions;
use crate::wire::listener::{Limits, serve_connection};
use crate::wire::message::put_message;
use crate::wire::session::*;
use crate::wire::settings::OutputSettings;
use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use async_trait::async_trait;
use bytes::{BufMut, BytesMut};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{Column, SqlError, SqlResult, SqlState, SqlType};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

/// Statements: `rows N`, `rows $1`, `fail`, `late N` (N rows, then an error), `wait` (forever), `endless` (a row, then nothing),
/// `follow` (COPY without rows), `begin`, `commit`, `set`, `notice`, `in`, `out N`, `timeout`.
struct Script {
    status: TransactionStatus,
    prepared: PreparedStatements<String>,
    changes: Vec<(String, String)>,
    notices: Vec<Notice>,
    timeout: Option<Duration>,
    copied: Arc<Mutex<Vec<RecordBatch>>>,
}

struct Factory {
    copied: Arc<Mutex<Vec<RecordBatch>>>,
}

#[async_trait]
impl SessionFactory for Factory {
    type Session = Script;

    async fn connect(&self, connection: ConnectionInfo) -> SqlResult<Script> {
        if connection.user == "nobody" {
            return Err(SqlError::new(SqlState::InvalidAuthorizationSpecification, "no such user"));
        }
        Ok(Script {
            status: TransactionStatus::Idle,
            prepared: PreparedStatements::default(),
            changes: vec![],
            notices: vec![],
            timeout: None,
            copied: Arc::clone(&self.copied),
        })
    }
}

struct Sink(Arc<Mutex<Vec<RecordBatch>>>, u64);

#[async_trait]
impl CopySink for Sink {
    async fn write(&mut self, batch: RecordBatch) -> SqlResult<()> {
        self.1 += batch.num_rows() as u64;
        self.0.lock().push(batch);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> SqlResult<u64> {
        Ok(self.1)
    }
}

fn number_batch(range: std::ops::Range<i32>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values(range));
    RecordBatch::try_from_iter([("n", values)]).unwrap()
}

fn numbers() -> Vec<ResultColumn> {
    vec![ResultColumn::new("n", SqlType::Int4)]
}

/// Rows 1 to `count` in batches of three.
fn rows(count: i32) -> Vec<SqlResult<RecordBatch>> {
    (1..=count).step_by(3).map(|start| Ok(number_batch(start..(start + 3).min(count + 1)))).collect()
}

#[async_trait]
impl Session for Script {
    type Statement = String;

    fn parse(&mut self, sql: &str) -> SqlResult<Vec<String>> {
        let words: Vec<String> = sql.split(';').map(|s| s.trim().to_string()).filter(|s| !s.is_empty()).collect();
        match words.iter().any(|word| word == "syntax") {
            true => Err(SqlError::syntax("syntax error").at(1)),
            false => Ok(words.into_iter().filter(|word| !word.starts_with("--")).collect()),
        }
    }

    async fn describe(&mut self, statement: &String, _: &[u32]) -> SqlResult<StatementDescription> {
        let has_rows = ["rows", "late", "endless"].iter().any(|word| statement.starts_with(word));
        let params = if statement.contains('$') { vec![23] } else { vec![] };
        Ok(StatementDescription { params, columns: has_rows.then(numbers) })
    }

    async fn execute(&mut self, statement: &String, params: Vec<ScalarValue>, _: &[u32]) -> SqlResult<Outcome> {
        if self.status == TransactionStatus::Failed && statement != "commit" {
            return Err(SqlError::new(SqlState::InFailedSqlTransaction, "current transaction is aborted"));
        }
        let (word, rest) = statement.split_once(' ').unwrap_or((statement, ""));
        let count = match params.first() {
            Some(ScalarValue::Int32(Some(count))) => *count,
            _ => rest.parse().unwrap_or(0),
        };
        let failure = || SqlError::new(SqlState::DivisionByZero, "division by zero");
        let result = |rows: RowStream| Outcome::Rows { columns: numbers(), rows, tag: RowTag::Counted("SELECT") };
        Ok(match word {
            "rows" => result(futures::stream::iter(rows(count)).boxed()),
            "late" => {
                let mut items = rows(count);
                items.push(Err(failure()));
                result(futures::stream::iter(items).boxed())
            }
            "endless" => result(futures::stream::iter(rows(1)).chain(futures::stream::pending()).boxed()),
            "fail" => return Err(failure()),
            "wait" => std::future::pending().await,
            "begin" => {
                self.status = TransactionStatus::InTransaction;
                Outcome::Tag("BEGIN".to_string())
            }
            "commit" => {
                let failed = self.status == TransactionStatus::Failed;
                self.status = TransactionStatus::Idle;
                Outcome::Tag(if failed { "ROLLBACK" } else { "COMMIT" }.to_string())
            }
            "set" => {
                self.changes.push(("application_name".to_string(), "x".to_string()));
                Outcome::Tag("SET".to_string())
            }
            "timeout" => {
                self.timeout = Some(Duration::from_millis(20));
                Outcome::Tag("SET".to_string())
            }
            "notice" => {
                self.notices.push(Notice {
                    severity: Severity::Notice,
                    message: SqlError::new(SqlState::SuccessfulCompletion, "skipping"),
                });
                Outcome::Tag("DROP TABLE".to_string())
            }
            "in" => Outcome::CopyIn {
                columns: vec![Column::new("a", SqlType::Int4), Column::new("b", SqlType::Text)],
                options: CopyOptions::default(),
                relation: "t".to_string(),
                sink: Box::new(Sink(Arc::clone(&self.copied), 0)),
            },
            "follow" => {
                let rows = futures::stream::pending().boxed();
                Outcome::CopyOut { columns: numbers(), rows, options: CopyOptions::default() }
            }
            "out" => Outcome::CopyOut {
                columns: numbers(),
                rows: futures::stream::iter(rows(count)).boxed(),
                options: CopyOptions::default(),
            },
            _ => return Err(SqlError::syntax("no such word")),
        })
    }

    fn fail(&mut self, _: &SqlError) {
        if self.status == TransactionStatus::InTransaction {
            self.status = TransactionStatus::Failed;
        }
    }

    async fn end_request(&mut self) -> SqlResult<()> {
        Ok(())
    }

    fn transaction_status(&self) -> TransactionStatus {
        self.status
    }

    fn prepared(&mut self) -> &mut PreparedStatements<String> {
        &mut self.prepared
    }

    fn output_settings(&self) -> OutputSettings {
        OutputSettings::default()
    }

    fn statement_timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn reported_parameters(&self) -> Vec<(String, String)> {
        vec![("server_version".to_string(), "15.0".to_string())]
    }

    fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.changes)
    }

    fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

/// The client's end of a connection.
struct Client {
    stream: DuplexStream,
    out: BytesMut,
    server: JoinHandle<()>,
    connections: Arc<Connections>,
    copied: Arc<Mutex<Vec<RecordBatch>>>,
    key: (i32, i32),
}

fn connect_raw(connections: &Arc<Connections>, limits: Limits) -> Client {
    let (stream, server) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(server);
    let copied = Arc::new(Mutex::new(vec![]));
    let factory = Arc::new(Factory { copied: Arc::clone(&copied) });
    let server = tokio::spawn(serve_connection(read, write, None, factory, Arc::clone(connections), limits));
    Client { stream, out: BytesMut::new(), server, connections: Arc::clone(connections), copied, key: (0, 0) }
}

async fn connect() -> Client {
    let mut client = connect_raw(&Connections::new(), Limits::default());
    assert_eq!(client.startup("ada").await, "Auth(0); server_version=15.0; Key; Z:I");
    client
}

impl Client {
    async fn startup(&mut self, user: &str) -> String {
        let mut packet = BytesMut::new();
        packet.put_i32(0);
        packet.put_i32(3 << 16);
        for word in ["user", user, ""] {
            packet.put_slice(word.as_bytes());
            packet.put_u8(0);
        }
        let length = packet.len() as i32;
        packet[..4].copy_from_slice(&length.to_be_bytes());
        self.stream.write_all(&packet).await.unwrap();
        self.answer().await
    }

    fn put(&mut self, kind: u8, body: &[u8]) -> &mut Self {
        put_message(&mut self.out, kind, |out| out.put_slice(body));
        self
    }

    fn parse(&mut self, name: &str, sql: &str) -> &mut Self {
        self.put(b'P', format!("{name}\0{sql}\0\0\0").as_bytes())
    }

    /// All text, one parameter where there is one.
    fn bind(&mut self, portal: &str, statement: &str, param: Option<&str>) -> &mut Self {
        let mut body = BytesMut::from(format!("{portal}\0{statement}\0\0\0").as_bytes());
        body.put_u16(param.iter().len() as u16);
        if let Some(value) = param {
            body.put_u32(value.len() as u32);
            body.put_slice(value.as_bytes());
        }
        body.put_u16(0);
        self.put(b'B', &body)
    }

    fn execute(&mut self, portal: &str, rows_max: i32) -> &mut Self {
        let mut body = BytesMut::from(format!("{portal}\0").as_bytes());
        body.put_i32(rows_max);
        self.put(b'E', &body)
    }

    fn sync(&mut self) -> &mut Self {
        self.put(b'S', b"")
    }

    async fn send(&mut self) {
        let out = self.out.split();
        self.stream.write_all(&out).await.unwrap();
    }

    /// Sends what was put and reads up to ReadyForQuery, CopyInResponse, or the end.
    async fn ask(&mut self) -> String {
        self.send().await;
        self.answer().await
    }

    async fn query(&mut self, sql: &str) -> String {
        self.put(b'Q', format!("{sql}\0").as_bytes()).ask().await
    }

    async fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        let kind = self.stream.read_u8().await.ok()?;
        let length = self.stream.read_i32().await.ok()? as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).await.ok()?;
        Some((kind, body))
    }

    async fn answer(&mut self) -> String {
        let mut shown = vec![];
        loop {
            let Some((kind, body)) = self.message().await else {
                shown.push("EOF".to_string());
                return shown.join("; ");
            };
            if kind == b'K' {
                let word = |at: usize| i32::from_be_bytes(body[at..at + 4].try_into().unwrap());
                self.key = (word(0), word(4));
            }
            shown.push(show(kind, &body));
            if matches!(kind, b'Z' | b'G') {
                return shown.join("; ");
            }
        }
    }
}

fn show(kind: u8, body: &[u8]) -> String {
    let words = || body.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect::<Vec<_>>();
    match kind {
        b'R' => format!("Auth({})", body[3]),
        b'S' => words()[..2].join("="),
        b'K' => "Key".to_string(),
        b'Z' => format!("Z:{}", char::from(body[0])),
        b'T' => format!("T({})", u16::from_be_bytes([body[0], body[1]])),
        b'D' => format!("D({})", String::from_utf8_lossy(&body[6..])),
        b'C' => words()[0].clone(),
        b'E' | b'N' => {
            let fields = words();
            let field = |k: char| fields.iter().find_map(|f| f.strip_prefix(k).map(str::to_string)).unwrap_or_default();
            format!("{} {} {}", field('S'), field('C'), field('M'))
        }
        b'd' => format!("d{body:?}").replace("d[", "d("),
        b't' => format!("params({})", u16::from_be_bytes([body[0], body[1]])),
        b'1' => "Parsed".to_string(),
        b'2' => "Bound".to_string(),
        b'3' => "Closed".to_string(),
        b'n' => "NoData".to_string(),
        b's' => "Suspended".to_string(),
        b'I' => "EmptyQuery".to_string(),
        b'G' => format!("CopyIn({})", u16::from_be_bytes([body[1], body[2]])),
        b'H' => "CopyOut".to_string(),
        b'c' => "CopyDone".to_string(),
        other => format!("{}?", char::from(other)),
    }
}

#[tokio::test]
async fn simple_queries_answer_each_statement_and_stop_at_the_first_error() {
    let mut client = connect().await;
    assert_eq!(client.query("rows 0").await, "T(1); SELECT 0; Z:I");
    assert_eq!(client.query("").await, "EmptyQuery; Z:I");
    assert_eq!(client.query("-- c").await, "EmptyQuery; Z:I");
    assert_eq!(client.query("rows 1; rows 2;").await, "T(1); D(1); SELECT 1; T(1); D(1); D(2); SELECT 2; Z:I");
    assert_eq!(client.query("rows 1; syntax").await, "ERROR 42601 syntax error; Z:I");
    assert_eq!(client.query("rows 1; fail; rows 2").await, "T(1); D(1); SELECT 1; ERROR 22012 division by zero; Z:I");
    assert_eq!(client.query("late 2").await, "T(1); D(1); D(2); ERROR 22012 division by zero; Z:I");
    assert_eq!(client.query("set").await, "SET; application_name=x; Z:I");
    assert_eq!(client.query("notice").await, "NOTICE 00000 skipping; DROP TABLE; Z:I");
}

#[tokio::test]
async fn the_transaction_byte_follows_the_session() {
    let mut client = connect().await;
    assert_eq!(client.query("begin").await, "BEGIN; Z:T");
    assert_eq!(client.query("fail").await, "ERROR 22012 division by zero; Z:E");
    assert_eq!(client.query("rows 1").await, "ERROR 25P02 current transaction is aborted; Z:E");
    assert_eq!(client.query("commit").await, "ROLLBACK; Z:I");
}

#[tokio::test]
async fn an_extended_query_is_described_before_it_runs() {
    let mut client = connect().await;
    client.parse("s1", "rows $1").put(b'D', b"Ss1\0").bind("", "s1", Some("2")).put(b'D', b"P\0").execute("", 0).sync();
    assert_eq!(client.ask().await, "Parsed; params(1); T(1); Bound; T(1); D(1); D(2); SELECT 2; Z:I");
    client.parse("", "set").put(b'D', b"S\0").bind("", "", None).put(b'D', b"P\0").execute("", 0).sync();
    assert_eq!(client.ask().await, "Parsed; params(0); NoData; Bound; NoData; SET; application_name=x; Z:I");
    client.parse("", "").put(b'D', b"S\0").bind("", "", None).execute("", 0).sync();
    assert_eq!(client.ask().await, "Parsed; params(0); NoData; Bound; EmptyQuery; Z:I");
}

#[tokio::test]
async fn binary_results_come_where_they_are_asked_for() {
    let mut client = connect().await;
    client.parse("", "rows 1").put(b'B', b"\0\0\0\0\0\0\0\x01\0\x01").execute("", 0).sync();
    assert_eq!(client.ask().await, "Parsed; Bound; D(\0\0\0\x01); SELECT 1; Z:I");
}

#[tokio::test]
async fn d19_bind_is_checked_and_an_error_skips_to_sync() {
    let mut client = connect().await;
    client.parse("s1", "rows $1").sync();
    assert_eq!(client.ask().await, "Parsed; Z:I");
    client.put(b'B', b"\0s1\0\0\0\0\x01\0\0\0\x011\0\x03\0\0\0\0\0\0").execute("", 0).sync();
    assert_eq!(client.ask().await, "ERROR 08P01 bind message has 3 result formats but query has 1 columns; Z:I");
    client.bind("", "s1", None).execute("", 0).sync();
    assert_eq!(
        client.ask().await,
        "ERROR 08P01 bind message supplies 0 parameters, but prepared statement \"s1\" requires 1; Z:I"
    );
    client.parse("s1", "rows 1").sync();
    assert_eq!(client.ask().await, "ERROR 42P05 prepared statement \"s1\" already exists; Z:I");
    client.put(b'C', b"Ss1\0").bind("", "s1", None).sync();
    assert_eq!(client.ask().await, "Closed; ERROR 26000 prepared statement \"s1\" does not exist; Z:I");
    client.execute("nope", 0).sync();
    assert_eq!(client.ask().await, "ERROR 34000 portal \"nope\" does not exist; Z:I");
    client.put(b'C', b"Snope\0").put(b'C', b"Pnope\0").sync();
    assert_eq!(client.ask().await, "Closed; Closed; Z:I");
    client.parse("", "rows 1; rows 2").bind("", "", None).sync();
    assert_eq!(client.ask().await, "ERROR 42601 cannot insert multiple commands into a prepared statement; Z:I");
    client.put(b'B', b"\0\0\0\x05").parse("x", "rows 1").sync();
    assert_eq!(client.ask().await, "ERROR 08P01 insufficient data left in message; Z:I");
}

#[tokio::test]
async fn a_portal_is_suspended_after_so_many_rows() {
    let mut client = connect().await;
    client.parse("", "rows 5").bind("p", "", None).execute("p", 2).execute("p", 2).execute("p", 2).execute("p", 2).sync();
    let all = "Parsed; Bound; D(1); D(2); Suspended; D(3); D(4); Suspended; D(5); SELECT 1; SELECT 0; Z:I";
    assert_eq!(client.ask().await, all);
    client.execute("p", 2).sync();
    assert_eq!(client.ask().await, "ERROR 34000 portal \"p\" does not exist; Z:I");
    client.query("begin").await;
    client.parse("", "rows 4").bind("p", "", None).execute("p", 4).sync();
    assert_eq!(client.ask().await, "Parsed; Bound; D(1); D(2); D(3); D(4); Suspended; Z:T");
    client.execute("p", 0).sync();
    assert_eq!(client.ask().await, "SELECT 0; Z:T");
    client.query("commit").await;
    client.execute("p", 0).sync();
    assert_eq!(client.ask().await, "ERROR 34000 portal \"p\" does not exist; Z:I");
}

#[tokio::test]
async fn rows_of_an_endless_result_arrive_and_a_cancel_ends_it() {
    let mut client = connect().await;
    client.put(b'Q', b"endless\0").send().await;
    assert_eq!(client.message().await.map(|(kind, _)| kind), Some(b'T'));
    assert_eq!(client.message().await.map(|(kind, body)| show(kind, &body)).as_deref(), Some("D(1)"));
    client.connections.cancel_with_secret(client.key.0, client.key.1.wrapping_add(1));
    // A cancel with the right key, over a connection of its own.
    let mut other = connect_raw(&client.connections, Limits::default());
    let mut packet = BytesMut::new();
    packet.put_i32(16);
    packet.put_i32(80_877_102);
    packet.put_i32(client.key.0);
    packet.put_i32(client.key.1);
    other.stream.write_all(&packet).await.unwrap();
    assert_eq!(other.answer().await, "EOF");
    assert_eq!(client.answer().await, "ERROR 57014 canceling statement due to user request; Z:I");
    assert_eq!(client.query("rows 1").await, "T(1); D(1); SELECT 1; Z:I");
}

#[tokio::test]
async fn a_cancel_in_a_transaction_fails_it_and_one_while_idle_does_nothing() {
    let mut client = connect().await;
    client.connections.interrupt(client.key.0, Interrupt::Cancel);
    assert_eq!(client.query("begin").await, "BEGIN; Z:T");
    client.parse("", "wait").bind("", "", None).put(b'H', b"").send().await;
    assert_eq!(client.message().await.map(|message| message.0), Some(b'1'));
    assert_eq!(client.message().await.map(|message| message.0), Some(b'2'));
    client.connections.interrupt(client.key.0, Interrupt::Cancel);
    client.execute("", 0).sync();
    assert_eq!(client.ask().await, "ERROR 57014 canceling statement due to user request; Z:E");
}

#[tokio::test]
async fn the_statement_timeout_covers_execution_and_rows() {
    let mut client = connect().await;
    client.query("timeout").await;
    assert_eq!(client.query("wait").await, "ERROR 57014 canceling statement due to statement timeout; Z:I");
    let answer = client.query("endless").await;
    assert_eq!(answer, "T(1); D(1); ERROR 57014 canceling statement due to statement timeout; Z:I");
}

#[tokio::test]
async fn copy_in_takes_rows_however_they_are_cut() {
    let mut client = connect().await;
    assert_eq!(client.query("in; rows 1").await, "CopyIn(2)");
    client.put(b'd', b"1\tx\n2").sync().put(b'H', b"").put(b'd', b"\t\\N\n3\tspl").put(b'd', b"it row\n").put(b'c', b"");
    assert_eq!(client.ask().await, "COPY 3; T(1); D(1); SELECT 1; Z:I");
    assert_eq!(client.copied.lock().iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
}

#[tokio::test]
async fn d22_copy_in_fails_as_in_postgres() {
    let mut client = connect().await;
    client.query("in").await;
    client.put(b'd', b"bad\tx\n").put(b'd', b"2\ty\n").put(b'c', b"");
    assert_eq!(client.ask().await, "ERROR 22P02 invalid input syntax for type integer: \"bad\"; Z:I");
    client.query("in").await;
    client.put(b'f', b"my reason\0");
    assert_eq!(client.ask().await, "ERROR 57014 COPY from stdin failed: my reason; Z:I");
    client.parse("", "in").bind("", "", None).execute("", 0).sync();
    assert_eq!(client.ask().await, "Parsed; Bound; CopyIn(2)");
    client.put(b'd', b"1\tx\n").put(b'c', b"").sync();
    assert_eq!(client.ask().await, "COPY 1; Z:I");
    client.query("in").await;
    assert_eq!(
        client.query("rows 1").await,
        "ERROR 08P01 unexpected message type 0x51 during COPY from stdin; \
         FATAL 08P01 terminating connection because protocol synchronization was lost; EOF"
    );
}

#[tokio::test]
async fn copy_out_sends_a_message_for_each_row() {
    let mut client = connect().await;
    assert_eq!(client.query("out 2").await, "CopyOut; d(49, 10]; d(50, 10]; CopyDone; COPY 2; Z:I");
}

#[tokio::test]
async fn a_client_hears_that_rows_will_be_copied_before_there_are_any() {
    let mut client = connect().await;
    client.put(b'Q', b"follow\0").send().await;
    assert_eq!(client.message().await.map(|(kind, _)| kind), Some(b'H'));
}

#[tokio::test]
async fn d19_what_is_no_message_ends_the_connection_with_a_word() {
    let mut client = connect().await;
    client.stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert_eq!(client.answer().await, "FATAL 08P01 invalid frontend message type 71; EOF");
    let mut client = connect().await;
    client.stream.write_all(b"Q\xff\xff\xff\xff").await.unwrap();
    assert_eq!(client.answer().await, "FATAL 08P01 invalid message length; EOF");
    let mut client = connect_raw(&Connections::new(), Limits::default());
    client.stream.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert_eq!(client.answer().await, "FATAL 08P01 invalid length of startup packet; EOF");
}

#[tokio::test]
async fn encryption_is_declined_with_one_byte() {
    let mut client = connect_raw(&Connections::new(), Limits::default());
    for code in [80_877_103, 80_877_104] {
        let mut packet = BytesMut::new();
        packet.put_i32(8);
        packet.put_i32(code);
        client.stream.write_all(&packet).await.unwrap();
        assert_eq!(client.stream.read_u8().await.unwrap(), b'N');
    }
    assert_eq!(client.startup("ada").await, "Auth(0); server_version=15.0; Key; Z:I");
}

#[tokio::test]
async fn d22_a_connection_too_many_is_told_so() {
    let connections = Connections::new();
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let mut first = connect_raw(&connections, limits);
    first.startup("ada").await;
    let mut second = connect_raw(&connections, limits);
    assert_eq!(second.startup("ada").await, "FATAL 53300 sorry, too many clients already; EOF");
    second.server.await.unwrap();
    drop(first.stream);
    first.server.await.unwrap();
    let mut third = connect_raw(&connections, limits);
    assert_eq!(third.startup("ada").await, "Auth(0); server_version=15.0; Key; Z:I");
    assert_eq!(connect_raw(&Connections::new(), limits).startup("nobody").await, "FATAL 28000 no such user; EOF");
}

#[tokio::test]
async fn terminating_ends_idle_and_busy_connections() {
    let mut client = connect().await;
    client.connections.interrupt(client.key.0, Interrupt::Terminate);
    assert_eq!(client.answer().await, "FATAL 57P01 terminating connection due to administrator command; EOF");
    let mut client = connect().await;
    client.put(b'Q', b"endless\0").send().await;
    client.message().await;
    client.message().await;
    client.connections.interrupt(client.key.0, Interrupt::Terminate);
    assert_eq!(client.answer().await, "FATAL 57P01 terminating connection due to administrator command; EOF");
}

#[tokio::test]
async fn a_client_that_leaves_frees_what_runs_for_it() {
    let mut client = connect().await;
    client.put(b'Q', b"wait\0").send().await;
    drop(client.stream);
    client.server.await.unwrap();
    assert_eq!(client.connections.count(), 0);
}

#[tokio::test]
async fn tokio_postgres_talks_to_it() {
    let (stream, server) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(server);
    let factory = Arc::new(Factory { copied: Arc::default() });
    tokio::spawn(serve_connection(read, write, None, factory, Connections::new(), Limits::default()));
    let mut config = tokio_postgres::Config::new();
    config.user("ada");
    let (client, connection) = config.connect_raw(stream, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let rows = client.query("rows $1", &[&5i32]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let error = client.query("late 1", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::DIVISION_BY_ZERO));
    assert_eq!(client.simple_query("rows 2").await.unwrap().len(), 4);
}
