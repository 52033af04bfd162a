//! Waiting for a condition, and rows as text.

use std::time::{Duration, Instant};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Between two looks at a condition.
const PAUSE: Duration = Duration::from_millis(50);

/// All rows of a query as text, with NULL as `NULL`.
///
/// # Errors
/// If the server refuses the statement or the connection breaks.
pub async fn rows(client: &Client, sql: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
    let mut rows = vec![];
    for message in client.simple_query(sql).await? {
        if let SimpleQueryMessage::Row(row) = message {
            rows.push((0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_string()).collect());
        }
    }
    Ok(rows)
}

/// The one value of a query.
///
/// # Errors
/// As [`rows`].
///
/// # Panics
/// If there is not exactly one row with one column.
pub async fn value(client: &Client, sql: &str) -> Result<String, tokio_postgres::Error> {
    let rows = rows(client, sql).await?;
    assert!(rows.len() == 1 && rows[0].len() == 1, "{sql} gave {rows:?}");
    Ok(rows[0][0].clone())
}

/// Waits until a query gives this one value.
///
/// # Panics
/// If it does not within `limit`, or a statement fails.
pub async fn until(client: &Client, sql: &str, expected: &str, limit: Duration) {
    let deadline = Instant::now() + limit;
    loop {
        let found = match rows(client, sql).await {
            Ok(rows) => rows,
            Err(error) => panic!("{sql}: {error:?}"),
        };
        if found.len() == 1 && found[0].len() == 1 && found[0][0] == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{sql} gave {found:?} and not {expected} within {limit:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until a job is in a state.
///
/// # Panics
/// If it does not come there within `limit`, or fails.
pub async fn until_job(client: &Client, name: &str, state: &str, limit: Duration) {
    let deadline = Instant::now() + limit;
    loop {
        let sql = format!("SELECT state, reason FROM thalweg.jobs WHERE name = '{name}'");
        let found = match rows(client, &sql).await {
            Ok(rows) => rows,
            Err(error) => panic!("{sql}: {error:?}"),
        };
        let now = found.first().map_or("absent", |row| row[0].as_str());
        if now == state {
            return;
        }
        assert!(now != "failed", "job {name} failed: {found:?}");
        assert!(Instant::now() < deadline, "job {name} is {found:?} and not {state} within {limit:?}");
        tokio::time::sleep(PAUSE).await;
    }
}
