//! tokio-postgres: connects, creates, inserts, reads; prepared, in binary form, by COPY, in a transaction.

use futures::{SinkExt, TryStreamExt};
use std::pin::pin;
use thalweg_sqllogictest::server::{Options, Server};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_creates_inserts_and_reads() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let mut client = server.connect().await.expect("a connection");
    client
        .batch_execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount double precision, paid boolean);
             CREATE MATERIALIZED VIEW totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM orders GROUP BY customer",
        )
        .await
        .expect("objects");

    let insert = client.prepare("INSERT INTO orders VALUES ($1, $2, $3, $4)").await.expect("a prepared insert");
    assert_eq!(insert.params(), [Type::INT8, Type::TEXT, Type::FLOAT8, Type::BOOL]);
    for (id, customer, amount) in [(1i64, Some("ann"), 1.5f64), (2, Some("bob"), 2.0), (3, Some("ann"), 4.25), (4, None, 0.5)] {
        let count = client.execute(&insert, &[&id, &customer, &amount, &(id % 2 == 0)]).await.expect("a row");
        assert_eq!(count, 1);
    }

    let select = client.prepare("SELECT n, total FROM totals WHERE customer = $1").await.expect("a prepared read");
    let row = client.query_one(&select, &[&"ann"]).await.expect("one row");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, f64>("total")), (2, 5.75));
    assert!(client.query_opt(&select, &[&"nobody"]).await.expect("a read").is_none());
    let nulls = client.query_one("SELECT customer, paid FROM orders WHERE customer IS NULL", &[]).await.expect("one row");
    assert_eq!((nulls.get::<_, Option<String>>(0), nulls.get::<_, bool>(1)), (None, true));

    let error = client.query("SELECT * FROM nosuch", &[]).await.expect_err("it is not there");
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
    let twice = client.execute(&insert, &[&1i64, &"x", &0f64, &true]).await.expect_err("the key is taken");
    assert_eq!(twice.code(), Some(&SqlState::UNIQUE_VIOLATION));

    let transaction = client.transaction().await.expect("a transaction");
    let portal = transaction.bind("SELECT id FROM orders ORDER BY id", &[]).await.expect("a portal");
    let first = transaction.query_portal(&portal, 3).await.expect("three rows");
    let rest = transaction.query_portal(&portal, 3).await.expect("one row");
    assert_eq!((first.len(), rest.len()), (3, 1));
    transaction.commit().await.expect("the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_copies_in_and_out() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let client = server.connect().await.expect("a connection");
    client.batch_execute("CREATE TABLE t (a int, b text)").await.expect("a table");
    let sink = client.copy_in("COPY t FROM STDIN").await.expect("a copy");
    let mut sink = pin!(sink);
    sink.send(futures_bytes("1\tone\n2\t\\N\n3\tth")).await.expect("sent");
    sink.send(futures_bytes("ree\n")).await.expect("sent");
    assert_eq!(sink.finish().await.expect("three rows"), 3);
    let out = client.copy_out("COPY (SELECT a, b FROM t ORDER BY a) TO STDOUT").await.expect("a copy");
    let parts: Vec<_> = out.try_collect().await.expect("all of it");
    let text: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
    assert_eq!(String::from_utf8(text).expect("text"), "1\tone\n2\t\\N\n3\tthree\n");
}

fn futures_bytes(text: &'static str) -> std::io::Cursor<&'static [u8]> {
    std::io::Cursor::new(text.as_bytes())
}
