//! `IN`, `ANY`, `ALL` and `EXISTS` over subqueries wherever they stand, with Postgres's three truth values.
//!
//! DataFusion turns those that are conditions of a filter of their own into semi and anti joins. Here the rest become *marks*:
//! columns of a join that say of each row whether the subquery has a row of some kind for it. `x IN (…)` is true if the
//! subquery has `x`; else NULL if it has a NULL, or if `x` is NULL and it has any row; else false.

use crate::functions::error;
use datafusion::common::alias::AliasGenerator;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, JoinType, Result};
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, not, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use datafusion::scalar::ScalarValue;
use std::collections::BTreeSet;
use std::sync::Arc;
use thalweg_catalog::SqlError;

#[derive(Debug)]
pub(super) struct Membership;

impl AnalyzerRule for Membership {
    fn name(&self) -> &str {
        "membership"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let aliases = AliasGenerator::new();
        Ok(plan.transform_up_with_subqueries(|node| rewrite(node, &aliases))?.data)
    }
}

fn rewrite(node: LogicalPlan, aliases: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    if !node.expressions().iter().any(asks_for_membership) {
        return Ok(Transformed::no(node));
    }
    match node {
        LogicalPlan::Filter(filter) => rewrite_filter(filter, aliases),
        LogicalPlan::Join(mut join) if join.join_type == JoinType::Inner && join.filter.is_some() => {
            let condition = join.filter.take();
            let joined = LogicalPlan::Join(join);
            match condition {
                Some(condition) => rewrite_filter(Filter::try_new(condition, Arc::new(joined))?, aliases),
                None => Ok(Transformed::no(joined)),
            }
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
            let names = NamePreserver::new(&node);
            let mut marks = Marks::over(node.inputs()[0].clone(), aliases);
            let exprs = node.expressions().into_iter().map(|expr| {
                let name = names.save(&expr);
                Ok(name.restore(marks.replace(expr)?))
            });
            let exprs = exprs.collect::<Result<Vec<_>>>()?;
            node.with_new_exprs(exprs, vec![marks.input]).map(Transformed::yes)
        }
        node => Err(refused(&format!("a subquery of {}", node.display()))),
    }
}

fn rewrite_filter(filter: Filter, aliases: &AliasGenerator) -> Result<Transformed<LogicalPlan>> {
    let outputs = filter.input.schema().columns();
    let mut marks = Marks::over(Arc::unwrap_or_clone(filter.input), aliases);
    let mut conditions = vec![];
    for condition in split_conjunction_owned(filter.predicate) {
        let condition = plain(condition);
        marks.unknown_is_false = is_only_affirmed(&condition);
        let condition = if becomes_join(&condition) { condition } else { marks.replace(condition)? };
        conditions.push(condition);
    }
    let is_marked = marks.input.schema().fields().len() > outputs.len();
    let filtered = LogicalPlanBuilder::from(marks.input).filter(conjunction(conditions).unwrap_or_else(|| lit(true)))?;
    let plan = if is_marked { filtered.project(outputs.into_iter().map(Expr::Column))? } else { filtered };
    plan.build().map(Transformed::yes)
}

fn asks_for_membership(expr: &Expr) -> bool {
    let found = expr.exists(|part| Ok(matches!(part, Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))));
    found.unwrap_or(false)
}

/// `= ANY` and `<> ALL` as `IN` and `NOT IN`, and a negation drawn into what it negates.
fn plain(expr: Expr) -> Expr {
    match expr {
        Expr::SetComparison(SetComparison { expr, subquery, op: Operator::Eq, quantifier: SetQuantifier::Any }) => {
            Expr::InSubquery(InSubquery { expr, subquery, negated: false })
        }
        Expr::SetComparison(SetComparison { expr, subquery, op: Operator::NotEq, quantifier: SetQuantifier::All }) => {
            Expr::InSubquery(InSubquery { expr, subquery, negated: true })
        }
        Expr::Not(inner) => match plain(*inner) {
            Expr::InSubquery(inner) => Expr::InSubquery(InSubquery { negated: !inner.negated, ..inner }),
            other => not(other),
        },
        other => other,
    }
}

/// Whether DataFusion makes a join of this condition that is right: of `NOT IN`, only without correlation.
fn becomes_join(condition: &Expr) -> bool {
    match condition {
        Expr::InSubquery(membership) => {
            !asks_for_membership(&membership.expr) && (!membership.negated || membership.subquery.outer_ref_columns.is_empty())
        }
        Expr::Exists(_) => true,
        Expr::Not(inner) => matches!(inner.as_ref(), Expr::Exists(_)),
        other => !asks_for_membership(other),
    }
}

/// Whether the condition is made of AND and OR with no membership negated: a row for which one can't be told does not pass then,
/// as if it were false.
fn is_only_affirmed(condition: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            is_only_affirmed(left) && is_only_affirmed(right)
        }
        Expr::InSubquery(membership) => !membership.negated && !asks_for_membership(&membership.expr),
        other => !asks_for_membership(other),
    }
}

/// Marks that are added to the rows of a plan.
struct Marks<'a> {
    input: LogicalPlan,
    /// The columns before any mark.
    schema: DFSchemaRef,
    /// Whether nobody asks if a membership is false or can't be told.
    unknown_is_false: bool,
    aliases: &'a AliasGenerator,
}

