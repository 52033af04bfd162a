//! The table as it must be: every acknowledged statement, and of the one that a kill cut off all or nothing.

use crate::inputs::{KEYS, Rows};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};
use thalweg_sqllogictest::server::Server;
use thalweg_sqllogictest::wait::rows;
use tokio_postgres::Client;

/// What the table holds for sure, and what it holds instead if the statement in doubt was done.
pub struct TableModel {
    sure: Rows,
    in_doubt: Option<Rows>,
    next: i64,
    random: StdRng,
    /// Whether the definitions that come and go are there.
    defined: bool,
}

/// How a server came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// At its point.
    Crashed,
    /// From outside.
    Killed,
}

/// How long a server that has broken a connection may take to be gone.
const GONE_MAX: Duration = Duration::from_secs(10);

/// A statement failed, which only a crash may cause.
pub fn died(server: &mut Server, sql: &str, error: &tokio_postgres::Error) -> Death {
    let crashed = server.wait_for_crash(GONE_MAX).unwrap_or_else(|e| panic!("{sql}: {error:?}: {e}"));
    assert!(crashed, "{sql}: {error:?}, and the server still runs");
    Death::Crashed
}

impl TableModel {
    /// An empty table.
    pub fn new(seed: u64) -> TableModel {
        TableModel { sure: Rows::new(), in_doubt: None, next: 0, random: StdRng::seed_from_u64(seed), defined: false }
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.sure.len()
    }

    /// Sends statements until the server has lived for so long and is killed, or has died before, in the middle of one if it falls so.
    pub async fn change_until_dead(&mut self, client: &Client, server: &mut Server, life: Duration) -> Death {
        let end = Instant::now() + life;
        loop {
            let (sql, after) = self.statement();
            let left = end.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, client.batch_execute(&sql)).await {
                Ok(Ok(())) => self.sure = after,
                Ok(Err(error)) => {
                    self.in_doubt = Some(after);
                    return died(server, &sql, &error);
                }
                Err(_) => {
                    server.kill();
                    self.in_doubt = Some(after);
                    return Death::Killed;
                }
            }
            for sql in self.definitions() {
                if let Err(error) = client.batch_execute(sql).await {
                    return died(server, sql, &error);
                }
            }
        }
    }

    /// Statements that change the catalog, with and without a job: each is undone by the next call.
    fn definitions(&mut self) -> [&'static str; 2] {
        self.defined = !self.defined;
        if self.defined {
            [
                "CREATE VIEW passing AS SELECT k FROM t",
                "CREATE MATERIALIZED VIEW scratch AS SELECT k, count(*) AS n FROM t GROUP BY k",
            ]
        } else {
            ["DROP VIEW passing", "DROP MATERIALIZED VIEW scratch"]
        }
    }

    /// One statement, acknowledged however long it takes.
    pub async fn change_once(&mut self, client: &Client) {
        let (sql, after) = self.statement();
        client.batch_execute(&sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        self.sure = after;
    }

    /// A random statement, and the table after it.
    fn statement(&mut self) -> (String, Rows) {
        let mut after = self.sure.clone();
        let k = self.random.random_range(0..KEYS);
        let sql = match self.random.random_range(0..10) {
            0 => {
                after.retain(|_, (key, _)| *key != k);
                format!("DELETE FROM t WHERE k = {k}")
            }
            1 | 2 => {
                after.values_mut().filter(|(key, _)| *key == k).for_each(|(_, v)| *v += 7);
                format!("UPDATE t SET v = v + 7 WHERE k = {k}")
            }
            _ => {
                let mut values = vec![];
                for _ in 0..self.random.random_range(1..30) {
                    let (id, k, v) = (self.next, self.random.random_range(0..KEYS), self.random.random_range(-1000..1000));
                    self.next += 1;
                    after.insert(id, (k, v));
                    values.push(format!("({id}, {k}, {v})"));
                }
                format!("INSERT INTO t VALUES {}", values.join(", "))
            }
        };
        (sql, after)
    }

    /// Removes what comes and goes, in whichever state the crash has left it.
    pub async fn undefine(&mut self, client: &Client) {
        let sql = "DROP VIEW IF EXISTS passing; DROP MATERIALIZED VIEW IF EXISTS scratch";
        client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        self.defined = false;
    }

    /// Reads the table, which must be one of the two that it can be, and goes on from it.
    pub async fn settle(&mut self, client: &Client) {
        let sql = "SELECT id, k, v FROM t";
        let found = rows(client, sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        let count = found.len();
        let found: Rows = found.iter().map(|row| (parsed(&row[0]), (parsed(&row[1]), parsed(&row[2])))).collect();
        assert_eq!(found.len(), count, "S4: rows are doubled");
        let done = self.in_doubt.take();
        if found != self.sure {
            let Some(done) = done else { panic!("D1: acknowledged rows differ: {}", difference(&found, &self.sure)) };
            assert!(
                found == done,
                "D1, S4: the table is neither before the last statement ({}) nor after it ({})",
                difference(&found, &self.sure),
                difference(&found, &done)
            );
            self.sure = done;
        }
    }
}

fn parsed<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("\"{text}\" is no number"))
}

/// What is wrong with `found`, in a few rows.
pub fn difference(found: &Rows, expected: &Rows) -> String {
    let missing: Vec<_> = expected.iter().filter(|(id, row)| found.get(id) != Some(row)).collect();
    let foreign: Vec<_> = found.iter().filter(|(id, row)| expected.get(id) != Some(row)).collect();
    let few = |rows: &[(&i64, &(i32, i64))]| format!("{} such as {:?}", rows.len(), &rows[..rows.len().min(3)]);
    format!("missing {}; foreign {}", few(&missing), few(&foreign))
}
