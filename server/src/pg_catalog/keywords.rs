//! `pg_get_keywords()`: the words of SQL, with whether they can be names.

use super::types::RESERVED;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::catalog::{TableFunctionImpl, TableProvider};
use datafusion::datasource::MemTable;
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::Expr;
use std::sync::Arc;

/// The table function.
#[derive(Debug)]
pub struct Keywords;

impl TableFunctionImpl for Keywords {
    fn call(&self, _: &[Expr]) -> DataFusionResult<Arc<dyn TableProvider>> {
        let count = RESERVED.len();
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text; count])) };
        let batch = RecordBatch::try_from_iter([
            ("word", Arc::new(StringArray::from(RESERVED.to_vec())) as ArrayRef),
            ("catcode", text("R")),
            ("barelabel", Arc::new(BooleanArray::from(vec![false; count]))),
            ("catdesc", text("reserved")),
            ("baredesc", text("requires AS")),
        ])?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}
