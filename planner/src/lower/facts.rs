//! What follows from a plan's shape, node by node from the inputs up: kinds of change, keys, where rows are, watermarks.

use super::expressions::{as_call, as_column, has_cast, injective_column};
use super::facts_join::{join_facts, prefer_present_order};
use super::root::Context;
use super::time::{carries_watermark, derived, is_time, shift_of};
use std::collections::{BTreeMap, BTreeSet};
use thalweg_catalog::object::CatalogObject;
use thalweg_catalog::{ObjectId, SqlError, SqlResult};
use thalweg_plan::{DeltaKind, Exchange, MapExpr, Operator, PlanNode, WatermarkMapping, WatermarkTransform};

/// Where a node's rows are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Spread {
    /// On any worker.
    Anywhere,
    /// With the owner of the hash of these columns.
    ByHash(Vec<usize>),
    /// With the owner of the empty key.
    OnOne,
}

/// What is known of a node's output.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) kind: DeltaKind,
    /// Columns by which rows are unique; of no columns where there is at most one row.
    pub(super) key: Option<Vec<usize>>,
    pub(super) spread: Spread,
    /// The columns that carry a watermark, each with how much later than the rows' own time it is.
    pub(super) times: BTreeMap<usize, i64>,
    /// Sets of columns each of which decides the others, such as the start and end of one window.
    pub(super) twins: Vec<BTreeSet<usize>>,
    /// Columns that are never NULL.
    pub(super) present: BTreeSet<usize>,
    /// The sources all of whose rows are among the output's.
    pub(super) streams: BTreeSet<ObjectId>,
}

impl Facts {
    pub(super) fn unknown() -> Facts {
        Facts {
            kind: DeltaKind::Retract,
            key: None,
            spread: Spread::Anywhere,
            times: BTreeMap::new(),
            twins: vec![],
            present: BTreeSet::new(),
            streams: BTreeSet::new(),
        }
    }

    /// Whether the columns that `has` names decide the whole key: each of its columns is among them, or decided by one.
    pub(super) fn is_decided_by(&self, has: impl Fn(usize) -> bool) -> bool {
        let by_twin = |column: usize| self.twins.iter().any(|set| set.contains(&column) && set.iter().any(|c| has(*c)));
        self.key.as_ref().is_some_and(|key| key.iter().all(|c| has(*c) || by_twin(*c)))
    }
}

/// Facts for all nodes of a growing plan.
#[derive(Default)]
pub(super) struct Known {
    pub(super) facts: Vec<Facts>,
    pub(super) notices: Vec<String>,
}

impl Known {
    /// Learns of the nodes that are new, and writes what is known into them. Drops exchanges that move no row, and sets the
    /// places of time keys.
    pub(super) fn extend(&mut self, nodes: &mut [PlanNode], context: &Context<'_>) -> SqlResult<()> {
        for place in self.facts.len()..nodes.len() {
            let (before, rest) = nodes.split_at_mut(place);
            let node = &mut rest[0];
            prefer_present_order(node, &self.facts);
            let mut facts = self.facts_of(node, before, context)?;
            // What waits in an `EmitOnClose` is kept by what its edge says, so that one keeps its exchange.
            let keeps_exchange = matches!(node.operator, Operator::EmitOnClose { .. });
            for edge in &mut node.inputs {
                let present = &self.facts[edge.from.0].spread;
                let is_there = match &edge.exchange {
                    Exchange::Hash(columns) => matches!(present, Spread::ByHash(by) if by == columns),
                    Exchange::Single => *present == Spread::OnOne,
                    Exchange::Local | Exchange::Broadcast => false,
                };
                if is_there && !keeps_exchange {
                    edge.exchange = Exchange::Local;
                }
            }
            facts.times = times_of(node, &self.facts);
            node.kind = facts.kind;
            node.key = facts.key.clone().unwrap_or_default();
            self.facts.push(facts);
        }
        Ok(())
    }

