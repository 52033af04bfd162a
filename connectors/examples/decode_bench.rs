//! Measures how many nexmark bids a second the JSON decoder and the generator make into rows, on one core.
//!
//! `cargo run --release -p thalweg-connectors --example decode_bench [ROWS]`

use std::time::Instant;
use thalweg_catalog::object::Encode;
use thalweg_catalog::{Column, ConnectorSpec};
use thalweg_connectors::decode::{Decoder, Format};
use thalweg_connectors::encode::JsonRows;
use thalweg_connectors::{ConnectorResult, SourceContext, SourceEvent, registry};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let rows: usize = std::env::args().nth(1).map_or(Ok(1_000_000), |text| text.parse())?;
    let runtime = tokio::runtime::Runtime::new()?;
    let options = [("table", "bid".to_string()), ("events", (rows * 50 / 46).to_string())];
    let spec = ConnectorSpec {
        connector: "nexmark".into(),
        options: options.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
        encode: None,
        encode_options: Default::default(),
        includes: vec![],
    };
    let columns = registry::default_columns("nexmark", &spec.options)?.unwrap_or_default();
    let all: Vec<usize> = (0..columns.len()).collect();
    let two = vec![0, 2];
    let lines = generate(&spec, &columns, &all, runtime.handle())?;
    for (name, projection) in [("7 columns", &all), ("2 columns", &two), ("0 columns", &vec![])] {
        // The first round warms up.
        for _ in 0..2 {
            measure(&format!("generate bids, {name}"), || count(&spec, &columns, projection, runtime.handle()))?;
        }
    }
    let records: Vec<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    for (name, projection) in [("7 columns", &all), ("2 columns", &two), ("0 columns", &vec![])] {
        for _ in 0..2 {
            measure(&format!("decode JSON bids, {name}"), || decode(&records, &columns, projection))?;
        }
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("bids.json");
    std::fs::write(&path, &lines)?;
    let file = ConnectorSpec {
        connector: "file".into(),
        options: [("path".to_string(), path.to_string_lossy().into_owned())].into(),
        encode: Some(Encode::Json),
        ..spec
    };
    for (name, projection) in [("7 columns", &all), ("2 columns", &two), ("0 columns", &vec![])] {
        for _ in 0..2 {
            measure(&format!("read a JSON file of bids, {name}"), || count(&file, &columns, projection, runtime.handle()))?;
        }
    }
    Ok(())
}

fn measure(what: &str, work: impl FnOnce() -> Result<usize, Failure>) -> Result<(), Failure> {
    let start = Instant::now();
    let rows = work()?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {:.2} M rows/s", rows as f64 / seconds / 1e6);
    Ok(())
}

fn read(
    spec: &ConnectorSpec,
    columns: &[Column],
    projection: &[usize],
    runtime: &tokio::runtime::Handle,
    mut take: impl FnMut(&arrow::array::RecordBatch) -> ConnectorResult<()>,
) -> Result<(), Failure> {
    let source = registry::source(spec, columns)?;
    let splits = runtime.block_on(source.splits())?;
    let mut reader = source.reader(SourceContext {
        name: "bids".into(),
        job: "bench".into(),
        columns: columns.to_vec(),
        projection: projection.to_vec(),
        time: None,
        runtime: runtime.clone(),
    })?;
    reader.assign(splits.into_iter().map(|split| (split, None)).collect())?;
    loop {
        match reader.next(std::time::Duration::ZERO)? {
            SourceEvent::Rows(rows) => take(&rows.batch)?,
            SourceEvent::SplitEnd { .. } => return Ok(()),
            SourceEvent::Idle => {}
        }
    }
}

fn count(
    spec: &ConnectorSpec,
    columns: &[Column],
    projection: &[usize],
    runtime: &tokio::runtime::Handle,
) -> Result<usize, Failure> {
    let mut rows = 0;
    read(spec, columns, projection, runtime, |batch| {
        rows += batch.num_rows();
        Ok(())
    })?;
    Ok(rows)
}

fn generate(
    spec: &ConnectorSpec,
    columns: &[Column],
    all: &[usize],
    runtime: &tokio::runtime::Handle,
) -> Result<Vec<u8>, Failure> {
    let mut lines = vec![];
    read(spec, columns, all, runtime, |batch| {
        let rows = JsonRows::new(batch, columns, all)?;
        for row in 0..batch.num_rows() {
            rows.write(row, &mut lines);
            lines.push(b'\n');
        }
        Ok(())
    })?;
    Ok(lines)
}

fn decode(records: &[&[u8]], columns: &[Column], projection: &[usize]) -> Result<usize, Failure> {
    let mut decoder = Decoder::new(&Format::Json, columns, projection)?;
    let mut rows = 0;
    for (place, record) in records.iter().enumerate() {
        decoder.push(record, place);
        if decoder.is_full() {
            let (batch, errors) = decoder.finish()?;
            assert!(errors.is_empty(), "{errors:?}");
            rows += batch.num_rows();
        }
    }
    Ok(rows + decoder.finish()?.0.num_rows())
}
