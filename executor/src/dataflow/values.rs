//! Rows that stand in the query: given once, by the first worker, at the start of the job.

use super::adapter::Packets;
use super::context::NodeContext;
use super::input::{Entrance, Gate, input};
use crate::error::OperatorError;
use arrow::array::RecordBatch;
use thalweg_catalog::Delta;
use timely::dataflow::Scope;

struct Values(Option<RecordBatch>);

/// Builds the operator. A job that goes on from a checkpoint has its rows already.
pub fn values<'scope>(scope: Scope<'scope, u64>, context: NodeContext, batch: &RecordBatch) -> Packets<'scope> {
    let mine = context.worker().index == 0 && !context.job.restored;
    let batch = mine.then(|| batch.clone());
    input(scope, context, move |_, _| Ok(Values(batch)))
}

impl Entrance for Values {
    fn run(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        if let Some(batch) = self.0.take() {
            gate.give(Delta::inserts(batch));
        }
        gate.end();
        Ok(())
    }
}
