//! Records to rows: the decoder for what is in a record, the `INCLUDE` columns for what is around it.

use super::includes::IncludeColumn;
use crate::decode::{Decoder, Format};
use crate::error::{ConnectorError, ConnectorResult};
use crate::source::{RecordError, SourceContext};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use rdkafka::message::Message;
use std::fmt;
use thalweg_catalog::object::ConnectorSpec;
use thalweg_catalog::schema_of;

/// Collects the records of one partition as rows.
pub struct Rows {
    schema: SchemaRef,
    decoder: Decoder,
    includes: Vec<IncludeColumn>,
    /// Where each column of the output comes from.
    origins: Vec<Origin>,
    records: usize,
}

#[derive(Clone, Copy)]
enum Origin {
    Decoded(usize),
    Included(usize),
}

/// How an offset is written for users.
struct AtOffset(i64);

impl fmt::Display for AtOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {}", self.0)
    }
}

impl Rows {
    /// No rows yet, with the columns of the context's projection.
    ///
    /// # Errors
    /// If the declared columns do not fit the encoding.
    pub fn new(format: &Format, spec: &ConnectorSpec, context: &SourceContext) -> ConnectorResult<Rows> {
        let columns = &context.columns;
        let included = |index: usize| spec.includes.iter().find(|include| include.column == index);
        // What the record itself fills: the place of each declared column among those.
        let mut payload_place = vec![None; columns.len()];
        let mut payload = vec![];
        for (index, column) in columns.iter().enumerate().filter(|(index, _)| included(*index).is_none()) {
            payload_place[index] = Some(payload.len());
            payload.push(column.clone());
        }
        let (mut projected, mut origins, mut decoded, mut includes) = (vec![], vec![], vec![], vec![]);
        for index in &context.projection {
            let misfit = || ConnectorError::internal(format!("column {index} can't be read from a record"));
            let column = columns.get(*index).ok_or_else(misfit)?;
            projected.push(column.clone());
            match (included(*index), payload_place[*index]) {
                (Some(include), _) => {
                    origins.push(Origin::Included(includes.len()));
                    includes.push(IncludeColumn::new(include.part, column).ok_or_else(misfit)?);
                }
                (None, Some(place)) => {
                    origins.push(Origin::Decoded(decoded.len()));
                    decoded.push(place);
                }
                (None, None) => return Err(misfit()),
            }
        }
        let decoder = Decoder::new(format, &payload, &decoded)?;
        Ok(Rows { schema: schema_of(&projected), decoder, includes, origins, records: 0 })
    }

    /// How many records were pushed since the last [`finish`](Rows::finish).
    pub fn records(&self) -> usize {
        self.records
    }

    /// Takes a record: adds a row, or an error.
    pub fn push<M: Message>(&mut self, message: &M) {
        self.records += 1;
        let at = AtOffset(message.offset());
        let Some(payload) = message.payload() else {
            // What tells such a record from others is its key.
            return self.decoder.reject(message.key().unwrap_or_default(), at, "message has no value");
        };
        if let Some(reason) = self.includes.iter().find_map(|include| include.refusal(message)) {
            return self.decoder.reject(payload, at, reason);
        }
        if self.decoder.push(payload, at) {
            for include in &mut self.includes {
                include.push(message);
            }
        }
    }

    /// The rows so far and the records that gave none, both in order.
    ///
    /// # Errors
    /// If the columns do not fit together, which is a fault of ours.
    pub fn finish(&mut self) -> ConnectorResult<(RecordBatch, Vec<RecordError>)> {
        self.records = 0;
        let (decoded, errors) = self.decoder.finish()?;
        let included: Vec<_> = self.includes.iter_mut().map(IncludeColumn::finish).collect();
        let columns = self
            .origins
            .iter()
            .map(|origin| match *origin {
                Origin::Decoded(index) => decoded.column(index).clone(),
                Origin::Included(index) => included[index].clone(),
            })
            .collect();
        // The count is given too, since a query may need no column at all.
        let count = RecordBatchOptions::new().with_row_count(Some(decoded.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &count)
            .map_err(|error| ConnectorError::internal(format!("records do not form rows: {error}")))?;
        Ok((batch, errors))
    }
}
