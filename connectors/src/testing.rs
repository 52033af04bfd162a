//! What the tests of sources and sinks share.

use crate::registry;
use crate::source::{SourceConnector, SourceContext, SourceEvent, SourceReader};
use arrow::array::{Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_catalog::object::Encode;
use thalweg_catalog::{Column, ConnectorSpec, SqlType};
use tokio::runtime::Runtime;

pub(crate) fn columns(text: &[(&str, &str)]) -> Vec<Column> {
    text.iter().map(|(name, sql_type)| Column::new(*name, SqlType::parse(sql_type).unwrap())).collect()
}

pub(crate) fn spec(connector: &str, options: &[(&str, &str)], encode: Option<Encode>) -> ConnectorSpec {
    ConnectorSpec {
        connector: connector.into(),
        options: options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        encode,
        encode_options: Default::default(),
        includes: vec![],
    }
}

/// The rows as text, `|` between values and `NULL` for NULL.
pub(crate) fn rows(batch: &RecordBatch) -> Vec<String> {
    let show = |row: usize| {
        let values = batch
            .columns()
            .iter()
            .map(|column| if column.is_null(row) { "NULL".to_string() } else { array_value_to_string(column, row).unwrap() });
        values.collect::<Vec<_>>().join("|")
    };
    (0..batch.num_rows()).map(show).collect()
}

/// A source with what it takes to read it.
pub(crate) struct Harness {
    pub(crate) source: Arc<dyn SourceConnector>,
    columns: Vec<Column>,
    /// The column of the watermark.
    pub(crate) time: Option<usize>,
    runtime: Runtime,
}

/// What was read of one split.
#[derive(Default, Debug)]
pub(crate) struct Read {
    pub(crate) rows: Vec<String>,
    pub(crate) errors: Vec<String>,
    /// After each batch, how many rows there were and the position.
    pub(crate) positions: Vec<(usize, String)>,
}

impl Harness {
    pub(crate) fn new(spec: &ConnectorSpec, columns: &[Column]) -> Harness {
        let source = registry::source(spec, columns).unwrap();
        Harness { source, columns: columns.to_vec(), time: None, runtime: Runtime::new().unwrap() }
    }

    pub(crate) fn splits(&self) -> Vec<String> {
        self.runtime.block_on(self.source.splits()).unwrap().iter().map(|split| split.to_string()).collect()
    }

    pub(crate) fn splits_error(&self) -> String {
        self.runtime.block_on(self.source.splits()).unwrap_err().message
    }

    pub(crate) fn reader_of(&self, projection: &[usize]) -> Box<dyn SourceReader> {
        let context = SourceContext {
            name: "s".into(),
            job: "j".into(),
            columns: self.columns.clone(),
            projection: projection.to_vec(),
            time: self.time,
            runtime: self.runtime.handle().clone(),
        };
        self.source.reader(context).unwrap()
    }

    pub(crate) fn reader(&self) -> Box<dyn SourceReader> {
        self.reader_of(&(0..self.columns.len()).collect::<Vec<_>>())
    }

    /// Reads one split from a position to its end.
    pub(crate) fn read(&self, split: &str, position: Option<&str>) -> Read {
        let mut reader = self.reader();
        reader.assign(vec![(split.into(), position.map(str::to_string))]).unwrap();
        let mut read = Read::default();
        loop {
            match reader.next(Duration::ZERO).unwrap() {
                SourceEvent::Rows(batch) => {
                    assert_eq!(&*batch.split, split);
                    read.rows.extend(rows(&batch.batch));
                    read.errors.extend(batch.errors.iter().map(|error| format!("{}: {}", error.position, error.reason)));
                    read.positions.push((read.rows.len(), batch.position));
                }
                SourceEvent::SplitEnd { position, .. } => {
                    read.positions.push((read.rows.len(), position));
                    return read;
                }
                SourceEvent::Idle => {}
            }
        }
    }

    /// Checks that reading again from every position gives the rows that came after it.
    pub(crate) fn check_resume(&self, split: &str) -> Read {
        let whole = self.read(split, None);
        for (seen, position) in &whole.positions {
            assert_eq!(self.read(split, Some(position)).rows, whole.rows[*seen..], "from {position}");
        }
        whole
    }
}

/// What comes next and is not idling; fails if nothing comes for a long time.
pub(crate) fn next_event(reader: &mut dyn SourceReader) -> SourceEvent {
    let start = Instant::now();
    loop {
        match reader.next(Duration::from_millis(20)).unwrap() {
            SourceEvent::Idle => assert!(start.elapsed() < Duration::from_secs(30), "nothing comes"),
            event => return event,
        }
    }
}

/// The rows that come next.
pub(crate) fn next_rows(reader: &mut dyn SourceReader) -> Vec<String> {
    match next_event(reader) {
        SourceEvent::Rows(batch) => rows(&batch.batch),
        other => panic!("rows should come, not {other:?}"),
    }
}
