use super::*;
use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as Location;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStoreExt, PutMultipartOptions, PutOptions,
    PutPayload, PutResult,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

/// A bucket in memory.
pub(crate) fn memory() -> ObjectStore {
    ObjectStore::remote(Arc::new(InMemory::new()), "a/prefix")
}

/// A local store and a bucket, each empty. The directory lives as long as what is given back.
pub(crate) fn both_kinds() -> (TempDir, [ObjectStore; 2]) {
    let directory = TempDir::new().unwrap();
    let local = ObjectStore::local(directory.path()).unwrap();
    (directory, [local, memory()])
}

/// Puts other bytes in an object's place, as no writer of ours would.
pub(crate) async fn replace(store: &ObjectStore, path: &str, bytes: &[u8]) {
    store.delete(vec![path.to_string()]).await.unwrap();
    assert_eq!(store.put_if_absent(path, Bytes::copy_from_slice(bytes)).await.unwrap(), Put::Created);
}

/// Changes one bit of an object.
pub(crate) async fn flip(store: &ObjectStore, path: &str, bit: usize) {
    let mut bytes = store.get(path).await.unwrap().to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    replace(store, path, &bytes).await;
}

/// Asserts that an error names this object, as missing or damaged.
#[track_caller]
pub(crate) fn assert_names<T>(result: StorageResult<T>, named: &str) {
    match result.map(|_| ()) {
        Err(StorageError::Corrupt { path, .. } | StorageError::Missing { path }) if path == named => {}
        other => panic!("{other:?} does not name {named}"),
    }
}

#[tokio::test]
async fn objects_come_back_as_they_were_put() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        assert_eq!(store.list("a").await.unwrap(), []);
        assert_eq!(store.put_if_absent("a/b/1", "one".into()).await.unwrap(), Put::Created);
        assert_eq!(store.put_if_absent("a/2", "two!".into()).await.unwrap(), Put::Created);
        assert_eq!(store.put_if_absent("ab/3", "".into()).await.unwrap(), Put::Created);
        assert_eq!(store.get("a/b/1").await.unwrap(), "one");
        let listed = store.list("a").await.unwrap();
        let listed: Vec<_> = listed.iter().map(|o| (o.path.as_str(), o.size_bytes)).collect();
        assert_eq!(listed, [("a/2", 4), ("a/b/1", 3)]);
        store.delete(vec!["a/b/1".to_string(), "a/never".to_string()]).await.unwrap();
        assert_names(store.get("a/b/1").await, "a/b/1");
        assert_eq!(store.list("a").await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn a_path_that_is_taken_stays_as_it_is() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        assert_eq!(store.put_if_absent("x", "mine".into()).await.unwrap(), Put::Created);
        assert_eq!(store.put_if_absent("x", "yours".into()).await.unwrap(), Put::Taken);
        assert_eq!(store.put_if_absent("x", "mine".into()).await.unwrap(), Put::Created, "the same put tried again");
        assert_eq!(store.get("x").await.unwrap(), "mine");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn d4_of_racing_puts_exactly_one_wins() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        for round in 0..20 {
            let path = format!("race/{round}");
            let racers = (0..12).map(|racer| {
                let (store, path) = (store.clone(), path.clone());
                tokio::spawn(async move { store.put_if_absent(&path, format!("racer {racer}").into()).await.unwrap() })
            });
            let results = futures::future::try_join_all(racers).await.unwrap();
            let winners: Vec<_> = (0..results.len()).filter(|i| results[*i] == Put::Created).collect();
            assert_eq!(winners.len(), 1);
            assert_eq!(store.get(&path).await.unwrap(), format!("racer {}", winners[0]));
        }
    }
}

#[tokio::test]
async fn d19_paths_that_lead_out_of_the_store_are_refused() {
    let (_directory, stores) = both_kinds();
    for path in ["", "/x", "../x", "a/../../x", "a//b", "a/", ".staging/x", "a/./b", "a\0b", "a\\b"] {
        for store in &stores {
            assert_names(store.get(path).await, path);
            assert_names(store.put_if_absent(path, Bytes::new()).await, path);
            assert_names(store.delete(vec![path.to_string()]).await, path);
        }
    }
}

#[tokio::test]
async fn places_that_are_not_understood_are_refused() {
    for url in ["", "gs://bucket/x", "s3://", "s3:///x", "file://host/x"] {
        let result = ObjectStore::open(url, &S3Options::default()).await;
        assert!(matches!(result, Err(StorageError::Place { .. })), "{url}: {result:?}");
    }
}

#[tokio::test]
async fn a_file_url_is_a_local_directory() {
    let directory = TempDir::new().unwrap();
    let url = format!("file://{}/new/folder", directory.path().display());
    let store = ObjectStore::open(&url, &S3Options::default()).await.unwrap();
    assert_eq!(store.put_if_absent("x", "1".into()).await.unwrap(), Put::Created);
    assert_eq!(fs::read(directory.path().join("new/folder/x")).unwrap(), b"1");
}

