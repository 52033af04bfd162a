//! Runs one operator on a script: deltas written as small tables, what it gives, and what that adds up to.
//!
//! A script has a command on each line:
//!
//! - `+ 1 a` inserts a row on port 0, `-` deletes one, `+3` and `-2` carry weights; `r+ 1 a` and `r- 1 a` are for port 1;
//! - `watermark 0 ts 50` sets a watermark on a column of a port;
//! - `epoch` ends the epoch: the lines after it that begin with `=` are what the operator must have given, netted and sorted;
//! - `applied`: the lines after it are what all epochs add up to;
//! - `errors`: the lines after it are the row errors that stand; `dropped`: how many rows were dropped, and why.
//!
//! [`check`] runs the script with 1, 2 and 4 workers, once with a restart from stored state after each epoch, once with all
//! state evicted after each epoch, and once in two processes over loopback: the results must be the same. A row that is given and taken back in one epoch is a fault,
//! unless the subject allows it.

use crate::dataflow::testing::{Apart, is_second};
use crate::error::OperatorError;
use crate::operator::{Dropped, EpochInput, Output, Progress, RowErrors, Watermark, Watermarks};
use crate::operators::{Built, Context, build};
use arrow::array::{Array, ArrayRef, Int64Array, ListBuilder, PrimitiveBuilder, RecordBatch, StringArray, UInt32Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit};
use arrow::util::display::array_value_to_string;
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;
use tempfile::TempDir;
use thalweg_catalog::hash::hash_columns;
use thalweg_catalog::{Delta, Epoch, VNode, WorkerIndex};
use thalweg_plan::{DeltaKind, Edge, Exchange, NodeId, Operator, PlanNode};
use thalweg_storage::state::OperatorState;
use thalweg_storage::state::testing::operator_state;

/// An operator under test.
pub(crate) struct Subject {
    pub node: PlanNode,
    pub inputs: Vec<SchemaRef>,
    pub append: Vec<bool>,
    /// Whether it may give a row and take it back in one epoch.
    pub churns: bool,
}

impl Subject {
    /// An operator whose inputs retract and are spread by these columns; none for all on one worker.
    pub fn new(operator: Operator, inputs: &[(&str, &[usize])], output: &str) -> Subject {
        let exchange = |columns: &[usize]| if columns.is_empty() { Exchange::Single } else { Exchange::Hash(columns.to_vec()) };
        let edges = inputs.iter().enumerate().map(|(port, (_, by))| Edge { from: NodeId(port), exchange: exchange(by) });
        let node = PlanNode {
            id: NodeId(inputs.len()),
            operator,
            inputs: edges.collect(),
            schema: schema(output),
            kind: DeltaKind::Retract,
            key: Vec::new(),
            watermarks: Vec::new(),
            path: "subject".into(),
        };
        let schemas = inputs.iter().map(|(text, _)| schema(text)).collect();
        Subject { node, inputs: schemas, append: vec![false; inputs.len()], churns: false }
    }

    /// The same with inputs that never retract.
    pub fn append(mut self) -> Subject {
        self.append = vec![true; self.inputs.len()];
        self
    }

    /// The same, allowed to give a row and take it back in one epoch: pairs of a join of which both sides change.
    pub fn churning(mut self) -> Subject {
        self.churns = true;
        self
    }
}

/// A schema from text: `id:int8 name:text`. All columns can be NULL.
pub(crate) fn schema(text: &str) -> SchemaRef {
    let field = |part: &str| {
        let (name, kind) = part.split_once(':').expect("a column is written name:type");
        Field::new(name, data_type(kind), true)
    };
    Arc::new(Schema::new(text.split_whitespace().map(field).collect::<Vec<_>>()))
}

