//! Print: a sink that writes every change to standard output, for trying things out.
//!
//! One line a change: `+I` or `-D`, a blank and the row as a JSON object; a row of weight 3 is three lines. Takes append-only,
//! upsert and changelog changes, at once when an epoch is complete. What was printed can't be asked for, so nothing is promised.

use crate::encode::JsonRows;
use crate::error::{ConnectorError, ConnectorResult};
use crate::sink::{Delivery, Guarantee, SinkBatch, SinkConnector, SinkContext, SinkWriter};
use async_trait::async_trait;
use std::io::Write;
use thalweg_catalog::{Column, Epoch};

/// Writes changes to standard output.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintSink;

#[async_trait]
impl SinkConnector for PrintSink {
    fn delivery(&self) -> Delivery {
        Delivery::OnEpoch
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    async fn writer(&self, context: SinkContext) -> ConnectorResult<Box<dyn SinkWriter>> {
        Ok(Box::new(PrintWriter { columns: context.columns }))
    }
}

struct PrintWriter {
    columns: Vec<Column>,
}

#[async_trait]
impl SinkWriter for PrintWriter {
    async fn delivered(&mut self) -> ConnectorResult<Option<Epoch>> {
        Ok(None)
    }

    async fn deliver(&mut self, _through: Epoch, batches: Vec<SinkBatch>) -> ConnectorResult<()> {
        let lines = lines(&self.columns, &batches)?;
        // Whoever reads the other end of a pipe may be slow.
        let printed = tokio::task::spawn_blocking(move || {
            let mut out = std::io::stdout().lock();
            out.write_all(&lines).and_then(|()| out.flush())
        });
        match printed.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(ConnectorError::external(format!("can't write to standard output: {error}"))),
            Err(error) => Err(ConnectorError::internal(format!("printing was broken off: {error}"))),
        }
    }
}

/// The lines for these changes.
fn lines(columns: &[Column], batches: &[SinkBatch]) -> ConnectorResult<Vec<u8>> {
    let all: Vec<usize> = (0..columns.len()).collect();
    let mut out = vec![];
    for batch in batches {
        let rows = JsonRows::new(&batch.batch, columns, &all)?;
        for row in 0..batch.batch.num_rows() {
            let weight = batch.weights.as_ref().map_or(1, |weights| weights.value(row));
            for _ in 0..weight.unsigned_abs() {
                out.extend_from_slice(if weight > 0 { b"+I " } else { b"-D " });
                rows.write(row, &mut out);
                out.push(b'\n');
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
