//! Values as Postgres writes and reads them, as text and in binary, to and from Arrow arrays.
//!
//! In reading order: [`mod@write`] turns a column's values into bytes, [`read`] bytes into a column, [`text`] and [`parse`] hold
//! the text forms of single values, [`interval`] those of intervals, [`mod@array`] reads arrays, [`carried`]
//! the binary forms of types that are carried by text, [`numeric`] the arithmetic that both directions share.

pub mod array;
mod carried;
pub mod interval;
pub mod numeric;
pub mod parse;

pub mod read;
pub mod text;
pub mod write;

/// In which of its two forms a value goes over the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Format {
    Text,
    Binary,
}

impl Format {
    /// The format of this code.
    pub fn from_code(code: i16) -> Option<Format> {
        match code {
            0 => Some(Format::Text),
            1 => Some(Format::Binary),
            _ => None,
        }
    }

    /// The code that the protocol has for it.
    pub fn code(self) -> i16 {
        match self {
            Format::Text => 0,
            Format::Binary => 1,
        }
    }
}

#[cfg(test)]
mod tests;
