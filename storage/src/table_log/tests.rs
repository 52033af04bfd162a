use super::local::{Files, LogFile};
use super::*;
use crate::object::tests::{Flaky, assert_names, both_kinds, flip, memory, replace};
use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

mod crash;

async fn open(store: &ObjectStore) -> TableLog {
    try_open(store).await.unwrap()
}

async fn try_open(store: &ObjectStore) -> StorageResult<TableLog> {
    TableLog::open(Arc::new(GenerationClaim::claim_unlocked(store).await?), 0).await
}

async fn open_with(store: &ObjectStore, files: Files) -> TableLog {
    let claim = Arc::new(GenerationClaim::claim_unlocked(store).await.unwrap());
    TableLog::open_with(claim, 0, files).await.unwrap()
}

fn rows(values: &[i64]) -> RecordBatch {
    let names: StringArray = values.iter().map(|v| (v % 3 != 0).then(|| format!("row {v}"))).collect();
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(Int64Array::from(values.to_vec()))), ("name", Arc::new(names))];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

fn inserts(values: &[i64]) -> Delta {
    Delta::inserts(rows(values))
}

const TABLE: ObjectId = ObjectId(16384);

/// Writes one row at each of these epochs.
async fn write(log: &TableLog, epochs: std::ops::RangeInclusive<u64>) {
    for epoch in epochs {
        log.append(Epoch(epoch), vec![(TABLE, inserts(&[epoch as i64]))]).await.unwrap();
    }
}

async fn replayed(log: &TableLog, after: u64) -> Vec<LogEntry> {
    let mut replay = log.replay(Epoch(after));
    let mut entries = Vec::new();
    while let Some(entry) = replay.next().await.unwrap() {
        entries.push(entry);
    }
    entries
}

async fn epochs(log: &TableLog) -> Vec<u64> {
    replayed(log, 0).await.iter().map(|entry| entry.epoch.0).collect()
}

#[track_caller]
fn assert_same(left: &Delta, right: &Delta) {
    assert_eq!(left.batch(), right.batch());
    assert_eq!(left.weights(), right.weights());
}

#[tokio::test]
async fn writes_come_back_in_order_with_their_weights() {
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None]));
    let nested = RecordBatch::try_from_iter([("list", lists)]).unwrap();
    let update = Delta::weighted(rows(&[1, 1, 7]), Int64Array::from(vec![-1, 2, 1]));
    let writes = [
        vec![(TABLE, inserts(&[1, 2, 3])), (ObjectId(16390), Delta::inserts(nested))],
        vec![(TABLE, update.slice(1, 2)), (TABLE, inserts(&[]))],
        vec![],
    ];
    let (_directory, stores) = both_kinds();
    for store in stores {
        let log = open(&store).await;
        assert_eq!(log.last_epoch(), None);
        for (epoch, writes) in writes.iter().enumerate() {
            log.append(Epoch(epoch as u64 + 5), writes.clone()).await.unwrap();
        }
        drop(log);
        let log = open(&store).await;
        assert_eq!(log.last_epoch(), Some(Epoch(7)));
        let entries = replayed(&log, 0).await;
        assert_eq!(entries.len(), writes.len());
        for ((epoch, written), entry) in writes.iter().enumerate().zip(&entries) {
            assert_eq!(entry.epoch, Epoch(epoch as u64 + 5));
            assert_eq!(entry.writes.len(), written.len());
            for ((table, delta), (written_table, written)) in entry.writes.iter().zip(written) {
                assert_eq!(table, written_table);
                assert_same(delta, written);
            }
        }
        assert_eq!(replayed(&log, 5).await.len(), 2, "what the checkpoint has is not replayed");
        assert_eq!(replayed(&log, 7).await.len(), 0);
    }
}

/// On one thread, so that the task which puts objects runs only once every write is queued; the thread which writes files is
/// held in its first sync until then.
#[tokio::test]
async fn writes_that_wait_share_a_sync() {
    let (directory, [local, remote]) = both_kinds();
    let (log, fails) = open_failing(&local).await;
    let held = fails.held.lock();
    let answers = append_500(&log);
    drop(held);
    futures::future::try_join_all(answers).await.unwrap();
    assert_eq!(log.stats().appends, 500);
    assert!(log.stats().groups <= 2, "{} syncs for 500 writes", log.stats().groups);
    drop(log);
    assert_eq!(epochs(&open(&local).await).await, (1..=500).collect::<Vec<_>>());
    drop(directory);

    let log = open(&remote).await;
    futures::future::try_join_all(append_500(&log)).await.unwrap();
    let stats = log.stats();
    assert_eq!((stats.appends, stats.groups), (500, 1));
    drop(log);
    assert_eq!(epochs(&open(&remote).await).await, (1..=500).collect::<Vec<_>>());
}

