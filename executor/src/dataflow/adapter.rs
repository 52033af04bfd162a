//! Adapts an operator to timely: stashes rows by epoch, calls the operator for one complete epoch after another, sends what
//! it gives, passes watermarks on, flushes at checkpoints, catches panics, counts rows and time.
//!
//! Order within an operator, for each epoch: rows, then the watermarks that hold at its end. A checkpoint's flush comes
//! after its epoch and before any later one.

use super::context::{NodeContext, Participant};
use super::exchange::PacketDistributor;
use super::marks::{MarkInputs, MarkOutput};
use super::packet::Packet;
use crate::error::OperatorError;
use crate::operator::{EpochInput, Operator, Output, Progress, Watermarks};
use crate::operators::Transform;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Instant;
use thalweg_catalog::{Delta, Epoch, VNode};
use thalweg_plan::Exchange;
use timely::container::NoopBuilder;
use timely::dataflow::channels::pact::{DistributorPact, Pipeline};
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::dataflow::operators::{Capability, InputCapability};
use timely::dataflow::{Scope, Stream};
use timely::progress::frontier::MutableAntichain;

/// A stream of packets.
pub type Packets<'scope> = Stream<'scope, u64, Packet>;
/// What sends packets.
pub type PacketOutput = OutputBuilder<u64, NoopBuilder<Packet>>;

/// How many pieces an operator gives before it lets others run.
const PIECES_PER_TURN: usize = 4;

/// An operator as the adapter drives it: with word of what is complete, for those at the end of a plan.
pub trait Stage {
    /// See [`Operator::begin`].
    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError>;
    /// See [`Operator::step`].
    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError>;
    /// Everything through `epoch` has been applied, and the watermarks of the (first) input are these.
    fn completed(&mut self, _epoch: Epoch, _watermarks: &Watermarks) {}
    /// State is about to be flushed at a checkpoint.
    fn before_flush(&mut self, _checkpoint: Epoch) {}
}

/// Any operator is a stage.
pub struct Inner(pub Box<dyn Operator>);

impl Stage for Inner {
    fn begin(&mut self, input: EpochInput) -> Result<(), OperatorError> {
        self.0.begin(input)
    }
    fn step(&mut self, output: &mut Output) -> Result<Progress, OperatorError> {
        self.0.step(output)
    }
}

/// An input of an operator: a stream and how it is exchanged.
pub struct Input<'scope> {
    /// The packets.
    pub stream: Packets<'scope>,
    /// How rows find their worker.
    pub exchange: Exchange,
    /// Whether every worker gets the watermarks of all, though rows stay.
    pub marks_to_all: bool,
}

impl Input<'_> {
    /// The workers that it hears from.
    fn senders(&self, own: usize, workers: usize) -> Vec<usize> {
        if self.exchange == Exchange::Local && !self.marks_to_all { vec![own] } else { (0..workers).collect() }
    }
}

/// Takes what has come in on one input.
pub type Receive = Box<dyn FnMut(&mut dyn FnMut(InputCapability<u64>, Packet))>;

/// Connects an input, whatever its exchange.
pub fn connect<'scope>(builder: &mut OperatorBuilder<'scope, u64>, scope: Scope<'scope, u64>, input: Input<'scope>) -> Receive {
    match input.exchange {
        Exchange::Local if !input.marks_to_all => {
            let mut handle = builder.new_input(input.stream, Pipeline);
            Box::new(move |take| handle.for_each(|cap, packet| take(cap, std::mem::take(packet))))
        }
        exchange => {
            let stream = if exchange == Exchange::Broadcast { to_all(scope, input.stream) } else { input.stream };
            let own = scope.index();
            let pact = DistributorPact(move |workers| PacketDistributor::new(exchange, workers, own));
            let mut handle = builder.new_input(stream, pact);
            Box::new(move |take| handle.for_each(|cap, packet| take(cap, std::mem::take(packet))))
        }
    }
}

