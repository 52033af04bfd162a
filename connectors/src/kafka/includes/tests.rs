use super::*;
use rdkafka::Timestamp;
use rdkafka::message::{OwnedHeaders, OwnedMessage};

fn message(key: Option<&[u8]>, timestamp: Timestamp) -> OwnedMessage {
    OwnedMessage::new(Some(b"{}".to_vec()), key.map(<[u8]>::to_vec), "t".into(), timestamp, 3, 17, None::<OwnedHeaders>)
}

fn column(part: MessagePart, sql_type: SqlType, nullable: bool) -> IncludeColumn {
    let declared = Column { nullable, ..Column::new("c", sql_type) };
    IncludeColumn::new(part, &declared).expect("the part fits the type")
}

#[test]
fn a_part_fits_its_types_only() {
    let columns = vec![Column::new("c", SqlType::Boolean)];
    for part in [MessagePart::Key, MessagePart::Partition, MessagePart::Offset, MessagePart::Timestamp, MessagePart::Headers] {
        let error = check(&[Include { column: 0, part }], &columns).unwrap_err();
        assert_eq!(error.state.code(), "42804");
        assert!(error.message.ends_with("does not fit column \"c\" of type boolean"), "{}", error.message);
    }
    let error = check(&[Include { column: 1, part: MessagePart::Key }], &columns).unwrap_err();
    assert_eq!(error.state.code(), "42703");
}

#[test]
fn a_column_carries_the_arrow_type_of_its_sql_type() {
    let record = message(Some(b"k"), Timestamp::CreateTime(5));
    for (part, sql_type) in [
        (MessagePart::Key, SqlType::Bytea),
        (MessagePart::Key, SqlType::Text),
        (MessagePart::Partition, SqlType::Int4),
        (MessagePart::Partition, SqlType::Int8),
        (MessagePart::Partition, SqlType::Text),
        (MessagePart::Offset, SqlType::Int8),
        (MessagePart::Timestamp, SqlType::Timestamp),
        (MessagePart::Timestamp, SqlType::TimestampTz),
        (MessagePart::Headers, SqlType::Jsonb),
    ] {
        let mut column = column(part, sql_type.clone(), true);
        assert_eq!(column.refusal(&record), None);
        column.push(&record);
        let values = column.finish();
        assert_eq!((values.len(), values.data_type()), (1, &sql_type.to_arrow()));
        assert_eq!(column.finish().len(), 0);
    }
}

#[test]
fn s21_a_missing_part_of_a_not_null_column_refuses_the_record() {
    let record = message(None, Timestamp::NotAvailable);
    let refused = Some("null value in column \"c\" that is NOT NULL".to_string());
    assert_eq!(column(MessagePart::Key, SqlType::Bytea, false).refusal(&record), refused);
    assert_eq!(column(MessagePart::Timestamp, SqlType::TimestampTz, false).refusal(&record), refused);
    assert_eq!(column(MessagePart::Key, SqlType::Bytea, true).refusal(&record), None);
    assert_eq!(column(MessagePart::Offset, SqlType::Int8, false).refusal(&record), None);
}

#[test]
fn a_key_that_is_no_text_refuses_the_record_for_a_text_column() {
    for key in [b"\xff".as_slice(), b"a\0b"] {
        let record = message(Some(key), Timestamp::NotAvailable);
        let reason = column(MessagePart::Key, SqlType::Text, true).refusal(&record);
        assert_eq!(reason.as_deref(), Some("the key is not text, so it does not fit column \"c\""));
        assert_eq!(column(MessagePart::Key, SqlType::Bytea, true).refusal(&record), None);
    }
}