fn append_500(log: &TableLog) -> Vec<impl Future<Output = StorageResult<()>>> {
    (1..=500).map(|epoch| log.append(Epoch(epoch), vec![(TABLE, inserts(&[epoch as i64]))])).collect()
}

#[tokio::test]
async fn a_write_that_nobody_waits_for_is_made_all_the_same() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let log = open(&store).await;
        drop(log.append(Epoch(1), vec![(TABLE, inserts(&[1]))]));
        write(&log, 2..=2).await;
        assert_eq!(epochs(&log).await, [1, 2]);
    }
}

#[tokio::test]
#[should_panic(expected = "TABLELOG-1")]
async fn epochs_must_grow() {
    let log = open(&memory()).await;
    write(&log, 5..=5).await;
    drop(log.append(Epoch(5), vec![]));
}

/// The bytes of a first segment with these epochs, a frame for each, all but `torn` of them acknowledged.
fn segment(epochs: &[u64], torn: usize) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = format::header(Generation(1), 0);
    let mut ends = vec![bytes.len()];
    for epoch in epochs {
        let record = format::encode(Epoch(*epoch), &[(TABLE, inserts(&[*epoch as i64]))]).unwrap();
        bytes.extend(format::frame([record.as_slice()].into_iter()));
        ends.push(bytes.len());
    }
    let acknowledged = ends[ends.len() - 1 - torn];
    let mark = format::MARK_AT as usize;
    bytes[mark..mark + 12].copy_from_slice(&format::mark(acknowledged as u64));
    (bytes, ends)
}

async fn local_with(bytes: &[u8]) -> (TempDir, ObjectStore) {
    let directory = TempDir::new().unwrap();
    let store = ObjectStore::local(directory.path()).unwrap();
    GenerationClaim::claim_unlocked(&store).await.unwrap();
    replace(&store, &segment_path(0), bytes).await;
    (directory, store)
}

#[tokio::test]
async fn a_torn_tail_is_cut_off_and_the_log_goes_on() {
    let (whole, ends) = segment(&[1, 2, 3], 1);
    for length in (ends[2]..ends[3]).step_by(5).chain([ends[2] + 1, ends[3] - 1]) {
        let (_directory, store) = local_with(&whole[..length]).await;
        let log = open(&store).await;
        assert_eq!(log.last_epoch(), Some(Epoch(2)));
        write(&log, 4..=4).await;
        drop(log);
        // The torn segment is no longer the newest: it must have been made whole.
        assert_eq!(epochs(&open(&store).await).await, [1, 2, 4]);
    }
    // Full length, but not all of it got to the disk.
    for from in (ends[2]..ends[3]).step_by(11) {
        let mut zeroed = whole.clone();
        zeroed[from..].fill(0);
        let (_directory, store) = local_with(&zeroed).await;
        let last = open(&store).await.last_epoch();
        assert!(last == Some(Epoch(2)) || (zeroed == whole && last == Some(Epoch(3))));
    }
}

#[tokio::test]
async fn a_whole_write_that_was_not_acknowledged_may_stay() {
    let (whole, _) = segment(&[1, 2, 3], 1);
    let (_directory, store) = local_with(&whole).await;
    assert_eq!(epochs(&open(&store).await).await, [1, 2, 3]);
}

#[tokio::test]
async fn d6_acknowledged_writes_that_were_cut_off_are_missed() {
    let (whole, ends) = segment(&[1, 2, 3], 0);
    for length in (0..whole.len()).step_by(13).chain(ends[..3].iter().copied()) {
        let (_directory, store) = local_with(&whole[..length]).await;
        assert_names(try_open(&store).await, &segment_path(0));
    }
}

#[test]
fn d6_a_flipped_bit_is_found_and_named() {
    let (whole, ends) = segment(&[1, 2], 0);
    let path = segment_path(0);
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        for tail in [Tail::MayBeTorn, Tail::Marked] {
            let error = format::scan(&path, 0, &flipped, tail).unwrap_err();
            let StorageError::Corrupt { path: named, reason } = &error else { panic!("{error:?}") };
            assert_eq!(*named, path);
            if bit / 8 >= ends[0] {
                let at = if bit / 8 < ends[1] { ends[0] } else { ends[1] };
                assert!(reason.contains(&format!("byte {at}")), "{reason}");
            }
        }
    }
}

#[tokio::test]
async fn d6_a_damaged_log_is_not_opened() {
    let (whole, _) = segment(&[1, 2], 0);
    let (_directory, store) = local_with(&whole).await;
    for bit in (3..whole.len() * 8).step_by(whole.len()) {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        replace(&store, &segment_path(0), &flipped).await;
        assert_names(try_open(&store).await, &segment_path(0));
    }
}

