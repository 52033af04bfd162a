//! SQL to streaming plans, held against files: `UPDATE_GOLDENS=1` rewrites them.
//!
//! A file in `tests/goldens` is a list of cases. Each is a query, then `----`, then what comes of it, then `====`. Lines
//! before the query that start with `#` say what it is for: `# sink append-only`, `# sink upsert 0,1`; without one it is for
//! a materialized view. A query may end in `EMIT ON WINDOW CLOSE`.

mod frontend;

use frontend::{catalog, plan};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thalweg_catalog::catalog::{CatalogChange, CatalogTransaction};
use thalweg_catalog::object::{CatalogObject, Emit, ObjectDefinition, SinkMode, WatermarkSpec};
use thalweg_catalog::{Catalog, ObjectId, SqlError, SqlResult};
use thalweg_planner::LogicalPlanner;
use thalweg_planner::explain::explain;
use thalweg_planner::lower::{Context, Lowered, Root, lower, lower_table};

const TARGET: ObjectId = ObjectId(20_000);

fn lowered(directives: &[&str], sql: &str, catalog: &Catalog) -> SqlResult<Lowered> {
    let upper = sql.trim_end().to_uppercase();
    let (text, emit) = match upper.strip_suffix("EMIT ON WINDOW CLOSE") {
        Some(rest) => (&sql[..rest.len()], Emit::OnWindowClose),
        None => (sql, Emit::Immediate),
    };
    let planner = LogicalPlanner::new();
    let (logical, columns) = plan(text, catalog, &planner)?;
    let mut root = Root::Materialize { object: TARGET, columns: columns.clone() };
    for directive in directives {
        root = match directive.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["#", "sink", "append-only"] => {
                Root::Sink { object: TARGET, columns: columns.clone(), mode: SinkMode::AppendOnly, key: vec![] }
            }
            ["#", "sink", "upsert", key] => {
                let key = key.split(',').map(|k| k.parse().expect("a golden's key is a list of numbers")).collect();
                Root::Sink { object: TARGET, columns: columns.clone(), mode: SinkMode::Upsert, key }
            }
            _ => root,
        };
    }
    lower(&logical, &root, &Context { catalog, plans: &|_| None, options: Arc::clone(planner.state().config_options()) }, emit)
}

fn shown(result: SqlResult<Lowered>, catalog: &Catalog) -> String {
    let name_of = |id: ObjectId| catalog.get(id).map_or_else(|| "new".into(), |o| o.name.clone());
    match result {
        Ok(lowered) => {
            let mut text = lowered.plan.to_text(&name_of);
            lowered.notices.iter().for_each(|n| text += &format!("notice: {n}\n"));
            text
        }
        Err(SqlError { state, message, detail, hint, .. }) => {
            let mut text = format!("error {}: {message}\n", state.code());
            detail.into_iter().for_each(|d| text += &format!("detail: {d}\n"));
            hint.into_iter().for_each(|h| text += &format!("hint: {h}\n"));
            text
        }
    }
}

fn check(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|e| e.to_string())?;
    let catalog = catalog();
    let mut actual = String::new();
    for case in text.split("====\n").filter(|c| !c.trim().is_empty()) {
        let input = case.split("----\n").next().unwrap_or(case).trim();
        let (directives, sql): (Vec<&str>, Vec<&str>) = input.lines().partition(|l| l.starts_with('#'));
        let result = lowered(&directives, &sql.join("\n"), &catalog);
        actual += &format!("{input}\n----\n{}====\n", shown(result, &catalog));
    }
    if actual == text {
        return Ok(());
    }
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        return fs::write(path, actual).map_err(|e| e.to_string());
    }
    let differs = actual.lines().zip(text.lines()).find(|(a, t)| a != t);
    Err(format!("{}: {differs:?}; UPDATE_GOLDENS=1 rewrites it", path.display()))
}

#[test]
fn plans_and_refusals_are_as_in_the_goldens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("the goldens are there").map(|e| e.expect("readable").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "golden"));
    paths.sort();
    let failures: Vec<String> = paths.iter().filter_map(|p| check(p).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn nexmark_plans_are_as_in_the_golden() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<PathBuf> = fs::read_dir(root.join("../bench/queries"))
        .expect("the queries are there")
        .map(|e| e.expect("readable").path())
        .collect();
    paths.sort();
    let catalog = catalog();
    let mut actual = String::new();
    for path in paths {
        let sql = fs::read_to_string(&path).expect("a query is text");
        let name = path.file_stem().expect("a query has a name").to_string_lossy().into_owned();
        actual += &format!("{name}\n{}\n", shown(lowered(&[], &sql, &catalog), &catalog));
    }
    let golden = root.join("tests/goldens/nexmark.txt");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&golden, &actual).expect("the golden can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let differs = actual.lines().zip(expected.lines()).find(|(a, e)| a != e);
    assert!(actual == expected, "{differs:?}; UPDATE_GOLDENS=1 rewrites it");
}

#[test]
fn the_same_query_has_the_same_plan_and_fingerprint() {
    let catalog = catalog();
    let make = |sql| lowered(&[], sql, &catalog).expect("the query is lowered").plan;
    let sql = "SELECT auction, count(*) AS n FROM bid GROUP BY auction";
    let (first, second) = (make(sql), make(sql));
    assert_eq!(first.to_string(), second.to_string());
    assert_eq!(thalweg_planner::lower::fingerprint(&first), thalweg_planner::lower::fingerprint(&second));
    let other = make("SELECT auction, count(bidder) AS n FROM bid GROUP BY auction");
    assert_ne!(thalweg_planner::lower::fingerprint(&first), thalweg_planner::lower::fingerprint(&other));
}

