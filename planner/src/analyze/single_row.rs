//! Scalar subqueries that may give several rows: an error where one does, as in Postgres.
//!
//! DataFusion joins such a subquery as it is, or refuses it. Here it becomes two that have one row each: how many rows there
//! are, and the least of their values; [`single::single_value`] gives the latter if there is no more than one. It stands where
//! the subquery stood, so that rows which nobody asks for do no harm.

use crate::functions::{assign, single};
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::{min_max::min_udaf, sum::sum_udaf};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder, Projection, Subquery, SubqueryAlias, lit};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;
use thalweg_catalog::SqlType;

#[derive(Debug)]
pub(super) struct SingleRow;

impl AnalyzerRule for SingleRow {
    fn name(&self) -> &str {
        "single_row"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let aliases = AliasGenerator::new();
        Ok(plan.transform_up_with_subqueries(|node| rewrite(node, &aliases))?.data)
    }
}

fn rewrite(node: LogicalPlan, aliases: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    if !node.expressions().iter().any(has_subquery) {
        return Ok(Transformed::no(node));
    }
    let names = NamePreserver::new(&node);
    let mut values = Values { input: node.inputs().first().map(|input| (*input).clone()), aliases };
    let exprs = node.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|part| match part {
            Expr::ScalarSubquery(subquery) => values.value(&subquery).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(name.restore(expr.data))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let outputs = node.schema().columns();
    let is_filter = matches!(node, LogicalPlan::Filter(_));
    let inputs = values.input.into_iter().chain(node.inputs().into_iter().skip(1).cloned()).collect();
    let node = node.with_new_exprs(exprs, inputs)?;
    let plan = if is_filter && node.schema().fields().len() > outputs.len() {
        LogicalPlanBuilder::from(node).project(outputs.into_iter().map(Expr::Column))?.build()?
    } else {
        node
    };
    Ok(Transformed::yes(plan))
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_)))).unwrap_or(false)
}

/// The values of subqueries, for the expressions of a node over `input`.
struct Values<'a> {
    input: Option<LogicalPlan>,
    aliases: &'a AliasGenerator,
}

impl Values<'_> {
    fn value(&mut self, subquery: &Subquery) -> Result<Expr> {
        let plan = &subquery.subquery;
        if gives_one_row(plan) {
            return self.column(subquery.clone());
        }
        let (qualifier, field) = plan.schema().qualified_field(0);
        let value = Expr::Column(Column::from((qualifier, field)));
        // A sum, unlike a count, is NULL for no rows, as the joined row is where the subquery has none.
        let rows = self.aggregated(subquery, sum_udaf().call(vec![lit(1i64)]))?;
        let least = self.aggregated(subquery, min_udaf().call(vec![value]))?;
        let least = match SqlType::from_field(field) {
            Ok(sql_type) => assign::to_type(least, &sql_type),
            Err(_) => least,
        };
        Ok(single::single_value().call(vec![rows, least]))
    }

    fn aggregated(&mut self, subquery: &Subquery, call: Expr) -> Result<Expr> {
        let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).aggregate(Vec::<Expr>::new(), [call])?;
        self.column(Subquery { subquery: Arc::new(plan.build()?), ..subquery.clone() })
    }

    /// The value of a subquery of one row. A correlated one becomes a column of a projection below: DataFusion takes the
    /// columns of several in one node for each other.
    fn column(&mut self, subquery: Subquery) -> Result<Expr> {
        let is_correlated = !subquery.outer_ref_columns.is_empty();
        let Some(input) = self.input.take_if(|input| is_correlated && !input.schema().fields().is_empty()) else {
            return Ok(Expr::ScalarSubquery(subquery));
        };
        let name = self.aliases.next("__single");
        let columns = input.schema().columns().into_iter().map(Expr::Column);
        let columns: Vec<Expr> = columns.chain([Expr::ScalarSubquery(subquery).alias(&name)]).collect();
        self.input = Some(LogicalPlanBuilder::from(input).project(columns)?.build()?);
        Ok(Expr::Column(Column::from_name(name)))
    }
}

/// Whether the plan has one row at most, for each row of the outer query if it is correlated.
fn gives_one_row(plan: &LogicalPlan) -> bool {
    rows_max(plan).is_some_and(|rows| rows <= 1) || !plan.all_out_ref_exprs().is_empty() && is_aggregate(plan)
}

/// The most rows that a plan gives. DataFusion counts none for a `SELECT` without `FROM` where it is in a union.
fn rows_max(plan: &LogicalPlan) -> Option<usize> {
    match plan {
        LogicalPlan::Union(union) => union.inputs.iter().map(|input| rows_max(input).map(|rows| rows.max(1))).sum(),
        LogicalPlan::Distinct(distinct) => rows_max(distinct.input()),
        LogicalPlan::Projection(Projection { input, .. }) | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => {
            rows_max(input)
        }
        other => other.max_rows(),
    }
}

/// DataFusion looks itself whether a correlated aggregate is by more than the correlation, and refuses it then.
fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => !aggregate.aggr_expr.is_empty(),
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. })
        | LogicalPlan::Filter(Filter { input, .. }) => is_aggregate(input),
        _ => false,
    }
}
