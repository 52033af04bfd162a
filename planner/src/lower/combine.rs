//! Fewer rows for an aggregate that groups by all columns of its input, as a count over windows does: equal rows of a batch are
//! made one before they are sent and looked up. Where the rows are those of hopping windows, they are made one before there is a
//! row for each window: times of one pane (the part of time between two starts) are in the same windows.

use super::expressions::{Physical, as_call, column, from_datafusion};
use super::query::Lowering;
use super::relation::schema_of;
use crate::functions::window::tumble_start;
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use std::sync::Arc;
use thalweg_catalog::SqlResult;
use thalweg_plan::{Exchange, MapExpr, NodeId, Operator};

/// The nodes that make hopping windows of rows, from the top down.
struct Hops {
    /// What is computed of each window.
    above: Option<Operator>,
    /// The place of the list of starts, and then of the start.
    column: usize,
    unnest: NodeId,
    lists: NodeId,
}

impl Lowering {
    /// The same rows as those of `input`, equal ones combined.
    pub(super) fn combined(&mut self, input: NodeId) -> SqlResult<NodeId> {
        let input = match self.hops(input) {
            Some(hops) => self.combined_by_panes(input, &hops)?.unwrap_or(input),
            None => input,
        };
        Ok(self.combine(input))
    }

    fn combine(&mut self, input: NodeId) -> NodeId {
        let schema = Arc::clone(self.graph.schema(input));
        self.graph.add(Operator::Combine, vec![(input, Exchange::Local)], schema)
    }

    fn hops(&self, top: NodeId) -> Option<Hops> {
        let node = |id: NodeId| &self.graph.nodes[id.0];
        let above = matches!(node(top).operator, Operator::Map { .. }).then(|| node(top).operator.clone());
        let unnest = if above.is_some() { node(top).inputs.first()?.from } else { top };
        let Operator::Unnest { column } = node(unnest).operator else { return None };
        Some(Hops { above, column, unnest, lists: node(unnest).inputs.first()?.from })
    }

    /// The same nodes with the pane in place of the time, above a `Combine`. None if the panes don't decide the windows.
    fn combined_by_panes(&mut self, top: NodeId, hops: &Hops) -> SqlResult<Option<NodeId>> {
        let lists = self.graph.nodes[hops.lists.0].clone();
        let Operator::Map { predicate, exprs } = lists.operator else { return Ok(None) };
        let Some(below) = lists.inputs.first().map(|edge| edge.from) else { return Ok(None) };
        let below_schema = Arc::clone(self.graph.schema(below));
        let Some(pane) = self.pane_of(&exprs[hops.column].expr, &below_schema)? else { return Ok(None) };

        let mut by_pane = exprs.clone();
        by_pane[hops.column] = MapExpr { expr: pane, name: "pane".into() };
        let schema = schema_of(&by_pane, &below_schema)?;
        let panes = self.graph.add(Operator::Map { predicate, exprs: by_pane }, vec![(below, Exchange::Local)], schema);
        let combined = self.combine(panes);

        let schema = Arc::clone(self.graph.schema(combined));
        let again = exprs.iter().enumerate().map(|(place, of)| {
            let given = column(&schema, place);
            let expr = if place == hops.column { of_pane(&of.expr, given)? } else { given };
            Ok(MapExpr { expr, name: of.name.clone() })
        });
        let exprs = again.collect::<SqlResult<Vec<_>>>()?;
        let map = Operator::Map { predicate: None, exprs };
        let lists = self.graph.add(map, vec![(combined, Exchange::Local)], lists.schema);
        let schema = Arc::clone(self.graph.schema(hops.unnest));
        let unnest = Operator::Unnest { column: hops.column };
        let unnested = self.graph.add(unnest, vec![(lists, Exchange::Local)], schema);
        let Some(above) = &hops.above else { return Ok(Some(unnested)) };
        let schema = Arc::clone(self.graph.schema(top));
        Ok(Some(self.graph.add(above.clone(), vec![(unnested, Exchange::Local)], schema)))
    }

    /// The start of the pane of the time of a `hop_starts`; none if its panes don't decide its windows.
    fn pane_of(&self, starts: &Physical, input: &Schema) -> SqlResult<Option<Physical>> {
        let Some(("hop_starts", [time, slide, size, offset])) = as_call(starts) else { return Ok(None) };
        match (number(slide), number(size)) {
            (Some(slide), Some(size)) if slide > 0 && size % slide == 0 => {}
            _ => return Ok(None),
        }
        let args = vec![Arc::clone(time), Arc::clone(slide), Arc::clone(offset)];
        let options = Arc::clone(&self.graph.options);
        let pane = ScalarFunctionExpr::try_new(tumble_start(), args, input, options).map_err(from_datafusion)?;
        Ok(Some(Arc::new(pane)))
    }
}

/// The same call with another time.
fn of_pane(starts: &Physical, pane: Physical) -> SqlResult<Physical> {
    let mut args: Vec<Physical> = starts.children().into_iter().cloned().collect();
    args[0] = pane;
    Arc::clone(starts).with_new_children(args).map_err(from_datafusion)
}

fn number(expr: &Physical) -> Option<i64> {
    match expr.as_any().downcast_ref::<Literal>()?.value() {
        ScalarValue::Int64(number) => *number,
        _ => None,
    }
}
