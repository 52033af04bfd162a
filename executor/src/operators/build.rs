//! From a node of a plan to the operator that runs it.

use super::aggregate::Aggregate;
use super::combine::Combine;
use super::emit_on_close::EmitOnClose;
use super::join::Join;
use super::map::Map;
use super::rows::Errors;
use super::top_n::TopN;
use super::unnest::Unnest;
use crate::error::OperatorError;
use crate::operator::Operator;
use arrow::datatypes::SchemaRef;
use thalweg_catalog::{Delta, WorkerIndex};
use thalweg_plan as plan;
use thalweg_plan::PlanNode;
use thalweg_storage::state::OperatorState;

/// An operator without state, which need not see whole epochs: it is called as rows arrive.
pub trait Transform {
    /// The columns of what it gives.
    fn schema(&self) -> SchemaRef;

    /// The changes that follow from these changes.
    ///
    /// # Errors
    /// What makes the job fail. A fault of single rows is reported through [`RowErrors`](crate::operator::RowErrors).
    fn apply(&mut self, delta: Delta) -> Result<Vec<Delta>, OperatorError>;
}

/// Where an operator runs.
pub struct Context {
    /// Its state on this worker.
    pub state: OperatorState,
    /// Where it reports rows at fault.
    pub errors: Errors,
    /// Which worker this is.
    pub worker: WorkerIndex,
}

/// An operator, ready to be driven.
pub enum Built {
    /// Called for each delta as it arrives.
    Transform(Box<dyn Transform>),
    /// Called for each complete epoch.
    Operator {
        /// The operator.
        operator: Box<dyn Operator>,
        /// Whether it must be called once for the first epoch of the job even if that has no rows for it: a global aggregate has
        /// a row from the beginning.
        starts: bool,
    },
}

/// The operator of `node`, whose inputs have these schemas and are, where `append_inputs` says so, append-only.
///
/// # Errors
/// If the plan can't be run, or its state can't be opened.
pub fn build(node: &PlanNode, inputs: &[SchemaRef], append_inputs: &[bool], context: Context) -> Result<Built, OperatorError> {
    let ports = if matches!(node.operator, plan::Operator::Join { .. }) { 2 } else { 1 };
    if inputs.len() != ports || append_inputs.len() != ports || node.inputs.len() != ports {
        return Err(OperatorError::Plan(format!("{} needs {ports} inputs", node.operator.name())));
    }
    let whole = |operator: Box<dyn Operator>| Built::Operator { operator, starts: false };
    Ok(match &node.operator {
        plan::Operator::Map { .. } => Built::Transform(Box::new(Map::new(node, &inputs[0], context.errors)?)),
        plan::Operator::Unnest { column } => Built::Transform(Box::new(Unnest::new(node, &inputs[0], *column)?)),
        plan::Operator::Combine => Built::Transform(Box::new(Combine::new(&inputs[0])?)),
        plan::Operator::Aggregate { .. } => {
            let aggregate = Aggregate::new(node, &inputs[0], append_inputs[0], context)?;
            let starts = aggregate.starts();
            Built::Operator { operator: Box::new(aggregate), starts }
        }
        plan::Operator::Join { .. } => whole(Box::new(Join::new(node, inputs, context)?)),
        plan::Operator::TopN { .. } => whole(Box::new(TopN::new(node, &inputs[0], append_inputs[0], context)?)),
        plan::Operator::EmitOnClose { .. } => whole(Box::new(EmitOnClose::new(node, &inputs[0], context)?)),
        other => return Err(OperatorError::Plan(format!("{} is not built here", other.name()))),
    })
}
