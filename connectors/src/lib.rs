//! Outside bytes to Arrow rows with positions, and back. Knows no operator.
//!
//! [`registry`] makes the connector that was declared. [`source`] and [`sink`] are what all connectors share; [`decode`] and
//! [`encode`] are the formats, which know no connector.
#![deny(missing_docs)]

pub mod blackhole;
pub mod datagen;
mod datetime;
pub mod decode;
pub mod encode;
pub mod error;
pub mod file;
mod generated;
pub mod kafka;
pub mod nexmark;
pub mod print;
mod random;
pub mod registry;
mod scan;
pub mod sink;
pub mod source;
#[cfg(test)]
mod testing;

pub use error::{ConnectorError, ConnectorResult, Responsible};
pub use sink::{Delivery, Guarantee, SinkBatch, SinkConnector, SinkContext, SinkWriter};
pub use source::{
    Boundedness, Position, RecordError, SourceBatch, SourceConnector, SourceContext, SourceEvent, SourceReader, SplitId,
};
