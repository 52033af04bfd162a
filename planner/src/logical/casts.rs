//! Names that tell aggregates of casts apart. DataFusion knows an aggregate by its text, in which casts are not written: of
//! `sum(x), sum(x::bigint)` it makes one column twice. While a query is bound each cast has a name; the analysis takes it off.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr};

#[derive(Debug)]
pub(crate) struct NamedCasts;

impl ExprPlanner for NamedCasts {
    fn plan_aggregate(&self, mut aggregate: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        aggregate.args = aggregate.args.into_iter().map(named).collect::<Result<_>>()?;
        aggregate.filter = aggregate.filter.map(|filter| named(*filter).map(Box::new)).transpose()?;
        Ok(PlannerResult::Original(aggregate))
    }
}

fn named(expr: Expr) -> Result<Expr> {
    let named = expr.transform_up(|expr| {
        let Expr::Cast(cast) = &expr else { return Ok(Transformed::no(expr)) };
        let name = format!("{}::{}", cast.expr.schema_name(), cast.data_type);
        Ok(Transformed::yes(expr.alias(name)))
    })?;
    Ok(named.data)
}
