//! Every scalar function of a session, called in a view: planned, or refused with a reason. Held against
//! `tests/goldens/functions.txt`; `UPDATE_GOLDENS=1` rewrites it.

mod frontend;

use datafusion::logical_expr::{ScalarUDF, Volatility};
use frontend::{catalog, plan};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use thalweg_catalog::object::Emit;
use thalweg_catalog::{Catalog, ObjectId, SqlError, SqlResult};
use thalweg_planner::LogicalPlanner;
use thalweg_planner::lower::{Context, Root, lower};

/// Arguments over table `t`, one for each kind of value; the first few stand in every place of a call of three.
const ARGUMENTS: [&str; 13] = [
    "b",
    "a",
    "d",
    "at",
    "make_array(a)",
    "'day'",
    "1",
    "c",
    "a > 1",
    "CAST(at AS date)",
    "CAST(b AS bytea)",
    "INTERVAL '1 day'",
    "struct(a, b)",
];
const ARGUMENTS_OF_THREE: usize = 7;

/// Why no call of these is found here: their names are read as syntax, or they want what is no column.
const WITHOUT_CALL_MAX: usize = 30;

fn calls(name: &str) -> Vec<String> {
    let mut calls = vec![format!("{name}()")];
    calls.extend(ARGUMENTS.iter().map(|first| format!("{name}({first})")));
    for first in ARGUMENTS {
        calls.extend(ARGUMENTS.iter().map(|second| format!("{name}({first}, {second})")));
    }
    let few = &ARGUMENTS[..ARGUMENTS_OF_THREE];
    for first in few {
        for second in few {
            calls.extend(few.iter().map(|third| format!("{name}({first}, {second}, {third})")));
        }
    }
    calls
}

fn in_view(call: &str, catalog: &Catalog, planner: &LogicalPlanner) -> SqlResult<()> {
    let (logical, columns) = plan(&format!("SELECT {call} AS x FROM t"), catalog, planner)?;
    let root = Root::Materialize { object: ObjectId(20_000), columns };
    let context = Context { catalog, plans: &|_| None, options: Arc::clone(planner.state().config_options()) };
    lower(&logical, &root, &context, Emit::Immediate).map(|_| ())
}

/// What comes of the first call that a view takes; else of the first that is refused for what it is rather than for its
/// arguments.
fn outcome(name: &str, catalog: &Catalog, planner: &LogicalPlanner) -> String {
    let mut refused: Option<(String, SqlError)> = None;
    for call in calls(name) {
        match in_view(&call, catalog, planner) {
            Ok(()) => return format!("{call}: planned"),
            Err(error) if error.state.code() == "0A000" && refused.is_none() => refused = Some((call, error)),
            Err(_) => {}
        }
    }
    match refused {
        Some((call, error)) => format!("{call}: refused, {}", error.message),
        None => format!("{name}: no call found"),
    }
}

#[test]
fn s21_deterministic_functions_can_be_used_in_views_and_others_are_refused() {
    let (catalog, planner) = (catalog(), LogicalPlanner::new());
    let functions: BTreeMap<String, Arc<ScalarUDF>> =
        planner.state().scalar_functions().values().map(|f| (f.name().to_string(), Arc::clone(f))).collect();
    let mut actual = String::new();
    let mut without_call = 0;
    for (name, function) in &functions {
        let found = outcome(name, &catalog, &planner);
        if function.signature().volatility != Volatility::Immutable {
            assert!(!found.ends_with("planned"), "{found}, though it is not deterministic");
        }
        without_call += usize::from(found.ends_with("no call found"));
        actual += &format!("{found}\n");
    }
    assert!(functions.len() > 150, "{} functions are registered", functions.len());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/functions.txt");
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(&golden, &actual).expect("the golden can be written");
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    let differs = actual.lines().zip(expected.lines()).find(|(a, e)| a != e);
    assert!(actual == expected, "{differs:?}; UPDATE_GOLDENS=1 rewrites it");
    assert!(without_call <= WITHOUT_CALL_MAX, "{without_call} functions have no call:\n{actual}");
}
