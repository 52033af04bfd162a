//! Prints a plan, the same for the same plan: one node per line, the root first, inputs indented by two more. A node that
//! several read is printed under the first of them with its number, and referred to by that under the others.

use crate::node::{DeltaKind, Exchange, NodeId, PlanNode, StreamPlan};
use crate::operator::Operator;
use std::collections::BTreeSet;
use std::fmt::{self, Write};
use thalweg_catalog::ObjectId;

/// Prints objects by their ids.
impl fmt::Display for StreamPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text(&|id| id.to_string()))
    }
}

impl StreamPlan {
    /// The plan in print, with objects by the names that `name_of` gives.
    pub fn to_text(&self, name_of: &dyn Fn(ObjectId) -> String) -> String {
        let mut printer = Printer { plan: self, name_of, printed: BTreeSet::new(), text: String::new() };
        printer.write_node(self.root().id, None, 0).expect("a string takes all");
        printer.text
    }
}

struct Printer<'a> {
    plan: &'a StreamPlan,
    name_of: &'a dyn Fn(ObjectId) -> String,
    printed: BTreeSet<NodeId>,
    text: String,
}

impl Printer<'_> {
    fn write_node(&mut self, id: NodeId, exchange: Option<&Exchange>, depth: usize) -> fmt::Result {
        let plan = self.plan;
        let node = plan.node(id);
        let is_shared = plan.nodes.iter().flat_map(|n| &n.inputs).filter(|e| e.from == id).count() > 1;
        let is_first = self.printed.insert(id);
        write!(self.text, "{:indent$}", "", indent = depth * 2)?;
        if is_first {
            write!(self.text, "{}", describe(plan, node, self.name_of))?;
            write_facts(node, &mut self.text)?;
        } else {
            write!(self.text, "{}", node.operator.name())?;
        }
        if is_shared {
            write!(self.text, " {}#{}", if is_first { "" } else { "as above " }, id.0)?;
        }
        if let Some(exchange) = exchange {
            write!(self.text, " to={}", exchange_text(node, exchange))?;
        }
        writeln!(self.text)?;
        if is_first {
            for edge in &node.inputs {
                self.write_node(edge.from, Some(&edge.exchange), depth + 1)?;
            }
        }
        Ok(())
    }
}

fn write_facts(node: &PlanNode, f: &mut String) -> fmt::Result {
    write!(f, " kind={}", if node.kind == DeltaKind::Append { "append" } else { "retract" })?;
    if !node.key.is_empty() {
        write!(f, " unique=[{}]", names(node, &node.key))?;
    }
    if !node.watermarks.is_empty() {
        write!(f, " watermark=[{}]", names(node, &node.watermark_columns()))?;
    }
    Ok(())
}

fn exchange_text(from: &PlanNode, exchange: &Exchange) -> String {
    match exchange {
        Exchange::Local => "local".into(),
        Exchange::Hash(columns) => format!("hash[{}]", names(from, columns)),
        Exchange::Single => "single".into(),
        Exchange::Broadcast => "broadcast".into(),
    }
}

/// The names of a node's columns with their places: `auction@0, price@2`.
fn names(node: &PlanNode, columns: &[usize]) -> String {
    columns.iter().map(|c| format!("{}@{c}", node.schema.field(*c).name())).collect::<Vec<_>>().join(", ")
}

/// What a join matches and forgets.
fn describe_join(text: &mut String, inputs: [&PlanNode; 2], operator: &Operator) {
    let Operator::Join { join_type, on, residual, null_aware, null_equals_null, time_key, bounds } = operator else { return };
    let pair = |(l, r): &(usize, usize)| format!("{} = {}", names(inputs[0], &[*l]), names(inputs[1], &[*r]));
    write!(text, " type={} on=[{}]", join_type.name(), on.iter().map(pair).collect::<Vec<_>>().join(", "))
        .expect("a string takes all");
    if let Some(residual) = residual {
        write!(text, " where={residual}").expect("a string takes all");
    }
    if *null_aware {
        text.push_str(" null_aware");
    }
    if *null_equals_null {
        text.push_str(" null_equals_null");
    }
    if let Some(place) = time_key {
        write!(text, " forgets_below={}", pair(&on[*place])).expect("a string takes all");
    }
    for (side, name) in ["left", "right"].into_iter().enumerate() {
        if let Some(bound) = &bounds[side] {
            let (own, other) = (names(inputs[side], &[bound.column]), names(inputs[1 - side], &[bound.other]));
            write!(text, " forgets_{name}={own}{:+}us<{other}", bound.shift_us).expect("a string takes all");
        }
    }
}