    fn facts_of(&mut self, node: &mut PlanNode, before: &[PlanNode], context: &Context<'_>) -> SqlResult<Facts> {
        let inputs: Vec<&Facts> = node.inputs.iter().map(|e| &self.facts[e.from.0]).collect();
        let input = || inputs.first().copied().ok_or_else(|| SqlError::internal("PLAN-1: a node has no input"));
        node.watermarks = vec![];
        Ok(match &mut node.operator {
            Operator::Source { object, .. } => {
                Facts { kind: DeltaKind::Append, streams: BTreeSet::from([*object]), ..Facts::unknown() }
            }
            Operator::TableInput { .. } => Facts::unknown(),
            Operator::Values { batch } => {
                let key = (batch.num_rows() <= 1).then(Vec::new);
                Facts { kind: DeltaKind::Append, key, ..Facts::unknown() }
            }
            Operator::Relation { object, columns } => {
                let columns = columns.clone();
                let object = *object;
                return relation_facts(object, &columns, node, context);
            }
            Operator::WatermarkFilter { spec } => {
                // The node makes the watermark; the mapping says on which column it stands.
                node.watermarks.push(identity(0, spec.column, spec.column));
                input()?.clone()
            }
            Operator::Map { exprs, .. } => {
                node.watermarks = map_watermarks(exprs, input()?, &node.schema);
                map_facts(exprs, input()?, &before[node.inputs[0].from.0])
            }
            Operator::Unnest { column } => {
                let input = input()?;
                node.watermarks = input.times.keys().map(|c| identity(0, *c, *c)).collect();
                unnest_facts(*column, input, &before[node.inputs[0].from.0])
            }
            Operator::Combine => {
                let input = input()?;
                node.watermarks = input.times.keys().map(|c| identity(0, *c, *c)).collect();
                input.clone()
            }
            Operator::Aggregate { keys, time_key, on_close, .. } => {
                *time_key = latest(keys.iter().copied(), &input()?.times);
                let kind = if *on_close { DeltaKind::Append } else { DeltaKind::Retract };
                Facts { kind, ..aggregate_facts(keys, input()?, &mut node.watermarks) }
            }
            Operator::TopN { partition, with_rank, limit, .. } => {
                let rank = with_rank.then(|| node.schema.fields().len() - 1);
                top_n_facts(partition, rank, *limit, input()?, &mut node.watermarks)
            }
            Operator::Union => union_facts(&inputs, &mut node.watermarks),
            Operator::EmitOnClose { column } => {
                node.watermarks.push(identity(0, *column, *column));
                let spread = match &node.inputs[0].exchange {
                    Exchange::Hash(columns) => Spread::ByHash(columns.clone()),
                    _ => Spread::OnOne,
                };
                Facts { kind: DeltaKind::Append, spread, ..input()?.clone() }
            }
            Operator::Materialize { key, .. } => {
                let input = input()?;
                node.watermarks = input.times.keys().map(|c| identity(0, *c, *c)).collect();
                let all = (0..node.schema.fields().len()).collect();
                let unique = Some(key.clone()).filter(|key| !key.is_empty());
                Facts { spread: Spread::ByHash(unique.clone().unwrap_or(all)), key: unique, ..input.clone() }
            }
            Operator::Sink { .. } => input()?.clone(),
            Operator::Join { .. } => {
                let (facts, notice) = join_facts(node, before, &inputs, context)?;
                self.notices.extend(notice.filter(|n| !self.notices.contains(n)));
                facts
            }
        })
    }
}

/// The same watermark on the output as on the input.
pub(super) fn identity(port: usize, input: usize, output: usize) -> WatermarkMapping {
    WatermarkMapping { port, input, output, transform: WatermarkTransform::Identity }
}

/// The place among `columns` of the one whose watermark is latest against the rows' own time: a window's end before its
/// start.
pub(super) fn latest(columns: impl Iterator<Item = usize>, times: &BTreeMap<usize, i64>) -> Option<usize> {
    let timed = columns.enumerate().filter_map(|(place, c)| Some((place, *times.get(&c)?)));
    timed.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(place, _)| place)
}

/// The columns of a node's output that carry a watermark, by its mappings: those for which every mapping's input does.
fn times_of(node: &PlanNode, facts: &[Facts]) -> BTreeMap<usize, i64> {
    let mut times = BTreeMap::new();
    for mapping in &node.watermarks {
        let below = node.inputs.get(mapping.port).and_then(|e| facts[e.from.0].times.get(&mapping.input));
        let shift = below.copied().unwrap_or(0).saturating_add(shift_of(&mapping.transform));
        times.entry(mapping.output).and_modify(|s: &mut i64| *s = shift.max(*s)).or_insert(shift);
    }
    times
}

