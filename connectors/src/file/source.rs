//! The source connector.

use super::options::{FileFormat, FileSourceOptions};
use super::reader::FileReader;
use crate::error::ConnectorResult;
use crate::source::{Boundedness, SourceConnector, SourceContext, SourceReader, SplitId};
use async_trait::async_trait;
use std::time::Duration;
use thalweg_catalog::object::ConnectorSpec;
use thalweg_catalog::{Column, SqlError, SqlResult, SqlState};

/// So many files are opened when a source is declared, to see that they can be read.
const CHECKED_FILES_MAX: usize = 16;

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

    async fn check(&self, context: SourceContext) -> SqlResult<()> {
        if self.options.follow {
            return Ok(());
        }
        let later = |error: SqlError| error.with_hint("Check the path. With follow = 'true' files may come later.");
        let splits = self.splits().await.map_err(|error| later(error.refusal(SqlState::UndefinedFile)))?;
        if splits.is_empty() {
            let text = format!("there is no file at \"{}\"", self.options.location);
            return Err(later(SqlError::new(SqlState::UndefinedFile, text)));
        }
        let options = self.options.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let mut reader = FileReader::new(options, context)?;
            splits.into_iter().take(CHECKED_FILES_MAX).try_for_each(|split| reader.open(split, None).map(drop))
        });
        let opened = opened.await.map_err(|error| SqlError::internal(format!("looking at files was broken off: {error}")))?;
        opened.map_err(|error| {
            error
                .refusal(SqlState::DataException)
                .with_hint("Check that the file may be read, and is of the encoding that is declared.")
        })
    }

    fn discovery_interval(&self, found: &[SplitId]) -> Option<Duration> {
        let goes_on = self.options.follow && !self.options.location.is_just(found);
        goes_on.then_some(self.options.discovery_interval)
    }

    fn reader(&self, context: SourceContext) -> ConnectorResult<Box<dyn SourceReader>> {
        Ok(Box::new(FileReader::new(self.options.clone(), context)?))
    }
}

#[cfg(test)]
mod tests;
