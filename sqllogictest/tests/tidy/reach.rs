//! Every file is a target of cargo or a module of one: a test in a file that nothing names would never run.

use crate::files::Source;
use regex::Regex;
use std::collections::BTreeSet;

/// Files that no target reaches.
pub fn faults(sources: &[Source]) -> Vec<String> {
    let declaration = Regex::new(r"(?m)^\s*(?:pub(?:\([a-z ]+\))?\s+)?mod\s+(?:r#)?(\w+)\s*;").expect("a pattern");
    let placed = Regex::new(r#"#\[path\s*=\s*"([^"]+)"\]"#).expect("a pattern");
    let known: BTreeSet<&str> = sources.iter().map(|source| source.path.as_str()).collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> =
        sources.iter().filter(|source| is_target(&source.path)).map(|source| source.path.clone()).collect();
    while let Some(path) = open.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let Some(source) = sources.iter().find(|source| source.path == path) else { continue };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let inner = module_folder(&path);
        for capture in declaration.captures_iter(&source.text) {
            let name = &capture[1];
            for candidate in [format!("{inner}/{name}.rs"), format!("{inner}/{name}/mod.rs")] {
                if known.contains(candidate.as_str()) {
                    open.push(candidate);
                }
            }
        }
        for capture in placed.captures_iter(&source.text) {
            open.push(format!("{folder}/{}", &capture[1]));
        }
    }
    known.into_iter().filter(|path| !reached.contains(*path)).map(|path| format!("{path} belongs to no target")).collect()
}

/// Whether cargo finds it by itself.
fn is_target(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let folder_of = |name: &str| parts.iter().rposition(|part| *part == name);
    if path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.ends_with("build.rs") {
        return true;
    }
    ["tests", "examples", "benches"].iter().any(|kind| match folder_of(kind) {
        // A folder of tests inside `src` holds modules.
        Some(at) if !parts[..at].contains(&"src") => {
            parts.len() == at + 2 || (parts.len() == at + 3 && parts[at + 2] == "main.rs")
        }
        _ => false,
    })
}

/// The folder in which the modules of a file stand.
fn module_folder(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = file.trim_end_matches(".rs");
    if stem == "mod" || is_target(path) { folder.to_string() } else { format!("{folder}/{stem}") }
}