fn relation_facts(object: ObjectId, columns: &[usize], node: &mut PlanNode, context: &Context<'_>) -> SqlResult<Facts> {
    let found: &CatalogObject =
        context.catalog.get(object).ok_or_else(|| SqlError::internal(format!("object {object} is read but gone")))?;
    let place = |declared: &usize| columns.iter().position(|c| c == declared);
    let places = |declared: &[usize]| declared.iter().map(place).collect::<Option<Vec<usize>>>();
    let all: Vec<usize> = (0..found.columns.len()).collect();
    let by = if found.key().is_empty() { &all[..] } else { found.key() };
    let present = columns.iter().enumerate().filter(|(_, c)| !found.columns[**c].nullable).map(|(place, _)| place);
    let mut facts = Facts {
        key: if found.key().is_empty() { None } else { places(found.key()) },
        spread: places(by).map_or(Spread::Anywhere, Spread::ByHash),
        present: present.collect(),
        ..Facts::unknown()
    };
    // How its own job makes its rows tells what changes there can be, and up to when rows can still come.
    let timed: Vec<usize> = match (context.plans)(object) {
        Some(plan) => {
            facts.kind = plan.root().kind;
            plan.root().watermark_columns()
        }
        None => found.watermark().map(|w| w.column).into_iter().collect(),
    };
    for declared in timed {
        node.watermarks.extend(place(&declared).map(|output| identity(0, declared, output)));
    }
    Ok(facts)
}

fn aggregate_facts(keys: &[usize], input: &Facts, watermarks: &mut Vec<WatermarkMapping>) -> Facts {
    let with_time = keys.iter().enumerate().filter(|(_, k)| input.times.contains_key(k));
    watermarks.extend(with_time.map(|(place, key)| identity(0, *key, place)));
    let places: Vec<usize> = (0..keys.len()).collect();
    Facts {
        present: places.iter().copied().filter(|p| input.present.contains(&keys[*p])).collect(),
        spread: if keys.is_empty() { Spread::OnOne } else { Spread::ByHash(places.clone()) },
        twins: moved_twins(&input.twins, |c| keys.iter().position(|k| *k == c)),
        key: Some(places),
        ..Facts::unknown()
    }
}

fn top_n_facts(
    partition: &[usize],
    rank: Option<usize>,
    limit: Option<u64>,
    input: &Facts,
    watermarks: &mut Vec<WatermarkMapping>,
) -> Facts {
    let with_time = partition.iter().filter(|c| input.times.contains_key(c));
    watermarks.extend(with_time.map(|c| identity(0, *c, *c)));
    let key = match rank {
        _ if limit == Some(1) => Some(partition.to_vec()),
        Some(rank) => Some(partition.iter().copied().chain([rank]).collect()),
        None => input.key.clone(),
    };
    Facts {
        key,
        spread: if partition.is_empty() { Spread::OnOne } else { Spread::ByHash(partition.to_vec()) },
        present: input.present.clone(),
        twins: input.twins.clone(),
        ..Facts::unknown()
    }
}

fn map_facts(exprs: &[MapExpr], input: &Facts, below: &PlanNode) -> Facts {
    let same = |column: &usize| exprs.iter().position(|e| as_column(&e.expr) == Some(*column));
    let one_to_one = |column: &usize| {
        same(column).or_else(|| exprs.iter().position(|e| injective_column(&e.expr, &below.schema) == Some(*column)))
    };
    // A column of the key that goes can be stood for by one that decides it.
    let kept = |column: &usize| {
        let twins = input.twins.iter().filter(|set| set.contains(column)).flatten();
        one_to_one(column).or_else(|| twins.into_iter().find_map(one_to_one))
    };
    let spread = match &input.spread {
        Spread::ByHash(columns) => columns.iter().map(same).collect::<Option<_>>().map_or(Spread::Anywhere, Spread::ByHash),
        other => other.clone(),
    };
    let is_present = |e: &MapExpr| as_column(&e.expr).is_some_and(|c| input.present.contains(&c));
    Facts {
        key: input.key.as_ref().and_then(|key| without_repeats(key.iter().map(kept))),
        twins: map_twins(exprs, input, below),
        spread,
        present: exprs.iter().enumerate().filter(|(_, e)| is_present(e)).map(|(place, _)| place).collect(),
        ..input.clone()
    }
}

fn without_repeats(columns: impl Iterator<Item = Option<usize>>) -> Option<Vec<usize>> {
    let mut key: Vec<usize> = vec![];
    for column in columns {
        let column = column?;
        if !key.contains(&column) {
            key.push(column);
        }
    }
    Some(key)
}

