//! Joins: keys become plain columns of both sides, the rest of the condition a residual over pairs.

use super::expressions::{Physical, cast_to, column, from_datafusion, physical, replace_columns, same_type};
use super::query::{Lowering, unsupported};
use super::relation::Relation;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, JoinType as LogicalJoinType, NullEquality, ScalarValue};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use datafusion::physical_expr::expressions::Literal;
use std::sync::Arc;
use thalweg_catalog::SqlResult;
use thalweg_plan::{Exchange, JoinType, MapExpr, Operator};

/// A side of a join: its rows, and which of their columns the query sees.
struct Side {
    relation: Relation,
    visible: usize,
    keys: Vec<usize>,
}

/// What of a join is the same whichever rows it keeps.
struct Parts {
    left: Side,
    right: Side,
    on: Vec<(usize, usize)>,
    residual: Option<Physical>,
    null_equals_null: bool,
    null_aware: bool,
}

impl Lowering {
    /// Pairs of rows, and what the kind of join keeps beside them.
    pub(super) fn join(&mut self, join: &Join) -> SqlResult<Relation> {
        let flipped: Vec<(Expr, Expr)> = join.on.iter().map(|(l, r)| (r.clone(), l.clone())).collect();
        let as_is = |lowering: &mut Self| lowering.join_parts(&join.left, &join.right, &join.on, join);
        let swapped = |lowering: &mut Self| lowering.join_parts(&join.right, &join.left, &flipped, join);
        let (join_type, parts) = match join.join_type {
            LogicalJoinType::Inner => (JoinType::Inner, as_is(self)?),
            LogicalJoinType::Left => (JoinType::Left, as_is(self)?),
            LogicalJoinType::Right => (JoinType::Right, as_is(self)?),
            LogicalJoinType::Full => (JoinType::Full, as_is(self)?),
            LogicalJoinType::LeftSemi => (JoinType::LeftSemi, as_is(self)?),
            LogicalJoinType::LeftAnti => (JoinType::LeftAnti, as_is(self)?),
            LogicalJoinType::RightSemi => (JoinType::LeftSemi, swapped(self)?),
            LogicalJoinType::RightAnti => (JoinType::LeftAnti, swapped(self)?),
            LogicalJoinType::LeftMark => {
                let parts = as_is(self)?;
                return self.mark_join(&parts);
            }
            LogicalJoinType::RightMark => {
                let parts = swapped(self)?;
                return self.mark_join(&parts);
            }
        };
        Ok(self.add_join(join_type, &parts))
    }

    /// Left rows with whether they have a partner: those that do with true, those that don't with false.
    fn mark_join(&mut self, parts: &Parts) -> SqlResult<Relation> {
        if parts.null_aware {
            return Err(unsupported("NOT IN within an OR").with_hint("Use NOT EXISTS."));
        }
        let mut inputs = vec![];
        for (join_type, has_partner) in [(JoinType::LeftSemi, true), (JoinType::LeftAnti, false)] {
            let mut half = self.add_join(join_type, parts);
            let value: Physical = Arc::new(Literal::new(ScalarValue::Boolean(Some(has_partner))));
            half.columns.push(MapExpr { expr: value, name: "mark".into() });
            inputs.push((half.sealed(&mut self.graph)?.node, Exchange::Local));
        }
        let schema = Arc::clone(self.graph.schema(inputs[0].0));
        let union = self.graph.add(Operator::Union, inputs, schema);
        Ok(Relation::of(&self.graph, union))
    }

