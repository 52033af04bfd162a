//! The nodes of a plan while it is being made. Equal nodes become one, so that what a query says twice is computed once.

use super::expressions::same_expr;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use std::sync::Arc;
use thalweg_plan::{DeltaKind, Edge, Exchange, NodeId, Operator, PlanNode};

/// Nodes in the order that PLAN-1 asks for: inputs before what reads them. What follows from the shape (kinds, keys,
/// watermarks, paths) is filled in at the end.
pub(super) struct Graph {
    pub(super) nodes: Vec<PlanNode>,
    /// What expressions are made with.
    pub(super) options: Arc<ConfigOptions>,
}

impl Graph {
    /// No nodes yet.
    pub(super) fn new(options: Arc<ConfigOptions>) -> Graph {
        Graph { nodes: vec![], options }
    }

    /// The columns that a node gives.
    pub(super) fn schema(&self, node: NodeId) -> &SchemaRef {
        &self.nodes[node.0].schema
    }

    /// A node that does this, either a new one or an equal one that is there.
    pub(super) fn add(&mut self, operator: Operator, inputs: Vec<(NodeId, Exchange)>, schema: SchemaRef) -> NodeId {
        let inputs: Vec<Edge> = inputs.into_iter().map(|(from, exchange)| Edge { from, exchange }).collect();
        let is_equal = |n: &PlanNode| {
            n.inputs == inputs
                && n.schema.fields().len() == schema.fields().len()
                && n.schema.fields().iter().zip(schema.fields()).all(|(l, r)| l.data_type() == r.data_type())
                && same_operator(&n.operator, &operator)
        };
        match self.nodes.iter().find(|n| is_equal(n)) {
            Some(found) => found.id,
            None => self.push(operator, inputs, schema),
        }
    }

    /// A new node that does this.
    pub(super) fn push(&mut self, operator: Operator, inputs: Vec<Edge>, schema: SchemaRef) -> NodeId {
        let id = NodeId(self.nodes.len());
        self.nodes.push(PlanNode {
            id,
            operator,
            inputs,
            schema,
            kind: DeltaKind::Retract,
            key: vec![],
            watermarks: vec![],
            path: String::new(),
        });
        id
    }
}

/// Whether two operators over the same inputs give the same rows. Names of columns don't count: expressions are bound by
/// position.
fn same_operator(left: &Operator, right: &Operator) -> bool {
    match (left, right) {
        (Operator::Map { predicate: lp, exprs: le }, Operator::Map { predicate: rp, exprs: re }) => {
            let same_predicate = match (lp, rp) {
                (None, None) => true,
                (Some(l), Some(r)) => same_expr(l, r),
                _ => false,
            };
            same_predicate && le.len() == re.len() && le.iter().zip(re).all(|(l, r)| same_expr(&l.expr, &r.expr))
        }
        (Operator::Aggregate { keys: lk, calls: lc, .. }, Operator::Aggregate { keys: rk, calls: rc, .. }) => {
            lk == rk
                && lc.len() == rc.len()
                && lc.iter().zip(rc).all(|(l, r)| {
                    let mut renamed = l.clone();
                    renamed.name.clone_from(&r.name);
                    renamed == *r
                })
        }
        // The debug form of an expression tells types, which the printed one does not.
        _ => std::mem::discriminant(left) == std::mem::discriminant(right) && format!("{left:?}") == format!("{right:?}"),
    }
}
