//! `to_char(time, pattern)` and `date_format`: a time as text.
//!
//! Patterns are Postgres's (`YYYY-MM-DD HH24:MI:SS`); one with a `%` in it is read as `strftime`'s (`%Y-%m-%d`). Values
//! next to each other often print alike: what a pattern shows no finer than a minute is printed once for the minute.

use super::{error, time_zone};
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::fmt::Write;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlState};

const SECOND_US: i64 = 1_000_000;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(ToChar {
        signature: Signature::user_defined(Volatility::Immutable),
        aliases: vec!["date_format".into()],
    })]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ToChar {
    signature: Signature,
    aliases: Vec<String>,
}

impl ScalarUDFImpl for ToChar {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "to_char"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Timestamp(_, zone), _] => {
                Ok(vec![DataType::Timestamp(TimeUnit::Microsecond, zone.clone()), DataType::Utf8])
            }
            [DataType::Date32 | DataType::Null, _] => Ok(vec![DataType::Timestamp(TimeUnit::Microsecond, None), DataType::Utf8]),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let times = args.args[0].to_array(rows)?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let zone = match (times.timezone(), &args.config_options.execution.time_zone) {
            (Some(_), Some(name)) if name != "+00:00" => Some(time_zone::zone(name)?),
            _ => None,
        };
        let patterns = args.args[1].to_array(rows)?;
        let patterns = patterns.as_string::<i32>();
        let mut printer: Option<(String, Printer)> = None;
        let mut text = StringBuilder::with_capacity(rows, rows * 12);
        for row in 0..rows {
            if times.is_null(row) || patterns.is_null(row) {
                text.append_null();
                continue;
            }
            let pattern = patterns.value(row);
            if printer.as_ref().is_none_or(|(known, _)| known != pattern) {
                printer = Some((pattern.to_string(), Printer::new(pattern)?));
            }
            let local = match &zone {
                Some(zone) => time_zone::local_micros(times.value(row), zone).ok_or_else(out_of_range)?,
                None => times.value(row),
            };
            if let Some((_, printer)) = &mut printer {
                text.append_value(printer.print(local)?);
            }
        }
        let result: ArrayRef = Arc::new(text.finish());
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

fn out_of_range() -> datafusion::error::DataFusionError {
    error(SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
}

/// A pattern, read once, with what it printed last.
struct Printer {
    pieces: Pieces,
    /// Times in one such span print alike.
    span_us: i64,
    last: Option<i64>,
    text: String,
}

enum Pieces {
    Postgres(Vec<Piece>),
    Strftime(Vec<Item<'static>>),
}

impl Printer {
    fn new(pattern: &str) -> Result<Printer> {
        let (pieces, span_us) = if pattern.contains('%') {
            let items =
                StrftimeItems::new(pattern).parse_to_owned().map_err(|_| {
                    error(SqlError::invalid_parameter(format!("invalid pattern \"{pattern}\" for to_char")).with_hint(
                        "Use Postgres's patterns, such as 'YYYY-MM-DD HH24:MI:SS', or strftime's, such as '%Y-%m-%d'.",
                    ))
                })?;
            (Pieces::Strftime(items), strftime_span(pattern))
        } else {
            let pieces = read_pattern(pattern)?;
            let span = pieces.iter().map(Piece::span).min().unwrap_or(i64::MAX);
            (Pieces::Postgres(pieces), span)
        };
        Ok(Printer { pieces, span_us, last: None, text: String::new() })
    }

    fn print(&mut self, local_us: i64) -> Result<&str> {
        let span = local_us.div_euclid(self.span_us);
        if self.last != Some(span) {
            let time = DateTime::from_timestamp_micros(local_us).ok_or_else(out_of_range)?.naive_utc();
            self.text.clear();
            match &self.pieces {
                Pieces::Postgres(pieces) => pieces.iter().for_each(|piece| piece.print(&time, &mut self.text)),
                Pieces::Strftime(items) => {
                    write!(self.text, "{}", time.format_with_items(items.iter())).map_err(|_| {
                        error(SqlError::invalid_parameter("the pattern for to_char asks for a time zone, which the time has not"))
                    })?;
                }
            }
            self.last = Some(span);
        }
        Ok(&self.text)
    }
}

/// The span in which times print alike under a `strftime` pattern.
fn strftime_span(pattern: &str) -> i64 {
    let mut span = 86_400 * SECOND_US;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            continue;
        }
        let needed = match chars.next() {
            Some(
                'Y' | 'C' | 'y' | 'm' | 'b' | 'B' | 'h' | 'd' | 'e' | 'a' | 'A' | 'w' | 'u' | 'U' | 'W' | 'G' | 'g' | 'V' | 'j'
                | 'D' | 'x' | 'F' | 'v' | '%' | 't' | 'n',
            ) => continue,
            Some('H' | 'k' | 'I' | 'l' | 'P' | 'p') => 3_600 * SECOND_US,
            Some('M' | 'R') => 60 * SECOND_US,
            Some('S' | 'T' | 'X' | 'r' | 'c' | 's') => SECOND_US,
            _ => 1,
        };
        span = span.min(needed);
    }
    span
}

