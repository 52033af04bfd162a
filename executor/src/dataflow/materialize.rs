//! Keeps the rows of a table or materialized view, readable at an epoch, and publishes their changes to the jobs that read
//! them. The root of its job.

use super::adapter::Stage;
use super::context::NodeContext;
use super::hub::Hub;
use crate::error::OperatorError;
use crate::operator::{EpochInput, Output, Progress, Watermarks};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use thalweg_catalog::{Epoch, ObjectId};
use thalweg_storage::state::ViewTable;

/// The operator.
pub struct Materialize {
    context: NodeContext,
    view: ViewTable,
    hub: Rc<RefCell<Hub>>,
}

impl Materialize {
    /// Opens the relation's rows and makes them known to this worker's other jobs and to readers.
    ///
    /// # Errors
    /// If state can't be read.
    pub fn new(context: NodeContext, object: ObjectId, key: &[usize], replaces: bool) -> Result<Materialize, OperatorError> {
        let mut view = context.state.view_table(object, context.plan().schema.clone(), key)?;
        if !replaces {
            view.trust_input();
        }
        let hub = Rc::new(RefCell::new(Hub::new(view.reader())));
        context.worker().hubs.borrow_mut().insert(object, Rc::clone(&hub));
        context.worker().shared.add_reader(object, context.worker().index, view.reader());
        Ok(Materialize { context, view, hub })
    }
}

impl Stage for Materialize {
    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        let deltas: Vec<_> = input.ports.into_iter().flatten().collect();
        if !deltas.is_empty() {
            let net = self.view.apply(input.epoch, &deltas)?;
            self.context.figures().rows_out.fetch_add(net.num_rows() as u64, Ordering::Relaxed);
            self.hub.borrow_mut().publish(input.epoch, &net);
            self.context.worker().shared.publish(self.context.job.shared.id, self.context.worker().index, input.epoch, &net);
        }
        Ok(())
    }

    fn step(&mut self, _output: &mut Output) -> Result<Progress, OperatorError> {
        Ok(Progress::Done)
    }

    fn completed(&mut self, epoch: Epoch, watermarks: &Watermarks) {
        let worker = self.context.worker();
        self.view.complete(epoch);
        let mut hub = self.hub.borrow_mut();
        let at = if epoch == Epoch::END { hub.frontier() } else { epoch };
        hub.publish_watermarks(at, watermarks);
        hub.advance(epoch.next());
        drop(hub);
        self.context.job.shared.set_completed(worker.index, epoch);
        worker.shared.complete(self.context.job.shared.id, worker.index, epoch);
    }
}
