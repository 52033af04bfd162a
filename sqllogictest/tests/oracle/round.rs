//! One schema with its views, and changes to it: after every few, each view must be what its query gives.

use crate::queries::Queries;
use crate::script::{Script, View, differs, execute, sqlstate};
use crate::tables::{Relation, Table, changes};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thalweg_sqllogictest::server::Server;
use thalweg_sqllogictest::wait::value;
use tokio_postgres::Client;

/// How many views a round has, and how often they are compared.
const VIEWS: usize = 6;
const STEPS: usize = 6;

/// How deep queries stand in queries.
const DEPTH: usize = 2;

/// What was done, so that a run which compared little shows.
#[derive(Default, Debug)]
pub struct Counts {
    pub views: usize,
    /// Views that are no part of what is supported.
    pub refused: usize,
    pub compared: usize,
    /// Batches that failed for a row, which the view leaves out.
    pub failed: usize,
    pub kills: usize,
}

/// Runs the round of this seed on a server without objects, and leaves none.
///
/// # Errors
/// What differed or failed, with all that is needed to see it again.
pub async fn run(server: &mut Server, seed: u64, counts: &mut Counts) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut client = server.connect().await.map_err(|e| e.to_string())?;
    let mut tables: Vec<Table> = (0..random.random_range(2..5)).map(|at| Table::random(&format!("t{at}"), &mut random)).collect();
    let mut script = Script { tables: tables.iter().map(|t| t.create.clone()).collect(), ..Script::default() };
    execute(&client, &script.tables).await?;
    for _ in 0..random.random_range(0..6) {
        let at = random.random_range(0..tables.len());
        script.statements.push(tables[at].insert(&mut random));
    }
    execute(&client, &script.statements).await?;
    script.before_views = script.statements.len();
    script.views = create_views(&client, &tables, &script, &mut random, counts).await?;

    let kill_at = random.random_range(0..4 * STEPS);
    for step in 0..STEPS {
        let new: Vec<String> = (0..random.random_range(1..4)).flat_map(|_| changes(&mut tables, &mut random)).collect();
        execute(&client, &new).await?;
        script.statements.extend(new);
        if step == kill_at {
            client = script.restart(server).await?;
            counts.kills += 1;
        }
        for view in script.views.clone() {
            counts.compared += 1;
            match differs(&client, &view).await? {
                Some(difference) if difference.is_failure_of_a_row() => counts.failed += 1,
                Some(difference) => return Err(format!("{difference}\n\n{}", script.shortened(server, &view).await?)),
                None => {}
            }
        }
    }
    script.clear(&client).await?;
    let left = value(&client, "SELECT count(*) FROM thalweg.jobs").await.map_err(|e| e.to_string())?;
    if left == "0" { Ok(()) } else { Err(format!("{left} jobs are left after all was dropped\n\n{script}")) }
}

/// Views over the tables and over each other.
async fn create_views(
    client: &Client,
    tables: &[Table],
    script: &Script,
    random: &mut StdRng,
    counts: &mut Counts,
) -> Result<Vec<View>, String> {
    let mut relations: Vec<Relation> = tables.iter().map(|t| t.relation.clone()).collect();
    let mut views: Vec<View> = vec![];
    while views.len() < VIEWS {
        let query = Queries { relations: &relations, random: &mut *random, aliases: 0 }.query(DEPTH);
        let kind = if random.random_bool(0.85) { "MATERIALIZED VIEW" } else { "VIEW" };
        let name = format!("v{}", views.len());
        let view = View { create: format!("CREATE {kind} {name} AS {}", query.sql), name, query };
        match client.batch_execute(&view.create).await {
            Ok(()) => counts.views += 1,
            Err(error) if sqlstate(&error) == "0A000" => {
                counts.refused += 1;
                if std::env::var_os("THALWEG_TEST_REFUSED").is_some() {
                    println!("refused: {error:?}\n{}", view.create);
                }
                continue;
            }
            Err(error) => {
                let script = Script { views: views.clone(), ..script.clone() };
                return Err(format!("{error:?}\n\n{script}\n{};", view.create));
            }
        }
        relations.push(view.query.relation(&view.name));
        views.push(view);
    }
    Ok(views)
}