#[test]
fn s4_a_write_to_several_tables_is_never_half_there() {
    let writes = [1, 2, 3].map(|table| (ObjectId(table), inserts(&[1, 2])));
    let record = format::encode(Epoch(1), &writes).unwrap();
    let mut bytes = format::header(Generation(1), 0);
    bytes.extend(format::frame([record.as_slice()].into_iter()));
    for length in format::HEADER_BYTES..=bytes.len() {
        let scan = format::scan("a segment", 0, &bytes[..length], Tail::MayBeTorn).unwrap();
        let entries: Vec<_> =
            scan.frames.into_iter().flat_map(|frame| format::decode("a segment", &bytes, frame).unwrap()).collect();
        match entries.as_slice() {
            [] => assert!(length < bytes.len()),
            [entry] => assert_eq!((entry.writes.len(), length), (3, bytes.len())),
            more => panic!("{more:?}"),
        }
    }
}

#[tokio::test]
async fn d6_a_flipped_bit_with_a_whole_write_behind_is_no_torn_tail() {
    // The mark is a frame behind, as after a crash of the machine.
    let (mut bytes, ends) = segment(&[1, 2, 3], 2);
    bytes[ends[1] + 40] ^= 1;
    let (_directory, store) = local_with(&bytes).await;
    assert_names(try_open(&store).await, &segment_path(0));
}

#[tokio::test]
async fn d6_damage_in_any_older_segment_is_named() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        for epoch in 1..=3 {
            write(&open(&store).await, epoch..=epoch).await;
        }
        drop(open(&store).await);
        for number in numbers_in(&store, SEGMENTS).await.unwrap() {
            let path = segment_path(number);
            let whole = store.get(&path).await.unwrap();
            flip(&store, &path, whole.len() * 8 - 3).await;
            assert_names(try_open(&store).await, &path);
            replace(&store, &path, &whole).await;
        }
        let path = segment_path(1);
        store.delete(vec![path.clone()]).await.unwrap();
        assert_names(try_open(&store).await, &path);
    }
}

#[tokio::test]
async fn d6_a_log_that_ends_before_its_checkpoint_says_is_missed() {
    let store = memory();
    let log = open(&store).await;
    write(&log, 1..=3).await;
    let reaches = log.newest_segment();
    drop(log);
    store.delete(vec![segment_path(reaches)]).await.unwrap();
    let claim = Arc::new(GenerationClaim::claim_unlocked(&store).await.unwrap());
    assert_names(TableLog::open(claim, reaches).await, &segment_path(reaches));
}

#[tokio::test]
async fn d5_what_a_checkpoint_has_is_dropped_and_nothing_else() {
    let directory = TempDir::new().unwrap();
    let local = ObjectStore::local(directory.path()).unwrap();
    for store in [local, memory()] {
        let log = open_with(&store, Files { segment_bytes: 2000, ..Files::default() }).await;
        write(&log, 1..=100).await;
        let all = log.stats().segments;
        assert!(all > 10, "{all} segments");
        log.truncate(Epoch(0)).await.unwrap();
        assert_eq!(epochs(&log).await.len(), 100);
        log.truncate(Epoch(70)).await.unwrap();
        let left = epochs(&log).await;
        assert!(left[0] > 1 && left[0] <= 71 && left.last() == Some(&100), "{left:?}");
        assert!(log.stats().segments < all);
        drop(log);
        let log = open(&store).await;
        assert_eq!(epochs(&log).await, left);
        assert_eq!(log.last_epoch(), Some(Epoch(100)));
        log.truncate(Epoch(100)).await.unwrap();
        assert!(store.list(SEGMENTS).await.unwrap().len() <= 32);
        write(&log, 101..=101).await;
        drop(log);
        assert_eq!(replayed(&open(&store).await, 100).await.len(), 1);
    }
}

#[tokio::test]
async fn d5_a_truncation_that_a_crash_interrupted_is_finished() {
    let directory = TempDir::new().unwrap();
    let store = ObjectStore::local(directory.path()).unwrap();
    let log = open_with(&store, Files { segment_bytes: 1000, ..Files::default() }).await;
    write(&log, 1..=20).await;
    let before = store.list(SEGMENTS).await.unwrap();
    let saved = futures::future::try_join_all(before.iter().map(|o| store.get(&o.path))).await.unwrap();
    log.truncate(Epoch(18)).await.unwrap();
    let left = epochs(&log).await;
    drop(log);
    // Some of the dropped segments are back, with gaps.
    for (object, bytes) in before.iter().zip(saved).step_by(2).take(3) {
        store.put_if_absent(&object.path, bytes).await.unwrap();
    }
    let log = open(&store).await;
    assert_eq!(epochs(&log).await, left);
    assert_eq!(store.list(SEGMENTS).await.unwrap().len(), log.stats().segments);
}

