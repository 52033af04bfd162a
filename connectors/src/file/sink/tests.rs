use super::*;
use crate::registry;
use crate::testing::{Harness, columns, spec};
use arrow::array::{Int64Array, StringArray};
use tempfile::TempDir;
use thalweg_catalog::object::Encode;

fn declared() -> Vec<Column> {
    columns(&[("a", "bigint"), ("b", "text")])
}

fn batch(epoch: u64, values: std::ops::Range<i64>) -> SinkBatch {
    let texts = StringArray::from_iter_values(values.clone().map(|value| format!("text, {value}")));
    let columns: Vec<arrow::array::ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(values)), Arc::new(texts)];
    SinkBatch { epoch: Epoch(epoch), batch: RecordBatch::try_new(schema_of(&declared()), columns).unwrap(), weights: None }
}

async fn open(path: &Path, name: &str, encode: Encode, options: &[(&str, &str)], writer: usize) -> Box<dyn SinkWriter> {
    let text = path.to_string_lossy().into_owned();
    let options: Vec<_> = [("path", text.as_str())].into_iter().chain(options.iter().copied()).collect();
    let sink = registry::sink(&spec("file", &options, Some(encode)), &declared(), SinkMode::AppendOnly, &[], name).unwrap();
    assert_eq!((sink.delivery(), sink.guarantee()), (Delivery::OnCheckpoint, Guarantee::ExactlyOnce));
    let context =
        SinkContext { name: name.into(), columns: declared(), mode: SinkMode::AppendOnly, key: vec![], writer, writers: 2 };
    sink.writer(context).await.unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names = names_in(folder).unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn what_a_sink_writes_a_source_reads() {
    for (encode, options, extension) in [
        (Encode::Json, vec![], "json"),
        (Encode::Json, vec![("compression", "gzip")], "json.gz"),
        (Encode::Csv, vec![("compression", "zstd")], "csv.zst"),
        (Encode::Parquet, vec![], "parquet"),
        (Encode::Parquet, vec![("compression", "none")], "parquet"),
    ] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("new/folder");
        let mut writer = open(&path, "out", encode, &options, 1).await;
        assert_eq!(writer.delivered().await.unwrap(), None);
        writer.deliver(Epoch(17), vec![batch(16, 0..2), batch(17, 2..3)]).await.unwrap();
        let name = format!("out-00000000000000000017-1-of-2.{extension}");
        assert_eq!(names(&path), std::slice::from_ref(&name));
        let file = path.join(name).to_string_lossy().into_owned();
        let read = tokio::task::spawn_blocking(move || {
            Harness::new(&spec("file", &[("path", &file)], Some(encode)), &declared()).read(&file, None)
        });
        assert_eq!(read.await.unwrap().rows, ["0|text, 0", "1|text, 1", "2|text, 2"], "{encode} {extension}");
    }
}

#[tokio::test]
async fn d1_a_delivery_that_is_repeated_does_nothing() {
    let folder = TempDir::new().unwrap();
    let mut writer = open(folder.path(), "out", Encode::Json, &[], 0).await;
    writer.deliver(Epoch(5), vec![batch(5, 0..2)]).await.unwrap();
    let before = fs::read(folder.path().join(&names(folder.path())[0])).unwrap();
    let mut again = open(folder.path(), "out", Encode::Json, &[], 0).await;
    assert_eq!(again.delivered().await.unwrap(), Some(Epoch(5)));
    again.deliver(Epoch(5), vec![batch(5, 0..2)]).await.unwrap();
    assert_eq!(names(folder.path()).len(), 1);
    assert_eq!(fs::read(folder.path().join(&names(folder.path())[0])).unwrap(), before);
    again.deliver(Epoch(9), vec![batch(9, 2..3)]).await.unwrap();
    assert_eq!(again.delivered().await.unwrap(), Some(Epoch(9)));
}

