//! COPY: the formats in which rows are sent in bulk, out and in.

mod options;

pub use options::{CopyFormat, CopyOptions};
