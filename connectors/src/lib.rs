//! Outside bytes to Arrow rows with positions, and back. Knows no operator.
#![deny(missing_docs)]

pub mod error;
pub mod sink;
pub mod source;

pub use error::{ConnectorError, ConnectorResult, Responsible};
pub use sink::{Delivery, Guarantee, SinkBatch, SinkConnector, SinkContext, SinkWriter};
pub use source::{
    Boundedness, Position, RecordError, SourceBatch, SourceConnector, SourceContext, SourceEvent, SourceReader, SplitId,
};
