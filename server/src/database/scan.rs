//! Kept relations as DataFusion tables: rows of tables and materialized views at one epoch, on top of what the session's own
//! transaction has written to them.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraints, DataFusionError, Result, ScalarValue, project_schema};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, Delta, ObjectId};
use thalweg_executor::Reading;
use thalweg_planner::relation::key_constraints;
use thalweg_storage::state::{RowCodec, ViewHold};

/// Batches that a scan reads ahead.
const READ_AHEAD: usize = 2;

/// What the relations of one statement share: the epoch that they are read at, once that is known.
#[derive(Default)]
pub struct StatementRelations {
    wanted: Mutex<Vec<ObjectId>>,
    reading: Mutex<Option<Arc<Reading>>>,
    /// What the transaction has written and not committed.
    written: BTreeMap<ObjectId, Vec<Delta>>,
}

impl fmt::Debug for StatementRelations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementRelations").field("wanted", &self.wanted.lock()).finish_non_exhaustive()
    }
}

impl StatementRelations {
    /// For a statement in a transaction that has written this.
    pub fn new(written: BTreeMap<ObjectId, Vec<Delta>>) -> StatementRelations {
        StatementRelations { written, ..StatementRelations::default() }
    }

    /// The relations that the statement's plan has named.
    pub fn wanted(&self) -> Vec<ObjectId> {
        let mut wanted = self.wanted.lock().clone();
        wanted.sort();
        wanted.dedup();
        wanted
    }

    /// Sets what is read.
    pub fn set_reading(&self, reading: Reading) {
        *self.reading.lock() = Some(Arc::new(reading));
    }

    fn reading(&self) -> Result<Arc<Reading>> {
        self.reading
            .lock()
            .clone()
            .ok_or_else(|| DataFusionError::Internal("a relation was scanned before its epoch was chosen".into()))
    }
}

/// A table or materialized view in one statement.
#[derive(Debug)]
pub struct KeptRelation {
    object: Arc<CatalogObject>,
    schema: SchemaRef,
    constraints: Constraints,
    statement: Arc<StatementRelations>,
}

impl KeptRelation {
    /// The relation that is read.
    pub fn object(&self) -> &CatalogObject {
        &self.object
    }

    /// The relation, which the statement then reads.
    pub fn new(object: Arc<CatalogObject>, statement: Arc<StatementRelations>) -> KeptRelation {
        statement.wanted.lock().push(object.id);
        KeptRelation { schema: object.arrow_schema(), constraints: key_constraints(&object), object, statement }
    }

    /// The one value of each key column that these filters allow, if they allow just one.
    fn key_of(&self, filters: &[Expr]) -> Option<Vec<ArrayRef>> {
        let key = self.object.key();
        if key.is_empty() || self.statement.written.contains_key(&self.object.id) {
            return None;
        }
        let value = |column: &usize| {
            let field = self.schema.field(*column);
            let value = filters.iter().find_map(|filter| equality(filter, field.name()))?;
            value.cast_to(field.data_type()).ok()?.to_array().ok()
        };
        key.iter().map(value).collect()
    }
}

/// The literal that a filter says a column is equal to.
fn equality<'a>(filter: &'a Expr, column: &str) -> Option<&'a ScalarValue> {
    let Expr::BinaryExpr(binary) = filter else { return None };
    if binary.op != Operator::Eq {
        return None;
    }
    match (binary.left.as_ref(), binary.right.as_ref()) {
        (Expr::Column(c), Expr::Literal(value, _)) | (Expr::Literal(value, _), Expr::Column(c))
            if c.name == column && !value.is_null() =>
        {
            Some(value)
        }
        _ => None,
    }
}

#[async_trait]
impl TableProvider for KeptRelation {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let keys: Vec<&str> = self.object.key().iter().map(|c| self.object.columns[*c].name.as_str()).collect();
        let of = |filter: &&Expr| match keys.iter().any(|key| equality(filter, key).is_some()) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let schema = project_schema(&self.schema, projection)?;
        let written = self.statement.written.get(&self.object.id).cloned();
        Ok(Arc::new(KeptScan::new(KeptRows {
            name: self.object.name.clone(),
            id: self.object.id,
            reading: self.statement.reading()?,
            key: self.key_of(filters),
            all: Arc::clone(&self.schema),
            schema,
            columns,
            written,
        })))
    }
}

