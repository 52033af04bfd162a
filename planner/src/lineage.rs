//! Column lineage: from which columns of which objects each column of a query is made, and how.
//!
//! Follows the optimised plan, so columns that a query names but does not need don't count. Conditions (filters, join
//! keys) decide which rows there are, not what is in them, and are not followed.

use crate::lower::scanned;
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use std::collections::BTreeMap;
use thalweg_catalog::{ObjectId, SqlResult};

/// How an input column goes into an output column; of several ways the last here counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LineageKind {
    /// As it is.
    Identity,
    /// Through an expression of its row.
    Transform,
    /// Through an aggregate or a rank over many rows.
    Aggregate,
}

impl LineageKind {
    /// Its name in `thalweg.lineage_columns`.
    pub fn name(self) -> &'static str {
        match self {
            LineageKind::Identity => "identity",
            LineageKind::Transform => "transform",
            LineageKind::Aggregate => "aggregate",
        }
    }
}

/// One edge from an input column to an output column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnLineage {
    /// The place of the output column.
    pub output: usize,
    /// The object that is read: a source, table or materialized view.
    pub object: ObjectId,
    /// The place of the column in it.
    pub column: usize,
    /// How it goes in.
    pub kind: LineageKind,
}

/// The input columns of one output column.
type Origins = BTreeMap<(ObjectId, usize), LineageKind>;

/// All edges into the columns of a query, by output column, then object, then column.
///
/// # Errors
/// `0A000` if the plan scans what is no source, table or materialized view.
pub fn lineage_columns(plan: &LogicalPlan) -> SqlResult<Vec<ColumnLineage>> {
    let origins = origins_of(plan)?;
    let edges = origins.into_iter().enumerate().flat_map(|(output, origins)| {
        origins.into_iter().map(move |((object, column), kind)| ColumnLineage { output, object, column, kind })
    });
    Ok(edges.collect())
}

fn origins_of(plan: &LogicalPlan) -> SqlResult<Vec<Origins>> {
    let computed = |input: &LogicalPlan, exprs: &mut dyn Iterator<Item = &Expr>| {
        let below = origins_of(input)?;
        Ok(exprs.map(|e| of_expr(e, input.schema(), &below)).collect::<Vec<_>>())
    };
    let mut origins = match plan {
        LogicalPlan::TableScan(scan) => {
            let object = scanned(scan)?;
            let columns = scan.projection.clone().unwrap_or_else(|| (0..object.columns.len()).collect());
            columns.into_iter().map(|c| Origins::from([((object.id, c), LineageKind::Identity)])).collect()
        }
        LogicalPlan::Projection(node) => computed(&node.input, &mut node.expr.iter())?,
        LogicalPlan::Aggregate(node) => computed(&node.input, &mut node.group_expr.iter().chain(&node.aggr_expr))?,
        LogicalPlan::Distinct(Distinct::On(node)) => computed(&node.input, &mut node.select_expr.iter())?,
        LogicalPlan::Window(node) => {
            let mut all = origins_of(&node.input)?;
            all.extend(computed(&node.input, &mut node.window_expr.iter())?);
            all
        }
        LogicalPlan::Unnest(node) => {
            let below = origins_of(&node.input)?;
            let is_made = |c: &usize| node.list_type_columns.iter().any(|(l, _)| l == c) || node.struct_type_columns.contains(c);
            let of = |c: &usize| {
                let found = below.get(*c).cloned().unwrap_or_default();
                if is_made(c) { at_least(found, LineageKind::Transform) } else { found }
            };
            node.dependency_indices.iter().map(of).collect()
        }
        LogicalPlan::Union(node) => {
            let mut all: Vec<Origins> = vec![Origins::new(); node.schema.fields().len()];
            for input in &node.inputs {
                for (into, from) in all.iter_mut().zip(origins_of(input)?) {
                    merge(into, from);
                }
            }
            all
        }
        // The rest gives its inputs' columns as they are; a mark or other new column has no origin.
        _ => {
            let mut all = vec![];
            for input in plan.inputs() {
                all.extend(origins_of(input)?);
            }
            all
        }
    };
    if let LogicalPlan::Join(node) = plan
        && node.schema.fields().len() < origins.len()
    {
        // Semi, anti and mark joins give one side alone.
        let right_only = matches!(
            node.join_type,
            datafusion::common::JoinType::RightSemi
                | datafusion::common::JoinType::RightAnti
                | datafusion::common::JoinType::RightMark
        );
        if right_only {
            origins.drain(..node.left.schema().fields().len());
        } else {
            origins.truncate(node.left.schema().fields().len());
        }
    }
    origins.resize(plan.schema().fields().len(), Origins::new());
    Ok(origins)
}

fn of_expr(expr: &Expr, schema: &DFSchema, below: &[Origins]) -> Origins {
    let mut origins = Origins::new();
    for column in expr.column_refs() {
        if let Some(found) = schema.maybe_index_of_column(column).and_then(|place| below.get(place)) {
            merge(&mut origins, found.clone());
        }
    }
    at_least(origins, kind_of(expr))
}

fn kind_of(expr: &Expr) -> LineageKind {
    match expr {
        Expr::Column(_) => LineageKind::Identity,
        Expr::Alias(alias) => kind_of(&alias.expr),
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => LineageKind::Aggregate,
        _ => LineageKind::Transform,
    }
}

fn at_least(mut origins: Origins, kind: LineageKind) -> Origins {
    origins.values_mut().for_each(|k| *k = kind.max(*k));
    origins
}

fn merge(into: &mut Origins, from: Origins) {
    for (origin, kind) in from {
        into.entry(origin).and_modify(|k| *k = kind.max(*k)).or_insert(kind);
    }
}

#[cfg(test)]
mod tests;