/// Readies rows to be copied to every worker, by counting each copy.
fn to_all<'scope>(scope: Scope<'scope, u64>, stream: Packets<'scope>) -> Packets<'scope> {
    let copies = scope.peers();
    let mut builder = OperatorBuilder::new("ToAll".into(), scope);
    let mut handle = builder.new_input(stream, Pipeline);
    let (output, stream) = builder.new_output();
    let mut output: PacketOutput = OutputBuilder::from(output);
    builder.build(move |_| {
        move |_| {
            let mut session = output.activate();
            handle.for_each(|cap, packet| {
                let mut packet = match std::mem::take(packet) {
                    Packet::Rows(delta) => Packet::RowsToAll { delta, copies },
                    other => other,
                };
                session.session_with_builder(&cap).give_container(&mut packet);
            });
        }
    });
    stream
}

/// The least element of a frontier as an epoch; `END` for an empty one.
pub fn least(frontier: &MutableAntichain<u64>) -> Epoch {
    frontier.frontier().first().map_or(Epoch::END, |time| Epoch(*time))
}

/// Runs a fallible step, and makes an error of a panic.
pub fn guarded<R>(step: impl FnOnce() -> Result<R, OperatorError>) -> Result<R, OperatorError> {
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()))
            .unwrap_or_else(|| "of unknown kind".into());
        Err(OperatorError::Panic(text))
    })
}

/// An error with all its causes in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// A stateless operator: rows pass through as they come.
pub fn transform<'scope>(
    scope: Scope<'scope, u64>,
    context: NodeContext,
    input: Input<'scope>,
    mut logic: Box<dyn Transform>,
) -> Packets<'scope> {
    let mut builder = OperatorBuilder::new(context.plan().path.clone(), scope);
    let mut receive = connect(&mut builder, scope, input);
    builder.set_notify_for(0, timely::progress::operate::FrontierInterest::Never);
    let (output, stream) = builder.new_output();
    let mut output: PacketOutput = OutputBuilder::from(output);
    let mappings = context.plan().watermarks.clone();
    builder.build(move |_| {
        move |_| {
            let started = Instant::now();
            let figures = context.figures();
            let mut session = output.activate();
            receive(&mut |cap, packet| {
                if context.job.shared.is_stopped() {
                    return;
                }
                match packet {
                    Packet::Empty => {}
                    Packet::Rows(delta) | Packet::RowsToAll { delta, .. } => {
                        figures.rows_in.fetch_add(delta.num_rows() as u64, Ordering::Relaxed);
                        context.enter(cap.least().map_or(Epoch(0), |time| Epoch(*time)));
                        match guarded(|| logic.apply(delta)) {
                            Ok(deltas) => {
                                for delta in deltas.into_iter().filter(|d| !d.is_empty()) {
                                    figures.rows_out.fetch_add(delta.num_rows() as u64, Ordering::Relaxed);
                                    session.session_with_builder(&cap).give_container(&mut Packet::Rows(delta));
                                }
                            }
                            Err(error) => context.job.shared.fail(format!("{}: {}", context.plan().path, chain(&error))),
                        }
                    }
                    Packet::Marks { from, marks, .. } => {
                        let marks = super::marks::map_marks(&mappings, &marks);
                        if !marks.is_empty() {
                            let mut packet = Packet::Marks { from, marks, copies: context.worker().workers };
                            session.session_with_builder(&cap).give_container(&mut packet);
                        }
                    }
                }
            });
            drop(session);
            figures.busy_ns.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    });
    stream
}

/// What came in for one epoch.
struct Stashed {
    capability: Capability<u64>,
    ports: Vec<Vec<Delta>>,
    marks: Vec<(usize, usize, Vec<super::packet::Mark>)>,
}

/// A stage with all that the adapter keeps for it.
struct Driver {
    context: NodeContext,
    participant: Participant,
    stage: Box<dyn Stage>,
    ports: usize,
    stash: BTreeMap<Epoch, Stashed>,
    /// The epoch that is being given, with its capability.
    current: Option<(Epoch, Capability<u64>)>,
    marks_in: MarkInputs,
    marks_out: MarkOutput,
    /// The epoch through which the stage has been told that all is applied; none before it was told anything.
    completed: Option<Epoch>,
    output: Output,
}