fn data_type(kind: &str) -> DataType {
    match kind {
        "int8" => DataType::Int64,
        "int4" => DataType::Int32,
        "text" => DataType::Utf8,
        "float8" => DataType::Float64,
        "bool" => DataType::Boolean,
        "date" => DataType::Date32,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "int8[]" => DataType::List(Arc::new(Field::new("item", DataType::Int64, true))),
        other => match other.strip_prefix("numeric").and_then(|p| p.split_once('_')) {
            Some((precision, scale)) => {
                DataType::Decimal128(precision.parse().expect("a precision"), scale.parse().expect("a scale"))
            }
            None => panic!("no such type: {other}"),
        },
    }
}

/// A batch from rows of texts. `null` is NULL; timestamps are in microseconds.
pub(crate) fn batch(schema: &SchemaRef, rows: &[Vec<&str>]) -> RecordBatch {
    let columns = schema.fields().iter().enumerate().map(|(place, field)| column(field.data_type(), rows, place));
    RecordBatch::try_new(Arc::clone(schema), columns.collect()).expect("the rows are of the schema")
}

fn column(data_type: &DataType, rows: &[Vec<&str>], place: usize) -> ArrayRef {
    let texts = rows.iter().map(|row| Some(row[place]).filter(|t| *t != "null"));
    if let DataType::List(_) = data_type {
        let mut lists = ListBuilder::new(PrimitiveBuilder::<Int64Type>::new());
        for text in texts {
            if let Some(items) = text.map(|t| t.trim_matches(['[', ']'])) {
                items.split(',').filter(|i| !i.is_empty()).for_each(|i| lists.values().append_option(i.parse().ok()));
            }
            lists.append(text.is_some());
        }
        return Arc::new(lists.finish());
    }
    let texts: ArrayRef = Arc::new(texts.collect::<StringArray>());
    let parsed = match data_type {
        DataType::Timestamp(_, _) => cast(&texts, &DataType::Int64).expect("a timestamp is written as a number"),
        _ => texts,
    };
    let typed = cast(&parsed, data_type).expect("values are of the column's type");
    assert_eq!(typed.null_count(), parsed.null_count(), "every value is of the column's type");
    typed
}

/// A row as text; the reverse of what [`batch`] reads.
pub(crate) fn row_text(batch: &RecordBatch, row: usize) -> String {
    let value = |column: &ArrayRef| {
        if column.is_null(row) {
            return "null".to_string();
        }
        let shown = match column.data_type() {
            DataType::Timestamp(_, _) => cast(column, &DataType::Int64).expect("a timestamp is a number"),
            _ => Arc::clone(column),
        };
        array_value_to_string(&shown, row).expect("every value can be shown")
    };
    batch.columns().iter().map(value).collect::<Vec<_>>().join(" ")
}

/// What was reported.
#[derive(Default)]
pub(crate) struct Reports {
    pub errors: BTreeMap<(String, String), i64>,
    pub late: u64,
    pub unmatched: u64,
}

impl Reports {
    pub fn add(&mut self, other: Reports) {
        other.errors.iter().for_each(|((row, reason), weight)| self.report(row, reason, *weight));
        self.late += other.late;
        self.unmatched += other.unmatched;
    }
}

impl RowErrors for Reports {
    fn report(&mut self, row: &str, reason: &str, weight: i64) {
        *self.errors.entry((row.to_string(), reason.to_string())).or_default() += weight;
        self.errors.retain(|_, weight| *weight != 0);
    }

    fn dropped(&mut self, why: Dropped, rows: u64) {
        match why {
            Dropped::Late => self.late += rows,
            Dropped::Unmatched => self.unmatched += rows,
        }
    }
}

/// How a subject is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub workers: usize,
    /// They are in as many processes.
    pub apart: bool,
    /// State is stored, closed and opened again after each epoch.
    pub restarts: bool,
    /// State is evicted from memory after each epoch.
    pub evicts: bool,
}

impl Mode {
    /// One worker, in memory.
    pub const ONE: Mode = Mode { workers: 1, apart: false, restarts: false, evicts: false };

