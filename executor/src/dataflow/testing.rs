//! Runs an operator in two processes that exchange rows and watermarks over loopback, so that what crosses a wire is exercised.
//!
//! A test that asks for this is started once more as a process of its own, which goes through the same test with the same random
//! numbers and so makes the same rigs and the same epochs. Both hold one worker. Each lets half of an epoch's rows in; the rest is
//! what a job does: exchanges, adapter, operator. All that is given goes to one worker and is then told to the other process,
//! so that both see the same and what one asserts the other does too.

use super::adapter::{Input, Packets, Receive, connect, least};
use super::build::build_node;
use super::context::{JobLocal, NodeContext, WorkerContext};
use super::packet::{Mark, Packet};
use crate::clock::Clock;
use crate::job::JobShared;
use crate::operator::Watermarks;
use crate::shared::Shared;
use crate::testing::{Reports, Subject, row_text};
use arrow::array::UInt32Array;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use thalweg_catalog::{Delta, Epoch, ObjectId};
use thalweg_plan::{DeltaKind, Exchange, NodeId, Operator, PlanNode, StreamPlan};
use thalweg_storage::state::testing::open;
use timely::WorkerConfig;
use timely::communication::allocator::zero_copy::initialize::initialize_networking_from_sockets;
use timely::communication::allocator::{AllocatorBuilder, ProcessBuilder};
use timely::communication::{Hooks, WorkerGuards};
use timely::container::NoopBuilder;
use timely::dataflow::Scope;
use timely::dataflow::operators::Capability;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;
use timely::worker::Worker;

/// Tells a process that it is the second of a test's, and where the first listens.
const PEER: &str = "THALWEG_TEST_PEER";
const PROCESSES: usize = 2;
/// No epoch of a test takes as long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether this process is the second of a test's.
pub(crate) fn is_second() -> bool {
    std::env::var_os(PEER).is_some()
}

/// The first process's side of the second: where it listens for it.
struct Second {
    process: Child,
    listener: TcpListener,
}

