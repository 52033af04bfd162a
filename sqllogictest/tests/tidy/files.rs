//! The files that are checked, by their paths from the root of the project.

use std::path::{Path, PathBuf};

/// One file.
pub struct Source {
    /// Its path from the root, with slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Whether it is there for tests only.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/") || ["/tests.rs", "/testing.rs"].iter().any(|name| self.path.ends_with(name))
    }
}

/// The root of the project.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Rust files of the workspace.
pub fn sources() -> Vec<Source> {
    found("rs")
}

/// All files of statements.
pub fn statements() -> Vec<Source> {
    found("slt")
}

fn found(ending: &str) -> Vec<Source> {
    let mut files = vec![];
    for entry in std::fs::read_dir(root()).expect("the root") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && (path.join("Cargo.toml").exists() || path.ends_with("clients")) {
            collect(&path, ending, &mut files);
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!files.is_empty(), "there is no {ending} file");
    files
}

fn collect(folder: &Path, ending: &str, files: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            // What was built or fetched is not ours.
            if !path.ends_with("target") && !path.ends_with("node_modules") {
                collect(&path, ending, files);
            }
        } else if path.extension().is_some_and(|found| found == ending) {
            let text = std::fs::read_to_string(&path).expect("text");
            let path = path.strip_prefix(root()).expect("a path under the root").to_string_lossy().replace('\\', "/");
            files.push(Source { path, text });
        }
    }
}