#[tokio::test]
async fn d1_a_file_left_unfinished_by_a_crash_is_never_seen_and_removed() {
    let folder = TempDir::new().unwrap();
    let staged = ".out-00000000000000000005-0-of-2.json.tmp";
    let others = [
        ".out-00000000000000000005-1-of-2.json.tmp",
        ".out-1-00000000000000000005-0-of-2.json.tmp",
        ".other-00000000000000000005-0-of-2.json.tmp",
        "notes.txt",
    ];
    for name in others.iter().chain([&staged]) {
        fs::write(folder.path().join(name), "half a li").unwrap();
    }
    let mut writer = open(folder.path(), "out", Encode::Json, &[], 0).await;
    assert_eq!(writer.delivered().await.unwrap(), None, "a staged file is no delivery");
    let left = names(folder.path());
    assert!(!left.contains(&staged.to_string()) && others.iter().all(|name| left.contains(&name.to_string())), "{left:?}");
    writer.deliver(Epoch(5), vec![batch(5, 0..1)]).await.unwrap();
    assert_eq!(writer.delivered().await.unwrap(), Some(Epoch(5)));
}

#[tokio::test]
async fn each_writer_and_each_sink_knows_only_its_own_files() {
    let folder = TempDir::new().unwrap();
    for name in
        ["out-00000000000000000007-1-of-2.json", "out-00000000000000000008-0-of-3.json", "out-2-00000000000000000009-0-of-2.json"]
    {
        fs::write(folder.path().join(name), "").unwrap();
    }
    assert_eq!(open(folder.path(), "out", Encode::Json, &[], 0).await.delivered().await.unwrap(), None);
    assert_eq!(open(folder.path(), "out", Encode::Json, &[], 1).await.delivered().await.unwrap(), Some(Epoch(7)));
    let mut strange = open(folder.path(), "a/b \"c\"-1", Encode::Json, &[], 0).await;
    strange.deliver(Epoch(1), vec![batch(1, 0..1)]).await.unwrap();
    assert_eq!(strange.delivered().await.unwrap(), Some(Epoch(1)));
    assert!(names(folder.path()).contains(&"a%2fb%20%22c%22%2d1-00000000000000000001-0-of-2.json".to_string()));
}

#[tokio::test]
async fn rows_come_as_often_as_their_weights_say_and_no_rows_make_no_file() {
    let folder = TempDir::new().unwrap();
    let mut writer = open(folder.path(), "out", Encode::Json, &[], 0).await;
    writer.deliver(Epoch(1), vec![batch(1, 0..0)]).await.unwrap();
    writer.deliver(Epoch(2), vec![]).await.unwrap();
    assert!(names(folder.path()).is_empty());
    let mut weighted = batch(3, 0..2);
    weighted.weights = Some(Int64Array::from(vec![2, 1]));
    assert_eq!(repeated(&weighted).unwrap().num_rows(), 3);
    writer.deliver(Epoch(3), vec![weighted.clone()]).await.unwrap();
    let text = fs::read_to_string(folder.path().join(&names(folder.path())[0])).unwrap();
    assert_eq!(text, "{\"a\":0,\"b\":\"text, 0\"}\n{\"a\":0,\"b\":\"text, 0\"}\n{\"a\":1,\"b\":\"text, 1\"}\n");
    weighted.weights = Some(Int64Array::from(vec![-1, 1]));
    assert!(writer.deliver(Epoch(4), vec![weighted]).await.is_err());
    assert_eq!(names(folder.path()).len(), 1);
}

/// The same against an object store.
async fn object_writer(store: &Arc<dyn ObjectStore>) -> FileWriter {
    let location = Location::Object { store: store.clone(), bucket: "b".into(), key: "out/put".into() };
    let options =
        FileSinkOptions { location: location.clone(), compression: Compression::None, format: FileFormat::Lines(Format::Json) };
    let encoder = FileEncoder { options, columns: declared() };
    let names = FileNames { sink: "out".into(), writer: 0, writers: 1, extension: ".json".into() };
    let target = Target::Store { store: store.clone(), prefix: ObjectPath::from("out/put") };
    FileWriter { encoder: Arc::new(encoder), names: Arc::new(names), target, place: location }
}

#[tokio::test]
async fn d1_objects_are_put_once() {
    let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
    let mut writer = object_writer(&store).await;
    assert_eq!(writer.delivered().await.unwrap(), None);
    writer.deliver(Epoch(3), vec![batch(3, 0..1)]).await.unwrap();
    writer.deliver(Epoch(3), vec![batch(3, 0..2)]).await.unwrap();
    assert_eq!(object_writer(&store).await.delivered().await.unwrap(), Some(Epoch(3)));
    let path = ObjectPath::from("out/put/out-00000000000000000003-0-of-1.json");
    assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "{\"a\":0,\"b\":\"text, 0\"}\n");
}