/// An operator that sees whole epochs. With `wants_start` the owner of the empty key is given an epoch at the start of the
/// job, even if nothing comes in.
pub fn operator<'scope>(
    scope: Scope<'scope, u64>,
    context: NodeContext,
    inputs: Vec<Input<'scope>>,
    stage: Box<dyn Stage>,
    wants_start: bool,
) -> Packets<'scope> {
    let mut builder = OperatorBuilder::new(context.plan().path.clone(), scope);
    let ports = inputs.len();
    let (own, workers) = (context.worker().index, context.worker().workers);
    let senders: Vec<Vec<usize>> = inputs.iter().map(|i| i.senders(own, workers)).collect();
    let marks_in = MarkInputs::new(&context, senders.clone()).unwrap_or_else(|error| {
        context.job.shared.fail(format!("{}: {}", context.plan().path, chain(&error)));
        MarkInputs::without_state(senders)
    });
    let mut receivers: Vec<Receive> = inputs.into_iter().map(|input| connect(&mut builder, scope, input)).collect();
    let (output, stream) = builder.new_output();
    let mut output: PacketOutput = OutputBuilder::from(output);
    let activator = scope.activator_for(builder.operator_info().address);
    let worker = context.worker();
    let owns_start = wants_start && !context.job.restored && VNode::of_hash(0).worker(worker.workers).0 == worker.index;
    let mut driver = Driver {
        participant: context.participate(),
        marks_out: MarkOutput::new(context.plan().watermarks.clone()),
        context,
        stage,
        ports,
        stash: BTreeMap::new(),
        current: None,
        marks_in,
        completed: None,
        output: Output::default(),
    };
    builder.build(move |capabilities| {
        if owns_start {
            let start = driver.context.job.start;
            let capability = capabilities[0].delayed(&start.0);
            driver.stash.insert(start, Stashed { capability, ports: vec![vec![]; ports], marks: vec![] });
        }
        drop(capabilities);
        move |frontiers| {
            for (port, receive) in receivers.iter_mut().enumerate() {
                receive(&mut |cap, packet| driver.stash_packet(port, cap, packet));
            }
            let frontier = frontiers.iter().map(least).min().unwrap_or(Epoch::END);
            let started = Instant::now();
            match driver.run(frontier, &mut output) {
                Ok(true) => activator.activate(),
                Ok(false) => {}
                Err(error) => driver.context.job.shared.fail(format!("{}: {}", driver.context.plan().path, chain(&error))),
            }
            let spent = started.elapsed().as_nanos() as u64;
            driver.context.figures().busy_ns.fetch_add(spent, Ordering::Relaxed);
        }
    });
    stream
}

impl Driver {
    fn stash_packet(&mut self, port: usize, cap: InputCapability<u64>, packet: Packet) {
        let Some(time) = cap.least().copied() else { return };
        if self.context.job.shared.is_stopped() {
            return;
        }
        let ports = self.ports;
        let stashed = self.stash.entry(Epoch(time)).or_insert_with(|| Stashed {
            capability: cap.delayed(&time, 0),
            ports: vec![vec![]; ports],
            marks: vec![],
        });
        match packet {
            Packet::Empty => {}
            Packet::Rows(delta) | Packet::RowsToAll { delta, .. } => {
                self.context.figures().rows_in.fetch_add(delta.num_rows() as u64, Ordering::Relaxed);
                stashed.ports[port].push(delta);
            }
            Packet::Marks { from, marks, .. } => stashed.marks.push((port, from, marks)),
        }
    }

