//! What follows from a join: its own rules for keys, places and watermarks.

use super::bounds::join_bounds;
use super::facts::{Facts, Spread, identity, latest, moved_twins};
use super::root::Context;
use arrow::datatypes::Schema;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_catalog::{ObjectId, SqlError, SqlResult};
use thalweg_plan::{DeltaKind, Exchange, JoinBound, JoinType, Operator, PlanNode, WatermarkMapping, WatermarkTransform};

/// Puts the pairs of a join in the order in which one side's rows are spread already, so that they can stay.
pub(super) fn prefer_present_order(node: &mut PlanNode, facts: &[Facts]) {
    let Operator::Join { on, .. } = &mut node.operator else {
        return;
    };
    let [left, right] = node.inputs.as_mut_slice() else {
        return;
    };
    if !matches!(left.exchange, Exchange::Hash(_)) {
        return;
    }
    let left_columns: Vec<usize> = on.iter().map(|p| p.0).collect();
    let right_columns: Vec<usize> = on.iter().map(|p| p.1).collect();
    for (edge, columns) in [(left.from, left_columns), (right.from, right_columns)] {
        if let Spread::ByHash(by) = &facts[edge.0].spread
            && by.len() == on.len()
            && let Some(order) = by.iter().map(|c| columns.iter().position(|own| own == c)).collect::<Option<Vec<_>>>()
            && (0..on.len()).all(|p| order.contains(&p))
        {
            *on = order.into_iter().map(|p| on[p]).collect();
            left.exchange = Exchange::Hash(on.iter().map(|p| p.0).collect());
            right.exchange = Exchange::Hash(on.iter().map(|p| p.1).collect());
            return;
        }
    }
}

/// The facts of a join's output, and a notice if its state can't be bounded.
pub(super) fn join_facts(
    node: &mut PlanNode,
    before: &[PlanNode],
    inputs: &[&Facts],
    context: &Context<'_>,
) -> SqlResult<(Facts, Option<String>)> {
    let [left, right] = inputs else {
        return Err(SqlError::internal("PLAN-1: a join has two inputs"));
    };
    let [left_fields, right_fields] = [0, 1].map(|port| before[node.inputs[port].from.0].schema.fields());
    let width = left_fields.len();
    let Operator::Join { join_type, on, time_key, bounds, residual, null_aware, .. } = &mut node.operator else {
        return Err(SqlError::internal("PLAN-1: facts of a join are asked of another node"));
    };
    let join_type = *join_type;
    let timed: Vec<usize> =
        (0..on.len()).filter(|p| left.times.contains_key(&on[*p].0) && right.times.contains_key(&on[*p].1)).collect();
    let left_times: BTreeMap<usize, i64> = timed.iter().filter_map(|p| Some((*p, *left.times.get(&on[*p].0)?))).collect();
    *time_key = latest(timed.iter().copied(), &left_times).map(|place| timed[place]);
    for place in &timed {
        let (l, r) = on[*place];
        let outputs = [l, width + r];
        for output in &outputs[..if join_type.left_only() { 1 } else { 2 }] {
            node.watermarks.push(identity(0, l, *output));
            node.watermarks.push(identity(1, r, *output));
        }
    }
    *bounds = match residual {
        Some(condition) if timed.is_empty() && !*null_aware => {
            let both = Schema::new(left_fields.iter().chain(right_fields.iter()).cloned().collect::<Vec<_>>());
            join_bounds(condition, &both, width, [left, right])
        }
        _ => [None, None],
    };
    node.watermarks.extend(bounded_watermarks(bounds, [left, right], join_type, width));
    let is_append = left.kind == DeltaKind::Append
        && right.kind == DeltaKind::Append
        && matches!(join_type, JoinType::Inner | JoinType::LeftSemi);
    let present_left = left.present.iter().copied().filter(|_| !join_type.keeps_right());
    let present_right = right.present.iter().map(|c| c + width).filter(|_| !join_type.keeps_left() && !join_type.left_only());
    let streams = if join_type.left_only() { left.streams.clone() } else { &left.streams | &right.streams };
    let facts = Facts {
        kind: if is_append { DeltaKind::Append } else { DeltaKind::Retract },
        key: join_key(join_type, on, left, right, width),
        spread: join_spread(join_type, on, *null_aware, width),
        present: present_left.chain(present_right).collect(),
        streams,
        twins: join_twins(join_type, left, right, width),
        ..Facts::unknown()
    };
    let unbounded = [*left, *right].into_iter().zip(bounds.iter()).filter(|(_, bound)| bound.is_none()).map(|(side, _)| side);
    let notice = if time_key.is_some() { None } else { notice(on.is_empty(), unbounded, context) };
    Ok((facts, notice))
}