#[test]
fn secrets_are_not_printed() {
    let options = S3Options { secret_access_key: Some("hunter2".to_string()), ..S3Options::default() };
    assert!(!format!("{options:?}").contains("hunter2"));
}

fn content(bytes: &[u8]) -> Content {
    Content { size_bytes: bytes.len() as u64, crc32: crc32fast::hash(bytes) }
}

#[tokio::test]
async fn files_go_up_and_come_back() {
    let (_directory, stores) = both_kinds();
    let files = TempDir::new().unwrap();
    // One above the size from which a bucket takes it in parts.
    let large: Vec<u8> = (0..17 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (name, bytes) in [("1.sst", &large[..]), ("CURRENT", b"MANIFEST-5\n"), ("empty", b"")] {
        fs::write(files.path().join(name), bytes).unwrap();
    }
    let upload = |name: &str, kind| Upload { file: files.path().join(name), path: format!("data/{name}"), kind };
    for (index, store) in stores.iter().enumerate() {
        let uploads =
            vec![upload("1.sst", FileKind::Immutable), upload("CURRENT", FileKind::Mutable), upload("empty", FileKind::Mutable)];
        let contents = store.put_files(uploads.clone()).await.unwrap();
        assert_eq!(contents, [content(&large), content(b"MANIFEST-5\n"), content(b"")]);
        assert_eq!(store.put_files(uploads.clone()).await.unwrap(), contents, "an upload may be tried again");
        let back = files.path().join(format!("back-{index}"));
        fs::create_dir(&back).unwrap();
        for (upload, content) in uploads.iter().zip(contents) {
            let file = back.join(upload.file.file_name().unwrap());
            store.fetch_file(&upload.path, content, &file, upload.kind).await.unwrap();
            assert_eq!(fs::read(&file).unwrap(), fs::read(&upload.file).unwrap());
        }
    }
    let inode = |path: &str| fs::metadata(stores[0].local_root().unwrap().join(path)).unwrap().ino();
    assert_eq!(inode("data/1.sst"), fs::metadata(files.path().join("1.sst")).unwrap().ino(), "what never changes is linked");
    assert_ne!(inode("data/CURRENT"), fs::metadata(files.path().join("CURRENT")).unwrap().ino(), "what can change is copied");
}

#[tokio::test]
async fn d6_a_damaged_file_is_found_and_named() {
    let (_directory, stores) = both_kinds();
    let files = TempDir::new().unwrap();
    let bytes = b"what a table file has in it";
    fs::write(files.path().join("source"), bytes).unwrap();
    for (index, store) in stores.iter().enumerate() {
        for kind in [FileKind::Immutable, FileKind::Mutable] {
            let upload = Upload { file: files.path().join("source"), path: "data/1".to_string(), kind: FileKind::Mutable };
            let put = store.put_files(vec![upload]).await.unwrap()[0];
            let target = files.path().join(format!("target-{index}-{kind:?}"));
            for damaged in [&bytes[..5], b"what a table file has on it", b"", b"what a table file has in it, and more"] {
                replace(store, "data/1", damaged).await;
                let found = match store.fetch_file("data/1", put, &target, kind).await {
                    Ok(Fetched::Linked) => store.check("data/1", put).await,
                    fetched => fetched.map(|_| ()),
                };
                assert_names(found, "data/1");
                let _ = fs::remove_file(&target);
            }
            store.delete(vec!["data/1".to_string()]).await.unwrap();
            assert_names(store.fetch_file("data/1", put, &target, kind).await.map(|_| ()), "data/1");
            assert_names(store.check("data/1", put).await, "data/1");
        }
    }
}

#[test]
fn d6_any_change_to_a_sealed_object_is_found_and_named() {
    let sealed = sealed::seal("thing", "some/path", &vec!["a body", "with two parts"]).unwrap();
    assert_eq!(sealed::unseal::<Vec<String>>("thing", "some/path", &sealed).unwrap(), ["a body", "with two parts"]);
    for bit in 0..sealed.len() * 8 {
        let mut flipped = sealed.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_names(sealed::unseal::<Vec<String>>("thing", "some/path", &flipped), "some/path");
    }
    for length in 0..sealed.len() {
        assert_names(sealed::unseal::<Vec<String>>("thing", "some/path", &sealed[..length]), "some/path");
    }
    let longer = [&sealed[..], b" "].concat();
    assert_names(sealed::unseal::<Vec<String>>("thing", "some/path", &longer), "some/path");
    assert_names(sealed::unseal::<Vec<String>>("thing", "other/path", &sealed), "other/path");
    assert_names(sealed::unseal::<Vec<String>>("another thing", "some/path", &sealed), "some/path");
}

#[tokio::test]
async fn what_a_crash_left_half_written_is_cleared_and_never_listed() {
    let directory = TempDir::new().unwrap();
    let store = ObjectStore::local(directory.path()).unwrap();
    let left = directory.path().join(".staging/1-1");
    fs::write(&left, "half").unwrap();
    store.put_if_absent("x/y", "1".into()).await.unwrap();
    assert_eq!(store.list("x").await.unwrap().len(), 1);
    store.clear_staging().unwrap();
    assert!(!left.exists());
}

#[tokio::test]
async fn folders_go_with_their_last_object() {
    let directory = TempDir::new().unwrap();
    let store = ObjectStore::local(directory.path()).unwrap();
    for path in ["a/b/c/1", "a/2"] {
        store.put_if_absent(path, "1".into()).await.unwrap();
    }
    store.delete(vec!["a/b/c/1".to_string()]).await.unwrap();
    assert!(!directory.path().join("a/b").exists());
    store.put_if_absent("a/b/c/1", "1".into()).await.unwrap();
    assert_eq!(store.list("a").await.unwrap().len(), 2);
}

/// A bucket that answers some calls with an error, after or before doing them.
#[derive(Debug)]
pub(crate) struct Flaky {
    inner: InMemory,
    /// Puts that will be done, and then be said to have failed.
    pub(crate) answers_lost: AtomicUsize,
    /// Calls that will fail without being done.
    pub(crate) calls_lost: AtomicUsize,
    /// An object that someone else puts just before the next put whose path has this in it.
    pub(crate) rival: parking_lot::Mutex<Option<(&'static str, String)>>,
}

impl Flaky {
    pub(crate) fn new() -> Arc<Flaky> {
        let none = AtomicUsize::new(0);
        Arc::new(Flaky {
            inner: InMemory::new(),
            answers_lost: none,
            calls_lost: AtomicUsize::new(0),
            rival: parking_lot::Mutex::new(None),
        })
    }

    /// A store in it that tries a call again about twenty times, without much waiting.
    pub(crate) fn store(self: &Arc<Flaky>) -> ObjectStore {
        let ms = std::time::Duration::from_millis;
        let limits = remote::Limits { total: ms(50), pause: ms(1), pause_max: ms(2) };
        let remote = RemoteStore::new(Arc::clone(self) as _, "p", limits);
        ObjectStore { url: "flaky".into(), backend: Backend::Remote(Arc::new(remote)) }
    }

    fn lose(counter: &AtomicUsize) -> object_store::Result<()> {
        let lost = counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok();
        if lost { Err(object_store::Error::Generic { store: "flaky", source: "connection reset".into() }) } else { Ok(()) }
    }
}

impl fmt::Display for Flaky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flaky://")
    }
}

