//! What a round has sent to the server: compared, and made shorter when a view differs.

use crate::queries::Query;
use std::fmt;
use std::time::{Duration, Instant};
use thalweg_sqllogictest::server::Server;
use thalweg_sqllogictest::wait::rows;
use tokio_postgres::Client;

/// How long a failing script is made shorter.
const SHORTEN: Duration = Duration::from_secs(40);

/// A view as it was accepted.
#[derive(Clone, Debug)]
pub struct View {
    pub name: String,
    pub create: String,
    pub query: Query,
}

/// Tables, then statements, with the views created after some of them.
#[derive(Clone, Default, Debug)]
pub struct Script {
    pub tables: Vec<String>,
    pub statements: Vec<String>,
    pub before_views: usize,
    pub views: Vec<View>,
    /// Whether the server was killed before the views were compared.
    pub killed: bool,
}

/// How a view is not its query.
pub enum Difference {
    /// Rows that only one of them has.
    Rows(String),
    /// The query fails for a row; a view keeps such a row as an error and goes on.
    Failure,
}

impl Difference {
    pub fn is_failure_of_a_row(&self) -> bool {
        matches!(self, Difference::Failure)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Rows(rows) => f.write_str(rows),
            Difference::Failure => f.write_str("the query fails for a row"),
        }
    }
}

/// The SQLSTATE of a refusal; nothing for what is no refusal.
pub fn sqlstate(error: &tokio_postgres::Error) -> &str {
    error.code().map_or("", |code| code.code())
}

/// Runs statements that may fail for a value, which a transaction then takes back.
pub async fn execute(client: &Client, statements: &[String]) -> Result<(), String> {
    for sql in statements {
        match client.batch_execute(sql).await {
            Ok(()) => {}
            Err(error) if sqlstate(&error).starts_with("22") || sqlstate(&error) == "25P02" => {}
            Err(error) => return Err(format!("{sql}: {error:?}")),
        }
    }
    Ok(())
}

/// Whether a view is something else than its query run as a batch.
pub async fn differs(client: &Client, view: &View) -> Result<Option<Difference>, String> {
    let batch = match sorted(client, &view.query.sql).await {
        Ok(rows) => rows,
        Err(error) if sqlstate(&error).starts_with("22") => return Ok(Some(Difference::Failure)),
        Err(error) => return Err(format!("{error:?}\n\n{};", view.query.sql)),
    };
    let kept = sorted(client, &format!("SELECT * FROM {}", view.name)).await.map_err(|e| format!("{}: {e:?}", view.name))?;
    if kept == batch {
        return Ok(None);
    }
    let only = |a: &[Vec<String>], b: &[Vec<String>]| {
        let mut left = b.to_vec();
        let alone = a.iter().filter(|row| left.iter().position(|other| other == *row).map(|at| left.remove(at)).is_none());
        alone.take(3).map(|row| row.join(" | ")).collect::<Vec<_>>()
    };
    Ok(Some(Difference::Rows(format!(
        "{} has {} rows, its query {}; only in the view: {:?}; only in the query: {:?}",
        view.name,
        kept.len(),
        batch.len(),
        only(&kept, &batch),
        only(&batch, &kept)
    ))))
}

async fn sorted(client: &Client, sql: &str) -> Result<Vec<Vec<String>>, tokio_postgres::Error> {
    let mut found = rows(client, sql).await?;
    found.sort();
    Ok(found)
}

impl Script {
    /// Kills the server and starts it again; a new session that sees all that was written.
    pub async fn restart(&mut self, server: &mut Server) -> Result<Client, String> {
        self.killed = true;
        server.kill();
        server.start_again().map_err(|e| format!("{e}\n\n{self}"))?;
        let client = server.connect().await.map_err(|e| e.to_string())?;
        client.batch_execute("FLUSH").await.map_err(|e| format!("{e:?}\n\n{self}"))?;
        Ok(client)
    }

    /// Drops everything.
    pub async fn clear(&self, client: &Client) -> Result<(), String> {
        for table in &self.tables {
            let name = table.split_whitespace().nth(2).unwrap_or_default();
            client
                .batch_execute(&format!("DROP TABLE IF EXISTS {name} CASCADE"))
                .await
                .map_err(|e| format!("{e:?}\n\n{self}"))?;
        }
        Ok(())
    }

    /// The shortest script, of those that can be found in some time, in which this view still differs.
    pub async fn shortened(&self, server: &mut Server, view: &View) -> Result<String, String> {
        let deadline = Instant::now() + SHORTEN;
        let mut least = self.clone();
        least.views = self.needed(view);
        if !least.comes_again(server, view).await? {
            return Ok(format!("This did not come again when it was tried:\n\n{self}"));
        }
        let mut size = least.statements.len().div_ceil(2);
        while size > 0 && Instant::now() < deadline {
            let mut at = 0;
            while at < least.statements.len() && Instant::now() < deadline {
                let shorter = least.without(at, size);
                if shorter.comes_again(server, view).await? {
                    least = shorter;
                } else {
                    at += size;
                }
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        Ok(format!("{least}\nSELECT * FROM {};\n{};", view.name, view.query.sql))
    }

    /// A view and those that it reads.
    fn needed(&self, view: &View) -> Vec<View> {
        let mut needed = vec![view.clone()];
        for other in self.views.iter().rev() {
            let reads = |view: &View| view.query.sql.contains(&format!(" {} AS", other.name));
            if other.name != view.name && needed.iter().any(reads) {
                needed.push(other.clone());
            }
        }
        needed.reverse();
        needed
    }

    fn without(&self, at: usize, size: usize) -> Script {
        let end = (at + size).min(self.statements.len());
        let mut shorter = self.clone();
        shorter.statements.drain(at..end);
        shorter.before_views -= self.before_views.min(end).saturating_sub(at);
        shorter
    }

    async fn comes_again(&self, server: &mut Server, view: &View) -> Result<bool, String> {
        let mut client = server.connect().await.map_err(|e| e.to_string())?;
        self.clear(&client).await?;
        execute(&client, &self.tables).await?;
        execute(&client, &self.statements[..self.before_views]).await?;
        let views: Vec<String> = self.views.iter().map(|v| v.create.clone()).collect();
        // Half a transaction may be left.
        let _ = client.batch_execute("COMMIT").await;
        execute(&client, &views).await?;
        execute(&client, &self.statements[self.before_views..]).await?;
        let _ = client.batch_execute("COMMIT").await;
        if self.killed {
            client = self.clone().restart(server).await?;
        }
        Ok(matches!(differs(&client, view).await?, Some(Difference::Rows(_))))
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = self.statements.split_at(self.before_views);
        let views = self.views.iter().map(|view| &view.create);
        for sql in self.tables.iter().chain(before).chain(views).chain(after) {
            writeln!(f, "{sql};")?;
        }
        if self.killed { writeln!(f, "-- killed, and started again") } else { Ok(()) }
    }
}
