//! CSV as in RFC 4180: fields parted by a delimiter, quoted where they must be, a quote in a quoted field doubled.
//!
//! An unquoted field that equals the NULL text (empty unless said otherwise) is NULL; a quoted one never is.

use crate::decode::column::ColumnBuilder;
use crate::decode::fault::{Fault, Fit};
use crate::decode::json;
use crate::scan::find_byte;
use thalweg_catalog::options::Options;
use thalweg_catalog::{SqlError, SqlResult, SqlType};

/// How CSV is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CsvOptions {
    /// What stands between two fields; a comma if not given.
    pub delimiter: u8,
    /// What stands around a field that holds delimiters, quotes or line ends.
    pub quote: u8,
    /// Whether a file's first record names the columns; else fields go to the columns in their declared order.
    pub header: bool,
    /// The unquoted text that means NULL.
    pub null: String,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        CsvOptions { delimiter: b',', quote: b'"', header: false, null: String::new() }
    }
}

impl CsvOptions {
    /// Reads `delimiter`, `quote`, `header` and `null`.
    ///
    /// # Errors
    /// `22023` for a value that can't be one.
    pub fn parse(options: &mut Options) -> SqlResult<CsvOptions> {
        let default = CsvOptions::default();
        let parsed = CsvOptions {
            delimiter: one_byte("delimiter", options.text("delimiter"), default.delimiter)?,
            quote: one_byte("quote", options.text("quote"), default.quote)?,
            header: options.flag("header")?,
            null: options.text("null").unwrap_or(default.null),
        };
        if parsed.delimiter == parsed.quote {
            return Err(SqlError::invalid_parameter("options \"delimiter\" and \"quote\" of ENCODE CSV are the same"));
        }
        Ok(parsed)
    }
}

fn one_byte(name: &str, text: Option<String>, default: u8) -> SqlResult<u8> {
    let Some(text) = text else { return Ok(default) };
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        _ => Err(SqlError::invalid_parameter(format!("invalid value for option \"{name}\" of ENCODE CSV: \"{text}\""))
            .with_hint("Give one ASCII character that is no line end.")),
    }
}

/// Reads records of fields.
pub(crate) struct CsvDecoder {
    options: CsvOptions,
    /// Where the field at each place goes; none if nobody reads it.
    places: Vec<Option<usize>>,
    scratch: Vec<u8>,
}

/// A field as it stands in the record.
struct Field<'a> {
    /// Without the quotes around it.
    text: &'a [u8],
    quoted: bool,
    /// Whether it holds doubled quotes.
    doubled: bool,
}

impl CsvDecoder {
    pub(crate) fn new(options: CsvOptions, places: Vec<Option<usize>>) -> CsvDecoder {
        CsvDecoder { options, places, scratch: vec![] }
    }

    /// From now on fields go where this header says; `resolve` gives the builder for a name.
    pub(crate) fn set_header(&mut self, record: &[u8], resolve: impl Fn(&str) -> Option<usize>) -> Fit<()> {
        let mut places = vec![];
        let mut fields = Fields::new(trim_line_end(record), &self.options);
        while let Some(field) = fields.next()? {
            let text = unquoted(&field, self.options.quote, &mut self.scratch);
            let name = std::str::from_utf8(text).map_err(|_| Fault::new("invalid UTF-8 in the CSV header"))?;
            places.push(resolve(name.trim_start_matches('\u{feff}').trim()));
        }
        self.places = places;
        Ok(())
    }

