//! Which of DataFusion's rules rewrite a plan that is to become a streaming one.

use crate::errors::sql_error;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, Volatility};
use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
use datafusion::optimizer::decorrelate_lateral_join::DecorrelateLateralJoin;
use datafusion::optimizer::decorrelate_predicate_subquery::DecorrelatePredicateSubquery;
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::eliminate_filter::EliminateFilter;
use datafusion::optimizer::eliminate_group_by_constant::EliminateGroupByConstant;
use datafusion::optimizer::eliminate_join::EliminateJoin;
use datafusion::optimizer::eliminate_outer_join::EliminateOuterJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::optimize_unions::OptimizeUnions;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::propagate_empty_relation::PropagateEmptyRelation;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::replace_distinct_aggregate::ReplaceDistinctWithAggregate;
use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;
use datafusion::optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;
use datafusion::optimizer::simplify_expressions::SimplifyExpressions;
use datafusion::optimizer::{Optimizer, OptimizerConfig, OptimizerRule};
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult};

/// The rules in order.
///
/// Left out: pushing limits down (a limit below a join would keep a second, needless top-N state), the rewrite of distinct
/// aggregates to two groupings (the aggregate operator keeps distinct values itself), filtering NULL join keys (it takes the
/// NULLs from `NOT IN` that hide every row, and the join operator passes them over anyway), and moving single field accesses
/// to scans (a `Map` does them).
pub(super) fn streaming() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    vec![
        Arc::new(RewriteSetComparison::new()),
        Arc::new(OptimizeUnions::new()),
        Arc::new(SimplifyExpressions::new()),
        Arc::new(ReplaceDistinctWithAggregate::new()),
        Arc::new(EliminateJoin::new()),
        Arc::new(DecorrelatePredicateSubquery::new()),
        Arc::new(ScalarSubqueryToJoin::new()),
        Arc::new(DecorrelateLateralJoin::new()),
        Arc::new(ExtractEquijoinPredicate::new()),
        Arc::new(EliminateDuplicatedExpr::new()),
        Arc::new(EliminateFilter::new()),
        Arc::new(EliminateCrossJoin::new()),
        Arc::new(PropagateEmptyRelation::new()),
        Arc::new(EliminateOuterJoin::new()),
        Arc::new(PushDownFilter::new()),
        Arc::new(ConstantKeys(EliminateGroupByConstant::new())),
        Arc::new(CommonSubexprEliminate::new()),
        Arc::new(OptimizeProjections::new()),
    ]
}

/// DataFusion's own rules, with [`ConstantKeys`] in place of its own.
pub(crate) fn batch() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let ours = |rule: Arc<dyn OptimizerRule + Send + Sync>| -> Arc<dyn OptimizerRule + Send + Sync> {
        if rule.name() == ELIMINATE_GROUP_BY_CONSTANT { Arc::new(ConstantKeys(EliminateGroupByConstant::new())) } else { rule }
    };
    Optimizer::new().rules.into_iter().map(ours).collect()
}

const ELIMINATE_GROUP_BY_CONSTANT: &str = "eliminate_group_by_constant";

/// Takes constants from `GROUP BY` as DataFusion does, unless nothing is left: without any key, no rows would give a row.
#[derive(Debug)]
struct ConstantKeys(EliminateGroupByConstant);

impl OptimizerRule for ConstantKeys {
    fn name(&self) -> &str {
        ELIMINATE_GROUP_BY_CONSTANT
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> datafusion::common::Result<Transformed<LogicalPlan>> {
        if !matches!(plan, LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(plan));
        }
        let rewritten = self.0.rewrite(plan.clone(), config)?;
        let aggregate = match &rewritten.data {
            LogicalPlan::Projection(projection) => projection.input.as_ref(),
            other => other,
        };
        let keyless = matches!(aggregate, LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty());
        Ok(if rewritten.transformed && keyless { Transformed::no(plan) } else { rewritten })
    }
}

/// The plan with `FILTER (WHERE p)` of aggregates as `p IS TRUE`: DataFusion's `count(*)` counts rows for which it is NULL.
pub(super) fn with_known_filters(plan: LogicalPlan) -> SqlResult<LogicalPlan> {
    let known = |filter: Box<Expr>| Box::new(Expr::IsTrue(Box::new(Expr::Cast(Cast::new(filter, DataType::Boolean)))));
    let in_expr = |expr: Expr| {
        Ok(match expr {
            Expr::AggregateFunction(mut call) if call.params.filter.is_some() => {
                call.params.filter = call.params.filter.map(known);
                Transformed::yes(Expr::AggregateFunction(call))
            }
            Expr::WindowFunction(mut call) if call.params.filter.is_some() => {
                call.params.filter = call.params.filter.map(known);
                Transformed::yes(Expr::WindowFunction(call))
            }
            other => Transformed::no(other),
        })
    };
    let in_node = |node: LogicalPlan| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(expr.transform_up(in_expr)?.update_data(|expr| name.restore(expr)))
        })
    };
    Ok(plan.transform_up_with_subqueries(in_node).map_err(|e| sql_error(&e))?.data)
}

/// Refuses functions whose result depends on more than their arguments: what a view takes back must be what it gave.
pub(super) fn check_deterministic(plan: &LogicalPlan) -> SqlResult<()> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(function) = expr
                    && function.func.signature().volatility != Volatility::Immutable
                {
                    found = Some(function.func.name().to_string());
                    return Ok(TreeNodeRecursion::Stop);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(|e| sql_error(&e))?;
    match found {
        Some(name) => Err(SqlError::unsupported(format!("function {name}() is not supported in a continuous query"))
            .with_detail("Its result depends on more than its arguments, so a row could not be taken back as it was given.")
            .with_hint("Use it in a SELECT over the view, or store its result in a table.")),
        None => Ok(()),
    }
}