fn describe(plan: &StreamPlan, node: &PlanNode, name_of: &dyn Fn(ObjectId) -> String) -> String {
    let input = |port: usize| plan.node(node.inputs[port].from);
    let mut text = node.operator.name().to_string();
    match &node.operator {
        Operator::Source { object, .. } | Operator::TableInput { object } | Operator::Relation { object, .. } => {
            let all: Vec<usize> = (0..node.schema.fields().len()).collect();
            write!(text, " object={} columns=[{}]", name_of(*object), names(node, &all)).expect("a string takes all");
        }
        Operator::WatermarkFilter { spec } => {
            write!(text, " column={} delay_us={}", names(node, &[spec.column]), spec.delay_us).expect("a string takes all");
        }
        Operator::Values { batch } => write!(text, " rows={}", batch.num_rows()).expect("a string takes all"),
        Operator::Map { predicate, exprs } => {
            if let Some(predicate) = predicate {
                write!(text, " where={predicate}").expect("a string takes all");
            }
            let shown: Vec<String> = exprs.iter().map(|e| format!("{}: {}", e.name, e.expr)).collect();
            write!(text, " exprs=[{}]", shown.join(", ")).expect("a string takes all");
        }
        Operator::Unnest { column } | Operator::EmitOnClose { column } => {
            write!(text, " column={}", names(node, &[*column])).expect("a string takes all");
        }
        Operator::Aggregate { keys, calls, time_key, on_close } => {
            let shown: Vec<String> = calls.iter().map(|c| describe_call(input(0), c)).collect();
            write!(text, " keys=[{}] calls=[{}]", names(input(0), keys), shown.join(", ")).expect("a string takes all");
            if let Some(place) = time_key {
                let what = if *on_close { "gives_and_forgets_below" } else { "forgets_below" };
                write!(text, " {what}={}", names(input(0), &[keys[*place]])).expect("a string takes all");
            }
        }
        Operator::Join { .. } => describe_join(&mut text, [input(0), input(1)], &node.operator),
        Operator::TopN { partition, order, offset, limit, with_rank } => {
            let key = |k: &crate::SortKey| {
                let direction = if k.descending { " desc" } else { "" };
                let nulls =
                    if k.nulls_first != k.descending { if k.nulls_first { " nulls first" } else { " nulls last" } } else { "" };
                format!("{}{direction}{nulls}", names(input(0), &[k.column]))
            };
            let order: Vec<String> = order.iter().map(key).collect();
            write!(text, " partition=[{}] order=[{}]", names(input(0), partition), order.join(", ")).expect("a string takes all");
            if *offset > 0 {
                write!(text, " offset={offset}").expect("a string takes all");
            }
            if let Some(limit) = limit {
                write!(text, " limit={limit}").expect("a string takes all");
            }
            if *with_rank {
                text.push_str(" with_rank");
            }
        }
        Operator::Combine | Operator::Union => {}
        Operator::Materialize { key, .. } => write!(text, " key=[{}]", names(node, key)).expect("a string takes all"),
        Operator::Sink { mode, key, .. } => {
            write!(text, " mode={mode:?} key=[{}]", names(node, key)).expect("a string takes all")
        }
    }
    text
}

fn describe_call(input: &PlanNode, call: &crate::AggregateCall) -> String {
    let distinct = if call.distinct { "distinct " } else { "" };
    let argument = call.argument.map_or("*".into(), |c| names(input, &[c]));
    let filter = call.filter.map_or(String::new(), |c| format!(" filter {}", names(input, &[c])));
    format!("{}({distinct}{argument}){filter}", call.function.name())
}