#[async_trait]
impl object_store::ObjectStore for Flaky {
    async fn put_opts(&self, location: &Location, payload: PutPayload, options: PutOptions) -> object_store::Result<PutResult> {
        Flaky::lose(&self.calls_lost)?;
        let rival = self.rival.lock().take_if(|(at, _)| location.as_ref().contains(*at));
        if let Some((_, path)) = rival {
            self.inner.put(&Location::from(format!("p/{path}")), "rival".into()).await?;
        }
        let result = self.inner.put_opts(location, payload, options).await;
        Flaky::lose(&self.answers_lost)?;
        result
    }

    async fn put_multipart_opts(
        &self,
        location: &Location,
        options: PutMultipartOptions,
    ) -> object_store::Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Location, options: GetOptions) -> object_store::Result<GetResult> {
        Flaky::lose(&self.calls_lost)?;
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, object_store::Result<Location>>,
    ) -> BoxStream<'static, object_store::Result<Location>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Location>) -> object_store::Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Location, to: &Location, options: CopyOptions) -> object_store::Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

#[tokio::test]
async fn d13_a_put_whose_answer_was_lost_is_known_for_ours() {
    let flaky = Flaky::new();
    let store = flaky.store();
    flaky.answers_lost.store(1, Ordering::SeqCst);
    assert_eq!(store.put_if_absent("x", "mine".into()).await.unwrap(), Put::Created);
    flaky.answers_lost.store(1, Ordering::SeqCst);
    assert_eq!(store.put_if_absent("x", "yours".into()).await.unwrap(), Put::Taken);
}

#[tokio::test]
async fn d13_an_outage_of_the_bucket_only_delays() {
    let flaky = Flaky::new();
    let store = flaky.store();
    flaky.calls_lost.store(5, Ordering::SeqCst);
    assert_eq!(store.put_if_absent("x", "mine".into()).await.unwrap(), Put::Created);
    flaky.calls_lost.store(5, Ordering::SeqCst);
    assert_eq!(store.get("x").await.unwrap(), "mine");
    flaky.calls_lost.store(1000, Ordering::SeqCst);
    assert!(matches!(store.get("x").await, Err(StorageError::ObjectStore { .. })), "patience has an end");
}
