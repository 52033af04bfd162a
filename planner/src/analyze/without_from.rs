//! Correlated subqueries without `FROM`, as what they compute: there is nothing to join with.
//!
//! Such a subquery has one row, or none where its condition does not hold. So `EXISTS (SELECT 1 WHERE c)` asks whether `c` holds,
//! `(SELECT x WHERE c)` is `x` where it does, and `y IN (SELECT x WHERE c)` compares with `x` there. A single row of `VALUES` is one too.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Subquery, lit, when};
use datafusion::optimizer::AnalyzerRule;

#[derive(Debug)]
pub(super) struct WithoutFrom;

impl AnalyzerRule for WithoutFrom {
    fn name(&self) -> &str {
        "without_from"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(rewrite)?.data)
    }
}

fn rewrite(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !node.expressions().iter().any(has_subquery) {
        return Ok(Transformed::no(node));
    }
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    let replaced = node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.transform_up(|part| replace(part, &schema))?.update_data(|expr| name.restore(expr)))
    })?;
    if replaced.transformed { replaced.map_data(|node| node.recompute_schema()) } else { Ok(replaced) }
}

fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Whether there is a subquery in an expression.
pub(crate) fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|part| Ok(subquery_of(part).is_some())).unwrap_or(false)
}

/// The subqueries of an expression.
pub(super) fn subqueries_of(expr: &Expr) -> Vec<Subquery> {
    let mut found = vec![];
    // Nothing in the visit fails.
    let _ = expr.apply(|part| {
        found.extend(subquery_of(part).cloned());
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

/// The expression in place of a subquery, within a node whose inputs have these columns.
fn replace(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let row = match subquery_of(&expr) {
        Some(subquery) => row_of(&subquery.subquery)?.filter(|row| !subquery.outer_ref_columns.is_empty() || row.has_subquery()),
        None => None,
    };
    let Some(row) = row else { return Ok(Transformed::no(expr)) };
    let condition = row.condition.map(|condition| from_within(condition, schema)).transpose()?;
    let mut values = row.values;
    let mut first = || if values.is_empty() { Ok(lit(true)) } else { from_within(values.swap_remove(0), schema) };
    let replaced = match expr {
        Expr::Exists(Exists { negated, .. }) => match condition {
            Some(condition) if negated => condition.is_not_true(),
            Some(condition) => condition.is_true(),
            None => lit(!negated),
        },
        Expr::ScalarSubquery(_) => match condition {
            Some(condition) => when(condition, first()?).end()?,
            None => first()?,
        },
        Expr::InSubquery(InSubquery { expr, negated, .. }) => {
            let op = if negated { Operator::NotEq } else { Operator::Eq };
            where_there_is_a_row(condition, Expr::BinaryExpr(BinaryExpr::new(expr, op, Box::new(first()?))), negated)?
        }
        Expr::SetComparison(SetComparison { expr, op, quantifier, .. }) => {
            let compared = Expr::BinaryExpr(BinaryExpr::new(expr, op, Box::new(first()?)));
            where_there_is_a_row(condition, compared, quantifier == SetQuantifier::All)?
        }
        other => return Ok(Transformed::no(other)),
    };
    Ok(Transformed::yes(replaced))
}

/// A comparison with a row that is there if the condition holds, and what is true of no rows.
fn where_there_is_a_row(condition: Option<Expr>, compared: Expr, of_none: bool) -> Result<Expr> {
    match condition {
        Some(condition) => when(condition, compared).otherwise(lit(of_none)),
        None => Ok(compared),
    }
}

/// An expression of a subquery as its outer query sees it. Columns of a query further out stay what they are.
fn from_within(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    expr.transform_up(|part| match part {
        Expr::OuterReferenceColumn(_, column) if schema.has_column(&column) => Ok(Transformed::yes(Expr::Column(column))),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// The only row that a plan may have.
struct Row {
    /// Whether it has it.
    condition: Option<Expr>,
    values: Vec<Expr>,
}

impl Row {
    fn has_subquery(&self) -> bool {
        self.values.iter().chain(&self.condition).any(has_subquery)
    }

    /// An expression over the plan's columns, made of what they stand for; none if a subquery in it sees them.
    fn compute(&self, expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
        let sees_columns = |part: &Expr| {
            let outer = subquery_of(part).map(|subquery| subquery.outer_ref_columns.as_slice()).unwrap_or_default();
            outer.iter().any(|column| matches!(column, Expr::OuterReferenceColumn(_, column) if schema.has_column(column)))
        };
        if expr.exists(|part| Ok(sees_columns(part)))? {
            return Ok(None);
        }
        let computed = expr.clone().unalias().transform_up(|part| match part {
            Expr::Column(column) => Ok(Transformed::yes(self.values[schema.index_of_column(&column)?].clone())),
            other => Ok(Transformed::no(other)),
        });
        computed.data().map(Some)
    }
}

/// The row of a plan that reads no relation.
fn row_of(plan: &LogicalPlan) -> Result<Option<Row>> {
    match plan {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Ok(Some(Row { condition: None, values: vec![] })),
        LogicalPlan::Values(rows) => match rows.values.as_slice() {
            [row] => Ok(Some(Row { condition: None, values: row.clone() })),
            _ => Ok(None),
        },
        LogicalPlan::SubqueryAlias(alias) => row_of(&alias.input),
        LogicalPlan::Projection(projection) => {
            let Some(row) = row_of(&projection.input)? else { return Ok(None) };
            let values = projection.expr.iter().map(|expr| row.compute(expr, projection.input.schema()));
            let values = values.collect::<Result<Option<Vec<Expr>>>>()?;
            Ok(values.map(|values| Row { condition: row.condition, values }))
        }
        LogicalPlan::Filter(filter) => {
            let Some(row) = row_of(&filter.input)? else { return Ok(None) };
            let Some(condition) = row.compute(&filter.predicate, filter.input.schema())? else { return Ok(None) };
            let condition = match row.condition {
                Some(before) => before.and(condition),
                None => condition,
            };
            Ok(Some(Row { condition: Some(condition), values: row.values }))
        }
        _ => Ok(None),
    }
}
