//! Which result columns are of a type of Postgres's own catalog: `oid`, `name`, `"char"` and arrays of them; and which arrays are of types
//! that are carried by text.
//!
//! Fields say so in their metadata, which DataFusion forgets in conditionals, subqueries and aggregates: there it follows from
//! what they are made of.

use datafusion::common::Column;
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};
use thalweg_catalog::SqlType;
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
        Expr::ScalarFunction(call) if call.name() == "make_array" => {
            let item = call.args.first()?.to_field(input.schema()).ok()?.1;
            system_array_oid(item.metadata().get(OID_METADATA)?.parse().ok()?)
        }
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

/// The type of the items of an array that a plan makes, where Arrow does not tell it: of JSON, UUIDs and their like, which are carried
/// by text.
pub fn item_type(plan: &LogicalPlan, place: usize) -> Option<SqlType> {
    match plan {
        LogicalPlan::Projection(projection) => item_type_of(&projection.expr[place], &projection.input),
        LogicalPlan::Aggregate(aggregate) => {
            let mut exprs = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
            item_type_of(exprs.nth(place)?, &aggregate.input)
        }
        LogicalPlan::SubqueryAlias(alias) => item_type(&alias.input, place),
        LogicalPlan::Filter(filter) => item_type(&filter.input, place),
        LogicalPlan::Sort(sort) => item_type(&sort.input, place),
        LogicalPlan::Limit(limit) => item_type(&limit.input, place),
        LogicalPlan::Distinct(Distinct::All(input)) => item_type(input, place),
        _ => None,
    }
}

fn item_type_of(expr: &Expr, input: &LogicalPlan) -> Option<SqlType> {
    let items = match expr {
        Expr::Alias(alias) => return item_type_of(&alias.expr, input),
        Expr::Column(column) => {
            return input.schema().maybe_index_of_column(column).and_then(|place| item_type(input, place));
        }
        Expr::ScalarFunction(call) if call.name() == "make_array" => call.args.first()?,
        Expr::AggregateFunction(call) if call.func.name() == "array_agg" => call.params.args.first()?,
        _ => return None,
    };
    SqlType::from_field(&items.to_field(input.schema()).ok()?.1).ok()
}

fn oid_of_column(column: &Column, input: &LogicalPlan) -> Option<u32> {
    input.schema().maybe_index_of_column(column).and_then(|place| oid_at(input, place))
}