impl Marks<'_> {
    fn over(input: LogicalPlan, aliases: &AliasGenerator) -> Marks<'_> {
        let schema = Arc::clone(input.schema());
        Marks { input, schema, unknown_is_false: false, aliases }
    }

    /// The expression with marks in place of subqueries.
    fn replace(&mut self, expr: Expr) -> Result<Expr> {
        let replaced = expr.transform_up(|part| match part {
            Expr::Exists(exists) => {
                let mark = self.mark(&exists.subquery, true, |_| None)?;
                Ok(Transformed::yes(if exists.negated { not(mark) } else { mark }))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let found = self.any(*expr, Operator::Eq, &subquery)?;
                Ok(Transformed::yes(if negated { not(found) } else { found }))
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                let found = match quantifier {
                    SetQuantifier::Any => self.any(*expr, op, &subquery)?,
                    SetQuantifier::All => {
                        let opposite = op.negate().ok_or_else(|| refused(&format!("{op} ALL over a subquery")))?;
                        not(self.any(*expr, opposite, &subquery)?)
                    }
                };
                Ok(Transformed::yes(found))
            }
            other => Ok(Transformed::no(other)),
        });
        replaced.data()
    }

    /// Whether the subquery has a value to which `value` stands as `op` says, NULL if that can't be told.
    fn any(&mut self, value: Expr, op: Operator, subquery: &Subquery) -> Result<Expr> {
        let outer = self.as_outer(value.clone())?;
        let fits = |column: Expr| Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(outer), op, Box::new(column))));
        let is_found = self.mark(subquery, false, fits)?;
        if self.unknown_is_false {
            return Ok(is_found);
        }
        let mut unknown = vec![];
        if subquery.subquery.schema().field(0).is_nullable() {
            unknown.push(self.mark(subquery, false, |column| Some(column.is_null()))?);
        }
        if value.nullable(&self.schema)? {
            unknown.push(value.is_null().and(self.mark(subquery, false, |_| None)?));
        }
        match unknown.into_iter().reduce(Expr::or) {
            None => Ok(is_found),
            Some(unknown) => {
                when(is_found, lit(true)).when(unknown, Expr::Literal(ScalarValue::Boolean(None), None)).otherwise(lit(false))
            }
        }
    }

    /// The expression as a subquery sees it from within.
    fn as_outer(&self, value: Expr) -> Result<Expr> {
        let is_nested = value.contains_outer() || value.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(_))))?;
        if is_nested {
            return Err(refused("a subquery that is compared with another, or with a column of a query two levels up,"));
        }
        let schema = Arc::clone(&self.schema);
        value
            .transform(|part| match part {
                Expr::Column(column) => {
                    let field = schema.qualified_field_from_column(&column).map(|(_, field)| Arc::clone(field))?;
                    Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
                }
                other => Ok(Transformed::no(other)),
            })
            .data()
    }

    /// A column that says of each row whether the subquery has a row for it, of those for whose first column `condition` holds.
    /// `any_row` says that one row of the subquery is as good as another, so that a limit in it doesn't matter.
    fn mark(&mut self, subquery: &Subquery, any_row: bool, condition: impl FnOnce(Expr) -> Option<Expr>) -> Result<Expr> {
        let alias = self.aliases.next("__membership");
        if hides_empty_groups(&subquery.subquery)? {
            return Err(refused("a correlated subquery with an aggregate over all of its rows, in this place,"));
        }
        let mut inner = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).alias(&alias)?;
        if let Some(condition) = condition(Expr::Column(Column::from(inner.schema().qualified_field(0)))) {
            inner = inner.filter(condition)?;
        }
        let mut pull_up = PullUpCorrelatedExpr::new().with_exists_sub_query(any_row);
        let inner = inner.build()?.rewrite(&mut pull_up).data()?;
        if !pull_up.can_pull_up || inner.contains_outer_reference() {
            return Err(refused("this kind of correlated subquery"));
        }
        let correlated: BTreeSet<Column> = pull_up.correlated_subquery_cols_map.into_values().flatten().collect();
        let condition = conjunction(pull_up.join_filters).unwrap_or_else(|| lit(true));
        let condition = condition.transform(|part| match part {
            Expr::Column(column) if correlated.contains(&column) => {
                Ok(Transformed::yes(Expr::Column(Column::new(Some(alias.as_str()), column.name))))
            }
            other => Ok(Transformed::no(other)),
        });
        let input = std::mem::replace(&mut self.input, LogicalPlanBuilder::empty(false).build()?);
        self.input = LogicalPlanBuilder::from(input).join_on(inner, JoinType::LeftMark, [condition.data()?])?.build()?;
        Ok(Expr::Column(Column::new(Some(alias), "mark")))
    }
}

/// Whether an aggregate without groups stands over a condition that names an outer column: it gives a row where nothing meets
/// the condition too, which a join would not see.
fn hides_empty_groups(subquery: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    subquery.apply(|node| {
        if let LogicalPlan::Aggregate(aggregate) = node
            && aggregate.group_expr.is_empty()
            && !aggregate.input.all_out_ref_exprs().is_empty()
        {
            found = true;
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn refused(what: &str) -> datafusion::error::DataFusionError {
    error(SqlError::unsupported(format!("{what} is not supported")).with_hint("Write it as a join."))
}