    fn join_parts(&mut self, left: &LogicalPlan, right: &LogicalPlan, on: &[(Expr, Expr)], join: &Join) -> SqlResult<Parts> {
        let null_aware = join.null_aware;
        let (left_keys, right_keys): (Vec<&Expr>, Vec<&Expr>) = on.iter().map(|(l, r)| (l, r)).unzip();
        let left_side = self.side(left, &left_keys)?;
        let right_side = self.side(right, &right_keys)?;
        let (left_side, right_side) = self.with_equal_key_types(left_side, right_side)?;
        let (left_side, right_side) = (left_side.sealed(self)?, right_side.sealed(self)?);
        let mut pairs: Vec<(usize, usize)> = vec![];
        for pair in left_side.keys.iter().copied().zip(right_side.keys.iter().copied()) {
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        let residual = match &join.filter {
            None => None,
            Some(filter) => Some(self.residual(filter, (left.schema(), &left_side), (right.schema(), &right_side))?),
        };
        if null_aware && (residual.is_some() || pairs.len() != 1) {
            return Err(unsupported("NOT IN over a correlated subquery or over several columns").with_hint("Use NOT EXISTS."));
        }
        let null_equals_null = join.null_equality == NullEquality::NullEqualsNull;
        Ok(Parts { left: left_side, right: right_side, on: pairs, residual, null_equals_null, null_aware })
    }

    fn side(&mut self, plan: &LogicalPlan, keys: &[&Expr]) -> SqlResult<Side> {
        let relation = self.lower(plan)?;
        let visible = relation.columns.len();
        let (relation, keys) = relation.append(&mut self.graph, keys, plan.schema())?;
        Ok(Side { relation: relation.carried(&self.graph)?, visible, keys })
    }

    /// Both sides' keys hash alike only in one type: where they differ, the right's is cast to the left's.
    fn with_equal_key_types(&mut self, left: Side, mut right: Side) -> SqlResult<(Side, Side)> {
        let left_types = left.relation.types(&self.graph)?;
        let right_types = right.relation.types(&self.graph)?;
        for (place, left_key) in left.keys.iter().enumerate() {
            let key = right.keys[place];
            if !same_type(&left_types[*left_key], &right_types[key]) {
                let input = Arc::clone(self.graph.schema(right.relation.node));
                let found = &right.relation.columns[key];
                let (expr, name) = (cast_to(Arc::clone(&found.expr), &input, &left_types[*left_key])?, found.name.clone());
                right.keys[place] = right.relation.place_of(expr, name);
            }
        }
        Ok((left, right))
    }

    /// The residual over the columns of both nodes, whose sides have key columns that the filter does not know of.
    fn residual(&self, filter: &Expr, left: (&DFSchema, &Side), right: (&DFSchema, &Side)) -> SqlResult<Physical> {
        let logical = left.0.join(right.0).map_err(from_datafusion)?;
        let bound = physical(filter, &logical, &self.graph.options)?;
        let schema = self.pair_schema(left.1, right.1);
        // The types that the filter was bound to may differ from those that the nodes carry.
        let seen = logical.as_arrow();
        let left_width = self.graph.schema(left.1.relation.node).fields().len();
        let mut casts = vec![];
        for (place, field) in seen.fields().iter().enumerate() {
            let visible_left = left.1.visible;
            let own = if place < visible_left { place } else { place - visible_left + left_width };
            casts.push(cast_to(column(&schema, own), &schema, field.data_type())?);
        }
        replace_columns(bound, &|place| Arc::clone(&casts[place]))
    }

    fn pair_schema(&self, left: &Side, right: &Side) -> SchemaRef {
        let sides = [self.graph.schema(left.relation.node), self.graph.schema(right.relation.node)];
        let fields: Vec<Field> = sides.iter().flat_map(|s| s.fields().iter()).map(|f| f.as_ref().clone()).collect();
        Arc::new(Schema::new(fields))
    }

    fn add_join(&mut self, join_type: JoinType, parts: &Parts) -> Relation {
        let (left, right) = (&parts.left, &parts.right);
        let left_width = self.graph.schema(left.relation.node).fields().len();
        let mut visible: Vec<usize> = (0..left.visible).collect();
        let schema = if join_type.left_only() {
            Arc::clone(self.graph.schema(left.relation.node))
        } else {
            visible.extend(left_width..left_width + right.visible);
            nullable(&self.pair_schema(left, right))
        };
        // Without keys every row may meet every other. For NOT IN, one NULL on the right counts for all rows on the left.
        let (left_exchange, right_exchange) = if parts.on.is_empty() || parts.null_aware {
            (Exchange::Single, Exchange::Single)
        } else {
            let (left_keys, right_keys) = parts.on.iter().copied().unzip();
            (Exchange::Hash(left_keys), Exchange::Hash(right_keys))
        };
        let operator = Operator::Join {
            join_type,
            on: parts.on.clone(),
            null_equals_null: parts.null_equals_null,
            residual: parts.residual.clone(),
            null_aware: parts.null_aware && join_type == JoinType::LeftAnti,
            time_key: None,
            bounds: [None, None],
        };
        let inputs = vec![(left.relation.node, left_exchange), (right.relation.node, right_exchange)];
        let node = self.graph.add(operator, inputs, schema);
        Relation::some_of(&self.graph, node, &visible)
    }
}

impl Side {
    fn sealed(self, lowering: &mut Lowering) -> SqlResult<Side> {
        Ok(Side { relation: self.relation.sealed(&mut lowering.graph)?, ..self })
    }
}

fn nullable(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>()))
}
