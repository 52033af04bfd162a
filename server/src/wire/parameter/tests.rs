use super::*;
use arrow::array::Array;

fn decode(oid: u32, format: Format, bytes: Option<&[u8]>) -> SqlResult<ScalarValue> {
    decode_parameter(0, (oid, parameter_type(oid)), format, bytes, &OutputSettings::default())
}

#[test]
fn null_has_the_type_of_its_parameter() {
    assert_eq!(decode(23, Format::Binary, None), Ok(ScalarValue::Int32(None)));
    assert_eq!(decode(0, Format::Text, None), Ok(ScalarValue::Utf8(None)));
}

#[test]
fn an_unknown_type_is_text_and_braces_stay_text() {
    assert_eq!(decode(705, Format::Text, Some(b"{\"a\":1}")), Ok(ScalarValue::from("{\"a\":1}")));
    assert_eq!(decode(19, Format::Binary, Some(b"pg_class")), Ok(ScalarValue::from("pg_class")));
}

#[test]
fn numbers_keep_their_decimal_places() {
    assert_eq!(decode(1700, Format::Text, Some(b"1.50")), Ok(ScalarValue::Decimal128(Some(150), 38, 2)));
    let long = b"0.123456789012345";
    assert_eq!(decode(1700, Format::Text, Some(long)), Ok(ScalarValue::Decimal128(Some(123_456_789_012_345), 38, 15)));
}

#[test]
fn object_ids_are_read_as_wide_integers() {
    assert_eq!(decode(26, Format::Binary, Some(&[0xff, 0, 0, 0])), Ok(ScalarValue::Int64(Some(0xff00_0000))));
    assert_eq!(decode(26, Format::Text, Some(b"16384")), Ok(ScalarValue::Int64(Some(16384))));
}

#[test]
fn d19_bad_binary_names_the_parameter() {
    assert_eq!(decode(23, Format::Binary, Some(&[1, 2])).unwrap_err().state, SqlState::ProtocolViolation);
    let error = decode(23, Format::Binary, Some(&[1, 2, 3, 4, 5])).unwrap_err();
    assert_eq!(error.state, SqlState::InvalidBinaryRepresentation);
    assert_eq!(error.message, "incorrect binary data format in bind parameter 1");
    assert_eq!(decode(23, Format::Text, Some(b"x")).unwrap_err().state, SqlState::InvalidTextRepresentation);
    assert_eq!(decode(5038, Format::Text, Some(b"10:20:")).unwrap_err().state, SqlState::FeatureNotSupported);
}

#[test]
fn arrays_of_scalars_come_as_lists() {
    let ScalarValue::List(list) = decode(1009, Format::Text, Some(b"{a,NULL}")).unwrap() else { panic!("no list") };
    assert_eq!(list.values().len(), 2);
    let ScalarValue::List(list) = decode(1028, Format::Text, Some(b"{1259,1247}")).unwrap() else { panic!("no list") };
    assert_eq!(list.values().data_type(), &arrow::datatypes::DataType::Int64);
}

#[test]
fn arrays_have_as_many_dimensions_as_come() {
    let ScalarValue::List(list) = decode(1007, Format::Text, Some(b"{{1,2},{3,4}}")).unwrap() else { panic!("no list") };
    assert_eq!((list.value(0).len(), list.value_length(0)), (2, 2));
    let two = b"\0\0\0\x02\0\0\0\0\0\0\0\x17\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x04\0\0\0\x07";
    let ScalarValue::List(list) = decode(1007, Format::Binary, Some(two)).unwrap() else { panic!("no list") };
    assert!(matches!(list.value_type(), arrow::datatypes::DataType::List(_)));
    assert_eq!(decode(1016, Format::Binary, Some(two)).unwrap_err().state, SqlState::DatatypeMismatch);
    assert_eq!(decode(1007, Format::Text, Some(b"{{1,2},{3}}")).unwrap_err().state, SqlState::InvalidTextRepresentation);
    assert_eq!(decode(1007, Format::Text, Some(b"{{{{{{{1}}}}}}}")).unwrap_err().state, SqlState::ProgramLimitExceeded);
}