    /// Every way; in the second process of a test that which needs it.
    pub fn all() -> Vec<Mode> {
        let apart = Mode { workers: 2, apart: true, ..Mode::ONE };
        if is_second() {
            return vec![apart];
        }
        vec![
            Mode::ONE,
            Mode { workers: 2, ..Mode::ONE },
            Mode { workers: 4, ..Mode::ONE },
            Mode { workers: 2, restarts: true, ..Mode::ONE },
            Mode { evicts: true, ..Mode::ONE },
            apart,
        ]
    }
}

/// Rows with their net weights.
pub(crate) type Collection = BTreeMap<String, i64>;

/// A subject being run.
pub(crate) struct Rig<'a> {
    subject: &'a Subject,
    mode: Mode,
    host: Host,
    epoch: u64,
    pub watermarks: Vec<Watermarks>,
    reports: Rc<RefCell<Reports>>,
    pub applied: Collection,
    /// The most rows that one step has given.
    pub largest: usize,
}

/// Where it runs.
enum Host {
    /// In this thread.
    Here(Vec<Instance>),
    /// In two processes.
    Apart(Apart),
}

struct Instance {
    // Dropped before the directory in which its store lies.
    running: Option<(Built, OperatorState)>,
    directory: TempDir,
}

impl<'a> Rig<'a> {
    pub fn new(subject: &'a Subject, mode: Mode) -> Rig<'a> {
        let reports = Rc::new(RefCell::new(Reports::default()));
        let make = |worker| {
            let directory = tempfile::tempdir().expect("a directory can be made");
            let running = Some(open(subject, &directory, worker, &reports).expect("the plan is valid"));
            Instance { running, directory }
        };
        let host = match mode.apart {
            true => Host::Apart(Apart::new(subject)),
            false => Host::Here((0..mode.workers).map(make).collect()),
        };
        let watermarks = vec![Watermarks::new(); subject.inputs.len()];
        Rig { subject, mode, host, epoch: 0, watermarks, reports, applied: Collection::new(), largest: 0 }
    }

    /// Runs an epoch. What it gives, netted.
    pub fn epoch(&mut self, ports: Vec<Vec<Delta>>) -> Result<Collection, OperatorError> {
        self.epoch += 1;
        let given = match &mut self.host {
            Host::Apart(apart) => {
                let (given, reports) = apart.epoch(self.epoch, &ports, &self.watermarks);
                *self.reports.borrow_mut() = reports;
                given
            }
            Host::Here(_) => self.epoch_here(&ports)?,
        };
        let (mut net, mut churn) = (Collection::new(), BTreeMap::<String, (bool, bool)>::new());
        for (text, weight) in given {
            assert_ne!(weight, 0, "no row of weight 0 is given: {text}");
            let signs = churn.entry(text.clone()).or_default();
            *signs = (signs.0 || weight > 0, signs.1 || weight < 0);
            *net.entry(text).or_default() += weight;
        }
        if !self.subject.churns {
            let churned: Vec<_> = churn.iter().filter(|(_, signs)| **signs == (true, true)).collect();
            assert!(churned.is_empty(), "given and taken back in one epoch: {churned:?}");
        }
        net.retain(|_, weight| *weight != 0);
        for (row, weight) in &net {
            *self.applied.entry(row.clone()).or_default() += weight;
        }
        self.applied.retain(|_, weight| *weight != 0);
        Ok(net)
    }

    fn epoch_here(&mut self, ports: &[Vec<Delta>]) -> Result<Vec<(String, i64)>, OperatorError> {
        let mut given = Vec::new();
        for worker in 0..self.mode.workers {
            let share = self.share(ports, worker);
            for delta in self.drive(worker, share)? {
                assert_eq!(delta.schema(), self.subject.node.schema, "it gives what its plan says");
                given.extend((0..delta.num_rows()).map(|row| (row_text(delta.batch(), row), delta.weight(row))));
            }
        }
        self.between_epochs();
        Ok(given)
    }

    /// The rows of each port that go to a worker.
    fn share(&self, ports: &[Vec<Delta>], worker: usize) -> Vec<Vec<Delta>> {
        let edges = &self.subject.node.inputs;
        ports.iter().zip(edges).map(|(deltas, edge)| deltas.iter().map(|d| self.routed(d, edge, worker)).collect()).collect()
    }

    fn routed(&self, delta: &Delta, edge: &Edge, worker: usize) -> Delta {
        let Exchange::Hash(columns) = &edge.exchange else {
            let all_here = edge.exchange == Exchange::Broadcast || worker == 0;
            return if all_here { delta.clone() } else { delta.slice(0, 0) };
        };
        let columns: Vec<ArrayRef> = columns.iter().map(|c| Arc::clone(delta.batch().column(*c))).collect();
        let hashes = hash_columns(&columns, delta.num_rows()).expect("keys can be hashed");
        let here = |hash: &u64| VNode::of_hash(*hash).worker(self.mode.workers) == WorkerIndex(worker);
        let rows = (0..delta.num_rows()).filter(|row| here(&hashes[*row])).map(|row| row as u32);
        delta.take(&UInt32Array::from_iter_values(rows)).expect("rows can be taken")
    }

    fn drive(&mut self, worker: usize, ports: Vec<Vec<Delta>>) -> Result<Vec<Delta>, OperatorError> {
        let Host::Here(instances) = &mut self.host else { unreachable!("it runs in two processes") };
        let (built, _) = instances[worker].running.as_mut().expect("every worker runs");
        let mut given = Vec::new();
        match built {
            Built::Transform(transform) => {
                for delta in ports.into_iter().flatten() {
                    given.extend(transform.apply(delta)?);
                }
            }
            Built::Operator { operator, starts } => {
                let has_rows = ports.iter().flatten().any(|d| !d.is_empty());
                if !has_rows && !std::mem::take(starts) && self.watermarks.iter().all(Watermarks::is_empty) {
                    return Ok(given);
                }
                *starts = false;
                operator.begin(EpochInput { epoch: Epoch(self.epoch), ports, watermarks: self.watermarks.clone() })?;
                let mut output = Output::default();
                loop {
                    let progress = operator.step(&mut output)?;
                    let piece = output.take();
                    self.largest = self.largest.max(piece.iter().map(Delta::num_rows).sum());
                    given.extend(piece);
                    if progress == Progress::Done {
                        break;
                    }
                }
            }
        }
        Ok(given)
    }

    fn between_epochs(&mut self) {
        let Host::Here(instances) = &mut self.host else { return };
        for (worker, instance) in instances.iter_mut().enumerate() {
            if self.mode.evicts {
                let (_, state) = instance.running.as_ref().expect("every worker runs");
                state.shrink(0).expect("state can be evicted");
            }
            if self.mode.restarts {
                let (built, state) = instance.running.take().expect("every worker runs");
                state.flush().expect("state can be stored");
                drop((built, state));
                let opened = open(self.subject, &instance.directory, worker, &self.reports);
                let (mut built, state) = opened.expect("stored state can be opened");
                if let Built::Operator { starts, .. } = &mut built {
                    // The first epoch of the job is over.
                    *starts = false;
                }
                instance.running = Some((built, state));
            }
        }
    }

    pub fn errors(&self) -> Vec<String> {
        let line = |((row, reason), weight): (&(String, String), &i64)| format!("{weight:+} {row}: {reason}");
        self.reports.borrow().errors.iter().map(line).collect()
    }

    fn dropped(&self) -> String {
        let reports = self.reports.borrow();
        format!("late {} unmatched {}", reports.late, reports.unmatched)
    }
}

fn open(
    subject: &Subject,
    directory: &TempDir,
    worker: usize,
    reports: &Rc<RefCell<Reports>>,
) -> Result<(Built, OperatorState), OperatorError> {
    let state = operator_state(directory.path())?;
    let errors = Rc::clone(reports) as Rc<RefCell<dyn RowErrors>>;
    let context = Context { state: state.clone(), errors, worker: WorkerIndex(worker) };
    Ok((build(&subject.node, &subject.inputs, &subject.append, context)?, state))
}

/// Runs the script in every mode: its lines that begin with `=` must be what the operator gives.
pub(crate) fn check(subject: &Subject, script: &str) {
    let script: String = script.lines().map(str::trim).filter(|l| !l.is_empty()).map(|l| format!("{l}\n")).collect();
    for mode in Mode::all() {
        let happened = run(subject, &script, mode);
        assert!(happened == script, "with {mode:?} it should be:\n{script}\nbut it was:\n{happened}");
    }
}

/// The script with what the operator gave.
fn run(subject: &Subject, script: &str, mode: Mode) -> String {
    let mut rig = Rig::new(subject, mode);
    let mut ports = vec![Vec::new(); subject.inputs.len()];
    let mut happened = String::new();
    for line in script.lines().filter(|l| !l.starts_with('=')) {
        writeln!(happened, "{line}").expect("a string takes all");
        let shown = match line.split_whitespace().next().unwrap_or_default() {
            "watermark" => {
                set_watermark(&mut rig, line);
                Vec::new()
            }
            "epoch" => {
                let deltas = std::mem::take(&mut ports);
                ports = vec![Vec::new(); subject.inputs.len()];
                lines(&rig.epoch(deltas).expect("the epoch runs"))
            }
            "applied" => lines(&rig.applied),
            "errors" => rig.errors(),
            "dropped" => vec![rig.dropped()],
            _ => {
                let (port, delta) = parse_row(subject, line);
                ports[port].push(delta);
                Vec::new()
            }
        };
        for line in shown {
            writeln!(happened, "= {line}").expect("a string takes all");
        }
    }
    happened
}

fn lines(rows: &Collection) -> Vec<String> {
    let weight = |weight: &i64| match weight {
        1 => "+".to_string(),
        -1 => "-".to_string(),
        more => format!("{more:+}"),
    };
    rows.iter().map(|(row, w)| format!("{} {row}", weight(w))).collect()
}

fn set_watermark(rig: &mut Rig<'_>, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, port, column, value] = words.as_slice() else { panic!("a watermark has a port, a column and a value: {line}") };
    let port: usize = port.parse().expect("a port is a number");
    let column = rig.subject.inputs[port].index_of(column).expect("there is such a column");
    let value = if *value == "end" { i64::MAX } else { value.parse().expect("a watermark is a number") };
    rig.watermarks[port].insert(column, Watermark { value, idle: false });
}

fn parse_row(subject: &Subject, line: &str) -> (usize, Delta) {
    let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
    let (port, sign) = sign.strip_prefix('r').map_or((0, sign), |sign| (1, sign));
    let weight = match sign {
        "+" => 1,
        "-" => -1,
        other => other.parse().unwrap_or_else(|_| panic!("not a command: {line}")),
    };
    let batch = batch(&subject.inputs[port], &[rest.split_whitespace().collect()]);
    (port, weighted(batch, &[weight]))
}

/// Inserts without weights, so that the paths for append-only inputs are tested too.
pub(crate) fn weighted(batch: RecordBatch, weights: &[i64]) -> Delta {
    if weights.iter().all(|w| *w == 1) {
        Delta::inserts(batch)
    } else {
        Delta::weighted(batch, Int64Array::from(weights.to_vec()))
    }
}

/// An expression over these columns, from SQL.
pub(crate) fn expr(schema: &Schema, sql: &str) -> Arc<dyn PhysicalExpr> {
    let context = SessionContext::new();
    let columns = DFSchema::try_from(schema.clone()).expect("column names differ");
    let bound = context.parse_sql_expr(sql, &columns).expect("it is an expression over the columns");
    context.create_physical_expr(bound, &columns).expect("it can be computed")
}

/// What a query gives over these tables, each of a schema and rows with their numbers of copies.
pub(crate) fn oracle(tables: &[(&str, &SchemaRef, &Collection)], sql: &str) -> Collection {
    let context = SessionContext::new();
    for (name, schema, rows) in tables {
        let copies = rows.iter().flat_map(|(row, count)| {
            assert!(*count > 0, "a table has no row {count} times");
            std::iter::repeat_n(row.split(' ').collect::<Vec<_>>(), *count as usize)
        });
        let all = batch(schema, &copies.collect::<Vec<_>>());
        context.register_batch(name, all).expect("names differ");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime can be made");
    let result = runtime.block_on(async { context.sql(sql).await?.collect().await });
    let mut collection = Collection::new();
    for batch in result.unwrap_or_else(|error| panic!("the oracle can't run {sql}: {error}")) {
        for row in 0..batch.num_rows() {
            *collection.entry(row_text(&batch, row)).or_default() += 1;
        }
    }
    collection
}

/// A source of random numbers that gives the same for the same seed.
pub(crate) struct Seeded(StdRng);

/// The numbers of this seed.
pub(crate) fn seeded(seed: u64) -> Seeded {
    Seeded(StdRng::seed_from_u64(seed))
}

impl Seeded {
    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    /// `count` different ones of `all`, in order.
    pub fn pick<'a, T>(&mut self, all: &'a [T], count: usize) -> Vec<&'a T> {
        let mut places: Vec<usize> = (0..all.len()).collect();
        while places.len() > count {
            let gone = self.below(places.len());
            places.remove(gone);
        }
        places.into_iter().map(|place| &all[place]).collect()
    }