/// One part of a Postgres pattern.
enum Piece {
    Text(String),
    Field { field: Field, style: Style, trimmed: bool, ordinal: Option<bool> },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Upper,
    Capital,
    Lower,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Year(u32),
    IsoYear(u32),
    YearComma,
    Century,
    Quarter,
    Month,
    MonthName,
    MonthShort,
    Week,
    WeekOfMonth,
    IsoWeek,
    DayOfYear,
    Day,
    DayOfWeek,
    IsoDayOfWeek,
    DayName,
    DayShort,
    Julian,
    Hour24,
    Hour12,
    Minute,
    Second,
    SecondsOfDay,
    Millisecond,
    Microsecond,
    Tenths(u32),
    Meridiem,
    MeridiemDots,
    Era,
    Zone,
    Offset,
}

/// Patterns by their name, the longer of two with one beginning first.
const FIELDS: [(&str, Field); 51] = [
    ("Y,YYY", Field::YearComma),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
    ("IYYY", Field::IsoYear(4)),
    ("IYY", Field::IsoYear(3)),
    ("IY", Field::IsoYear(2)),
    ("IDDD", Field::DayOfYear),
    ("IW", Field::IsoWeek),
    ("ID", Field::IsoDayOfWeek),
    ("I", Field::IsoYear(1)),
    ("CC", Field::Century),
    ("Q", Field::Quarter),
    ("MONTH", Field::MonthName),
    ("MON", Field::MonthShort),
    ("MM", Field::Month),
    ("MI", Field::Minute),
    ("MS", Field::Millisecond),
    ("WW", Field::Week),
    ("W", Field::WeekOfMonth),
    ("DDD", Field::DayOfYear),
    ("DD", Field::Day),
    ("DAY", Field::DayName),
    ("DY", Field::DayShort),
    ("D", Field::DayOfWeek),
    ("J", Field::Julian),
    ("HH24", Field::Hour24),
    ("HH12", Field::Hour12),
    ("HH", Field::Hour12),
    ("SSSSS", Field::SecondsOfDay),
    ("SSSS", Field::SecondsOfDay),
    ("SS", Field::Second),
    ("US", Field::Microsecond),
    ("FF1", Field::Tenths(1)),
    ("FF2", Field::Tenths(2)),
    ("FF3", Field::Millisecond),
    ("FF4", Field::Tenths(4)),
    ("FF5", Field::Tenths(5)),
    ("FF6", Field::Microsecond),
    ("A.M.", Field::MeridiemDots),
    ("P.M.", Field::MeridiemDots),
    ("AM", Field::Meridiem),
    ("PM", Field::Meridiem),
    ("AD", Field::Era),
    ("BC", Field::Era),
    ("TZH:TZM", Field::Offset),
    ("TZH", Field::Offset),
    ("TZ", Field::Zone),
    ("OF", Field::Offset),
    ("TZM", Field::Offset),
];

fn read_pattern(pattern: &str) -> Result<Vec<Piece>> {
    let mut pieces: Vec<Piece> = vec![];
    let mut rest = pattern;
    let mut trimmed = false;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = strip_ignore_case(rest, "FM") {
            trimmed = true;
            rest = after;
        } else if let Some(quoted) = rest.strip_prefix('"') {
            let (text, after) = quoted.split_once('"').unwrap_or((quoted, ""));
            pieces.push(Piece::Text(text.to_string()));
            rest = after;
        } else if let Some((name, field)) = FIELDS.iter().find(|(name, _)| strip_ignore_case(rest, name).is_some()) {
            let style = style_of(&rest[..name.len()]);
            rest = &rest[name.len()..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            if ordinal.is_some() {
                rest = &rest[2..];
            }
            pieces.push(Piece::Field { field: *field, style, trimmed, ordinal });
            trimmed = false;
        } else {
            pieces.push(Piece::Text(first.to_string()));
            rest = &rest[first.len_utf8()..];
        }
    }
    Ok(pieces)
}

fn strip_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

fn style_of(written: &str) -> Style {
    let mut letters = written.chars().filter(|c| c.is_alphabetic());
    match (letters.next(), letters.next()) {
        (Some(first), _) if first.is_lowercase() => Style::Lower,
        (Some(_), Some(second)) if second.is_lowercase() => Style::Capital,
        _ => Style::Upper,
    }
}

fn styled(name: &str, style: Style) -> String {
    match style {
        Style::Upper => name.to_uppercase(),
        Style::Lower => name.to_lowercase(),
        Style::Capital => name.to_string(),
    }
}

