//! Rules that give a bound plan Postgres's meaning of numbers and casts, around DataFusion's own type coercion.
//!
//! First, `without_from` takes subqueries away that read nothing, and `order` those within `ORDER BY`. Before type coercion,
//! `carried` gives types that are carried by text their meaning, `set_operations` counts copies of rows, `numbers` types integer
//! literals and the arguments of sums and averages, and with `operators` what stands beside an operator, and `frames` makes frames in an order of bytes such as it takes. After it,
//! `single_row` and `membership` give subqueries their meaning, `zones` shows moments in the session's time zone, and `exact`
//! replaces arithmetic that would wrap or lose digits, and casts that round or print differently.

mod carried;
mod exact;
mod frames;
mod membership;
mod numbers;
mod operators;
mod order;
mod set_operations;
mod single_row;
mod without_from;
mod zones;

pub(crate) use carried::NoArithmetic;
pub(crate) use without_from::has_subquery;

use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use std::sync::Arc;

/// All rules of the analysis, in order.
pub(crate) fn rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        Arc::new(without_from::WithoutFrom),
        Arc::new(order::OrderBySubqueries),
        Arc::new(carried::CarriedTypes),
        Arc::new(set_operations::SetOperations),
        Arc::new(numbers::PostgresNumbers),
        Arc::new(frames::FramesOfBytes),
        Arc::new(ResolveGroupingFunction::new()),
        Arc::new(TypeCoercion::new()),
        Arc::new(single_row::SingleRow),
        Arc::new(membership::Membership),
        Arc::new(zones::SessionZone),
        Arc::new(exact::ExactArithmetic),
    ]
}

#[cfg(test)]
mod tests;
