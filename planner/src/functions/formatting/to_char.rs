//! `to_char(time, pattern)` and `date_format`: a time as text.
//!
//! Patterns are Postgres's (`YYYY-MM-DD HH24:MI:SS`); one with a `%` in it is read as `strftime`'s (`%Y-%m-%d`). Values
//! next to each other often print alike: what a pattern shows no finer than a minute is printed once for the minute.

use super::super::{error, wrong_types};
use super::pattern::{Field, FieldPiece, Piece, Style, read_pattern};
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::fmt::Write;
use std::sync::Arc;
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::datetime::calendar::to_chrono;
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
            _ => wrong_types(self.name(), types),
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
        let zone = times.timezone().map(|_| super::session_zone(&args.config_options));
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
            if let Some((_, printer)) = &mut printer {
                text.append_value(printer.print(times.value(row), zone.as_ref())?);
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
            let pieces = read_pattern(pattern);
            let span = pieces.iter().map(span_of).min().unwrap_or(i64::MAX);
            (Pieces::Postgres(pieces), span)
        };
        Ok(Printer { pieces, span_us, last: None, text: String::new() })
    }

    /// The text of a time: of a moment, as clocks in the zone show it.
    fn print(&mut self, us: i64, zone: Option<&SessionTimeZone>) -> Result<&str> {
        let offset = zone.map_or(0, |zone| zone.offset_at(&to_chrono(us)));
        let local_us = us.checked_add(i64::from(offset) * SECOND_US).ok_or_else(out_of_range)?;
        let span = local_us.div_euclid(self.span_us);
        if self.last != Some(span) {
            let time = DateTime::from_timestamp_micros(local_us).ok_or_else(out_of_range)?.naive_utc();
            self.text.clear();
            match &self.pieces {
                Pieces::Postgres(pieces) => {
                    let shown = Shown { time, offset, moment: zone.map(|zone| (us, zone)) };
                    pieces.iter().for_each(|piece| shown.print(piece, &mut self.text));
                }
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

fn styled(name: &str, style: Style) -> String {
    match style {
        Style::Upper => name.to_uppercase(),
        Style::Lower => name.to_lowercase(),
        Style::Capital => name.to_string(),
    }
}

/// The span in which times print alike under a part of a pattern.
fn span_of(piece: &Piece) -> i64 {
    let Piece::Field(FieldPiece { field, .. }) = piece else { return i64::MAX };
    match field {
        Field::Hour24 | Field::Hour12 | Field::Meridiem | Field::MeridiemDots => 3_600 * SECOND_US,
        Field::Minute => 60 * SECOND_US,
        Field::Second | Field::SecondsOfDay => SECOND_US,
        // Clocks that are set back show two moments as one.
        Field::Zone | Field::ZoneHour | Field::ZoneMinute | Field::Offset => 1,
        Field::Millisecond | Field::Microsecond | Field::Fraction(_) => 1,
        _ => 86_400 * SECOND_US,
    }
}

/// A time as clocks show it.
struct Shown<'a> {
    time: NaiveDateTime,
    /// How many seconds they are ahead of UTC.
    offset: i32,
    /// The moment, in microseconds since 1970, and their zone; none for times of no zone.
    moment: Option<(i64, &'a SessionTimeZone)>,
}

impl Shown<'_> {
    fn print(&self, piece: &Piece, out: &mut String) {
        let piece = match piece {
            Piece::Char { char, .. } => return out.push(*char),
            Piece::Field(piece) => piece,
        };
        let start = out.len();
        if let Some((value, width)) = number(piece.field, &self.time, self.offset) {
            // Writing to a string can't fail.
            let is_fraction = matches!(piece.field, Field::Millisecond | Field::Microsecond | Field::Fraction(_));
            let _ = if piece.trimmed && !is_fraction { write!(out, "{value}") } else { write!(out, "{value:0width$}") };
        } else {
            let name = styled(&self.name(piece.field), piece.style());
            let width = if piece.trimmed { 0 } else { name_width(piece.field) };
            let _ = write!(out, "{name:width$}");
        }
        if let Some(upper) = piece.ordinal {
            let suffix = ordinal_suffix(&out[start..]);
            out.push_str(&if upper { suffix.to_uppercase() } else { suffix.to_string() });
        }
    }

    /// A field that is a name, or has a sign.
    fn name(&self, field: Field) -> String {
        let time = &self.time;
        match field {
            Field::YearComma => {
                let year = shown_year(time.year());
                format!("{},{:03}", year / 1_000, year % 1_000)
            }
            Field::MonthName => time.format("%B").to_string(),
            Field::MonthShort => time.format("%b").to_string(),
            Field::MonthRoman => MONTHS_ROMAN[time.month0() as usize].to_string(),
            Field::DayName => time.format("%A").to_string(),
            Field::DayShort => time.format("%a").to_string(),
            Field::Meridiem => (if time.hour12().0 { "PM" } else { "AM" }).to_string(),
            Field::MeridiemDots => (if time.hour12().0 { "P.M." } else { "A.M." }).to_string(),
            Field::Era => (if time.year() > 0 { "AD" } else { "BC" }).to_string(),
            Field::EraDots => (if time.year() > 0 { "A.D." } else { "B.C." }).to_string(),
            Field::Zone => self.moment.map_or_else(String::new, |(us, zone)| zone.abbreviation_at(&to_chrono(us))),
            Field::ZoneHour => self.zone_hours(),
            Field::Offset if self.offset % 3600 == 0 => self.zone_hours(),
            Field::Offset => format!("{}:{:02}", self.zone_hours(), self.offset.abs() / 60 % 60),
            _ => String::new(),
        }
    }

    fn zone_hours(&self) -> String {
        let sign = if self.offset < 0 { '-' } else { '+' };
        format!("{sign}{:02}", self.offset.abs() / 3600)
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

/// A field as a number with its width; none for one that is a name.
/// What a field shows as a number, and how many digits it has at least.
fn number(field: Field, time: &NaiveDateTime, offset: i32) -> Option<(i64, usize)> {
    let (year, iso_year) = (shown_year(time.year()), shown_year(time.iso_week().year()));
    let last_digits = |year: i64, digits: u32| year.rem_euclid(10i64.pow(digits));
    let micros = i64::from(time.nanosecond() / 1_000);
    let iso_day = i64::from(time.weekday().number_from_monday());
    Some(match field {
        Field::Year(4) => (year, 4),
        Field::Year(digits) => (last_digits(year, digits), digits as usize),
        Field::IsoYear(4) => (iso_year, 4),
        Field::IsoYear(digits) => (last_digits(iso_year, digits), digits as usize),
        Field::Century if time.year() > 0 => ((year - 1) / 100 + 1, 2),
        // Its sign is no digit.
        Field::Century => (i64::from(time.year() / 100) - 1, 3),
        Field::Quarter => (i64::from(time.month0() / 3 + 1), 1),
        Field::Month => (i64::from(time.month()), 2),
        Field::Week => (i64::from(time.ordinal0() / 7 + 1), 2),
        Field::WeekOfMonth => (i64::from(time.day0() / 7 + 1), 1),
        Field::IsoWeek => (i64::from(time.iso_week().week()), 2),
        Field::DayOfYear => (i64::from(time.ordinal()), 3),
        Field::IsoDayOfYear => (i64::from(time.iso_week().week0()) * 7 + iso_day, 3),
        Field::Day => (i64::from(time.day()), 2),
        Field::DayOfWeek => (i64::from(time.weekday().num_days_from_sunday() + 1), 1),
        Field::IsoDayOfWeek => (iso_day, 1),
        // Days since the Julian epoch; chrono counts from the first of January of year 1.
        Field::Julian => (i64::from(time.num_days_from_ce()) + 1_721_425, 1),
        Field::Hour24 => (i64::from(time.hour()), 2),
        Field::Hour12 => (i64::from(time.hour12().1), 2),
        Field::Minute => (i64::from(time.minute()), 2),
        Field::Second => (i64::from(time.second()), 2),
        Field::SecondsOfDay => (i64::from(time.num_seconds_from_midnight()), 1),
        Field::Millisecond => (micros / 1_000, 3),
        Field::Microsecond => (micros, 6),
        Field::Fraction(digits) => (micros / 10i64.pow(6 - digits), digits as usize),
        Field::ZoneMinute => (i64::from(offset.abs() / 60 % 60), 2),
        _ => return None,
    })
}

/// A year as it is counted before or after Christ: there is no year 0.
fn shown_year(year: i32) -> i64 {
    if year > 0 { i64::from(year) } else { 1 - i64::from(year) }
}

/// Names of months and days are padded to the longest.
fn name_width(field: Field) -> usize {
    match field {
        Field::MonthName | Field::DayName => 9,
        Field::MonthRoman => 4,
        _ => 0,
    }
}

/// The months in Roman numerals.
pub(super) const MONTHS_ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