#[test]
fn paths_are_unique_and_inputs_come_first() {
    let catalog = catalog();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/queries")).expect("the queries are there") {
        let sql = fs::read_to_string(entry.expect("readable").path()).expect("a query is text");
        let plan = lowered(&[], &sql, &catalog).expect("the query is lowered").plan;
        let mut paths: Vec<&str> = plan.nodes.iter().map(|n| n.path.as_str()).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), plan.nodes.len(), "{plan}");
        for (place, node) in plan.nodes.iter().enumerate() {
            assert_eq!(node.id.0, place, "PLAN-1");
            assert!(node.inputs.iter().all(|e| e.from.0 < place), "PLAN-1");
            assert!(!node.schema.fields().is_empty(), "a batch without columns has no length");
        }
    }
}

fn table_text(primary_key: Vec<usize>, is_connected: bool) -> String {
    let source = catalog().find("public", "bid").expect("there").as_ref().clone();
    let (connector, watermark) = match (&source.definition, is_connected) {
        (ObjectDefinition::Source { connector, watermark: Some(watermark) }, true) => {
            (Some(connector.clone()), Some(WatermarkSpec { column: 1, ..watermark.clone() }))
        }
        _ => (None, None),
    };
    let definition = ObjectDefinition::Table { primary_key, connector, watermark };
    let object = CatalogObject { columns: source.columns[4..6].to_vec(), definition, ..source };
    lower_table(&object).expect("a table is lowered").to_text(&|_| "bids".into())
}

#[test]
fn a_table_takes_rows_by_its_key_and_one_without_by_the_whole_row() {
    assert_eq!(
        table_text(vec![0], false),
        "Materialize key=[url@0] kind=retract unique=[url@0]\n  \
         TableInput object=bids columns=[url@0, dateTime@1] kind=retract to=hash[url@0]\n"
    );
    assert_eq!(
        table_text(vec![], false),
        "Materialize key=[] kind=retract\n  \
         TableInput object=bids columns=[url@0, dateTime@1] kind=retract to=hash[url@0, dateTime@1]\n"
    );
}

#[test]
fn a_table_with_a_connector_reads_it_and_keeps_its_watermark() {
    assert_eq!(
        table_text(vec![], true),
        "Materialize key=[] kind=append watermark=[dateTime@1]\n  \
         WatermarkFilter column=dateTime@1 delay_us=4000000 kind=append watermark=[dateTime@1] to=hash[url@0, dateTime@1]\n    \
         Source object=bids columns=[url@0, dateTime@1] kind=append to=local\n"
    );
    // A row of a key that is there replaces it, so the rows of a table with a key can change.
    assert!(table_text(vec![0], true).starts_with("Materialize key=[url@0] kind=retract"));
}

#[test]
fn s15_a_view_over_a_windowed_view_closes_by_its_watermark() {
    let catalog = catalog();
    let totals = catalog.find("public", "totals").expect("there");
    let sql = "SELECT auction, window_end, count(*) AS n FROM TUMBLE(bid, \"dateTime\", INTERVAL '10 seconds') GROUP BY auction, window_end";
    let (logical, columns) = plan(sql, &catalog, &LogicalPlanner::new()).expect("the view's query is planned");
    let root = Root::Materialize { object: totals.id, columns: columns.clone() };
    let no_plans = |_| None;
    let options = Arc::clone(LogicalPlanner::new().state().config_options());
    let context = Context { catalog: &catalog, plans: &no_plans, options: Arc::clone(&options) };
    let below = Arc::new(lower(&logical, &root, &context, Emit::Immediate).expect("the view is lowered").plan);

    let drop = CatalogTransaction { version: catalog.version() + 1, changes: vec![CatalogChange::Drop(totals.id)] };
    let without = catalog.apply(&drop).expect("nothing depends on it");
    let id = without.next_id();
    let definition = ObjectDefinition::MaterializedView { query: sql.into(), emit: Emit::Immediate, key: vec![0, 1] };
    let windowed = CatalogObject { id, columns, definition, ..totals.as_ref().clone() };
    let create = CatalogTransaction { version: without.version() + 1, changes: vec![CatalogChange::Create(Box::new(windowed))] };
    let catalog = without.apply(&create).expect("its name is free");

    let over = "SELECT window_end, sum(n) AS n FROM totals GROUP BY window_end";
    let (logical, columns) = plan(over, &catalog, &LogicalPlanner::new()).expect("the query is planned");
    let root = Root::Materialize { object: TARGET, columns };
    let plans = |asked: ObjectId| (asked == id).then(|| Arc::clone(&below));
    let with_plan = Context { catalog: &catalog, plans: &plans, options: Arc::clone(&options) };
    let lowered = lower(&logical, &root, &with_plan, Emit::OnWindowClose).expect("the watermark closes it");
    assert!(lowered.plan.to_string().contains("forgets_below=window_end"), "{}", lowered.plan);
    let without_plan = Context { catalog: &catalog, plans: &no_plans, options };
    let refused = lower(&logical, &root, &without_plan, Emit::OnWindowClose).expect_err("nothing is known of its watermark");
    assert_eq!(refused.state.code(), "42P10");
}

#[test]
fn explain_shows_both_plans_with_names() {
    let catalog = catalog();
    let sql = "SELECT auction, count(*) AS n FROM bid GROUP BY auction";
    let (logical, _) = plan(sql, &catalog, &LogicalPlanner::new()).expect("the query is planned");
    let lines = explain(&logical, &lowered(&[], sql, &catalog).expect("the query is lowered"), &catalog, "new");
    assert_eq!(lines[0], "Logical plan");
    assert!(lines.iter().any(|l| l == "Streaming plan"));
    assert!(lines.last().is_some_and(|l| l.contains("Source object=bid columns=[auction@0, dateTime@1]")), "{lines:?}");
}
