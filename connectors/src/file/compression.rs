//! Compression of whole files.

use std::io::{self, Read, Write};

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// What the ending of a file's name says.
    pub fn of_name(name: &str) -> Compression {
        match name.rsplit('.').next() {
            Some("gz" | "gzip") => Compression::Gzip,
            Some("zst" | "zstd") => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// The ending that says it, with its dot.
    pub fn extension(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }

    /// The text of a file. Files put together of several compressed pieces are read whole.
    pub(super) fn reader(self, input: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Compression::None => input,
            Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 17, input))),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(input)?),
        })
    }

    /// The text as a compressed file.
    pub(super) fn compress(self, text: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Compression::None => Ok(text),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&text)?;
                encoder.finish()
            }
            Compression::Zstd => zstd::stream::encode_all(text.as_slice(), 0),
        }
    }
}