impl Piece {
    fn span(&self) -> i64 {
        match self {
            Piece::Text(_) => i64::MAX,
            Piece::Field { field, .. } => match field {
                Field::Hour24 | Field::Hour12 | Field::Meridiem | Field::MeridiemDots => 3_600 * SECOND_US,
                Field::Minute => 60 * SECOND_US,
                Field::Second | Field::SecondsOfDay => SECOND_US,
                Field::Millisecond | Field::Microsecond | Field::Tenths(_) => 1,
                _ => 86_400 * SECOND_US,
            },
        }
    }

    fn print(&self, time: &NaiveDateTime, out: &mut String) {
        let (field, style, trimmed, ordinal) = match self {
            Piece::Text(text) => return out.push_str(text),
            Piece::Field { field, style, trimmed, ordinal } => (*field, *style, *trimmed, *ordinal),
        };
        let start = out.len();
        if let Some((value, width)) = field.number(time) {
            // Writing to a string can't fail.
            let _ = if trimmed { write!(out, "{value}") } else { write!(out, "{value:0width$}") };
        } else {
            let name = styled(&field.name(time), style);
            let width = if trimmed { 0 } else { field.name_width() };
            let _ = write!(out, "{name:width$}");
        }
        if let Some(upper) = ordinal {
            let suffix = ordinal_suffix(&out[start..]);
            out.push_str(&if upper { suffix.to_uppercase() } else { suffix.to_string() });
        }
    }
}

fn ordinal_suffix(digits: &str) -> &'static str {
    match (digits.ends_with("11") || digits.ends_with("12") || digits.ends_with("13"), digits.chars().last()) {
        (false, Some('1')) => "st",
        (false, Some('2')) => "nd",
        (false, Some('3')) => "rd",
        _ => "th",
    }
}

impl Field {
    /// The field as a number with its width; none for a name.
    fn number(self, time: &NaiveDateTime) -> Option<(i64, usize)> {
        let year = i64::from(time.year());
        let last_digits = |year: i64, digits: u32| year.rem_euclid(10i64.pow(digits));
        let micros = i64::from(time.nanosecond() / 1_000);
        Some(match self {
            Field::Year(4) => (year, 4),
            Field::Year(digits) => (last_digits(year, digits), digits as usize),
            Field::IsoYear(4) => (i64::from(time.iso_week().year()), 4),
            Field::IsoYear(digits) => (last_digits(i64::from(time.iso_week().year()), digits), digits as usize),
            Field::Century => ((year - 1).div_euclid(100) + 1, 2),
            Field::Quarter => (i64::from(time.month0() / 3 + 1), 1),
            Field::Month => (i64::from(time.month()), 2),
            Field::Week => (i64::from(time.ordinal0() / 7 + 1), 2),
            Field::WeekOfMonth => (i64::from(time.day0() / 7 + 1), 1),
            Field::IsoWeek => (i64::from(time.iso_week().week()), 2),
            Field::DayOfYear => (i64::from(time.ordinal()), 3),
            Field::Day => (i64::from(time.day()), 2),
            Field::DayOfWeek => (i64::from(time.weekday().num_days_from_sunday() + 1), 1),
            Field::IsoDayOfWeek => (i64::from(time.weekday().number_from_monday()), 1),
            // Days since the Julian epoch; chrono counts from the first of January of year 1.
            Field::Julian => (i64::from(time.num_days_from_ce()) + 1_721_425, 1),
            Field::Hour24 => (i64::from(time.hour()), 2),
            Field::Hour12 => (i64::from(time.hour12().1), 2),
            Field::Minute => (i64::from(time.minute()), 2),
            Field::Second => (i64::from(time.second()), 2),
            Field::SecondsOfDay => (i64::from(time.num_seconds_from_midnight()), 1),
            Field::Millisecond => (micros / 1_000, 3),
            Field::Microsecond => (micros, 6),
            Field::Tenths(digits) => (micros / 10i64.pow(6 - digits), digits as usize),
            _ => return None,
        })
    }

    fn name(self, time: &NaiveDateTime) -> String {
        match self {
            Field::YearComma => format!("{},{:03}", time.year() / 1_000, time.year() % 1_000),
            Field::MonthName => time.format("%B").to_string(),
            Field::MonthShort => time.format("%b").to_string(),
            Field::DayName => time.format("%A").to_string(),
            Field::DayShort => time.format("%a").to_string(),
            Field::Meridiem => (if time.hour12().0 { "PM" } else { "AM" }).to_string(),
            Field::MeridiemDots => (if time.hour12().0 { "P.M." } else { "A.M." }).to_string(),
            Field::Era => (if time.year() > 0 { "AD" } else { "BC" }).to_string(),
            Field::Zone => "UTC".to_string(),
            Field::Offset => "+00".to_string(),
            _ => String::new(),
        }
    }

    /// Names of months and days are padded to the longest.
    fn name_width(self) -> usize {
        if matches!(self, Field::MonthName | Field::DayName) { 9 } else { 0 }
    }
}