/// What a scan gives.
#[derive(Clone)]
struct KeptRows {
    name: String,
    id: ObjectId,
    reading: Arc<Reading>,
    /// The one key that is looked up; none for all rows.
    key: Option<Vec<ArrayRef>>,
    all: SchemaRef,
    schema: SchemaRef,
    columns: Vec<usize>,
    written: Option<Vec<Delta>>,
}

impl KeptRows {
    fn holds(&self) -> &[ViewHold] {
        self.reading.relations.get(&self.id).map_or(&[], Vec::as_slice)
    }

    /// Sends the rows of one worker's share.
    fn send(&self, worker: usize, send: &dyn Fn(Result<RecordBatch>) -> bool) {
        let Some(hold) = self.holds().get(worker) else { return };
        let stored = |e: thalweg_storage::StorageError| DataFusionError::External(Box::new(e));
        if let Some(key) = &self.key {
            send(hold.get(key, &self.columns).map_err(stored));
            return;
        }
        for batch in hold.scan(&self.columns) {
            if !send(batch.map_err(stored)) {
                return;
            }
        }
    }

    /// All rows with what the transaction has written to them.
    fn merged(&self, written: &[Delta]) -> Result<Vec<RecordBatch>> {
        let every: Vec<usize> = (0..self.all.fields().len()).collect();
        let mut deltas = vec![];
        for hold in self.holds() {
            for batch in hold.scan(&every) {
                deltas.push(Delta::inserts(batch.map_err(|e| DataFusionError::External(Box::new(e)))?));
            }
        }
        deltas.extend(written.iter().cloned());
        let all = Delta::concat(&self.all, &deltas)?;
        Ok(vec![net_rows(&all).map_err(|e| DataFusionError::External(Box::new(e)))?.project(&self.columns)?])
    }
}

/// The rows that remain of a collection of changes, each as often as its weights add up to.
pub fn net_rows(delta: &Delta) -> thalweg_storage::StorageResult<RecordBatch> {
    let fields: Vec<_> = delta.schema().fields().iter().map(|f| f.as_ref().clone()).collect();
    let rows = RowCodec::new(&fields)?.encode(delta.batch().columns(), delta.num_rows())?;
    let mut left: HashMap<&[u8], i64> = HashMap::new();
    for row in 0..delta.num_rows() {
        *left.entry(rows.row(row)).or_default() += delta.weight(row);
    }
    let mut keep = Vec::with_capacity(delta.num_rows());
    for row in 0..delta.num_rows() {
        let copies = left.get_mut(rows.row(row));
        keep.push(copies.is_some_and(|n| {
            let kept = delta.weight(row) > 0 && *n > 0;
            *n -= i64::from(kept);
            kept
        }));
    }
    Ok(filter_record_batch(delta.batch(), &BooleanArray::from(keep))?)
}

/// Reads a kept relation: a partition for each worker's share.
pub struct KeptScan {
    rows: Arc<KeptRows>,
    properties: Arc<PlanProperties>,
}

impl KeptScan {
    fn new(rows: KeptRows) -> KeptScan {
        let partitions = if rows.written.is_some() { 1 } else { rows.holds().len().max(1) };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&rows.schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        KeptScan { rows: Arc::new(rows), properties: Arc::new(properties) }
    }
}

impl fmt::Debug for KeptScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptScan({})", self.rows.name)
    }
}

impl DisplayAs for KeptScan {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.rows.key.is_some() { "lookup" } else { "scan" };
        write!(f, "KeptScan: relation={}, {how}", self.rows.name)
    }
}

impl ExecutionPlan for KeptScan {
    fn name(&self) -> &str {
        "KeptScan"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn with_new_children(self: Arc<Self>, _children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.rows.schema), READ_AHEAD);
        let sender = builder.tx();
        let rows = Arc::clone(&self.rows);
        // Reading blocks on disk.
        builder.spawn_blocking(move || {
            let send = |batch: Result<RecordBatch>| sender.blocking_send(batch).is_ok();
            match &rows.written {
                None => rows.send(partition, &send),
                Some(written) => match rows.merged(written) {
                    Ok(batches) => {
                        // Nobody may want the rest.
                        let _ = batches.into_iter().all(|batch| send(Ok(batch)));
                    }
                    Err(error) => {
                        let _ = send(Err(error));
                    }
                },
            }
            Ok(())
        });
        Ok(builder.build())
    }
}
