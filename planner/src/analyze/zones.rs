//! Moments as clocks in the session's time zone show them: in casts and in `date_trunc`. `extract` and `to_char` ask for the zone
//! themselves. In UTC, where all that is computed continuously is, nothing is to be done.

use crate::functions::{text, time_zone, truncated};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// What Arrow calls UTC.
const UTC: &str = "+00:00";

const LOCAL: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

#[derive(Debug)]
pub(super) struct SessionZone;

impl AnalyzerRule for SessionZone {
    fn name(&self) -> &str {
        "session_zone"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        match config.execution.time_zone.as_deref() {
            None | Some(UTC) => Ok(plan),
            Some(zone) => Ok(plan.transform_up_with_subqueries(|node| rewrite(node, zone))?.data),
        }
    }
}

fn rewrite(node: LogicalPlan, zone: &str) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| rewrite_expr(expr, &schema, zone))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })
}

fn rewrite_expr(expr: Expr, schema: &DFSchema, zone: &str) -> Result<Transformed<Expr>> {
    let is_moment = |expr: &Expr| {
        Ok::<_, datafusion::error::DataFusionError>(matches!(
            expr.get_type(schema)?,
            DataType::Timestamp(TimeUnit::Microsecond, Some(_))
        ))
    };
    match expr {
        Expr::Cast(Cast { expr, data_type }) if is_moment(&expr)? => {
            let local = |expr: Box<Expr>| time_zone::at_time_zone(*expr, zone);
            Ok(match data_type {
                DataType::Timestamp(TimeUnit::Microsecond, None) => Transformed::yes(local(expr)),
                DataType::Date32 | DataType::Time64(_) => {
                    Transformed::yes(Expr::Cast(Cast::new(Box::new(local(expr)), data_type)))
                }
                DataType::Utf8 => Transformed::yes(text::moment_to_text(*expr, zone)),
                data_type => Transformed::no(Expr::Cast(Cast { expr, data_type })),
            })
        }
        Expr::Cast(Cast { expr, data_type: data_type @ DataType::Timestamp(_, Some(_)) }) => {
            let from = expr.get_type(schema)?;
            if !matches!(from, DataType::Date32 | DataType::Timestamp(_, None)) {
                return Ok(Transformed::no(Expr::Cast(Cast { expr, data_type })));
            }
            let local = if from == LOCAL { *expr } else { Expr::Cast(Cast::new(expr, LOCAL)) };
            Ok(Transformed::yes(time_zone::at_time_zone(local, zone)))
        }
        Expr::ScalarFunction(mut call) if call.name() == "date_trunc" && call.args.len() == 2 && is_moment(&call.args[1])? => {
            let (unit, moment) = (call.args.swap_remove(0), call.args.swap_remove(0));
            Ok(Transformed::yes(truncated::truncated(unit, moment, zone)))
        }
        other => Ok(Transformed::no(other)),
    }
}
