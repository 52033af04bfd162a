//! Queries run on threads of their own: one that computes for long without giving way must not keep connections from being
//! served, nor its own client from cancelling it.

use crate::database::query::run_error;
use arrow::array::RecordBatch;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::channel::mpsc;
use futures::{SinkExt, Stream, StreamExt};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use thalweg_catalog::{SqlError, SqlResult};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// How many batches may wait for the client.
const WAITING_BATCHES_MAX: usize = 2;

/// The threads. Made at the first query, and there until the process ends.
static THREADS: LazyLock<std::io::Result<Runtime>> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().thread_name("query").enable_all().build());

/// The result of a plan as it is made. Dropping it stops the plan where it next gives way.
pub struct Producer {
    batches: mpsc::Receiver<SqlResult<RecordBatch>>,
    task: Option<JoinHandle<()>>,
}

impl Producer {
    /// Starts a plan.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub fn start(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> SqlResult<Producer> {
        let threads = THREADS.as_ref().map_err(|e| SqlError::internal(format!("there are no threads for queries: {e}")))?;
        let (sender, batches) = mpsc::channel(WAITING_BATCHES_MAX);
        Ok(Producer { batches, task: Some(threads.spawn(produce(plan, context, sender))) })
    }
}

async fn produce(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>, mut sender: mpsc::Sender<SqlResult<RecordBatch>>) {
    let mut batches = match execute_stream(plan, context) {
        Ok(batches) => batches,
        Err(error) => {
            // Nobody may be waiting any more, and then nobody need know.
            let _ = sender.send(Err(run_error(&error))).await;
            return;
        }
    };
    while let Some(batch) = batches.next().await {
        if sender.send(batch.map_err(|e| run_error(&e))).await.is_err() {
            return;
        }
    }
}

impl Stream for Producer {
    type Item = SqlResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(batch) = ready!(self.batches.poll_next_unpin(context)) {
            return Poll::Ready(Some(batch));
        }
        // A task that panicked has sent nothing of it, and its result is not whole.
        let Some(task) = &mut self.task else { return Poll::Ready(None) };
        let ended = ready!(Pin::new(task).poll(context));
        self.task = None;
        Poll::Ready(ended.err().map(|e| Err(SqlError::internal(format!("a query ended early: {e}")))))
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