impl Second {
    /// Starts the test that runs in this thread once more.
    fn start() -> Second {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port on loopback");
        let port = listener.local_addr().expect("it is bound").port();
        let thread = std::thread::current();
        let test =
            thread.name().filter(|name| *name != "main").expect("tests run in threads of their names: allow more than one");
        let process = Command::new(std::env::current_exe().expect("a program has a file"))
            .args([test, "--exact", "--nocapture"])
            .env(PEER, port.to_string())
            .env("RUST_TEST_THREADS", "2")
            .stdout(Stdio::null())
            .spawn()
            .expect("the test can be started again");
        Second { process, listener }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // A test that is over, or has failed, needs it no more; what it found wrong this process has found too.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

thread_local! {
    static SECOND: RefCell<Option<Second>> = const { RefCell::new(None) };
}

/// A connection between the two.
fn meet() -> TcpStream {
    let stream = match std::env::var(PEER) {
        Ok(port) => TcpStream::connect(("127.0.0.1", port.parse().expect("a port"))).expect("the first process listens"),
        Err(_) => SECOND.with_borrow_mut(|second| {
            second.get_or_insert_with(Second::start).listener.accept().expect("the second process connects").0
        }),
    };
    stream.set_nodelay(true).expect("a socket can be told not to wait");
    stream
}

/// What one epoch brings to this process's worker.
struct Step {
    epoch: u64,
    ports: Vec<Vec<Delta>>,
    marks: Vec<Vec<Mark>>,
}

/// What came of an epoch on this process's worker.
struct Finished {
    given: Vec<Delta>,
    reports: Reports,
    failure: Option<String>,
}

/// A subject that runs in two processes.
pub(crate) struct Apart {
    steps: Option<Sender<Step>>,
    finished: Receiver<Finished>,
    workers: Option<WorkerGuards<()>>,
    other: BufReader<TcpStream>,
    marked: Vec<Watermarks>,
}

impl Apart {
    pub fn new(subject: &Subject) -> Apart {
        let own = usize::from(is_second());
        let (told, wire) = (meet(), meet());
        let sockets = if own == 0 { vec![None, Some(wire)] } else { vec![Some(wire), None] };
        let hooks = Hooks::default();
        let inner = ProcessBuilder::new_typed_vector(1, hooks.refill.clone(), None);
        let (builders, threads) =
            initialize_networking_from_sockets(inner, sockets, own, 1, hooks).expect("sockets can be shared");
        let builders = builders.into_iter().map(AllocatorBuilder::Tcp).collect();
        let (steps, inbox) = channel();
        let (outbox, finished) = channel();
        let plan = Arc::new(plan(subject));
        let ends = parking_lot::Mutex::new(Some((inbox, outbox)));
        let run = move |worker: &mut Worker| {
            let (inbox, outbox) = ends.lock().take().expect("a process has one worker");
            run(worker, &plan, &inbox, &outbox);
        };
        let workers = timely::execute::execute_from(builders, Box::new(threads), WorkerConfig::default(), run);
        let marked = vec![Watermarks::new(); subject.inputs.len()];
        let workers = Some(workers.expect("a thread can be started"));
        Apart { steps: Some(steps), finished, workers, other: BufReader::new(told), marked }
    }

    /// Runs an epoch: the rows that were given, and all that has been reported so far.
    pub fn epoch(&mut self, epoch: u64, ports: &[Vec<Delta>], watermarks: &[Watermarks]) -> (Vec<(String, i64)>, Reports) {
        let own = usize::from(is_second());
        let share = |deltas: &Vec<Delta>| deltas.iter().map(|delta| every_other_row(delta, own)).collect();
        let marks = self.marked.iter().zip(watermarks).map(|(before, now)| risen(before, now)).collect();
        self.marked = watermarks.to_vec();
        let step = Step { epoch, ports: ports.iter().map(share).collect(), marks };
        self.steps.as_ref().expect("it runs").send(step).expect("the worker runs");
        let finished = self.finished.recv().expect("the worker tells");
        assert_eq!(finished.failure, None, "the job goes on");
        let rows = |delta: &Delta| {
            (0..delta.num_rows()).map(|row| (row_text(delta.batch(), row), delta.weight(row))).collect::<Vec<_>>()
        };
        let given: Vec<(String, i64)> = finished.given.iter().flat_map(rows).collect();
        if own == 0 {
            let mut reports = finished.reports;
            reports.add(self.hear().1);
            self.tell(&given, &reports);
            (given, reports)
        } else {
            self.tell(&given, &finished.reports);
            self.hear()
        }
    }

    fn tell(&mut self, given: &[(String, i64)], reports: &Reports) {
        let mut text = String::new();
        given.iter().for_each(|(row, weight)| text.push_str(&format!("given\t{weight}\t{row}\n")));
        reports.errors.iter().for_each(|((row, reason), weight)| text.push_str(&format!("error\t{weight}\t{row}\t{reason}\n")));
        text.push_str(&format!("dropped\t{}\t{}\nend\n", reports.late, reports.unmatched));
        self.other.get_mut().write_all(text.as_bytes()).expect("the other process listens");
    }

    fn hear(&mut self) -> (Vec<(String, i64)>, Reports) {
        let (mut given, mut reports) = (vec![], Reports::default());
        let number = |text: &str| text.parse::<i64>().expect("a number");
        loop {
            let mut line = String::new();
            self.other.read_line(&mut line).expect("the other process tells");
            match line.trim_end_matches('\n').split('\t').collect::<Vec<_>>()[..] {
                ["given", weight, row] => given.push((row.to_string(), number(weight))),
                ["error", weight, row, reason] => {
                    reports.errors.insert((row.to_string(), reason.to_string()), number(weight));
                }
                ["dropped", late, unmatched] => {
                    (reports.late, reports.unmatched) = (number(late) as u64, number(unmatched) as u64);
                }
                ["end"] => return (given, reports),
                _ => panic!("the other process has ended, or told what is not understood: {line:?}"),
            }
        }
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        self.steps = None;
        if let Some(workers) = self.workers.take()
            && !std::thread::panicking()
        {
            workers.join().into_iter().for_each(|end| end.expect("the worker ended well"));
        }
    }
}

fn every_other_row(delta: &Delta, first: usize) -> Delta {
    let rows = (first as u32..delta.num_rows() as u32).step_by(PROCESSES);
    delta.take(&UInt32Array::from_iter_values(rows)).expect("rows below their number")
}

fn risen(before: &Watermarks, now: &Watermarks) -> Vec<Mark> {
    let new = now.iter().filter(|(column, watermark)| before.get(column) != Some(watermark));
    new.map(|(column, watermark)| Mark { column: *column, watermark: *watermark }).collect()
}

/// The subject with nodes below it that stand for its inputs.
fn plan(subject: &Subject) -> StreamPlan {
    let input = |port: usize| PlanNode {
        id: NodeId(port),
        operator: Operator::Union,
        inputs: vec![],
        schema: Arc::clone(&subject.inputs[port]),
        kind: if subject.append[port] { DeltaKind::Append } else { DeltaKind::Retract },
        key: vec![],
        watermarks: vec![],
        path: format!("input{port}"),
    };
    StreamPlan { nodes: (0..subject.inputs.len()).map(input).chain([subject.node.clone()]).collect() }
}

/// A worker's life: the dataflow is built, and then runs one epoch after another until no more are told.
fn run(worker: &mut Worker, plan: &Arc<StreamPlan>, inbox: &Receiver<Step>, outbox: &Sender<Finished>) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let store = open(directory.path()).expect("a store can be opened");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    let shared = Arc::new(Shared::new(PROCESSES, Clock::after(Epoch(0)), runtime.handle().clone()));
    let context = Rc::new(WorkerContext::new(worker.index(), PROCESSES, Arc::clone(&shared), store));
    let job = Arc::new(JobShared::new(ObjectId::FIRST_USER, Arc::clone(plan), PROCESSES, 1 << 30, None));
    let mut local = JobLocal::new(Arc::clone(&job), context, false);
    local.start = Epoch(1);
    let local = Rc::new(local);
    let (entrances, exit) = worker.dataflow(|scope| {
        let subject = plan.root();
        let ways_in: Vec<_> = subject.inputs.iter().map(|edge| (entrance(scope), edge.exchange.clone())).collect();
        let (mut entrances, mut inputs) = (vec![], vec![]);
        for ((entrance, stream), exchange) in ways_in {
            entrances.push(entrance);
            inputs.push(Input { stream, exchange, marks_to_all: false });
        }
        let given = build_node(scope, NodeContext::new(&local, subject), subject, inputs);
        (entrances, exit(scope, given))
    });
    while let Ok(step) = inbox.recv() {
        for (entrance, (rows, marks)) in entrances.iter().zip(step.ports.into_iter().zip(step.marks)) {
            entrance.give(step.epoch, rows, marks, worker.index());
        }
        let started = Instant::now();
        while exit.complete_below.get() <= Epoch(step.epoch) && job.failure().is_none() {
            assert!(started.elapsed() < PATIENCE, "epoch {} does not complete", step.epoch);
            worker.step_or_park(Some(Duration::from_millis(50)));
        }
        let mut reports = Reports::default();
        for error in shared.errors.rows() {
            reports.errors.insert((error.row, error.reason), error.count);
        }
        let figures = &job.figures[plan.root().id.0][worker.index()];
        reports.late = figures.late_rows.load(Ordering::Relaxed);
        reports.unmatched = figures.dropped_retractions.load(Ordering::Relaxed);
        let given = exit.given.take();
        let _ = outbox.send(Finished { given, reports, failure: job.failure() });
    }
    entrances.iter().for_each(|entrance| entrance.close());
    while worker.has_dataflows() {
        worker.step_or_park(Some(Duration::from_millis(50)));
    }
}

/// Where a test's rows and watermarks enter on one worker.
struct EntranceQueue {
    waiting: Rc<RefCell<VecDeque<(u64, Packet)>>>,
    /// The epoch that is open; none once closed.
    open: Rc<Cell<Option<u64>>>,
    activator: timely::scheduling::Activator,
}

impl EntranceQueue {
    fn give(&self, epoch: u64, rows: Vec<Delta>, marks: Vec<Mark>, from: usize) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.extend(rows.into_iter().filter(|delta| !delta.is_empty()).map(|delta| (epoch, Packet::Rows(delta))));
        if !marks.is_empty() {
            waiting.push_back((epoch, Packet::Marks { from, marks, copies: PROCESSES }));
        }
        self.open.set(Some(epoch + 1));
        self.activator.activate();
    }

