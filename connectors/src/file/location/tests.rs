use super::*;
use object_store::memory::InMemory;

fn bucket(keys: &[&str]) -> (tokio::runtime::Runtime, Arc<dyn ObjectStore>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for key in keys {
        runtime.block_on(store.put(&ObjectPath::from(*key), format!("content of {key}").into())).unwrap();
    }
    (runtime, store)
}

#[test]
fn objects_are_found_by_key_folder_and_glob() {
    let (runtime, store) = bucket(&["in/a.json", "in/b.json", "in/c.csv", "in/.hidden.json", "in/deep/d.json", "inner/e.json"]);
    let list = |key: &str| {
        let location = Location::Object { store: store.clone(), bucket: "b".into(), key: key.into() };
        runtime
            .block_on(location.list())
            .unwrap()
            .iter()
            .map(|name| name.strip_prefix("s3://b/").unwrap().to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(list("in/a.json"), ["in/a.json"]);
    assert_eq!(list("in"), ["in/a.json", "in/b.json", "in/c.csv"]);
    assert_eq!(list("in/"), ["in/a.json", "in/b.json", "in/c.csv"]);
    assert_eq!(list("in/*.json"), ["in/a.json", "in/b.json"]);
    assert_eq!(list("in*/*.json"), ["in/a.json", "in/b.json", "inner/e.json"]);
    assert_eq!(list("**/d.json"), ["in/deep/d.json"]);
    assert!(list("none/*").is_empty());
    let none = Location::Object { store: store.clone(), bucket: "b".into(), key: "none".into() };
    assert!(runtime.block_on(none.list()).unwrap_err().message.contains("s3://b/none"));
}

#[test]
fn an_object_is_read_from_any_offset() {
    let (runtime, store) = bucket(&["a"]);
    let location = Location::Object { store, bucket: "b".into(), key: "".into() }.file("s3://b/a").unwrap();
    for offset in 0..=12 {
        let mut text = String::new();
        location.open(offset, runtime.handle()).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "content of a"[offset as usize..]);
    }
    let gone = location.file("s3://b/gone").unwrap();
    let error = gone.open(0, runtime.handle()).err().unwrap();
    assert!(error.message.contains("s3://b/gone") && !error.retry, "{error}");
}