#[tokio::test]
async fn d4_a_stale_process_acknowledges_nothing() {
    let (_directory, stores) = both_kinds();
    for store in stores {
        let stale = open(&store).await;
        write(&stale, 1..=2).await;
        let log = open(&store).await;
        for epoch in 3..5 {
            let refused = stale.append(Epoch(epoch), vec![(TABLE, inserts(&[0]))]).await;
            assert!(matches!(refused, Err(StorageError::Fenced { .. })), "{refused:?}");
        }
        write(&log, 10..=10).await;
        // Nor does anyone see what it wrote.
        assert_eq!(epochs(&open(&store).await).await, [1, 2, 10]);
    }
}

#[tokio::test]
async fn d4_a_stale_process_is_fenced_by_a_log_that_was_truncated_since() {
    let store = memory();
    let stale = open(&store).await;
    write(&stale, 1..=1).await;
    for start in 1..=3 {
        let log = open(&store).await;
        write(&log, start * 1000..=start * 1000 + 100).await;
        log.truncate(Epoch(start * 1000 + 100)).await.unwrap();
    }
    assert!(stale.append(Epoch(2), vec![]).await.is_err());
}

/// A file whose writes or syncs can be made to fail, and whose syncs can be held back.
struct Failing {
    file: File,
    fails: Arc<Fails>,
}

#[derive(Default)]
struct Fails {
    write: AtomicBool,
    sync: AtomicBool,
    /// No sync begins while this is locked.
    held: Mutex<()>,
}

impl LogFile for Failing {
    fn write_at(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        if self.fails.write.load(Ordering::SeqCst) {
            // As a full disk does: some of it is written.
            LogFile::write_at(&mut self.file, &bytes[..bytes.len() / 2], at)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        LogFile::write_at(&mut self.file, bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        drop(self.fails.held.lock());
        if self.fails.sync.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.file.sync()
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.file.cut(bytes)
    }
}

async fn open_failing(store: &ObjectStore) -> (TableLog, Arc<Fails>) {
    let fails = Arc::new(Fails::default());
    let shared = Arc::clone(&fails);
    let open = move |path: &Path| -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(Failing { file: File::options().write(true).open(path)?, fails: Arc::clone(&shared) }))
    };
    let log = open_with(store, Files { open: Box::new(open), ..Files::default() }).await;
    (log, fails)
}

#[tokio::test]
async fn nothing_is_acknowledged_after_a_failed_sync() {
    let directory = TempDir::new().unwrap();
    let store = ObjectStore::local(directory.path()).unwrap();
    let (log, fails) = open_failing(&store).await;
    write(&log, 1..=1).await;
    fails.sync.store(true, Ordering::SeqCst);
    assert!(matches!(log.append(Epoch(2), vec![]).await, Err(StorageError::Poisoned { .. })));
    // The next sync would succeed, but says nothing about the pages that the first one lost.
    fails.sync.store(false, Ordering::SeqCst);
    assert!(matches!(log.append(Epoch(3), vec![]).await, Err(StorageError::Poisoned { .. })));
    drop(log);
    let log = open(&store).await;
    assert!(log.last_epoch() >= Some(Epoch(1)));
    write(&log, 4..=4).await;
}

#[tokio::test]
async fn d13_a_full_disk_fails_the_write_and_the_next_one_succeeds() {
    let directory = TempDir::new().unwrap();
    let store = ObjectStore::local(directory.path()).unwrap();
    let (log, fails) = open_failing(&store).await;
    write(&log, 1..=1).await;
    fails.write.store(true, Ordering::SeqCst);
    let refused = log.append(Epoch(2), vec![(TABLE, inserts(&[2]))]).await;
    assert!(matches!(refused, Err(StorageError::DiskFull { .. })), "{refused:?}");
    fails.write.store(false, Ordering::SeqCst);
    write(&log, 3..=3).await;
    drop(log);
    assert_eq!(epochs(&open(&store).await).await, [1, 3]);
}

#[tokio::test]
async fn d13_writes_wait_for_a_bucket_that_is_away() {
    let flaky = Flaky::new();
    let store = flaky.store();
    let log = open(&store).await;
    write(&log, 1..=1).await;
    // Longer than any one call is tried again for.
    flaky.calls_lost.store(100, Ordering::SeqCst);
    write(&log, 2..=2).await;
    flaky.answers_lost.store(1, Ordering::SeqCst);
    write(&log, 3..=3).await;
    assert_eq!(epochs(&open(&store).await).await, [1, 2, 3]);
}
