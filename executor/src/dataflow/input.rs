//! The operators that rows enter a dataflow by: what they have in common.

use super::adapter::{PacketOutput, Packets};
use super::context::NodeContext;
use super::packet::{Mark, Packet};
use crate::error::OperatorError;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_catalog::{Delta, Epoch};
use timely::dataflow::Scope;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::scheduling::Activator;

/// Where an input stands: the epoch that it gives rows at, and the way out.
pub struct Gate<'a> {
    context: &'a NodeContext,
    capability: &'a mut Option<Capability<u64>>,
    output: &'a mut PacketOutput,
    activator: &'a Activator,
}

impl Gate<'_> {
    /// The epoch that rows are given at; none once ended.
    pub fn epoch(&self) -> Option<Epoch> {
        self.capability.as_ref().map(|c| Epoch(*c.time()))
    }

    /// Gives rows at the current epoch.
    pub fn give(&mut self, delta: Delta) {
        if let Some(capability) = self.capability.as_ref().filter(|_| !delta.is_empty()) {
            self.context.figures().rows_out.fetch_add(delta.num_rows() as u64, Ordering::Relaxed);
            self.output.activate().session_with_builder(capability).give_container(&mut Packet::Rows(delta));
        }
    }

    /// Gives watermarks that hold at the end of the current epoch.
    pub fn give_marks(&mut self, marks: Vec<Mark>) {
        if let Some(capability) = self.capability.as_ref().filter(|_| !marks.is_empty()) {
            let worker = self.context.worker();
            if let Some(mark) = marks.first() {
                self.context.figures().watermark.store(mark.watermark.value, Ordering::Relaxed);
            }
            let mut packet = Packet::Marks { from: worker.index, marks, copies: worker.workers };
            self.output.activate().session_with_builder(capability).give_container(&mut packet);
        }
    }

    /// Goes on to a later epoch: nothing more comes below it.
    pub fn advance(&mut self, to: Epoch) {
        if to == Epoch::END {
            self.end();
        } else if let Some(capability) = self.capability.as_mut().filter(|c| *c.time() < to.0) {
            capability.downgrade(&to.0);
        }
    }

    /// Nothing more comes.
    pub fn end(&mut self) {
        *self.capability = None;
    }

    /// Asks to be run again soon.
    pub fn again(&self) {
        self.activator.activate();
    }
}

/// An input's logic, run when there may be something to do: at each tick, when woken, and when it asked for it.
pub trait Entrance {
    /// Gives what there is to give.
    ///
    /// # Errors
    /// What makes the job fail.
    fn run(&mut self, gate: &mut Gate<'_>) -> Result<(), OperatorError>;
}

/// Leaves the list of inputs when the operator goes.
struct Registration {
    context: NodeContext,
    id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.context.worker().inputs.borrow_mut().remove(&self.id);
    }
}

/// An operator without inputs. `make` gets what wakes it from other threads' point of view: its path, and from this one's:
/// an activator.
pub fn input<'scope, E: Entrance + 'static>(
    scope: Scope<'scope, u64>,
    context: NodeContext,
    make: impl FnOnce(&Activator, timely::scheduling::SyncActivator) -> Result<E, OperatorError>,
) -> Packets<'scope> {
    let mut builder = OperatorBuilder::new(context.plan().path.clone(), scope);
    let address = builder.operator_info().address;
    let (output, stream) = builder.new_output();
    let mut output: PacketOutput = OutputBuilder::from(output);
    let activator = scope.activator_for(Rc::clone(&address));
    let waker = scope.worker().sync_activator_for(address.to_vec());
    let entrance: Box<dyn Entrance> = match super::adapter::guarded(|| make(&activator, waker)) {
        Ok(entrance) => Box::new(entrance),
        Err(error) => {
            context.job.shared.fail(format!("{}: {}", context.plan().path, super::adapter::chain(&error)));
            Box::new(super::build::Dead)
        }
    };
    let id = context.worker().new_id();
    let tick = activator.clone();
    context.worker().inputs.borrow_mut().insert(id, Rc::new(move || tick.activate()));

    // Both go as soon as nothing more can come: an ended input takes part in nothing.
    let mut entrance = Some((entrance, Registration { context: context.clone(), id }));
    builder.build(move |mut capabilities| {
        let mut capability = capabilities.pop();
        move |_| {
            if context.job.shared.is_stopped() {
                capability = None;
            }
            let Some((logic, _)) = entrance.as_mut().filter(|_| capability.is_some()) else {
                entrance = None;
                return;
            };
            let started = Instant::now();
            let mut gate = Gate { context: &context, capability: &mut capability, output: &mut output, activator: &activator };
            gate.advance(context.job.start);
            if let Err(error) = super::adapter::guarded(|| logic.run(&mut gate)) {
                let text = super::adapter::chain(&error);
                context.job.shared.fail(format!("{}: {text}", context.plan().path));
            }
            context.figures().busy_ns.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
            if capability.is_none() {
                entrance = None;
            }
        }
    });
    stream
}
