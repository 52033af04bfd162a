//! COPY: the formats in which rows are sent in bulk, out and in.

mod options;
mod read;
mod split;
mod write;

pub use options::{CopyFormat, CopyOptions, ForcedColumns};
pub use read::CopyReader;
pub use write::CopyWriter;

#[cfg(test)]
mod tests;
