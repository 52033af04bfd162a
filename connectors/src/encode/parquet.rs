//! Parquet files.

use crate::error::{ConnectorError, ConnectorResult};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

/// How the pages of a Parquet file are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ParquetCompression {
    None,
    Gzip,
    Zstd,
}

/// A whole Parquet file with these rows.
///
/// # Errors
/// If the rows do not fit the schema.
pub fn parquet_file(schema: &SchemaRef, batches: &[RecordBatch], compression: ParquetCompression) -> ConnectorResult<Vec<u8>> {
    let failed = |error: parquet::errors::ParquetError| ConnectorError::internal(format!("can't write rows as Parquet: {error}"));
    let compression = match compression {
        ParquetCompression::None => Compression::UNCOMPRESSED,
        ParquetCompression::Gzip => Compression::GZIP(GzipLevel::default()),
        ParquetCompression::Zstd => Compression::ZSTD(ZstdLevel::default()),
    };
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties)).map_err(failed)?;
    for batch in batches {
        writer.write(batch).map_err(failed)?;
    }
    writer.into_inner().map_err(failed)
}
