//! The source connector.

use super::options::{FileFormat, FileSourceOptions};
use super::reader::FileReader;
use crate::error::ConnectorResult;
use crate::source::{Boundedness, SourceConnector, SourceContext, SourceReader, SplitId};
use async_trait::async_trait;
use std::time::Duration;
use thalweg_catalog::object::ConnectorSpec;
use thalweg_catalog::{Column, SqlResult};

/// Files that are read.
#[derive(Clone, Debug)]
pub struct FileSource {
    options: FileSourceOptions,
}

impl FileSource {
    /// The source that these options and columns declare.
    ///
    /// # Errors
    /// `22023` for a bad option, `42P16` for columns that the encoding can't fill.
    pub fn from_spec(spec: &ConnectorSpec, columns: &[Column]) -> SqlResult<FileSource> {
        let options = FileSourceOptions::parse(spec)?;
        if let FileFormat::Lines(format) = &options.format {
            format.check(columns)?;
        }
        Ok(FileSource { options })
    }
}

#[async_trait]
impl SourceConnector for FileSource {
    fn boundedness(&self) -> Boundedness {
        if self.options.follow { Boundedness::Unbounded } else { Boundedness::Bounded }
    }

    async fn splits(&self) -> ConnectorResult<Vec<SplitId>> {
        Ok(self.options.location.list().await?.into_iter().map(SplitId::from).collect())
    }

    fn discovery_interval(&self) -> Option<Duration> {
        self.options.follow.then_some(self.options.discovery_interval)
    }

    fn reader(&self, context: SourceContext) -> ConnectorResult<Box<dyn SourceReader>> {
        Ok(Box::new(FileReader::new(self.options.clone(), context)?))
    }
}

#[cfg(test)]
mod tests;
