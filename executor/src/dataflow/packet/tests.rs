use super::*;
use arrow::array::StringArray;

fn over_the_wire(packet: &Packet) -> Packet {
    let mut bytes = vec![];
    packet.into_bytes(&mut bytes);
    assert_eq!(bytes.len(), packet.length_in_bytes());
    assert_eq!(bytes.len() % 8, 0);
    Packet::from_bytes(timely::bytes::arc::BytesMut::from(bytes).freeze())
}

fn rows() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    RecordBatch::try_from_iter(vec![("id", ids), ("name", names)]).unwrap()
}

#[test]
fn rows_and_weights_cross_a_wire_unchanged() {
    let weighted = Delta::weighted(rows(), Int64Array::from(vec![1, -1, 5]));
    let Packet::Rows(back) = over_the_wire(&Packet::Rows(weighted.clone())) else { panic!("rows") };
    assert_eq!(back.batch().columns(), weighted.batch().columns());
    assert_eq!(back.weights(), weighted.weights());
    let Packet::Rows(back) = over_the_wire(&Packet::Rows(Delta::inserts(rows()))) else { panic!("rows") };
    assert!(back.weights().is_none());
}

#[test]
fn watermarks_cross_a_wire_unchanged_and_count_each_copy() {
    let mark = |column, value, idle| Mark { column, watermark: Watermark { value, idle } };
    let marks = vec![mark(3, -7, false), mark(0, i64::MIN, true)];
    let packet = Packet::Marks { from: 2, marks: marks.clone(), copies: 4 };
    assert_eq!(packet.record_count(), 4);
    let Packet::Marks { from: 2, marks: back, copies: 4 } = over_the_wire(&packet) else { panic!("marks") };
    assert_eq!(back, marks);
}
