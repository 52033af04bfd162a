//! Which column of which relation a result column comes from unchanged: drivers ask by that for names, keys and sizes.

use crate::database::scan::KeptRelation;
use crate::database::source_scan::BoundedSource;
use datafusion::common::Column;
use datafusion::datasource::DefaultTableSource;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use thalweg_catalog::CatalogObject;

/// A relation's OID and the place of a column in it, from 1.
pub type Origin = (u32, i16);

/// The origin of each column of a bound plan; none for what is computed.
pub fn origins(plan: &LogicalPlan) -> Vec<Option<Origin>> {
    plan.schema().columns().iter().map(|column| origin(plan, column)).collect()
}

fn origin(plan: &LogicalPlan, column: &Column) -> Option<Origin> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let place = projection.schema.maybe_index_of_column(column)?;
            of_expr(&projection.expr[place], &projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let place = alias.schema.maybe_index_of_column(column)?;
            origin(&alias.input, alias.input.schema().columns().get(place)?)
        }
        LogicalPlan::Filter(filter) => origin(&filter.input, column),
        LogicalPlan::Sort(sort) => origin(&sort.input, column),
        LogicalPlan::Limit(limit) => origin(&limit.input, column),
        LogicalPlan::Window(window) => origin(&window.input, column),
        LogicalPlan::Distinct(Distinct::All(input)) => origin(input, column),
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            of_expr(distinct.select_expr.get(distinct.schema.maybe_index_of_column(column)?)?, &distinct.input)
        }
        LogicalPlan::Aggregate(aggregate) => {
            of_expr(aggregate.group_expr.get(aggregate.schema.maybe_index_of_column(column)?)?, &aggregate.input)
        }
        LogicalPlan::Join(join) => {
            let side = |input: &LogicalPlan| input.schema().has_column(column).then(|| origin(input, column)).flatten();
            side(&join.left).or_else(|| side(&join.right))
        }
        LogicalPlan::TableScan(scan) => {
            let provider = &scan.source.as_any().downcast_ref::<DefaultTableSource>()?.table_provider;
            place_in(object_of(provider.as_ref())?, &column.name)
        }
        _ => None,
    }
}

/// The origin of an expression over a plan, if it is a column of it.
fn of_expr(expr: &Expr, input: &LogicalPlan) -> Option<Origin> {
    match unnamed(expr) {
        Expr::Column(column) => origin(input, column),
        _ => None,
    }
}

fn unnamed(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unnamed(&alias.expr),
        other => other,
    }
}

fn object_of(provider: &dyn datafusion::catalog::TableProvider) -> Option<&CatalogObject> {
    let any = provider.as_any();
    let kept = any.downcast_ref::<KeptRelation>().map(KeptRelation::object);
    kept.or_else(|| any.downcast_ref::<BoundedSource>().map(BoundedSource::object))
}

/// The origin of the column of this name in a relation.
pub fn place_in(object: &CatalogObject, name: &str) -> Option<Origin> {
    let place = object.columns.iter().position(|column| column.name == name)?;
    Some((object.id.0, i16::try_from(place + 1).ok()?))
}
