//! Builds a job's dataflow on a worker.
//!
//! Every worker must build the same shape in the same order, since channels are known by number. So whatever can fail fails
//! before an operator is connected: a node that could not be made is built as one that does nothing, and the job has failed.

use super::adapter::{Inner, Input, Packets, Stage, chain, guarded, operator, transform};
use super::context::{JobLocal, NodeContext};
use super::input::{Entrance, Gate};
use super::materialize::Materialize;
use super::sink::Sink;
use super::watermark_filter::WatermarkFilter;
use super::{relation, source, table_input, values};
use crate::error::OperatorError;
use crate::operator::{EpochInput, Output, Progress};
use crate::operators::{self, Built, Errors, Transform};
use arrow::datatypes::SchemaRef;
use std::cell::RefCell;
use std::rc::Rc;
use thalweg_catalog::object::WatermarkSpec;
use thalweg_catalog::{Delta, WorkerIndex};
use thalweg_plan::{DeltaKind, NodeId, Operator, PlanNode};
use timely::dataflow::Scope;

/// Builds all nodes of the job's plan.
pub fn build<'scope>(scope: Scope<'scope, u64>, job: &Rc<JobLocal>) {
    let plan = job.shared.plan.clone();
    let mut streams: Vec<Packets<'scope>> = vec![];
    for node in &plan.nodes {
        let context = NodeContext::new(job, node);
        let inputs: Vec<Input<'scope>> = node
            .inputs
            .iter()
            .map(|edge| Input {
                stream: streams[edge.from.0].clone(),
                exchange: edge.exchange.clone(),
                marks_to_all: matches!(node.operator, Operator::WatermarkFilter { .. }),
            })
            .collect();
        streams.push(build_node(scope, context, node, inputs));
    }
    if !plan.nodes.iter().any(|node| matches!(node.operator, Operator::Relation { .. })) && !job.restored {
        job.shared.set_hydrated(job.worker.index, job.start);
    }
    if job.restored {
        job.shared.set_hydrated(job.worker.index, job.start.previous());
    }
}

/// Builds one node on what comes from its inputs.
pub fn build_node<'scope>(
    scope: Scope<'scope, u64>,
    context: NodeContext,
    node: &PlanNode,
    inputs: Vec<Input<'scope>>,
) -> Packets<'scope> {
    match &node.operator {
        Operator::Source { columns, .. } => {
            let watermark = watermark_above(&context, node.id);
            source::source(scope, context, columns, watermark)
        }
        Operator::TableInput { object } => {
            let watermark = watermark_above(&context, node.id);
            table_input::table_input(scope, context, *object, watermark)
        }
        Operator::Relation { object, columns } => relation::relation(scope, context, *object, columns),
        Operator::Values { batch } => values::values(scope, context, batch),
        _ => build_inner(scope, context, node, inputs),
    }
}

/// The watermark that the node directly above a source or a table's input declares.
fn watermark_above(context: &NodeContext, source: NodeId) -> Option<WatermarkSpec> {
    context.job.shared.plan.nodes.iter().find_map(|node| match &node.operator {
        Operator::WatermarkFilter { spec } if node.inputs.iter().any(|edge| edge.from == source) => Some(spec.clone()),
        _ => None,
    })
}

fn build_inner<'scope>(
    scope: Scope<'scope, u64>,
    context: NodeContext,
    node: &PlanNode,
    inputs: Vec<Input<'scope>>,
) -> Packets<'scope> {
    let made = guarded(|| make(&context, node));
    match made {
        Ok(Made::Transform(logic)) => {
            let input = inputs.into_iter().next().expect("PLAN-1: a transform has an input");
            transform(scope, context, input, logic)
        }
        Ok(Made::Stage(stage, starts)) => operator(scope, context, inputs, stage, starts),
        Err(error) => {
            context.job.shared.fail(format!("{}: {}", node.path, chain(&error)));
            if node.operator.is_transform() {
                let input = inputs.into_iter().next().expect("PLAN-1: a transform has an input");
                transform(scope, context, input, Box::new(Dead))
            } else {
                operator(scope, context, inputs, Box::new(Dead), false)
            }
        }
    }
}

enum Made {
    Transform(Box<dyn Transform>),
    Stage(Box<dyn Stage>, bool),
}

fn make(context: &NodeContext, node: &PlanNode) -> Result<Made, OperatorError> {
    let stage = |stage: Box<dyn Stage>| Made::Stage(stage, false);
    Ok(match &node.operator {
        Operator::WatermarkFilter { spec } => stage(Box::new(WatermarkFilter::new(context.clone(), spec.column)?)),
        Operator::Union => stage(Box::<Union>::default()),
        Operator::Materialize { object, key, replaces } => {
            stage(Box::new(Materialize::new(context.clone(), *object, key, *replaces)?))
        }
        Operator::Sink { object, mode, key } => {
            let handle = context.worker().shared.start_sink(context, *object)?;
            stage(Box::new(Sink::new(context.clone(), *mode, key, handle)?))
        }
        _ => {
            let plan = &context.job.shared.plan;
            let below: Vec<&PlanNode> = node.inputs.iter().map(|edge| plan.node(edge.from)).collect();
            let schemas: Vec<SchemaRef> = below.iter().map(|n| n.schema.clone()).collect();
            let appends: Vec<bool> = below.iter().map(|n| n.kind == DeltaKind::Append).collect();
            let errors: Errors = Rc::new(RefCell::new(context.clone()));
            let surroundings =
                operators::Context { state: context.state.clone(), errors, worker: WorkerIndex(context.worker().index) };
            match operators::build(node, &schemas, &appends, surroundings)? {
                Built::Transform(logic) => Made::Transform(logic),
                Built::Operator { operator, starts } => Made::Stage(Box::new(Inner(operator)), starts),
            }
        }
    })
}

/// All rows of all inputs, epoch by epoch, so that watermarks of several inputs keep their place.
#[derive(Default)]
struct Union {
    pending: Vec<Delta>,
}

impl Stage for Union {
    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        self.pending = input.ports.into_iter().flatten().collect();
        Ok(())
    }

    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        self.pending.drain(..).for_each(|delta| output.give(delta));
        Ok(Progress::Done)
    }
}

impl Entrance for Dead {
    fn run(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        gate.end();
        Ok(())
    }
}

/// Stands where an operator could not be made; its job has failed, so it is never called.
pub struct Dead;

impl Stage for Dead {
    fn begin(&mut self, _input: EpochInput) -> Result<(), OperatorError> {
        Ok(())
    }

    fn step(&mut self, _output: &mut Output) -> Result<Progress, OperatorError> {
        Ok(Progress::Done)
    }
}

impl Transform for Dead {
    fn schema(&self) -> SchemaRef {
        SchemaRef::new(arrow::datatypes::Schema::empty())
    }

    fn apply(&mut self, _delta: Delta) -> Result<Vec<Delta>, OperatorError> {
        Ok(vec![])
    }
}