    /// Works off complete epochs; true if there is more to do without anything new coming in.
    fn run(&mut self, frontier: Epoch, output: &mut PacketOutput) -> Result<bool, OperatorError> {
        if self.context.job.shared.is_stopped() {
            self.stash.clear();
            self.current = None;
            self.participant.leave();
            return Ok(false);
        }
        for _ in 0..PIECES_PER_TURN {
            if self.current.is_none() && !self.begin_next(frontier)? {
                break;
            }
            self.give_piece(output)?;
        }
        if self.current.is_some() || self.stash.first_key_value().is_some_and(|(epoch, _)| *epoch < frontier) {
            return Ok(true);
        }
        self.complete(frontier)?;
        Ok(false)
    }

    /// Starts on the next complete epoch, if there is one.
    fn begin_next(&mut self, frontier: Epoch) -> Result<bool, OperatorError> {
        let Some(entry) = self.stash.first_entry().filter(|entry| *entry.key() < frontier) else { return Ok(false) };
        let (epoch, stashed) = entry.remove_entry();
        self.flush_below(epoch)?;
        for (port, from, marks) in stashed.marks {
            self.marks_in.receive(port, from, &marks);
        }
        let watermarks = self.marks_in.advance();
        let input = EpochInput { epoch, ports: stashed.ports, watermarks };
        self.context.enter(epoch);
        let stage = &mut self.stage;
        guarded(|| stage.begin(input))?;
        self.current = Some((epoch, stashed.capability));
        Ok(true)
    }

    fn give_piece(&mut self, output: &mut PacketOutput) -> Result<(), OperatorError> {
        let Some((epoch, capability)) = &self.current else { return Ok(()) };
        let (stage, piece) = (&mut self.stage, &mut self.output);
        let progress = guarded(|| stage.step(piece))?;
        let epoch = *epoch;
        let mut session = output.activate();
        for delta in self.output.take() {
            self.context.figures().rows_out.fetch_add(delta.num_rows() as u64, Ordering::Relaxed);
            session.session_with_builder(capability).give_container(&mut Packet::Rows(delta));
        }
        if progress == Progress::Done {
            let marks = self.marks_out.follow(self.marks_in.current());
            if !marks.is_empty() {
                let worker = self.context.worker();
                let mut packet = Packet::Marks { from: worker.index, marks, copies: worker.workers };
                session.session_with_builder(capability).give_container(&mut packet);
            }
            drop(session);
            self.current = None;
            // Before anything is flushed: state that readers look at is flushed as of what it knows to be complete.
            self.tell_completed(epoch)?;
            self.participant.keep_within_budget()?;
        }
        Ok(())
    }

    /// Everything below `frontier` has been given.
    fn complete(&mut self, frontier: Epoch) -> Result<(), OperatorError> {
        self.flush_below(frontier)?;
        let through = if frontier == Epoch::END { Epoch::END } else { frontier.previous() };
        if self.tell_completed(through)? && frontier == Epoch::END {
            // Timely drops the operator now; its state must be in the database for every later checkpoint.
            self.marks_in.save();
            self.stage.before_flush(Epoch::END);
            self.context.worker().flush_ended(&self.context.state)?;
            self.participant.leave();
        }
        Ok(())
    }

    /// Tells the stage that all is applied through an epoch, once.
    fn tell_completed(&mut self, through: Epoch) -> Result<bool, OperatorError> {
        if self.completed.is_some_and(|completed| completed >= through) {
            return Ok(false);
        }
        self.completed = Some(through);
        let none = Watermarks::new();
        let (stage, marks) = (&mut self.stage, &self.marks_in);
        guarded(|| {
            stage.completed(through, marks.current().first().unwrap_or(&none));
            Ok(())
        })?;
        Ok(true)
    }

    /// Flushes at every announced checkpoint below `limit`: each is complete, and nothing after it has been applied.
    fn flush_below(&mut self, limit: Epoch) -> Result<(), OperatorError> {
        while let Some(checkpoint) = self.participant.due(limit) {
            self.tell_completed(checkpoint)?;
            self.marks_in.save();
            self.stage.before_flush(checkpoint);
            self.participant.flush(checkpoint)?;
        }
        Ok(())
    }
}
