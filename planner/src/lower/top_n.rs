//! The first rows in an order: LIMIT, `ROW_NUMBER()` with a bound on it, and DISTINCT ON.
//!
//! A `ROW_NUMBER()` without a bound is refused: each new row could move every other.

use super::expressions::from_datafusion;
use super::query::{Lowering, unsupported};
use super::relation::Relation;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, FetchType, Filter, LogicalPlan, Operator as BinaryOperator, SkipType, SortExpr, Window,
};
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult};
use thalweg_plan::{Exchange, Operator, SortKey};

/// What an expression above says of a column: that only rows with a value of at most `limit` are kept.
#[derive(Clone, Debug)]
pub(super) struct RankBound {
    /// Tells the condition that says so.
    pub(super) id: usize,
    column: usize,
    limit: u64,
    /// Whether the condition says no more than that.
    is_all: bool,
}

impl RankBound {
    /// The bounds on a projection's columns as bounds on the columns below it.
    pub(super) fn through_projection(bounds: &[RankBound], exprs: &[Expr], below: &DFSchema) -> Vec<RankBound> {
        let moved = |bound: &RankBound| {
            let column = plain_column(exprs.get(bound.column)?, below)?;
            Some(RankBound { column, ..bound.clone() })
        };
        bounds.iter().filter_map(moved).collect()
    }

    fn of_condition(condition: &Expr, id: usize, schema: &DFSchema) -> Option<RankBound> {
        let (column, limit, is_all) = match condition {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (side, op, value) = match (constant(left), constant(right)) {
                    (None, Some(value)) => (left, *op, value),
                    (Some(value), None) => (right, op.swap()?, value),
                    _ => return None,
                };
                let column = plain_column(side, schema)?;
                match op {
                    BinaryOperator::LtEq => (column, value, true),
                    BinaryOperator::Lt => (column, value.saturating_sub(1), true),
                    BinaryOperator::Eq => (column, value, value <= 1),
                    _ => return None,
                }
            }
            Expr::Between(between) if !between.negated => {
                (plain_column(&between.expr, schema)?, constant(&between.high)?, constant(&between.low)? <= 1)
            }
            _ => return None,
        };
        Some(RankBound { id, column, limit, is_all })
    }
}

/// The column that an expression is, perhaps under another name or in a wider type.
fn plain_column(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => plain_column(&alias.expr, schema),
        Expr::Cast(cast) if matches!(cast.data_type, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..)) => {
            plain_column(&cast.expr, schema)
        }
        _ => None,
    }
}

/// The whole number that an expression is; none below 0.
fn constant(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64).ok()? {
            // A cast that rounded is no bound as written.
            ScalarValue::Int64(Some(n)) if ScalarValue::Int64(Some(n)).cast_to(&value.data_type()).ok()? == *value => {
                u64::try_from(n).ok()
            }
            _ => None,
        },
        Expr::Cast(cast) => constant(&cast.expr),
        _ => None,
    }
}

/// Where a limit cuts.
#[derive(Clone, Copy)]
struct Cut {
    offset: u64,
    limit: Option<u64>,
}

impl Lowering {
    /// The rows for which the predicate is true. Conditions that only bound a rank go into the top-N below.
    pub(super) fn filter(&mut self, filter: &Filter, outer: &[RankBound]) -> SqlResult<(Relation, Vec<usize>)> {
        let schema = filter.input.schema();
        let conditions = split_conjunction(&filter.predicate);
        let first_own = outer.iter().map(|b| b.id + 1).max().unwrap_or(0);
        let own = conditions.iter().enumerate().filter_map(|(n, c)| RankBound::of_condition(c, first_own + n, schema));
        let bounds: Vec<RankBound> = outer.iter().cloned().chain(own).collect();
        let (input, kept) = self.lower_bounded(&filter.input, &bounds)?;
        let is_left = |n: usize| !kept.contains(&(first_own + n));
        let left: Vec<&Expr> = conditions.iter().enumerate().filter(|(n, _)| is_left(*n)).map(|(_, c)| *c).collect();
        let relation = if left.is_empty() { input } else { input.filter(&mut self.graph, &left, schema)? };
        Ok((relation, kept.into_iter().filter(|id| *id < first_own).collect()))
    }

    /// `ROW_NUMBER()`, if the caller bounds it.
    pub(super) fn window(&mut self, window: &Window, bounds: &[RankBound]) -> SqlResult<(Relation, Vec<usize>)> {
        let hint = "Use ROW_NUMBER() in a subquery, and keep the first rows of each group by a condition such as rank <= 10.";
        let call = match window.window_expr.as_slice() {
            [only] => row_number(only),
            _ => None,
        };
        let call = call.ok_or_else(|| unsupported("a window function other than one ROW_NUMBER()").with_hint(hint))?;
        let schema = window.input.schema();
        let rank = schema.fields().len();
        let on_rank: Vec<&RankBound> = bounds.iter().filter(|b| b.column == rank).collect();
        let Some(limit) = on_rank.iter().map(|b| b.limit).min() else {
            return Err(unsupported("ROW_NUMBER() without a bound").with_hint(hint));
        };
        let input = self.lower(&window.input)?;
        let cut = Cut { offset: 0, limit: Some(limit) };
        let relation = self.top_n(input, schema, (&call.params.partition_by, &call.params.order_by), cut, true)?;
        Ok((relation, on_rank.iter().filter(|b| b.is_all).map(|b| b.id).collect()))
    }

