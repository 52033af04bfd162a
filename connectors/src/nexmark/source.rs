//! The source connector.

use super::columns::{ColumnPlan, Kind, NexmarkTable, Origin, plan};
use super::generator::{CYCLE, Generator, offsets_of};
use super::options::NexmarkOptions;
use crate::decode::BATCH_ROWS;
use crate::error::{ConnectorError, ConnectorResult};
use crate::generated::{Generate, GeneratorReader, split_ids};
use crate::source::{Boundedness, SourceConnector, SourceContext, SourceReader, SplitId};
use arrow::array::{Array, ArrayRef, Int32Array, RecordBatch, RecordBatchOptions, StructArray, UInt32Array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use async_trait::async_trait;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use thalweg_catalog::{Column, SqlResult, schema_of};

/// Events of an online auction.
#[derive(Clone, Debug)]
pub struct NexmarkSource {
    options: NexmarkOptions,
}

impl NexmarkSource {
    /// A source with these options, for these columns.
    ///
    /// # Errors
    /// `42703` and `42804` for columns that events do not have.
    pub fn new(options: NexmarkOptions, columns: &[Column]) -> SqlResult<NexmarkSource> {
        plan(options.table, columns)?;
        Ok(NexmarkSource { options })
    }
}

#[async_trait]
impl SourceConnector for NexmarkSource {
    fn boundedness(&self) -> Boundedness {
        if self.options.events.is_some() { Boundedness::Bounded } else { Boundedness::Unbounded }
    }

    async fn splits(&self) -> ConnectorResult<Vec<SplitId>> {
        Ok(split_ids(self.options.splits))
    }

    fn discovery_interval(&self, _found: &[SplitId]) -> Option<Duration> {
        None
    }

    fn reader(&self, context: SourceContext) -> ConnectorResult<Box<dyn SourceReader>> {
        let read: Vec<Column> = context
            .projection
            .iter()
            .map(|column| context.columns.get(*column).cloned())
            .collect::<Option<_>>()
            .ok_or_else(|| ConnectorError::internal("the projection does not fit the columns"))?;
        let columns = plan(self.options.table, &read).map_err(|error| ConnectorError::user(error.message))?;
        let events = NexmarkEvents {
            table: self.options.table,
            splits: self.options.splits,
            schema: schema_of(&read),
            columns,
            generator: Generator::new(self.options.clone()),
        };
        Ok(Box::new(GeneratorReader::new(events, self.options.events, self.options.rate)))
    }
}

struct NexmarkEvents {
    table: NexmarkTable,
    splits: u64,
    schema: SchemaRef,
    columns: Vec<ColumnPlan>,
    generator: Generator,
}

impl NexmarkEvents {
    /// The offsets in each cycle of the events that are given.
    fn offsets(&self) -> Range<u64> {
        match self.table {
            NexmarkTable::Person => offsets_of(Kind::Person),
            NexmarkTable::Auction => offsets_of(Kind::Auction),
            NexmarkTable::Bid => offsets_of(Kind::Bid),
            NexmarkTable::All => 0..CYCLE,
        }
    }

    /// Up to a batch of the numbers of the events that are given, and the number to go on from.
    fn events(&self, shard: u64, from: u64, until: u64) -> (Vec<u64>, u64) {
        let offsets = self.offsets();
        let mut events = Vec::with_capacity(BATCH_ROWS);
        let mut next = from;
        while next < until {
            let (cycle, offset) = (next / CYCLE, next % CYCLE);
            let ahead = (shard + self.splits - cycle % self.splits) % self.splits;
            if ahead > 0 || offset >= offsets.end {
                next = (cycle + ahead.max(1)).saturating_mul(CYCLE);
                continue;
            }
            let first = cycle * CYCLE + offset.max(offsets.start);
            let last = (cycle * CYCLE + offsets.end).min(until).min(first + (BATCH_ROWS - events.len()) as u64);
            events.extend(first..last);
            next = last.max(first.min(until));
            if events.len() == BATCH_ROWS {
                return (events, next);
            }
        }
        (events, until)
    }

    fn column(&self, column: &ColumnPlan, events: &[u64]) -> Result<ArrayRef, ArrowError> {
        let made = match &column.origin {
            Origin::EventType => Arc::new(Int32Array::from_iter_values(events.iter().map(|event| kind_of(*event) as i32))),
            Origin::Value(kind, field) => self.generator.column(*kind, *field, events)?,
            Origin::Record(kind, fields) => return self.record(column, *kind, fields, events),
        };
        let wanted = column.sql_type.to_arrow();
        if *made.data_type() == wanted { Ok(made) } else { cast(&made, &wanted) }
    }

    /// Records of the events of one kind, NULL for those of the others.
    fn record(&self, column: &ColumnPlan, kind: Kind, fields: &[ColumnPlan], events: &[u64]) -> Result<ArrayRef, ArrowError> {
        let DataType::Struct(types) = column.sql_type.to_arrow() else {
            return Err(ArrowError::SchemaError("a record is not carried by a struct".into()));
        };
        let own: Vec<u64> = events.iter().copied().filter(|event| kind_of(*event) == kind).collect();
        let values = fields.iter().map(|field| self.column(field, &own)).collect::<Result<Vec<_>, _>>()?;
        let records = StructArray::try_new_with_length(types, values, None, own.len())?;
        let mut place = 0;
        let places: UInt32Array = events
            .iter()
            .map(|event| {
                (kind_of(*event) == kind).then(|| {
                    place += 1;
                    place - 1
                })
            })
            .collect();
        take(&records, &places, None)
    }
}

fn kind_of(event: u64) -> Kind {
    let offset = event % CYCLE;
    [Kind::Person, Kind::Auction].into_iter().find(|kind| offsets_of(*kind).contains(&offset)).unwrap_or(Kind::Bid)
}

impl Generate for NexmarkEvents {
    fn generate(&mut self, shard: u64, from: u64, until: u64) -> ConnectorResult<(RecordBatch, u64)> {
        let internal = |error: ArrowError| ConnectorError::internal(format!("can't make nexmark events: {error}"));
        let (events, next) = self.events(shard, from, until);
        let columns =
            self.columns.iter().map(|column| self.column(column, &events)).collect::<Result<_, _>>().map_err(internal)?;
        let options = RecordBatchOptions::new().with_row_count(Some(events.len()));
        Ok((RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(internal)?, next))
    }

    fn count(&self, _shard: u64, from: u64, until: u64) -> u64 {
        let offsets = self.offsets();
        until.saturating_sub(from) / CYCLE * (offsets.end - offsets.start) / self.splits
    }
}

#[cfg(test)]
mod tests;
