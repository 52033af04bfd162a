//! `EMIT ON WINDOW CLOSE`, taken down to where windows are made: there each group is given once, when it closes.
//!
//! Rows that wait at the top of a plan come from groups that changed with every row below. If nothing reads a grouping but what
//! waits for its time, it can wait itself: then no change of an open window goes through the plan, and what it gives only grows.

use super::expressions::as_column;
use super::facts::Facts;
use thalweg_plan::{DeltaKind, JoinType, NodeId, Operator, PlanNode};

/// Lets the groupings below a node wait of whose rows those are wanted whose time in `column` is closed. Whether there are any; then what
/// follows from their kind must be learnt anew.
pub(super) fn take_down(nodes: &mut [PlanNode], facts: &[Facts], from: NodeId, column: usize) -> bool {
    let mut waits = Waits { readers: vec![0; nodes.len()], columns: vec![vec![]; nodes.len()] };
    waits.readers[from.0] = 1;
    waits.columns[from.0].push(column);
    let mut found = false;
    for place in (0..=from.0).rev() {
        if waits.readers[place] == 0 {
            continue;
        }
        let inputs: Vec<usize> = nodes[place].inputs.iter().map(|edge| edge.from.0).collect();
        inputs.iter().for_each(|input| waits.readers[*input] += 1);
        if waits.columns[place].len() < waits.readers[place] {
            continue;
        }
        let width = inputs.first().map_or(0, |input| nodes[*input].schema.fields().len());
        let asked = std::mem::take(&mut waits.columns[place]);
        let is_asked = |time: &usize| {
            let decided = |c: &usize| facts[place].twins.iter().any(|set| set.contains(c) && set.contains(time));
            asked.iter().all(|c| c == time || decided(c))
        };
        if let Operator::Aggregate { time_key: Some(time), on_close, .. } = &mut nodes[place].operator
            && is_asked(time)
        {
            *on_close = true;
            found = true;
        }
        for (input, column) in inputs.iter().zip(asked_below(&nodes[place].operator, (&asked, &is_asked), width, inputs.len())) {
            waits.columns[*input].push(column);
        }
    }
    found
}

/// What waits for closed rows.
struct Waits {
    /// How many times each node is read.
    readers: Vec<usize>,
    /// Of those readers that wait, the column of the node's output whose time they wait for.
    columns: Vec<Vec<usize>>,
}

/// The column of each input that a node waits for when it is waited for; none if it does not.
fn asked_below(
    operator: &Operator,
    (asked, is_asked): (&[usize], &dyn Fn(&usize) -> bool),
    width: usize,
    inputs: usize,
) -> Vec<usize> {
    let Some(first) = asked.first().filter(|first| is_asked(first)) else { return vec![] };
    match operator {
        Operator::Map { exprs, .. } => exprs.get(*first).and_then(|e| as_column(&e.expr)).into_iter().collect(),
        Operator::Aggregate { keys, time_key: Some(time), on_close: true, .. } => vec![keys[*time]],
        Operator::Join { join_type, on, time_key: Some(time), .. } => {
            let (left, right) = on[*time];
            let is_time = is_asked(&left) || !join_type.left_only() && is_asked(&(width + right));
            if is_time { vec![left, right] } else { vec![] }
        }
        Operator::TopN { partition, .. } if partition.iter().any(is_asked) => vec![*first],
        Operator::Combine | Operator::Union => vec![*first; inputs],
        _ => vec![],
    }
}

/// Whether a node gives rows that have closed, each once.
pub(super) fn is_final(nodes: &[PlanNode], node: NodeId) -> bool {
    let PlanNode { operator, inputs, kind, .. } = &nodes[node.0];
    let is_waiting = match operator {
        Operator::Aggregate { on_close, .. } => return *on_close,
        Operator::Map { .. } | Operator::Union => true,
        Operator::Join { join_type: JoinType::Inner, time_key, .. } => time_key.is_some(),
        _ => false,
    };
    is_waiting && *kind == DeltaKind::Append && inputs.iter().all(|edge| is_final(nodes, edge.from))
}
