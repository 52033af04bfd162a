//! The first rows of several partitions.
//!
//! DataFusion has each partition keep its own first rows, with a bound that all of them share. Its sorts leave out a column that is
//! constant in each partition, though it differs between them as in `SELECT 2 AS c … UNION ALL SELECT 1 …`; then the bound of one
//! partition drops rows of another that come first.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use std::sync::Arc;

/// One sort, by all columns, takes the first rows of all partitions; where their order is needed further up, each partition is
/// sorted whole.
#[derive(Debug)]
pub(crate) struct FirstRows;

impl PhysicalOptimizerRule for FirstRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| Ok(rewritten(&node).map_or_else(|| Transformed::no(node), Transformed::yes))).data()
    }

    fn name(&self) -> &str {
        "first_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn rewritten(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    if let Some(merge) = node.as_any().downcast_ref::<SortPreservingMergeExec>() {
        let sort = shared(merge.input())?;
        let whole = Arc::new(CoalescePartitionsExec::new(Arc::clone(sort.input())));
        return Some(Arc::new(SortExec::new(merge.expr().clone(), whole).with_fetch(merge.fetch().or(sort.fetch()))));
    }
    let sort = shared(node)?;
    let rows = sort.fetch()?;
    Some(Arc::new(LocalLimitExec::new(Arc::new(sort.with_fetch(None)), rows)))
}

/// The sort that a node is, if it keeps first rows of several partitions.
fn shared(node: &Arc<dyn ExecutionPlan>) -> Option<&SortExec> {
    node.as_any().downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some() && sort.preserve_partitioning())
}
