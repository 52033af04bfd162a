//! Apache Kafka: a topic as a source, and as a sink.
//!
//! Source: a split is a partition, named by its number. A position is the offset of the next record to read, as text; for
//! a source that ends (`scan.bounded.mode`) it is `next/end`, so that a restart still ends where the first start said. Rows
//! of one partition come in the order of their offsets. Partitions are read by explicit assignment, so that no group
//! rebalances; offsets are committed to a group after they are in a durable checkpoint and only for others to watch. Records
//! that retention removes before they were read are an error, or are skipped with a row in `thalweg.errors` if so declared.
//!
//! Sink: JSON records, at least once: after a crash the epochs since the last checkpoint are sent again, in the same order.
//! Records with the same key go to the same partition in the order of their epochs. An upsert sink sends the key as a JSON
//! object, and a record without a value for a key that is gone.

mod client;
mod includes;
mod options;
mod position;
mod reader;
mod rows;
mod sink;
mod source;

pub use options::{BoundedMode, KafkaSinkOptions, KafkaSourceOptions, LostOffsets, StartupMode};
pub use position::KafkaPosition;
pub use sink::KafkaSink;
pub use source::KafkaSource;
