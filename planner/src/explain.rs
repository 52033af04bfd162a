//! `EXPLAIN`: the optimised logical plan and the streaming plan, line by line.

use crate::lower::Lowered;
use datafusion::logical_expr::LogicalPlan;
use thalweg_catalog::catalog::DEFAULT_SCHEMA;
use thalweg_catalog::{Catalog, ObjectId};

/// The lines that `EXPLAIN` gives for a query that would be kept up to date: the same for the same statement and catalog.
///
/// `new_name` is the name of the object that the plan is for, which the catalog does not hold yet.
pub fn explain(logical: &LogicalPlan, lowered: &Lowered, catalog: &Catalog, new_name: &str) -> Vec<String> {
    let mut lines = vec!["Logical plan".to_string()];
    lines.extend(logical.display_indent().to_string().lines().map(|l| format!("  {l}")));
    lines.push("Streaming plan".into());
    lines.extend(lowered.plan.to_text(&|id| object_name(id, catalog, new_name)).lines().map(|l| format!("  {l}")));
    lines.extend(lowered.notices.iter().map(|n| format!("Notice: {n}")));
    lines
}

/// The lines that `EXPLAIN` gives for a query that is only read: its logical plan.
pub fn explain_read(logical: &LogicalPlan) -> Vec<String> {
    let plan = logical.display_indent().to_string();
    std::iter::once("Logical plan".to_string()).chain(plan.lines().map(|l| format!("  {l}"))).collect()
}

/// How an object is named in print: with its schema where that is not the default one.
fn object_name(id: ObjectId, catalog: &Catalog, new_name: &str) -> String {
    match catalog.get(id) {
        Some(object) if object.schema == DEFAULT_SCHEMA => object.name.clone(),
        Some(object) => format!("{}.{}", object.schema, object.name),
        None => new_name.to_string(),
    }
}