fn join_key(join_type: JoinType, on: &[(usize, usize)], left: &Facts, right: &Facts, width: usize) -> Option<Vec<usize>> {
    if join_type.left_only() {
        return left.key.clone();
    }
    let moved = |key: &[usize]| key.iter().map(|c| c + width).collect::<Vec<usize>>();
    // A row that meets at most one partner stays as unique as it was.
    let left_once = left.is_decided_by(|c| on.iter().any(|p| p.0 == c));
    let right_once = right.is_decided_by(|c| on.iter().any(|p| p.1 == c));
    let left_key = left.key.clone().filter(|_| right_once && !join_type.keeps_right());
    let right_key = right.key.as_deref().map(moved).filter(|_| left_once && !join_type.keeps_left());
    let both = left.key.as_ref().zip(right.key.as_ref()).map(|(l, r)| l.iter().copied().chain(moved(r)).collect::<Vec<_>>());
    // Padded rows of both sides could look alike where either's key can be all NULL.
    let is_told_apart = |facts: &Facts| facts.key.iter().flatten().any(|c| facts.present.contains(c));
    let both = both.filter(|_| join_type != JoinType::Full || is_told_apart(left) || is_told_apart(right));
    [left_key, right_key, both].into_iter().flatten().min_by_key(Vec::len)
}

fn join_twins(join_type: JoinType, left: &Facts, right: &Facts, width: usize) -> Vec<BTreeSet<usize>> {
    let mut twins = left.twins.clone();
    if !join_type.left_only() {
        twins.extend(moved_twins(&right.twins, |c| Some(c + width)));
    }
    twins
}

fn join_spread(join_type: JoinType, on: &[(usize, usize)], null_aware: bool, width: usize) -> Spread {
    if on.is_empty() || null_aware {
        return Spread::OnOne;
    }
    match join_type {
        JoinType::Right => Spread::ByHash(on.iter().map(|p| p.1 + width).collect()),
        // Padded rows of either side are where their own key is, so neither side's columns tell for all.
        JoinType::Full => Spread::Anywhere,
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => {
            Spread::ByHash(on.iter().map(|p| p.0).collect())
        }
    }
}

/// The watermarks of a bounded side's times in the output: a pair that is to come has a row to come of either this side or the
/// other, and that is met by no row of this side below the bound.
fn bounded_watermarks(
    bounds: &[Option<JoinBound>; 2],
    sides: [&Facts; 2],
    join_type: JoinType,
    width: usize,
) -> Vec<WatermarkMapping> {
    let mut mappings = vec![];
    for (side, bound) in bounds.iter().enumerate() {
        let Some(bound) = bound else { continue };
        if (side == 1 && join_type.left_only()) || !sides[side].times.contains_key(&bound.column) {
            continue;
        }
        let output = bound.column + side * width;
        let transform = WatermarkTransform::Shift(bound.shift_us.saturating_neg());
        mappings.push(identity(side, bound.column, output));
        mappings.push(WatermarkMapping { port: 1 - side, input: bound.other, output, transform });
    }
    mappings
}

/// What a user is told when a join has to keep every row that a source ever brings to one of these sides.
fn notice<'a>(is_cross: bool, unbounded: impl Iterator<Item = &'a Facts>, context: &Context<'_>) -> Option<String> {
    let kept: BTreeSet<ObjectId> = unbounded.flat_map(|side| side.streams.iter().copied()).collect();
    let names: Vec<String> =
        kept.iter().map(|id| context.catalog.get(*id).map_or_else(|| id.to_string(), |o| format!("\"{}\"", o.name))).collect();
    let names = names.join(" and ");
    match (is_cross, kept.is_empty()) {
        (true, true) => Some("a join without an equality compares every row of one side with every row of the other".into()),
        (true, false) => Some(format!(
            "a join without an equality keeps every row of {names} and compares each with every row of the other side; add an equality between columns of both sides"
        )),
        (false, false) => Some(format!(
            "a join keeps every row of {names}; join on a column with a watermark on both sides, such as the window of TUMBLE or HOP, or compare such columns with an interval between them, to bound its state"
        )),
        (false, true) => None,
    }
}