    fn value(&mut self, data_type: &DataType) -> String {
        if self.below(6) == 0 {
            return "null".into();
        }
        let number = self.below(5);
        match data_type {
            DataType::Utf8 => ["a", "b", "c", "dd", "e"][number].into(),
            DataType::Boolean => number.is_multiple_of(2).to_string(),
            DataType::Decimal128(_, 2) => format!("{number}.{}5", number * 2 % 10),
            _ => number.to_string(),
        }
    }
}

/// A table with few different values that is changed at random.
pub(crate) struct RandomTable {
    schema: SchemaRef,
    deletes: bool,
    pub rows: Collection,
}

impl RandomTable {
    pub fn new(schema: &SchemaRef, deletes: bool) -> RandomTable {
        RandomTable { schema: Arc::clone(schema), deletes, rows: Collection::new() }
    }

    /// The changes of an epoch: inserts, deletes of rows that are there, and now and then of all; in one or more deltas, in no
    /// order.
    pub fn change(&mut self, random: &mut Seeded) -> Vec<Delta> {
        let mut changes: Vec<(String, i64)> = Vec::new();
        let deletes_all = self.deletes && random.below(8) == 0;
        for _ in 0..random.below(30) {
            let there: Vec<&String> = self.rows.keys().collect();
            let (row, weight) = if self.deletes && !there.is_empty() && random.below(2) == 0 {
                let row = there[random.below(there.len())].clone();
                let count = self.rows[&row];
                (row, -(1 + random.below(count as usize) as i64))
            } else {
                let values: Vec<String> = self.schema.fields().iter().map(|f| random.value(f.data_type())).collect();
                (values.join(" "), 1 + i64::from(self.deletes && random.below(5) == 0))
            };
            self.apply(row, weight, &mut changes);
        }
        if deletes_all {
            for (row, count) in self.rows.clone() {
                self.apply(row, -count, &mut changes);
            }
        }
        let mut deltas = Vec::new();
        while !changes.is_empty() {
            let taken: Vec<(String, i64)> =
                (0..changes.len().min(1 + random.below(12))).map(|_| changes.swap_remove(random.below(changes.len()))).collect();
            let rows: Vec<Vec<&str>> = taken.iter().map(|(row, _)| row.split(' ').collect()).collect();
            let weights: Vec<i64> = taken.iter().map(|(_, weight)| *weight).collect();
            deltas.push(weighted(batch(&self.schema, &rows), &weights));
        }
        deltas
    }

    fn apply(&mut self, row: String, weight: i64, changes: &mut Vec<(String, i64)>) {
        *self.rows.entry(row.clone()).or_default() += weight;
        self.rows.retain(|_, count| *count != 0);
        changes.push((row, weight));
    }
}
