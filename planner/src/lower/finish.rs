//! The last steps: what nothing reads goes, nodes get their paths, and the plan its fingerprint.

use super::expressions::count_columns;
use arrow::datatypes::{Field, Schema};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult};
use thalweg_plan::{Edge, NodeId, Operator, PlanNode, StreamPlan};

/// Takes the rank from every top-N whose readers don't look at it: then fewer rows change when one moves up.
pub(super) fn drop_unread_ranks(nodes: &mut [PlanNode], top: NodeId) -> SqlResult<()> {
    for place in 0..nodes.len() {
        let Operator::TopN { with_rank: true, .. } = nodes[place].operator else {
            continue;
        };
        let rank = nodes[place].schema.fields().len() - 1;
        let is_read = |node: &PlanNode| match &node.operator {
            Operator::Map { predicate, exprs } => {
                let mut counts = BTreeMap::new();
                exprs.iter().map(|e| &e.expr).chain(predicate).for_each(|e| count_columns(e, &mut counts));
                counts.contains_key(&rank)
            }
            _ => true,
        };
        let reads_it = |node: &&PlanNode| node.inputs.iter().any(|e| e.from.0 == place);
        if top.0 == place || nodes.iter().filter(reads_it).any(is_read) {
            continue;
        }
        let fields: Vec<Field> = nodes[place].schema.fields().iter().take(rank).map(|f| f.as_ref().clone()).collect();
        nodes[place].schema = Arc::new(Schema::new(fields));
        match &mut nodes[place].operator {
            Operator::TopN { with_rank, .. } => *with_rank = false,
            _ => return Err(SqlError::internal("a top-N has become another node")),
        }
    }
    Ok(())
}

/// The plan of these nodes, of which the last is the root: without nodes that it does not read, and with paths.
pub(super) fn finish(mut nodes: Vec<PlanNode>) -> StreamPlan {
    let mut used = BTreeSet::from([nodes.len() - 1]);
    for place in (0..nodes.len()).rev() {
        if used.contains(&place) {
            used.extend(nodes[place].inputs.iter().map(|e| e.from.0));
        }
    }
    let moved: BTreeMap<usize, usize> = used.iter().enumerate().map(|(new, old)| (*old, new)).collect();
    nodes.retain(|n| used.contains(&n.id.0));
    for node in &mut nodes {
        node.id = NodeId(moved[&node.id.0]);
        for edge in &mut node.inputs {
            edge.from = NodeId(moved[&edge.from.0]);
        }
    }
    set_paths(&mut nodes);
    StreamPlan { nodes }
}

/// Gives every node a path from the root. Nodes without state don't count in the paths of those below, so that a change in
/// how expressions are put together leaves the names of state as they are.
fn set_paths(nodes: &mut [PlanNode]) {
    let mut taken = BTreeSet::new();
    let mut open: Vec<(usize, String)> = vec![(nodes.len() - 1, String::new())];
    while let Some((place, prefix)) = open.pop() {
        if !nodes[place].path.is_empty() {
            continue;
        }
        let name = snake_case(nodes[place].operator.name());
        let mut path = format!("{prefix}{name}");
        let mut copy = 1;
        while !taken.insert(path.clone()) {
            copy += 1;
            path = format!("{prefix}{name}_{copy}");
        }
        let below = if nodes[place].operator.is_transform() { &prefix } else { &path };
        let inputs: &[Edge] = &nodes[place].inputs;
        for (port, edge) in inputs.iter().enumerate().rev() {
            let under = match (inputs.len(), below.as_str()) {
                (_, same) if same == prefix => prefix.clone(),
                (1, own) => format!("{own}."),
                (_, own) => format!("{own}.{port}."),
            };
            open.push((edge.from.0, under));
        }
        nodes[place].path = path;
    }
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (place, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && place > 0 {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// Counts the ways in which operators have kept their state for the same plan.
const STATE_LAYOUT: u32 = 3;

/// A short text that is the same exactly for plans whose state can take each other's place: a checkpoint is restored only
/// into a plan with the fingerprint that it was made with.
pub fn fingerprint(plan: &StreamPlan) -> String {
    let mut text = format!("{STATE_LAYOUT} {plan}");
    for node in &plan.nodes {
        let types: Vec<String> = node.schema.fields().iter().map(|f| f.data_type().to_string()).collect();
        // A string takes all that is written to it.
        let _ = writeln!(text, "{} {}", node.path, types.join(","));
    }
    // FNV-1a in 64 bits: fixed for all time and platforms, which the standard library's hashers are not.
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}