    /// The first row of each group.
    pub(super) fn first_rows(
        &mut self,
        input: Relation,
        schema: &DFSchema,
        on: &[Expr],
        order: &[SortExpr],
    ) -> SqlResult<Relation> {
        self.top_n(input, schema, (on, order), Cut { offset: 0, limit: Some(1) }, false)
    }

    /// LIMIT and OFFSET, with the order below if there is one.
    pub(super) fn limit(&mut self, plan: &LogicalPlan) -> SqlResult<Relation> {
        match plan {
            LogicalPlan::Limit(limit) => {
                let offset = match limit.get_skip_type().map_err(from_datafusion)? {
                    SkipType::Literal(offset) => offset as u64,
                    SkipType::UnsupportedExpr => return Err(unsupported("an OFFSET that is no constant")),
                };
                let fetch = match limit.get_fetch_type().map_err(from_datafusion)? {
                    FetchType::Literal(fetch) => fetch.map(|n| n as u64),
                    FetchType::UnsupportedExpr => return Err(unsupported("a LIMIT that is no constant")),
                };
                if offset == 0 && fetch.is_none() {
                    return self.lower(&limit.input);
                }
                self.cut(&limit.input, Cut { offset, limit: fetch })
            }
            LogicalPlan::Sort(sort) => self.cut(plan, Cut { offset: 0, limit: sort.fetch.map(|n| n as u64) }),
            _ => Err(SqlError::internal("only limits and orders with one are lowered as such")),
        }
    }

    /// The rows that a limit over `plan` gives. It is cut where the order stands, which may be below a projection.
    fn cut(&mut self, plan: &LogicalPlan, cut: Cut) -> SqlResult<Relation> {
        match plan {
            LogicalPlan::Projection(node) => {
                let input = self.cut(&node.input, cut)?;
                input.project(&mut self.graph, &node.expr, node.input.schema())?.conform(&self.graph, &node.schema)
            }
            LogicalPlan::SubqueryAlias(node) => self.cut(&node.input, cut),
            LogicalPlan::Sort(sort) => {
                let input = self.lower(&sort.input)?;
                let limit = cut.limit.into_iter().chain(sort.fetch.map(|n| (n as u64).saturating_sub(cut.offset))).min();
                self.top_n(input, sort.input.schema(), (&[], &sort.expr), Cut { limit, ..cut }, false)
            }
            _ => {
                let input = self.lower(plan)?;
                self.top_n(input, plan.schema(), (&[], &[]), cut, false)
            }
        }
    }

    fn top_n(
        &mut self,
        input: Relation,
        schema: &DFSchema,
        (partition, order): (&[Expr], &[SortExpr]),
        cut: Cut,
        with_rank: bool,
    ) -> SqlResult<Relation> {
        let mut visible: Vec<usize> = (0..input.columns.len()).collect();
        let exprs: Vec<&Expr> = partition.iter().chain(order.iter().map(|o| &o.expr)).collect();
        let (below, places) = input.append(&mut self.graph, &exprs, schema)?;
        let below = below.carried(&self.graph)?.sealed(&mut self.graph)?;
        let (partition_places, order_places) = places.split_at(partition.len());
        let mut partition: Vec<usize> = vec![];
        for place in partition_places {
            if !partition.contains(place) {
                partition.push(*place);
            }
        }
        let mut keys: Vec<SortKey> = vec![];
        for (column, asked) in order_places.iter().copied().zip(order) {
            if !partition.contains(&column) && keys.iter().all(|k| k.column != column) {
                keys.push(SortKey { column, descending: !asked.asc, nulls_first: asked.nulls_first });
            }
        }
        let mut fields: Vec<Field> = self.graph.schema(below.node).fields().iter().map(|f| f.as_ref().clone()).collect();
        if with_rank {
            visible.push(fields.len());
            fields.push(Field::new("row_number", DataType::Int64, true));
        }
        let exchange = if partition.is_empty() { Exchange::Single } else { Exchange::Hash(partition.clone()) };
        let operator = Operator::TopN { partition, order: keys, offset: cut.offset, limit: cut.limit, with_rank };
        let node = self.graph.add(operator, vec![(below.node, exchange)], Arc::new(Schema::new(fields)));
        Ok(Relation::some_of(&self.graph, node, &visible))
    }
}

fn row_number(expr: &Expr) -> Option<&WindowFunction> {
    match expr {
        Expr::Alias(alias) => row_number(&alias.expr),
        Expr::WindowFunction(call) if call.fun.name() == "row_number" && call.params.filter.is_none() => Some(call),
        _ => None,
    }
}