    /// Appends one row. After an error the builders hold parts of it, to be cut off.
    pub(crate) fn push(&mut self, record: &[u8], builders: &mut [ColumnBuilder], row: usize) -> Fit<()> {
        if std::str::from_utf8(record).is_err() {
            return Err(Fault::new("invalid UTF-8"));
        }
        if find_byte(record, 0).is_some() {
            return Err(Fault::new("a character with code 0 cannot be in text"));
        }
        let record = trim_line_end(record);
        let mut fields = Fields::new(record, &self.options);
        let mut count = 0;
        while let Some(field) = fields.next()? {
            let Some(place) = self.places.get(count) else {
                return Err(Fault::new(format!("too many fields: {} are expected", self.places.len())));
            };
            count += 1;
            let Some(builder) = place.map(|index| &mut builders[index]) else { continue };
            if builder.len() > row {
                builder.truncate(row);
            }
            if !field.quoted && field.text == self.options.null.as_bytes() {
                builder.append_null()?;
                continue;
            }
            let text = unquoted(&field, self.options.quote, &mut self.scratch);
            let appended = match builder.sql_type {
                SqlType::Array(_) | SqlType::Record(_) => json::push_value(text, builder),
                _ => builder.append_text(text),
            };
            appended.map_err(|fault| fault.within(&builder.name))?;
        }
        if count < self.places.len() {
            return Err(Fault::new(format!("too few fields: {count} instead of {}", self.places.len())));
        }
        for builder in builders {
            if builder.len() == row {
                builder.append_null()?;
            }
        }
        Ok(())
    }
}

fn unquoted<'a>(field: &Field<'a>, quote: u8, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    if !field.doubled {
        return field.text;
    }
    scratch.clear();
    let mut skip = false;
    for byte in field.text {
        skip = *byte == quote && !skip;
        if !skip {
            scratch.push(*byte);
        }
    }
    scratch
}

/// The fields of one record.
struct Fields<'a> {
    rest: Option<&'a [u8]>,
    delimiter: u8,
    quote: u8,
}

impl<'a> Fields<'a> {
    fn new(record: &'a [u8], options: &CsvOptions) -> Fields<'a> {
        Fields { rest: Some(record), delimiter: options.delimiter, quote: options.quote }
    }

    fn next(&mut self) -> Fit<Option<Field<'a>>> {
        let Some(rest) = self.rest else { return Ok(None) };
        if rest.first() == Some(&self.quote) {
            return self.next_quoted(&rest[1..]).map(Some);
        }
        let end = find_byte(rest, self.delimiter);
        self.rest = end.map(|end| &rest[end + 1..]);
        Ok(Some(Field { text: &rest[..end.unwrap_or(rest.len())], quoted: false, doubled: false }))
    }

    fn next_quoted(&mut self, text: &'a [u8]) -> Fit<Field<'a>> {
        let (mut end, mut doubled) = (0, false);
        loop {
            end += find_byte(&text[end..], self.quote).ok_or_else(|| Fault::new("malformed CSV: a quoted field has no end"))?;
            match text.get(end + 1) {
                Some(byte) if *byte == self.quote => (end, doubled) = (end + 2, true),
                Some(byte) if *byte == self.delimiter => {
                    self.rest = Some(&text[end + 2..]);
                    return Ok(Field { text: &text[..end], quoted: true, doubled });
                }
                None => {
                    self.rest = None;
                    return Ok(Field { text: &text[..end], quoted: true, doubled });
                }
                Some(_) => return Err(Fault::new("malformed CSV: text after a closing quote")),
            }
        }
    }
}

fn trim_line_end(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

/// The length of the record at the start of `text` with its line end, if it is all there. Line ends in quoted fields are part
/// of the record; a quote is one only where a field starts, so that a stray one does not swallow the rest of a file.
pub(crate) fn record_length(text: &[u8], options: &CsvOptions) -> Option<usize> {
    let mut at = 0;
    loop {
        if text.get(at) == Some(&options.quote) {
            at += 1;
            loop {
                at += find_byte(text.get(at..)?, options.quote)? + 1;
                match text.get(at) {
                    Some(byte) if *byte == options.quote => at += 1,
                    _ => break,
                }
            }
        }
        let rest = text.get(at..)?;
        let stop = rest.iter().position(|byte| *byte == b'\n' || *byte == options.delimiter)?;
        at += stop + 1;
        if rest[stop] == b'\n' {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests;
