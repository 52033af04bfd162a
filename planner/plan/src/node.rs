//! Nodes and edges of a plan.

use crate::operator::Operator;
use crate::watermark::WatermarkMapping;
use arrow::datatypes::SchemaRef;
use thalweg_catalog::ObjectId;

/// The place of a node in its plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub usize);

/// The dataflow of one job. Every worker builds all of it, in the order of its nodes.
#[derive(Clone, Debug)]
pub struct StreamPlan {
    /// PLAN-1: the inputs of a node come before it; the last node is the root: a `Materialize` or a `Sink`. Several nodes
    /// may read one: what a query says twice is computed once.
    pub nodes: Vec<PlanNode>,
}

impl StreamPlan {
    /// The last node.
    ///
    /// # Panics
    /// PLAN-1: if there are no nodes.
    pub fn root(&self) -> &PlanNode {
        self.nodes.last().expect("PLAN-1: a plan has a root")
    }

    /// The node of this id.
    pub fn node(&self, id: NodeId) -> &PlanNode {
        &self.nodes[id.0]
    }

    /// The objects whose rows the plan reads: sources, tables and materialized views; sorted, without repeats.
    pub fn reads(&self) -> Vec<ObjectId> {
        let mut ids: Vec<ObjectId> = self.nodes.iter().filter_map(|n| n.operator.reads()).collect();
        ids.sort();
        ids.dedup();
        ids
    }
}

/// One operator of a plan.
#[derive(Clone, Debug)]
pub struct PlanNode {
    /// Its place.
    pub id: NodeId,
    /// What it does.
    pub operator: Operator,
    /// Where its rows come from, one edge for each port.
    pub inputs: Vec<Edge>,
    /// The columns that it gives.
    pub schema: SchemaRef,
    /// What changes it can give.
    pub kind: DeltaKind,
    /// Columns by which the rows that it has given (and not taken back) are unique; empty if not known.
    pub key: Vec<usize>,
    /// How watermarks on its inputs become watermarks on its output.
    pub watermarks: Vec<WatermarkMapping>,
    /// What names the node in state, metrics and `EXPLAIN`: derived from the plan's shape, such as
    /// `materialize.aggregate.join`, and unique in the plan. Never changes for the same plan.
    pub path: String,
}

impl PlanNode {
    /// The output columns that carry a watermark.
    pub fn watermark_columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.watermarks.iter().map(|w| w.output).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// The way from one node to a port of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The node that gives.
    pub from: NodeId,
    /// How rows find their worker.
    pub exchange: Exchange,
}

/// How rows find their worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exchange {
    /// They stay where they are.
    Local,
    /// To the owner of the hash of these columns of the giving node.
    Hash(Vec<usize>),
    /// All to one worker: the owner of the empty key.
    Single,
    /// A copy to every worker.
    Broadcast,
}

/// What changes an edge can carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeltaKind {
    /// Inserts only.
    Append,
    /// Inserts and deletes; a delete is of a row that was inserted before, values and all.
    Retract,
}
