//! sqlx: migrations, a pool, queries that it prepares and describes itself, typed rows, COPY, notifications, and a view's changes.
//!
//! check URL

use futures_util::TryStreamExt;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::{PgListener, PgPoolOptions, PgRow};
use sqlx::types::chrono::{DateTime, Utc};
use sqlx::types::{Decimal, Json, Uuid};
use sqlx::{Column, Connection, Executor, FromRow, PgConnection, PgPool, Row, TypeInfo};
use std::borrow::Cow;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Debug, PartialEq)]
struct Order {
    id: i64,
    customer: Option<String>,
    amount: Option<Decimal>,
    at: Option<DateTime<Utc>>,
    paid: Option<bool>,
    tags: Option<Vec<String>>,
    key: Option<Uuid>,
    note: Option<Json<Vec<i32>>>,
}

impl FromRow<'_, PgRow> for Order {
    fn from_row(row: &PgRow) -> sqlx::Result<Order> {
        Ok(Order {
            id: row.try_get("id")?,
            customer: row.try_get("customer")?,
            amount: row.try_get("amount")?,
            at: row.try_get("at")?,
            paid: row.try_get("paid")?,
            tags: row.try_get("tags")?,
            key: row.try_get("key")?,
            note: row.try_get("note")?,
        })
    }
}

const OBJECTS: &str = "
    CREATE TABLE sqlx_orders (id bigint PRIMARY KEY, customer text, amount numeric(10, 2), at timestamptz, paid boolean,
        tags text[], key uuid, note jsonb);
    CREATE MATERIALIZED VIEW sqlx_totals AS SELECT customer, count(*) AS n, sum(amount) AS total FROM sqlx_orders GROUP BY customer";

/// Creates the objects as an application does, by its numbered migrations; a second time there is nothing to do.
async fn migrate(pool: &PgPool) -> Result<()> {
    pool.execute("DROP TABLE IF EXISTS sqlx_orders CASCADE; DROP TABLE IF EXISTS _sqlx_migrations").await?;
    let migration = Migration::new(1, Cow::Borrowed("orders"), MigrationType::Simple, Cow::Borrowed(OBJECTS), false);
    let migrator = Migrator { migrations: Cow::Owned(vec![migration]), locking: false, ..Migrator::DEFAULT };
    migrator.run(pool).await?;
    migrator.run(pool).await?;
    Ok(())
}