    fn close(&self) {
        self.open.set(None);
        self.activator.activate();
    }
}

fn entrance<'scope>(scope: Scope<'scope, u64>) -> (EntranceQueue, Packets<'scope>) {
    let mut builder = OperatorBuilder::new("Entrance".into(), scope);
    let activator = scope.activator_for(builder.operator_info().address);
    let (output, stream) = builder.new_output();
    let mut output: OutputBuilder<u64, NoopBuilder<Packet>> = OutputBuilder::from(output);
    let (waiting, open) = (Rc::new(RefCell::new(VecDeque::new())), Rc::new(Cell::new(Some(1))));
    let queue = EntranceQueue { waiting: Rc::clone(&waiting), open: Rc::clone(&open), activator };
    builder.build(move |mut capabilities| {
        let mut capability: Option<Capability<u64>> = capabilities.pop();
        move |_| {
            let Some(held) = capability.as_mut() else { return };
            let mut session = output.activate();
            for (epoch, mut packet) in waiting.borrow_mut().drain(..) {
                session.session_with_builder(&held.delayed(&epoch)).give_container(&mut packet);
            }
            drop(session);
            match open.get() {
                Some(epoch) => held.downgrade(&epoch),
                None => capability = None,
            }
        }
    });
    (queue, stream)
}

/// Where all that the subject gives, on any worker, arrives.
struct Exit {
    given: Rc<RefCell<Vec<Delta>>>,
    complete_below: Rc<Cell<Epoch>>,
}

fn exit<'scope>(scope: Scope<'scope, u64>, stream: Packets<'scope>) -> Exit {
    let mut builder = OperatorBuilder::new("Exit".into(), scope);
    let mut receive: Receive = connect(&mut builder, scope, Input { stream, exchange: Exchange::Single, marks_to_all: false });
    let exit = Exit { given: Rc::default(), complete_below: Rc::new(Cell::new(Epoch(0))) };
    let (given, complete_below) = (Rc::clone(&exit.given), Rc::clone(&exit.complete_below));
    builder.build(move |_| {
        move |frontiers| {
            receive(&mut |_, packet| {
                if let Packet::Rows(delta) | Packet::RowsToAll { delta, .. } = packet {
                    given.borrow_mut().push(delta);
                }
            });
            complete_below.set(frontiers.iter().map(least).min().unwrap_or(Epoch::END));
        }
    });
    exit
}
