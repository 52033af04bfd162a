//! A bounded source as a DataFusion table: read to its end, for a query that asks for it.

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, project_schema};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness as PlanBoundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{CatalogObject, SqlError, SqlResult};
use thalweg_connectors::{Boundedness, ConnectorError, SourceConnector, SourceContext, SourceEvent, registry};

/// How long a read waits before it looks whether anybody still wants rows.
const READ_WAIT: Duration = Duration::from_millis(200);

/// A bounded source in one statement. Records that can't be read are left out.
pub struct BoundedSource {
    object: Arc<CatalogObject>,
    schema: SchemaRef,
    connector: Arc<dyn SourceConnector>,
}

impl BoundedSource {
    /// The source that is read.
    pub fn object(&self) -> &CatalogObject {
        &self.object
    }

    /// The source.
    ///
    /// # Errors
    /// `0A000` for one that never ends.
    pub fn new(object: Arc<CatalogObject>) -> SqlResult<BoundedSource> {
        let spec = object.connector().ok_or_else(|| SqlError::internal("a source has no connector"))?;
        let connector = registry::source(spec, &object.columns)?;
        if connector.boundedness() == Boundedness::Unbounded {
            return Err(SqlError::unsupported(format!("source \"{}\" never ends, so it can't be read to its end", object.name))
                .with_hint("Create a materialized view over it and read that, or SUBSCRIBE to the view."));
        }
        Ok(BoundedSource { schema: object.arrow_schema(), object, connector })
    }
}

impl fmt::Debug for BoundedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundedSource({})", self.object.name)
    }
}

#[async_trait]
impl TableProvider for BoundedSource {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = project_schema(&self.schema, projection)?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            PlanBoundedness::Bounded,
        );
        Ok(Arc::new(SourceScan {
            object: Arc::clone(&self.object),
            connector: Arc::clone(&self.connector),
            columns: projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect()),
            schema,
            properties: Arc::new(properties),
        }))
    }
}

struct SourceScan {
    object: Arc<CatalogObject>,
    connector: Arc<dyn SourceConnector>,
    columns: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl fmt::Debug for SourceScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceScan({})", self.object.name)
    }
}

impl DisplayAs for SourceScan {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SourceScan: source={}", self.object.name)
    }
}

impl ExecutionPlan for SourceScan {
    fn name(&self) -> &str {
        "SourceScan"
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

    fn execute(&self, _partition: usize, _context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut builder = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), 2);
        let sender = builder.tx();
        let connector = Arc::clone(&self.connector);
        let context = SourceContext {
            name: self.object.name.clone(),
            job: "query".into(),
            columns: self.object.columns.clone(),
            projection: self.columns.clone(),
            time: None,
            runtime: tokio::runtime::Handle::current(),
        };
        builder.spawn(async move {
            let failed = |e: ConnectorError| DataFusionError::External(Box::new(e));
            let splits = connector.splits().await.map_err(failed)?;
            let mut left = splits.len();
            let mut reader = connector.reader(context).map_err(failed)?;
            let reading = tokio::task::spawn_blocking(move || {
                reader.assign(splits.into_iter().map(|split| (split, None)).collect()).map_err(failed)?;
                while left > 0 {
                    match reader.next(READ_WAIT).map_err(failed)? {
                        SourceEvent::Rows(rows) => {
                            if sender.blocking_send(Ok(rows.batch)).is_err() {
                                break;
                            }
                        }
                        SourceEvent::SplitEnd { .. } => left -= 1,
                        SourceEvent::Idle if sender.is_closed() => break,
                        SourceEvent::Idle => {}
                    }
                }
                Ok(())
            });
            reading.await.map_err(|e| DataFusionError::Execution(format!("reading a source panicked: {e}")))?
        });
        Ok(builder.build())
    }
}
