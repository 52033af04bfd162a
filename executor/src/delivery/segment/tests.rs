use super::*;

fn batch(epoch: u64, values: Vec<i64>, weights: Option<Vec<i64>>) -> SinkBatch {
    let batch = RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(values)) as ArrayRef)]).unwrap();
    SinkBatch { epoch: Epoch(epoch), batch, weights: weights.map(Int64Array::from) }
}

#[test]
fn sinklog_1_a_segment_is_read_back_as_it_was_written() {
    let batches = [batch(3, vec![1, 2], None), batch(5, vec![2], Some(vec![-1])), batch(9, vec![7], None)];
    let read = decode(&encode(&batches).unwrap()).unwrap();
    let shown = |batches: &[SinkBatch]| format!("{batches:?}");
    assert_eq!(shown(&read), shown(&batches));
}

#[test]
fn sinklog_1_what_is_no_segment_is_refused() {
    assert!(decode(b"something else").is_err());
    assert!(SegmentName::from_bytes(b"short").is_err());
}

#[test]
fn names_sort_as_their_epochs_do() {
    let name = |through, writer| SegmentName { through: Epoch(through), writer, writers: 300 };
    let names = [name(2, 1), name(255, 0), name(256, 0), name(256, 299)];
    for pair in names.windows(2) {
        assert!(pair[0] < pair[1] && pair[0].to_bytes() < pair[1].to_bytes(), "{pair:?}");
    }
    for name in names {
        assert_eq!(SegmentName::from_bytes(&name.to_bytes()).unwrap(), name);
    }
}
