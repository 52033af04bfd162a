//! Which result columns are of a type of Postgres's own catalog: `oid`, `name`, `"char"` and arrays of them.
//!
//! Fields say so in their metadata, which DataFusion forgets in conditionals, subqueries and aggregates: there it follows from
//! what they are made of.

use datafusion::common::Column;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use thalweg_catalog::types::OID_METADATA;
use thalweg_planner::system_array_oid;

/// The OID of the type of each column of a bound plan; none for types that need no such care.
pub fn oids(plan: &LogicalPlan) -> Vec<Option<u32>> {
    (0..plan.schema().fields().len()).map(|place| oid_at(plan, place)).collect()
}

fn oid_at(plan: &LogicalPlan, place: usize) -> Option<u32> {
    let said = plan.schema().field(place).metadata().get(OID_METADATA).and_then(|text| text.parse().ok());
    if said.is_some() {
        return said;
    }
    match plan {
        LogicalPlan::Projection(projection) => oid_of(&projection.expr[place], &projection.input),
        LogicalPlan::Aggregate(aggregate) => {
            let exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
            exprs.skip(place).take(1).find_map(|expr| oid_of(expr, &aggregate.input))
        }
        LogicalPlan::SubqueryAlias(alias) => oid_at(&alias.input, place),
        LogicalPlan::Filter(filter) => oid_at(&filter.input, place),
        LogicalPlan::Sort(sort) => oid_at(&sort.input, place),
        LogicalPlan::Limit(limit) => oid_at(&limit.input, place),
        LogicalPlan::Distinct(Distinct::All(input)) => oid_at(input, place),
        LogicalPlan::Union(union) => union.inputs.iter().find_map(|input| oid_at(input, place)),
        LogicalPlan::RecursiveQuery(query) => oid_at(&query.static_term, place),
        LogicalPlan::Join(join) => {
            let width = join.left.schema().fields().len();
            if place < width { oid_at(&join.left, place) } else { oid_at(&join.right, place - width) }
        }
        _ => None,
    }
}

fn oid_of(expr: &Expr, input: &LogicalPlan) -> Option<u32> {
    match expr {
        Expr::Alias(alias) => oid_of(&alias.expr, input),
        Expr::Column(column) => oid_of_column(column, input),
        Expr::Case(case) => case.when_then_expr.iter().find_map(|(_, then)| oid_of(then, input)),
        Expr::ScalarSubquery(subquery) => oid_at(&subquery.subquery, 0),
        Expr::AggregateFunction(call) => {
            let argument = oid_of(call.params.args.first()?, input)?;
            match call.func.name() {
                "array_agg" => system_array_oid(argument),
                "min" | "max" | "first_value" | "last_value" => Some(argument),
                _ => None,
            }
        }
        _ => None,
    }
}

fn oid_of_column(column: &Column, input: &LogicalPlan) -> Option<u32> {
    input.schema().maybe_index_of_column(column).and_then(|place| oid_at(input, place))
}
