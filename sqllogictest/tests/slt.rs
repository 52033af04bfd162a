//! Every file of every area, with 1, 2 and 4 workers.

use std::collections::BTreeSet;
use thalweg_sqllogictest::suite::{Mode, files, root, run};

/// Runs all files of an area and fails with everything that differed.
async fn check(area: &str) {
    let mut faults = vec![];
    let files = files(area).expect("the area's folder");
    assert!(!files.is_empty(), "there is no file in {area}");
    for file in files {
        for workers in [1, 2, 4] {
            if let Err(fault) = run(&file, workers, Mode::Check).await {
                faults.push(fault);
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n\n{}", faults.len(), faults.join("\n\n"));
}

macro_rules! areas {
    ($($area:ident),* $(,)?) => {
        const AREAS: &[&str] = &[$(stringify!($area)),*];
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $area() {
                check(stringify!($area)).await;
            }
        )*
    };
}

areas!(
    access, aggregate, ddl, dml, errors, join, select, session, sinks, sources, subquery, system, top_n, types, union, views,
    window
);

#[test]
fn every_folder_with_statements_is_an_area_that_runs() {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root()).expect("the crate's folder") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        if root().join(&name).is_dir() && files(&name).is_ok_and(|files| !files.is_empty()) {
            found.insert(name);
        }
    }
    let listed: BTreeSet<String> = AREAS.iter().map(ToString::to_string).collect();
    assert_eq!(found, listed);
}
