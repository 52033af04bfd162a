//! D19: bytes that nobody meant, given to what reads messages and copied data. Nothing panics, nothing is taken for more than it is, and
//! data means the same however it is cut.
//!
//! Each round follows from its number, which a failure shows. `THALWEG_FUZZ_ROUNDS` asks for more of them.

use super::copy::{CopyFormat, CopyOptions, CopyReader};
use super::guard::Stop;
use super::message::Frontend;
use super::settings::OutputSettings;
use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use bytes::Bytes;
use thalweg_catalog::{Column, SqlType};

mod values;

/// How many rounds there are of each kind without the variable: some seconds for all.
const ROUNDS: u64 = 20_000;

fn rounds() -> std::ops::Range<u64> {
    let asked = std::env::var("THALWEG_FUZZ_ROUNDS").map(|text| text.parse().expect("THALWEG_FUZZ_ROUNDS is a number"));
    0..asked.unwrap_or(ROUNDS)
}

/// Numbers that look random, the same for the same seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound.max(1)
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn bytes(&mut self, length_max: usize) -> Vec<u8> {
        (0..self.below(length_max)).map(|_| self.next() as u8).collect()
    }

    /// The bytes with some of them changed, cut off, doubled, or with numbers that lengths and counts go wrong at.
    fn mutated(&mut self, bytes: &[u8]) -> Vec<u8> {
        const EDGES: [&[u8]; 8] =
            [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0", b"\xff\xff", b"\0", b"\\", b"\""];
        let mut bytes = bytes.to_vec();
        for _ in 0..=self.below(3) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.next() as u8),
                2 => {
                    let edge = *self.pick(&EDGES);
                    let end = (at + edge.len()).min(bytes.len());
                    bytes.splice(at..end, edge.iter().copied());
                }
                3 => {
                    let piece = bytes[at..].to_vec();
                    bytes.extend(piece);
                }
                4 => drop(bytes.drain(at.min(bytes.len())..(at + self.below(4)).min(bytes.len()))),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        bytes
    }
}

#[test]
fn d19_a_decoded_message_holds_no_more_than_its_bytes() {
    const BODIES: [(u8, &[u8]); 7] = [
        (b'Q', b"SELECT 1\0"),
        (b'P', b"name\0SELECT $1\0\0\x02\0\0\0\x17\0\0\0\x19"),
        (b'B', b"portal\0statement\0\0\x01\0\x01\0\x02\0\0\0\x03abc\xff\xff\xff\xff\0\x01\0\x01"),
        (b'D', b"Sname\0"),
        (b'E', b"portal\0\0\0\0\x05"),
        (b'd', b"1\tx\n"),
        (b'f', b"reason\0"),
    ];
    for round in rounds() {
        let mut random = Random::new(round);
        let (kind, body) = *random.pick(&BODIES);
        let body = if random.below(4) == 0 { random.bytes(64) } else { random.mutated(body) };
        let length = body.len();
        let held = match Frontend::decode(kind, Bytes::from(body)) {
            Ok(Frontend::Query(sql)) => sql.len(),
            Ok(Frontend::Parse { name, sql, param_oids }) => name.len() + sql.len() + 4 * param_oids.len(),
            Ok(Frontend::Bind(bind)) => {
                let values: usize = bind.params.iter().map(|value| 4 + value.as_ref().map_or(0, Bytes::len)).sum();
                bind.portal.len() + bind.statement.len() + values + 2 * (bind.param_formats.len() + bind.result_formats.len())
            }
            Ok(Frontend::CopyData(data)) => data.len(),
            _ => 0,
        };
        assert!(held <= length, "round {round}: {held} bytes from {length}");
    }
}

/// The rows of copied data that comes in pieces of this size, or what is wrong with it.
fn copied(options: &CopyOptions, data: &[u8], piece: usize) -> Result<String, String> {
    let columns = [Column::new("a", SqlType::Int4), Column::new("b", SqlType::Text), Column::new("c", SqlType::Bytea)];
    let read = || -> Result<Vec<RecordBatch>, Stop> {
        let mut reader = CopyReader::new(&columns, options.clone(), "t".to_string(), OutputSettings::default())?;
        let mut batches = vec![];
        for piece in data.chunks(piece) {
            reader.push(piece)?;
            batches.extend(reader.full_batch()?);
        }
        reader.end()?;
        while let Some(batch) = reader.last_batch()? {
            batches.push(batch);
        }
        Ok(batches)
    };
    match read() {
        Ok(batches) => Ok(pretty_format_batches(&batches).expect("rows that can be shown").to_string()),
        Err(Stop::Error(error, context)) => Err(format!("{} {} {context:?}", error.state.code(), error.message)),
        Err(Stop::End(end)) => panic!("{end:?}"),
    }
}

#[test]
fn d19_copied_data_means_the_same_however_it_is_cut() {
    const SAMPLES: [(CopyFormat, &[u8]); 3] = [
        (CopyFormat::Text, b"1\ta\\tb\\x41\\101\t\\\\x00ff\n\\N\t\\N\t\\N\n3\tsplit\\\nrow\t\\\\x\n\\.\n"),
        (CopyFormat::Csv, b"1,\"a,\"\"b\"\"\nc\",\\x00\r\n,,\r\n3,x,\"\"\r\n"),
        (
            CopyFormat::Binary,
            b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x03\0\0\0\x04\0\0\0\x07\0\0\0\x01x\0\0\0\x02\0\xff\0\x03\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff",
        ),
    ];
    for round in rounds() {
        let mut random = Random::new(round);
        let (format, sample) = *random.pick(&SAMPLES);
        let mut options = CopyOptions::of_format(format);
        options.header = format == CopyFormat::Csv && random.below(4) == 0;
        let data = match random.below(8) {
            0 => random.bytes(80),
            _ => random.mutated(sample),
        };
        let whole = copied(&options, &data, data.len().max(1));
        for piece in [1, 1 + random.below(7)] {
            assert_eq!(copied(&options, &data, piece), whole, "round {round}, in pieces of {piece}: {format:?} {data:?}");
        }
    }
}