async fn write_and_read(pool: &PgPool) -> Result<()> {
    let ann = Order {
        id: 1,
        customer: Some("ann".into()),
        amount: Some(Decimal::new(150, 2)),
        at: DateTime::from_timestamp(1_706_702_400, 500_000_000),
        paid: Some(true),
        tags: Some(vec!["a".into(), "b,c".into()]),
        key: Some(Uuid::from_u128(7)),
        note: Some(Json(vec![1, 2])),
    };
    let nobody = Order { id: 2, customer: None, amount: None, at: None, paid: None, tags: None, key: None, note: None };
    for order in [&ann, &nobody] {
        let insert = sqlx::query("INSERT INTO sqlx_orders VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
        let bound = insert.bind(order.id).bind(&order.customer).bind(order.amount).bind(order.at).bind(order.paid);
        let done = bound.bind(&order.tags).bind(order.key).bind(&order.note).execute(pool).await?;
        assert_eq!(done.rows_affected(), 1);
    }
    let found: Vec<Order> = sqlx::query_as("SELECT * FROM sqlx_orders ORDER BY id").fetch_all(pool).await?;
    assert_eq!(found, [ann, nobody]);
    let ids: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM sqlx_orders WHERE id = ANY($1)").bind([2i64, 3]).fetch_all(pool).await?;
    assert_eq!(ids, [2]);
    let described = pool.describe("SELECT id, amount, tags FROM sqlx_orders WHERE id = $1").await?;
    let types: Vec<&str> = described.columns().iter().map(|c| c.type_info().name()).collect();
    assert_eq!(types, ["INT8", "NUMERIC", "TEXT[]"]);
    assert_eq!((0..3).map(|place| described.nullable(place)).collect::<Vec<_>>(), [Some(false), Some(true), Some(true)]);
    Ok(())
}

async fn transactions(pool: &PgPool) -> Result<()> {
    let mut outer = pool.begin().await?;
    sqlx::query("INSERT INTO sqlx_orders (id) VALUES (3)").execute(&mut *outer).await?;
    let mut inner = outer.begin().await?;
    let taken = sqlx::query("INSERT INTO sqlx_orders (id) VALUES (3)").execute(&mut *inner).await.unwrap_err();
    let taken = taken.into_database_error().expect("an error of the server");
    assert!(taken.is_unique_violation());
    assert_eq!(taken.constraint(), Some("sqlx_orders_pkey"));
    inner.rollback().await?;
    outer.commit().await?;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlx_orders").fetch_one(pool).await?;
    assert_eq!(count, 3);
    Ok(())
}

async fn copies(pool: &PgPool) -> Result<()> {
    let mut connection = pool.acquire().await?;
    let mut copy = connection.copy_in_raw("COPY sqlx_orders (id, customer) FROM STDIN").await?;
    copy.send((100..1100).map(|n| format!("{n}\tcopied\n")).collect::<String>().into_bytes()).await?;
    assert_eq!(copy.finish().await?, 1000);
    let n: i64 = sqlx::query_scalar("SELECT n FROM sqlx_totals WHERE customer = 'copied'").fetch_one(&mut *connection).await?;
    assert_eq!(n, 1000);
    let lines: Vec<_> = connection
        .copy_out_raw("COPY (SELECT id FROM sqlx_orders WHERE id < 102 AND id > 99 ORDER BY id) TO STDOUT")
        .await?
        .try_collect()
        .await?;
    assert_eq!(lines.concat(), b"100\n101\n");
    Ok(())
}

/// A view's changes through COPY: each arrives before the next is made.
async fn follow(url: &str, pool: &PgPool) -> Result<()> {
    let mut feed = PgConnection::connect(url).await?;
    let mut changes = feed.copy_out_raw("COPY (SUBSCRIBE TO sqlx_totals WITH (snapshot = false)) TO STDOUT").await?;
    for n in 1..=3 {
        sqlx::query("INSERT INTO sqlx_orders (id, customer) VALUES ($1, 'followed')").bind(5000 + n as i64).execute(pool).await?;
        let wanted = format!("\t1\tfollowed\t{n}\t");
        let mut arrived = false;
        while !arrived {
            let line = changes.try_next().await?.expect("a feed does not end");
            arrived = String::from_utf8_lossy(&line).contains(&wanted);
        }
    }
    Ok(())
}

async fn notifications(url: &str, pool: &PgPool) -> Result<()> {
    let mut listener = PgListener::connect(url).await?;
    listener.listen("sqlx_channel").await?;
    sqlx::query("SELECT pg_notify('sqlx_channel', $1)").bind("hello").execute(pool).await?;
    assert_eq!(listener.recv().await?.payload(), "hello");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).ok_or("check URL")?;
    // One connection, so that it reads what it wrote.
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await?;
    let checks = async {
        migrate(&pool).await?;
        write_and_read(&pool).await?;
        transactions(&pool).await?;
        copies(&pool).await?;
        follow(&url, &pool).await?;
        notifications(&url, &pool).await?;
        let row = pool.fetch_one("SELECT count(*) FROM sqlx_orders").await?;
        assert_eq!(row.get::<i64, _>(0), 1006);
        pool.execute("DROP TABLE sqlx_orders CASCADE; DROP TABLE _sqlx_migrations").await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    tokio::time::timeout(Duration::from_secs(60), checks).await??;
    println!("sqlx 0.8.6 ok");
    Ok(())
}
