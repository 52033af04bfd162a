//! Window frames in an order of bytes, which has no distances: DataFusion refuses `RANGE` there, also where it stands by default.
//! Without an offset `GROUPS` is the same frame.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::optimizer::AnalyzerRule;

#[derive(Debug)]
pub(super) struct FramesOfBytes;

impl AnalyzerRule for FramesOfBytes {
    fn name(&self) -> &str {
        "frames_of_bytes"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(in_node)?.data)
    }
}

fn in_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(node, LogicalPlan::Window(_)) {
        return Ok(Transformed::no(node));
    }
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let changed = expr.transform_up(|expr| by_groups(expr, &schema))?;
        Ok(changed.update_data(|expr| name.restore(expr)))
    })
}

fn by_groups(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(window) = &mut expr else { return Ok(Transformed::no(expr)) };
    let params = &mut window.params;
    let Some(first) = params.order_by.first() else { return Ok(Transformed::no(expr)) };
    let of_bytes = matches!(first.expr.get_type(schema)?, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    if !of_bytes || params.window_frame.units != WindowFrameUnits::Range || has_offset(&params.window_frame) {
        return Ok(Transformed::no(expr));
    }
    params.window_frame.units = WindowFrameUnits::Groups;
    Ok(Transformed::yes(expr))
}

fn has_offset(frame: &WindowFrame) -> bool {
    [&frame.start_bound, &frame.end_bound].into_iter().any(|bound| match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => !offset.is_null(),
        WindowFrameBound::CurrentRow => false,
    })
}
