//! Datagen: rows of any columns, made up by simple rules, to try queries with.
//!
//! - Split: `splits` of them, named from 0; rows are dealt to them in turn. A position is the number of the next row. Rows of a
//!   split come in the order of their numbers.
//! - Every value depends on its column's rule and seed and on the number of its row, so that any position can be read again.
//! - Columns of booleans, numbers, text, dates, timestamps and uuids can be made; never NULL.

mod options;
mod source;
mod values;

pub use options::DatagenOptions;
pub use source::DatagenSource;
