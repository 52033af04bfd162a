//! What travels between operators: rows, or watermarks.
//!
//! Timely accounts for progress by the number of records in a container, so what a packet counts must stay the same on
//! the way: rows count each for one, a packet that goes to every worker counts one for each copy, and nothing that is sent
//! counts zero, since that would silently not be sent.

use crate::operator::Watermark;
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::io::Write;
use std::sync::Arc;
use thalweg_catalog::Delta;
use timely::Accountable;
use timely::bytes::arc::Bytes;
use timely::dataflow::channels::ContainerBytes;

/// A sender's watermark on one column of the edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// The column.
    pub column: usize,
    /// The watermark.
    pub watermark: Watermark,
}

/// One container.
#[derive(Clone, Debug, Default)]
pub enum Packet {
    /// Nothing; never sent.
    #[default]
    Empty,
    /// Rows for one worker, or for as many as their keys say.
    Rows(Delta),
    /// Rows for every worker.
    RowsToAll {
        /// The rows.
        delta: Delta,
        /// How many workers they go to from here.
        copies: usize,
    },
    /// Watermarks of one sender.
    Marks {
        /// The worker that they come from.
        from: usize,
        /// The watermarks.
        marks: Vec<Mark>,
        /// How many workers they go to from here.
        copies: usize,
    },
}

impl Accountable for Packet {
    fn record_count(&self) -> i64 {
        match self {
            Packet::Empty => 0,
            Packet::Rows(delta) => delta.num_rows() as i64,
            Packet::RowsToAll { copies, .. } | Packet::Marks { copies, .. } => *copies as i64,
        }
    }
}

const ROWS: u8 = 1;
const ROWS_TO_ALL: u8 = 2;
const MARKS: u8 = 3;
/// The name of the column that weights travel in.
const WEIGHT: &str = "thalweg.weight";

/// Between processes: a tag and then Arrow IPC for rows, or fixed-width numbers for watermarks. Both ends are the same
/// program, and timely gives no way to refuse a message, so what can't be read is a panic: a process that sent it is broken.
impl ContainerBytes for Packet {
    fn from_bytes(bytes: Bytes) -> Self {
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("a packet starts with its length")) as usize;
        decode(&bytes[8..8 + length])
    }

    fn length_in_bytes(&self) -> usize {
        8 + encode(self).len().next_multiple_of(8)
    }

    fn into_bytes<W: Write>(&self, writer: &mut W) {
        let body = encode(self);
        let padding = body.len().next_multiple_of(8) - body.len();
        writer.write_all(&(body.len() as u64).to_le_bytes()).expect("timely's buffer takes what was announced");
        writer.write_all(&body).expect("timely's buffer takes what was announced");
        writer.write_all(&[0; 8][..padding]).expect("timely's buffer takes what was announced");
    }
}

fn encode(packet: &Packet) -> Vec<u8> {
    let mut body = vec![];
    match packet {
        Packet::Empty => {}
        Packet::Rows(delta) => {
            body.push(ROWS);
            encode_delta(delta, &mut body);
        }
        Packet::RowsToAll { delta, copies } => {
            body.push(ROWS_TO_ALL);
            body.extend((*copies as u64).to_le_bytes());
            encode_delta(delta, &mut body);
        }
        Packet::Marks { from, marks, copies } => {
            body.push(MARKS);
            body.extend((*copies as u64).to_le_bytes());
            body.extend((*from as u64).to_le_bytes());
            for mark in marks {
                body.extend((mark.column as u64).to_le_bytes());
                body.push(u8::from(mark.watermark.idle));
                body.extend(mark.watermark.value.to_le_bytes());
            }
        }
    }
    body
}

fn decode(body: &[u8]) -> Packet {
    let number = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"));
    match body.first() {
        None => Packet::Empty,
        Some(&ROWS) => Packet::Rows(decode_delta(&body[1..])),
        Some(&ROWS_TO_ALL) => Packet::RowsToAll { copies: number(1) as usize, delta: decode_delta(&body[9..]) },
        Some(&MARKS) => Packet::Marks {
            copies: number(1) as usize,
            from: number(9) as usize,
            marks: body[17..]
                .chunks_exact(17)
                .map(|mark| Mark {
                    column: u64::from_le_bytes(mark[..8].try_into().expect("eight bytes")) as usize,
                    watermark: Watermark {
                        value: i64::from_le_bytes(mark[9..].try_into().expect("eight bytes")),
                        idle: mark[8] == 1,
                    },
                })
                .collect(),
        },
        Some(other) => panic!("a packet of unknown kind {other}"),
    }
}

fn encode_delta(delta: &Delta, body: &mut Vec<u8>) {
    let mut batch = delta.batch().clone();
    if let Some(weights) = delta.weights() {
        let mut fields: Vec<_> = batch.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(WEIGHT, DataType::Int64, false)));
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(weights.clone()) as ArrayRef);
        batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("DELTA-1: a weight for every row");
    }
    let mut writer = StreamWriter::try_new(body, &batch.schema()).expect("a batch's schema can be written");
    writer.write(&batch).expect("a batch can be written to memory");
    writer.finish().expect("a stream can be ended in memory");
}

fn decode_delta(bytes: &[u8]) -> Delta {
    let mut reader = StreamReader::try_new(bytes, None).expect("rows travel as an Arrow stream");
    let batch = reader.next().expect("a packet of rows has a batch").expect("a batch that was sent can be read");
    let last = batch.num_columns().wrapping_sub(1);
    if batch.schema().fields().last().is_some_and(|f| f.name() == WEIGHT) {
        let weights: Int64Array = batch.column(last).as_primitive::<Int64Type>().clone();
        let columns: Vec<usize> = (0..last).collect();
        Delta::weighted(batch.project(&columns).expect("columns below the last are there"), weights)
    } else {
        Delta::inserts(batch)
    }
}

#[cfg(test)]
mod tests;
