use super::*;
use arrow::array::{
    BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    ListArray, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Fields, IntervalMonthDayNano};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn field(data_type: DataType) -> Field {
    Field::new("c", data_type, true)
}

fn codec_of(columns: &[ArrayRef]) -> RowCodec {
    RowCodec::new(&columns.iter().map(|c| field(c.data_type().clone())).collect::<Vec<_>>()).unwrap()
}

fn rows_of(encoded: &EncodedRows) -> Vec<Vec<u8>> {
    (0..encoded.len()).map(|row| encoded.row(row).to_vec()).collect()
}

#[test]
fn s24_negative_zero_and_every_nan_encode_as_one() {
    let doubles: ArrayRef =
        Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, f64::from_bits(0x7ff8_0000_0000_0001)]));
    let singles: ArrayRef = Arc::new(Float32Array::from(vec![0.0, -0.0, f32::NAN, -f32::NAN, f32::from_bits(0xffc0_0001)]));
    for column in [doubles, singles] {
        let rows = rows_of(&codec_of(&[Arc::clone(&column)]).encode(&[column], 5).unwrap());
        assert_eq!(rows[0], rows[1]);
        assert_eq!(rows[2], rows[3]);
        assert_eq!(rows[2], rows[4]);
        assert!(rows[0] < rows[2], "NaN is greater than all, as in Postgres");
    }
}

#[test]
fn the_fast_path_for_integers_gives_the_same_bytes() {
    let values = vec![i64::MIN, -1, 0, 1, 42, i64::MAX];
    let plain: ArrayRef = Arc::new(Int64Array::from(values.clone()));
    let with_null: ArrayRef = Arc::new(values.into_iter().map(Some).chain([None]).collect::<Int64Array>());
    let codec = codec_of(&[Arc::clone(&plain)]);
    let fast = rows_of(&codec.encode(&[plain], 6).unwrap());
    let slow = rows_of(&codec.encode(&[with_null], 7).unwrap());
    assert_eq!(fast, slow[..6]);
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![-5, 7]).with_timezone("+00:00"));
    let codec = codec_of(&[Arc::clone(&times)]);
    let rows = codec.encode(&[Arc::clone(&times)], 2).unwrap();
    assert_eq!(&codec.decode((0..2).map(|r| rows.row(r))).unwrap()[0], &times);
}

#[test]
fn rows_of_every_carried_type_come_back() {
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    let fields = Fields::from(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)]);
    let record = StructArray::new(
        fields,
        vec![Arc::new(Int32Array::from(vec![1, 2, 3])), Arc::new(StringArray::from(vec![None, Some("x"), Some("")]))],
        None,
    );
    let intervals = [Some(IntervalMonthDayNano::new(1, -2, 3)), None, Some(IntervalMonthDayNano::new(0, 0, -1))];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Decimal128Array::from(vec![Some(-5), None, Some(12345)]).with_precision_and_scale(38, 10).unwrap()),
        Arc::new(StringArray::from(vec![Some("ünïcode"), None, Some("")])),
        Arc::new(BinaryArray::from(vec![Some(&b"\0\xff"[..]), None, Some(b"")])),
        Arc::new(IntervalMonthDayNanoArray::from_iter(intervals)),
        Arc::new(list),
        Arc::new(record),
    ];
    let codec = codec_of(&columns);
    let rows = codec.encode(&columns, 3).unwrap();
    assert_eq!(codec.decode((0..3).map(|r| rows.row(r))).unwrap(), columns);
    assert_eq!(codec.fixed_width(), None);
    let fixed = RowCodec::new(&[field(DataType::Int64), field(DataType::Boolean), field(DataType::Decimal128(38, 10))]).unwrap();
    assert_eq!(fixed.fixed_width(), Some(9 + 2 + 17));
}

#[test]
fn encodings_order_as_the_rows_do_and_none_starts_another() {
    let mut rng = StdRng::seed_from_u64(7);
    let texts = (0..300).map(|_| {
        let length = rng.random_range(0..12);
        (rng.random_range(0..8) > 0).then(|| (0..length).map(|_| if rng.random() { 'a' } else { 'b' }).collect::<String>())
    });
    let texts = texts.collect::<Vec<_>>();
    let numbers = (0..300).map(|_| Some(rng.random_range(-2..3i64)).filter(|n| *n != 2)).collect::<Vec<_>>();
    let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(texts.clone())), Arc::new(Int64Array::from(numbers.clone()))];
    let fields = [field(DataType::Utf8), field(DataType::Int64)];
    let codec = RowCodec::ordered(&fields, &[(false, false), (true, true)]).unwrap();
    let rows = rows_of(&codec.encode(&columns, 300).unwrap());
    // NULLs last for the text, first for the number, which descends.
    let order_of =
        |row: usize| (texts[row].is_none(), texts[row].clone(), numbers[row].is_some(), numbers[row].map(std::cmp::Reverse));
    for a in 0..300 {
        for b in 0..300 {
            assert_eq!(rows[a].cmp(&rows[b]), order_of(a).cmp(&order_of(b)), "rows {a} and {b}");
            assert!(rows[a] == rows[b] || !rows[a].starts_with(&rows[b]));
        }
    }
}

#[test]
fn no_columns_encode_as_so_many_empty_rows() {
    let codec = RowCodec::new(&[]).unwrap();
    let rows = codec.encode(&[], 3).unwrap();
    assert_eq!((rows.len(), rows.row(2)), (3, &[][..]));
    assert_eq!(codec.fixed_width(), Some(0));
    assert!(codec.decode([&[][..]]).unwrap().is_empty());
}

#[test]
fn what_is_not_of_the_codecs_shape_is_refused() {
    let codec = RowCodec::new(&[field(DataType::Int64), field(DataType::Utf8)]).unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert!(codec.encode(&[Arc::clone(&numbers), Arc::clone(&numbers)], 1).is_err());
    assert!(codec.encode(&[Arc::clone(&numbers)], 1).is_err());
    assert!(codec.encode(&[numbers], 2).is_err());
    assert!(matches!(codec.decode([&[1u8, 2][..]]), Err(StorageError::Shape { .. })));
    assert!(RowCodec::ordered(&[field(DataType::Int64)], &[]).is_err());
}
