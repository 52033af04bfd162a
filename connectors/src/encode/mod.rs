//! Rows to bytes: JSON objects, CSV records, Parquet files.
//!
//! - JSON: integers and `numeric` are exact JSON numbers, also those beyond 2^53; booleans and NULL as such; `json` and `jsonb`
//!   as the values they hold; arrays and records as arrays and objects. `date`, `time`, `timestamp` and `timestamptz` are ISO
//!   8601 strings (`2024-01-31T23:59:00.5`, the latter with `Z`), without a fraction of zero. `bytea` is `\x` and hexadecimal
//!   digits. Floats are written with the fewest digits that read back the same; NaN and the infinities are strings, since
//!   JSON has none. Everything is one line.
//! - CSV: as Postgres's `COPY` writes it: `2024-01-31 23:59:00.5`, with `+00` for `timestamptz`; `t` and `f` are `true` and
//!   `false` here. NULL is the NULL text without quotes; text that would read as NULL is quoted. Arrays and records are JSON.
//! - Parquet: the Arrow schema of the columns.

mod csv;
mod json;
mod parquet;
mod text;

pub use self::csv::CsvRows;
pub use self::json::JsonRows;
pub use self::parquet::{ParquetCompression, parquet_file};
