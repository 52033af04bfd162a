//! The source connector.

use super::options::DatagenOptions;
use super::values::Rule;
use crate::decode::BATCH_ROWS;
use crate::error::{ConnectorError, ConnectorResult};
use crate::generated::{Generate, GeneratorReader, split_ids};
use crate::source::{Boundedness, SourceConnector, SourceContext, SourceReader, SplitId};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use async_trait::async_trait;
use std::time::Duration;
use thalweg_catalog::{Column, schema_of};

/// Rows made by rules.
#[derive(Clone, Debug)]
pub struct DatagenSource {
    options: DatagenOptions,
}

impl DatagenSource {
    /// A source with these options.
    pub fn new(options: DatagenOptions) -> DatagenSource {
        DatagenSource { options }
    }
}

#[async_trait]
impl SourceConnector for DatagenSource {
    fn boundedness(&self) -> Boundedness {
        if self.options.rows.is_some() { Boundedness::Bounded } else { Boundedness::Unbounded }
    }

    async fn splits(&self) -> ConnectorResult<Vec<SplitId>> {
        Ok(split_ids(self.options.splits))
    }

    fn discovery_interval(&self, _found: &[SplitId]) -> Option<Duration> {
        None
    }

    fn reader(&self, context: SourceContext) -> ConnectorResult<Box<dyn SourceReader>> {
        let read = |column: &usize| Some((context.columns.get(*column)?.clone(), self.options.rules.get(*column)?.clone()));
        let (columns, rules): (Vec<Column>, Vec<Rule>) = context
            .projection
            .iter()
            .map(read)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| ConnectorError::internal("the projection does not fit the columns"))?
            .into_iter()
            .unzip();
        let rows = DatagenRows { splits: self.options.splits, schema: schema_of(&columns), rules };
        Ok(Box::new(GeneratorReader::new(rows, self.options.rows, self.options.rate)))
    }
}

struct DatagenRows {
    splits: u64,
    schema: SchemaRef,
    rules: Vec<Rule>,
}

impl Generate for DatagenRows {
    fn generate(&mut self, shard: u64, from: u64, until: u64) -> ConnectorResult<(RecordBatch, u64)> {
        let internal = |error: ArrowError| ConnectorError::internal(format!("can't make rows: {error}"));
        let ahead = (shard + self.splits - from % self.splits) % self.splits;
        let first = from.saturating_add(ahead);
        let rows: Vec<u64> = (first..until).step_by(self.splits as usize).take(BATCH_ROWS).collect();
        let next = if rows.len() == BATCH_ROWS { rows[BATCH_ROWS - 1] + 1 } else { until };
        let columns = self.rules.iter().map(|rule| rule.column(&rows)).collect::<Result<_, _>>().map_err(internal)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok((RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(internal)?, next))
    }

    fn count(&self, _shard: u64, from: u64, until: u64) -> u64 {
        until.saturating_sub(from) / self.splits
    }
}

#[cfg(test)]
mod tests;
