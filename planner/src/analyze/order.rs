//! Subqueries within `ORDER BY`, as hidden columns below the sort: there they are made joins like those of a select list.

use super::without_from::{has_subquery, subqueries_of};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Sort, SortExpr};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct OrderBySubqueries;

impl AnalyzerRule for OrderBySubqueries {
    fn name(&self) -> &str {
        "order_by_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let aliases = AliasGenerator::new();
        let rewritten = plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Sort(sort) if sort.expr.iter().any(|key| has_subquery(&key.expr)) => {
                rewrite(sort, &aliases).map(Transformed::yes)
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(rewritten?.data)
    }
}

fn rewrite(sort: Sort, aliases: &AliasGenerator) -> Result<LogicalPlan> {
    let outputs: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let input = with_seen_columns(Arc::unwrap_or_clone(sort.input), &sort.expr)?;
    let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut keys = vec![];
    for key in sort.expr {
        if !has_subquery(&key.expr) {
            keys.push(key);
            continue;
        }
        let name = aliases.next("__order");
        columns.push(key.expr.unalias().alias(&name));
        keys.push(SortExpr { expr: Expr::Column(Column::from_name(name)), ..key });
    }
    LogicalPlanBuilder::from(input).project(columns)?.sort_with_limit(keys, sort.fetch)?.project(outputs)?.build()
}

/// The input of a sort with the columns that the subqueries in its keys see and the select list does not have.
fn with_seen_columns(input: LogicalPlan, keys: &[SortExpr]) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = &input else { return Ok(input) };
    let mut exprs = projection.expr.clone();
    for seen in keys.iter().flat_map(|key| subqueries_of(&key.expr)).flat_map(|subquery| subquery.outer_ref_columns) {
        let Expr::OuterReferenceColumn(_, column) = seen else { continue };
        let is_hidden = !input.schema().has_column(&column) && projection.input.schema().has_column(&column);
        let column = Expr::Column(column);
        if is_hidden && !exprs.contains(&column) {
            exprs.push(column);
        }
    }
    LogicalPlanBuilder::from(Arc::clone(&projection.input)).project(exprs)?.build()
}
