//! Rows that SQL writes to a table. The engine puts them in the table's queue once they are in the table log; they enter at
//! the epoch that the log has them at.

use super::adapter::Packets;
use super::context::NodeContext;
use super::input::{Entrance, Gate, input};
use crate::error::OperatorError;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_catalog::{Delta, Epoch, ObjectId};
use timely::dataflow::Scope;

/// What has been written to a table and not entered its dataflow.
#[derive(Debug, Default)]
pub struct TableQueue {
    rows: Mutex<BTreeMap<Epoch, Vec<Delta>>>,
    closed: AtomicBool,
}

impl TableQueue {
    /// Adds a write, at an epoch that the clock's table frontier has not passed.
    pub fn push(&self, epoch: Epoch, delta: Delta) {
        self.rows.lock().entry(epoch).or_default().push(delta);
    }

    /// Says that nothing more will be written: the table ends.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

struct TableInput {
    context: NodeContext,
    queue: Arc<TableQueue>,
    /// Whether this worker is the one that takes from the queue.
    mine: bool,
}

/// Builds the operator.
pub fn table_input<'scope>(scope: Scope<'scope, u64>, context: NodeContext, object: ObjectId) -> Packets<'scope> {
    let queue = context.worker().shared.table_queue(object);
    let mine = object.0 as usize % context.worker().workers == context.worker().index;
    input(scope, context.clone(), move |_, _| Ok(TableInput { context, queue, mine }))
}

impl Entrance for TableInput {
    fn run(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError> {
        // In this order: what is delivered before the frontier passes is in the queue when the frontier is seen to have passed.
        let closed = self.queue.closed.load(Ordering::SeqCst);
        let frontier = self.context.clock().table_frontier();
        while self.mine {
            let next = {
                let mut rows = self.queue.rows.lock();
                if rows.first_key_value().is_some_and(|(epoch, _)| *epoch < frontier) { rows.pop_first() } else { None }
            };
            let Some((epoch, deltas)) = next else { break };
            // A write that is replayed after a restart is older than the job's start, where it enters.
            gate.advance(epoch);
            deltas.into_iter().for_each(|delta| gate.give(delta));
        }
        let empty = !self.mine || self.queue.rows.lock().is_empty();
        if closed && empty {
            gate.end();
        } else {
            gate.advance(frontier);
        }
        Ok(())
    }
}
