//! The house rules that a program can check: lengths, dependency arrows, where the substrate is named, that every test runs.
//!
//! `allowed.txt` lists what is longer than it should be, with its length now. An entry may only shrink or go.

mod arrows;
mod files;
mod lengths;
mod reach;

use files::{Source, sources, statements};
use regex::Regex;

/// These rules themselves, which name what they look for.
const TIDY: &str = "sqllogictest/tests/tidy/";

#[test]
fn files_and_functions_are_short() {
    let faults = lengths::faults(&sources());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn crates_depend_only_as_the_design_says() {
    let faults = arrows::faults();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn only_the_dataflow_module_names_timely() {
    let names = Regex::new(r"\btimely(_\w+)?\s*::|\buse timely\b|extern crate timely").expect("a pattern");
    let found = matching(|source| !["executor/src/dataflow/", TIDY].iter().any(|folder| source.path.starts_with(folder)), &names);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_source_file_belongs_to_a_target() {
    let faults = reach::faults(&sources());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_test_is_left_out() {
    let ignored = Regex::new(r"#\[ignore").expect("a pattern");
    let found = matching(|source| !source.path.starts_with(TIDY), &ignored);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_to_do_has_an_owner() {
    let open = Regex::new(r"\b(TODO|FIXME|XXX)\b").expect("a pattern");
    let owned = Regex::new(r"\bTODO\(#\d+\)").expect("a pattern");
    let found = matching(|source| !source.path.starts_with(TIDY), &open);
    let found: Vec<_> = found.into_iter().filter(|line| !owned.is_match(line)).collect();
    assert!(found.is_empty(), "write TODO(#issue):\n{}", found.join("\n"));
}

#[test]
fn every_failing_statement_asserts_its_sqlstate() {
    let head = Regex::new(r"^(statement|query) error\b").expect("a pattern");
    let state = Regex::new(r"error (\([0-9A-Z]{5}\)|(\(\?s\))?\^[0-9A-Z]{5}: )").expect("a pattern");
    let mut faults = vec![];
    for file in statements() {
        for (number, line) in file.text.lines().enumerate() {
            if head.is_match(line) && !state.is_match(line) {
                faults.push(format!("{}:{}: {line}", file.path, number + 1));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Lines that match, in the sources that are wanted.
fn matching(wanted: impl Fn(&Source) -> bool, pattern: &Regex) -> Vec<String> {
    let mut found = vec![];
    for source in sources().iter().filter(|source| wanted(source)) {
        for (number, line) in source.text.lines().enumerate() {
            if pattern.is_match(line) {
                found.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    found
}
