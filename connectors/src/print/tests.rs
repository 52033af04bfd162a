use super::*;
use arrow::array::{Int64Array, RecordBatch};
use std::sync::Arc;
use thalweg_catalog::{SqlType, schema_of};

#[test]
fn each_change_is_a_line_with_its_sign() {
    let columns = [Column::new("a", SqlType::Int8)];
    let batch = RecordBatch::try_new(schema_of(&columns), vec![Arc::new(Int64Array::from(vec![1, 2]))]).unwrap();
    let batches = [
        SinkBatch { epoch: Epoch(1), batch: batch.clone(), weights: None },
        SinkBatch { epoch: Epoch(2), batch, weights: Some(Int64Array::from(vec![-1, 2])) },
    ];
    let text = String::from_utf8(lines(&columns, &batches).unwrap()).unwrap();
    assert_eq!(text, "+I {\"a\":1}\n+I {\"a\":2}\n-D {\"a\":1}\n+I {\"a\":2}\n+I {\"a\":2}\n");
}
