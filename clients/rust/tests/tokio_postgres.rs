//! tokio-postgres: connects, creates, inserts, reads; prepared, in binary form, by COPY, in a transaction.

use futures::{SinkExt, TryStreamExt};
use std::pin::pin;
use thalweg_sqllogictest::server::{Options, Server};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

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

/// All rows of a query as one line each, for a parameter.
async fn lines(client: &Client, sql: &str, parameter: &(dyn ToSql + Sync)) -> Vec<String> {
    let statement = client.prepare(sql).await.expect("a statement");
    let rows = client.query(&statement, &[parameter]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let shown = |row: &Row| match row.columns()[0].type_() {
        &Type::INT4 => format!("{:?} {:?}", row.get::<_, Option<i32>>(0), row.get::<_, Option<String>>(1)),
        _ => format!("{:?} {:?}", row.get::<_, Option<String>>(0), row.get::<_, Option<i32>>(1)),
    };
    rows.iter().map(shown).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lookup_by_key_gives_what_any_query_gives() {
    let directory = tempfile::tempdir().expect("a folder");
    let server = Server::start(directory.path(), Options::workers(2)).expect("a server");
    let mut client = server.connect().await.expect("a connection");
    let objects = "CREATE TABLE t (id int PRIMARY KEY, name text); CREATE TABLE two (a text, b int, name text, PRIMARY KEY (b, a));
         CREATE MATERIALIZED VIEW v AS SELECT name, count(*)::int AS n FROM t GROUP BY name;
         INSERT INTO t SELECT g, 'n' || g % 3 FROM generate_series(1, 20) AS s(g); INSERT INTO two VALUES ('x', 1, 'one'), ('y', 1, NULL)";
    client.batch_execute(objects).await.expect("objects");
    // The second of each pair is read by a plan, since it asks for more than a key.
    let pairs = [
        ("SELECT id, name FROM t WHERE id = $1::int", "SELECT id, name FROM t WHERE id + 0 = $1::int"),
        (
            "SELECT u.name, u.id AS other FROM t AS u WHERE $1::int = u.id LIMIT 5",
            "SELECT name, id FROM t WHERE id + 0 = $1::int",
        ),
        ("SELECT * FROM t WHERE id = $1::int LIMIT 1", "SELECT id, name FROM t WHERE id + 0 = $1::int"),
        (
            "SELECT name, b FROM two WHERE a = 'x' AND b = $1::int",
            "SELECT name, b FROM two WHERE a || '' = 'x' AND b + 0 = $1::int",
        ),
    ];
    for parameter in [Some(7i32), Some(1), Some(999), None] {
        for (lookup, query) in pairs {
            assert_eq!(
                lines(&client, lookup, &parameter).await,
                lines(&client, query, &parameter).await,
                "{lookup} of {parameter:?}"
            );
        }
    }
    assert_eq!(lines(&client, "SELECT name, n FROM v WHERE name = $1", &"n1").await, ["Some(\"n1\") Some(7)"]);
    assert_eq!(lines(&client, "SELECT id, name FROM t WHERE id = $1::bigint", &(1i64 << 40)).await, Vec::<String>::new());
    assert_eq!(lines(&client, "SELECT id, name FROM t WHERE id = $1::bigint", &7i64).await, ["Some(7) Some(\"n1\")"]);

    // A transaction sees what it has written, and nobody else does.
    let lookup = "SELECT id, name FROM t WHERE id = $1";
    let transaction = client.transaction().await.expect("a transaction");
    let select = transaction.prepare(lookup).await.expect("a statement");
    transaction.execute("UPDATE t SET name = 'new' WHERE id = 7", &[]).await.expect("an update");
    assert_eq!(transaction.query_one(&select, &[&7]).await.expect("a row").get::<_, &str>(1), "new");
    transaction.rollback().await.expect("the end");
    assert_eq!(lines(&client, lookup, &7).await, ["Some(7) Some(\"n1\")"]);
    client.execute("DELETE FROM t WHERE id = 7", &[]).await.expect("a delete");
    assert_eq!(lines(&client, lookup, &7).await, Vec::<String>::new());

    // What the name stands for may change between two executions.
    let select = client.prepare("SELECT id, name FROM t WHERE id = $1").await.expect("a statement");
    assert_eq!(client.query(&select, &[&8]).await.expect("a row").len(), 1);
    client.batch_execute("DROP TABLE t CASCADE; CREATE TABLE t (id int PRIMARY KEY, name text)").await.expect("another table");
    assert_eq!(client.query(&select, &[&8]).await.expect("no row").len(), 0);
    client.batch_execute("DROP TABLE t; CREATE TABLE t (id int, name int)").await.expect("another table");
    let error = client.query(&select, &[&8]).await.expect_err("its columns are others");
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    client.batch_execute("DROP TABLE t").await.expect("no table");
    let error = client.query(&select, &[&8]).await.expect_err("it is gone");
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
}

fn futures_bytes(text: &'static str) -> std::io::Cursor<&'static [u8]> {
    std::io::Cursor::new(text.as_bytes())
}
