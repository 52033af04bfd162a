//! Which crate may depend on which, as `cargo metadata` tells.

use crate::files::root;
use std::process::Command;

/// Ours, and what of ours each may use in what it ships.
const MAY_USE: [(&str, &[&str]); 10] = [
    (
        "thalweg",
        &["thalweg-catalog", "thalweg-plan", "thalweg-planner", "thalweg-storage", "thalweg-connectors", "thalweg-executor"],
    ),
    ("thalweg-planner", &["thalweg-catalog", "thalweg-plan"]),
    ("thalweg-plan", &["thalweg-catalog"]),
    ("thalweg-executor", &["thalweg-catalog", "thalweg-plan", "thalweg-storage", "thalweg-connectors"]),
    ("thalweg-connectors", &["thalweg-catalog"]),
    ("thalweg-storage", &["thalweg-catalog"]),
    ("thalweg-catalog", &[]),
    ("thalweg-sqllogictest", &[]),
    ("thalweg-clients", &[]),
    ("thalweg-workspace-hack", &[]),
];

/// Every arrow that the table does not allow.
pub fn faults() -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut faults = vec![];
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
            faults.push(format!("crate {name} is not in the table of arrows"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let used = dependency["name"].as_str().expect("a name");
            // Tests may use more, and the workspace's hack is no code.
            let is_ours = used.starts_with("thalweg") && used != "thalweg-workspace-hack";
            if is_ours && dependency["kind"].is_null() && !may_use.contains(&used) {
                faults.push(format!("{name} must not depend on {used}"));
            }
            if used.starts_with("timely") && !["thalweg-executor", "thalweg-workspace-hack"].contains(&name) {
                faults.push(format!("{name} must not depend on {used}"));
            }
        }
    }
    for (name, _) in MAY_USE {
        if !packages.iter().any(|package| package["name"] == name) {
            faults.push(format!("crate {name} of the table of arrows is gone"));
        }
    }
    faults
}