/// The sets of columns with each moved to where `place` says, without those that have none.
pub(super) fn moved_twins(twins: &[BTreeSet<usize>], place: impl Fn(usize) -> Option<usize>) -> Vec<BTreeSet<usize>> {
    let moved = twins.iter().map(|set| set.iter().filter_map(|c| place(*c)).collect::<BTreeSet<usize>>());
    moved.filter(|set| set.len() > 1).collect()
}

/// What an output is one to one with: a column, or the windows over it by their slide and offset.
type Basis = (usize, Option<(i64, i64)>);

/// Outputs decide one another if they are one to one with the same column, or are edges of the same windows over it.
fn map_twins(exprs: &[MapExpr], input: &Facts, below: &PlanNode) -> Vec<BTreeSet<usize>> {
    let first_twin = |column: usize| {
        input.twins.iter().find(|set| set.contains(&column)).and_then(|set| set.first().copied()).unwrap_or(column)
    };
    let mut sets: BTreeMap<Basis, BTreeSet<usize>> = BTreeMap::new();
    for (output, expr) in exprs.iter().enumerate() {
        let injective = injective_column(&expr.expr, &below.schema).map(|column| (first_twin(column), None));
        let from_time = || match derived(&expr.expr).filter(|_| !has_cast(&expr.expr))? {
            (column, WatermarkTransform::Identity | WatermarkTransform::Shift(_)) => Some((first_twin(column), None)),
            (column, WatermarkTransform::Window { slide_us, offset_us, .. }) => {
                Some((column, Some((slide_us, offset_us.rem_euclid(slide_us)))))
            }
        };
        if let Some(basis) = injective.or_else(from_time) {
            sets.entry(basis).or_default().insert(output);
        }
    }
    sets.into_values().filter(|set| set.len() > 1).collect()
}

fn map_watermarks(exprs: &[MapExpr], input: &Facts, schema: &arrow::datatypes::Schema) -> Vec<WatermarkMapping> {
    let mut mappings = vec![];
    for (output, expr) in exprs.iter().enumerate() {
        if let Some((column, transform)) = derived(&expr.expr)
            && input.times.contains_key(&column)
            && carries_watermark(schema.field(output).data_type())
        {
            mappings.push(WatermarkMapping { port: 0, input: column, output, transform });
        }
    }
    mappings
}

fn unnest_facts(column: usize, input: &Facts, below: &PlanNode) -> Facts {
    let spread = match &input.spread {
        Spread::ByHash(columns) if columns.contains(&column) => Spread::Anywhere,
        other => other.clone(),
    };
    // Items of a list can be equal, except where they are the starts of windows.
    let are_distinct = match &below.operator {
        Operator::Map { exprs, .. } => as_call(&exprs[column].expr).is_some_and(|(name, _)| name == "hop_starts"),
        _ => false,
    };
    let key = input.key.as_ref().filter(|_| are_distinct).map(|key| key.iter().copied().chain([column]).collect());
    Facts { key, spread, ..input.clone() }
}

fn union_facts(inputs: &[&Facts], watermarks: &mut Vec<WatermarkMapping>) -> Facts {
    let Some((first, rest)) = inputs.split_first() else {
        return Facts::unknown();
    };
    let all_append = inputs.iter().all(|f| f.kind == DeltaKind::Append);
    for column in first.times.keys().filter(|c| rest.iter().all(|f| f.times.contains_key(c))) {
        watermarks.extend((0..inputs.len()).map(|port| identity(port, *column, *column)));
    }
    Facts {
        kind: if all_append { DeltaKind::Append } else { DeltaKind::Retract },
        key: None,
        spread: if rest.iter().all(|f| f.spread == first.spread) { first.spread.clone() } else { Spread::Anywhere },
        present: first.present.iter().copied().filter(|c| rest.iter().all(|f| f.present.contains(c))).collect(),
        streams: inputs.iter().flat_map(|f| f.streams.iter().copied()).collect(),
        ..Facts::unknown()
    }
}

/// The column of a node that tells best when its rows are final: the one latest against their own time.
pub(super) fn closing_column(facts: &Facts, schema: &arrow::datatypes::Schema) -> Option<usize> {
    let times: Vec<usize> = facts.times.keys().copied().filter(|c| is_time(schema.field(*c).data_type())).collect();
    latest(times.iter().copied(), &facts.times).map(|place| times[place])
}
