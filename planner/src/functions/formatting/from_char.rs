//! A text read by a pattern of times, as Postgres reads it: forgiving of blanks and signs between fields, strict in the fields.

use super::pattern::{Field, FieldPiece, Piece, read_pattern};
use super::to_char::MONTHS_ROMAN;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

const MONTHS: [&str; 12] =
    ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];
const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// How many letters of a name its short form has.
const SHORT: usize = 3;

/// How much of a text an error shows, in characters.
const SHOWN_MAX: usize = 12;

/// The fields that a text has; 0 where it has none, as in Postgres.
#[derive(Default, Debug)]
pub(super) struct Fields {
    pub(super) year: i32,
    /// With how many digits the pattern has the year.
    pub(super) year_digits: u32,
    pub(super) century: i32,
    pub(super) before_christ: bool,
    pub(super) month: i32,
    pub(super) week: i32,
    pub(super) week_of_month: i32,
    pub(super) day: i32,
    /// Sunday is 1.
    pub(super) day_of_week: i32,
    pub(super) day_of_year: i32,
    pub(super) julian: i32,
    pub(super) hour: i32,
    pub(super) is_half_day: bool,
    pub(super) afternoon: bool,
    pub(super) minute: i32,
    pub(super) second: i32,
    pub(super) seconds_of_day: i32,
    pub(super) milliseconds: i32,
    pub(super) microseconds: i32,
    /// `1` or `-1` if there is a zone.
    pub(super) zone_sign: i32,
    pub(super) zone_hours: i32,
    pub(super) zone_minutes: i32,
    /// Whether years, weeks and days are those of ISO 8601; none while either may be.
    pub(super) iso_weeks: Option<bool>,
}

impl Fields {
    /// Refuses to take years of one calendar with weeks of the other.
    fn keep_to_one_calendar(&mut self, field: Field) -> SqlResult<()> {
        use Field as F;
        let is_iso = match field {
            F::IsoYear(_) | F::IsoWeek | F::IsoDayOfWeek | F::IsoDayOfYear => true,
            F::Year(_)
            | F::YearComma
            | F::Month
            | F::MonthName
            | F::MonthShort
            | F::MonthRoman
            | F::Week
            | F::WeekOfMonth
            | F::Day
            | F::DayOfWeek
            | F::DayOfYear => false,
            _ => return Ok(()),
        };
        if *self.iso_weeks.get_or_insert(is_iso) == is_iso {
            return Ok(());
        }
        Err(SqlError::new(SqlState::InvalidDatetimeFormat, "invalid combination of date conventions")
            .with_hint("Do not mix Gregorian and ISO week date conventions in a formatting template."))
    }
}

/// A pattern, read once for many texts.
pub(super) struct TimePattern(Vec<Piece>);

impl TimePattern {
    pub(super) fn new(pattern: &str) -> TimePattern {
        TimePattern(read_pattern(pattern))
    }

    /// The fields of a text. What of the text or the pattern is left when the other ends does not count.
    ///
    /// # Errors
    /// `22007` for a text that the pattern does not fit, `22008` for numbers out of range, `0A000` for fields that can only be printed.
    pub(super) fn read(&self, text: &str) -> SqlResult<Fields> {
        let mut fields = Fields::default();
        let mut reader = Reader { rest: text, before: None, skipped: 0, is_exact: false };
        for (place, piece) in self.0.iter().enumerate() {
            if reader.rest.is_empty() {
                break;
            }
            let is_separator = matches!(piece, Piece::Char { char, quoted } if !quoted && (is_blank(*char) || is_sign(*char)));
            if !reader.is_exact && (place == 0 || is_separator || matches!(piece, Piece::Field(_))) {
                reader.skip_blanks();
            }
            match piece {
                Piece::Char { .. } if is_separator => reader.separator(),
                Piece::Char { .. } => reader.literal(),
                Piece::Field(field) => {
                    fields.keep_to_one_calendar(field.field)?;
                    reader.field(field, !goes_on_with_digits(field, self.0.get(place + 1)), &mut fields)?;
                    if field.ordinal.is_some() && field.field.is_number() {
                        reader.advance();
                        reader.advance();
                    }
                    if !reader.is_exact {
                        reader.skipped = 0;
                        reader.skip_blanks();
                    }
                }
            }
        }
        Ok(fields)
    }
}

/// Whether digits may follow those of a number, so that it ends by its length alone.
fn goes_on_with_digits(field: &FieldPiece, next: Option<&Piece>) -> bool {
    if field.trimmed || field.ordinal.is_some() {
        return false;
    }
    match next {
        None => false,
        Some(Piece::Field(next)) => next.field.is_number(),
        Some(Piece::Char { char, .. }) => char.is_ascii_digit(),
    }
}

fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}'
}

/// Whether a character only separates: printable, and neither a letter nor a digit.
fn is_sign(c: char) -> bool {
    c.is_ascii_punctuation()
}

struct Reader<'a> {
    rest: &'a str,
    /// The character before the rest.
    before: Option<char>,
    /// How many more characters were passed over than the pattern has.
    skipped: i32,
    /// After `FX`.
    is_exact: bool,
}

impl Reader<'_> {
    fn next_char(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn advance(&mut self) {
        if let Some(c) = self.next_char() {
            self.before = Some(c);
            self.rest = &self.rest[c.len_utf8()..];
        }
    }

    fn skip_blanks(&mut self) {
        while self.next_char().is_some_and(is_blank) {
            self.advance();
            self.skipped += 1;
        }
    }

    fn separator(&mut self) {
        if self.is_exact {
            return self.advance();
        }
        self.skipped -= 1;
        if self.next_char().is_some_and(|c| is_blank(c) || is_sign(c)) {
            self.advance();
            self.skipped += 1;
        }
    }

    /// A character that stands for any: if some were passed over before, it was one of them.
    fn literal(&mut self) {
        if !self.is_exact && self.skipped > 0 {
            self.skipped -= 1;
        } else {
            self.advance();
        }
    }

    fn field(&mut self, piece: &FieldPiece, ends_itself: bool, found: &mut Fields) -> SqlResult<()> {
        let length = piece.written.len();
        let number = |reader: &mut Self, length: usize| reader.number(piece, length, ends_itself);
        match piece.field {
            Field::Exact => self.is_exact = true,
            Field::Hour24 => set(&mut found.hour, number(self, 2)?.value, piece)?,
            Field::Hour12 => {
                set(&mut found.hour, number(self, 2)?.value, piece)?;
                found.is_half_day = true;
            }
            Field::Minute => set(&mut found.minute, number(self, 2)?.value, piece)?,
            Field::Second => set(&mut found.second, number(self, 2)?.value, piece)?,
            Field::Millisecond => set(&mut found.milliseconds, number(self, 3)?.as_fraction(3), piece)?,
            Field::Microsecond => set(&mut found.microseconds, number(self, 6)?.as_fraction(6), piece)?,
            Field::Fraction(digits) => {
                set(&mut found.microseconds, number(self, digits as usize)?.as_fraction(6), piece)?;
            }
            Field::SecondsOfDay => set(&mut found.seconds_of_day, number(self, length)?.value, piece)?,
            Field::Meridiem | Field::MeridiemDots => {
                let names = if piece.field == Field::Meridiem { ["am", "pm"] } else { ["a.m.", "p.m."] };
                found.afternoon = self.name(piece, names.into_iter())? == 1;
                found.is_half_day = true;
            }
            Field::Era | Field::EraDots => {
                let names = if piece.field == Field::Era { ["ad", "bc"] } else { ["a.d.", "b.c."] };
                found.before_christ = self.name(piece, names.into_iter())? == 1;
            }
            Field::ZoneHour | Field::ZoneMinute => self.zone(piece, ends_itself, found)?,
            Field::Zone | Field::Offset => return Err(only_printed(piece)),
            _ => return self.date_field(piece, ends_itself, found),
        }
        Ok(())
    }

    fn date_field(&mut self, piece: &FieldPiece, ends_itself: bool, found: &mut Fields) -> SqlResult<()> {
        let length = piece.written.len();
        let number = |reader: &mut Self, length: usize| reader.number(piece, length, ends_itself);
        match piece.field {
            Field::Year(digits) | Field::IsoYear(digits) => {
                let year = number(self, length)?;
                let is_whole = digits == 4 || year.length >= 4;
                set(&mut found.year, if is_whole { year.value } else { near_2020(year.value) }, piece)?;
                found.year_digits = digits;
            }
            Field::YearComma => {
                set(&mut found.year, self.year_with_comma(piece)?, piece)?;
                found.year_digits = 4;
            }
            Field::Century => set(&mut found.century, number(self, length)?.value, piece)?,
            // Which day of a quarter is meant nobody knows.
            Field::Quarter => {
                number(self, length)?;
            }
            Field::Month => set(&mut found.month, number(self, 2)?.value, piece)?,
            Field::MonthName => set(&mut found.month, self.name(piece, MONTHS.into_iter())? + 1, piece)?,
            Field::MonthShort => set(&mut found.month, self.name(piece, MONTHS.iter().map(|name| &name[..SHORT]))? + 1, piece)?,
            Field::MonthRoman => {
                // The longer of two numerals that begin alike first.
                let numerals = MONTHS_ROMAN.iter().rev().copied();
                set(&mut found.month, 12 - self.name(piece, numerals)?, piece)?;
            }
            Field::Week | Field::IsoWeek => set(&mut found.week, number(self, length)?.value, piece)?,
            Field::WeekOfMonth => set(&mut found.week_of_month, number(self, length)?.value, piece)?,
            Field::DayOfYear | Field::IsoDayOfYear => set(&mut found.day_of_year, number(self, 3)?.value, piece)?,
            Field::Day => set(&mut found.day, number(self, length)?.value, piece)?,
            Field::DayOfWeek => set(&mut found.day_of_week, number(self, length)?.value, piece)?,
            // Counted from Monday, and kept counted from Sunday.
            Field::IsoDayOfWeek => {
                let day = number(self, 1)?.value;
                set(&mut found.day_of_week, if day >= 7 { 1 } else { day + 1 }, piece)?;
            }
            Field::DayName => set(&mut found.day_of_week, self.name(piece, DAYS.into_iter())? + 1, piece)?,
            Field::DayShort => set(&mut found.day_of_week, self.name(piece, DAYS.iter().map(|name| &name[..SHORT]))? + 1, piece)?,
            Field::Julian => set(&mut found.julian, number(self, length)?.value, piece)?,
            _ => return Err(only_printed(piece)),
        }
        Ok(())
    }

    /// A number of at most `length` digits, or of all that come where it ends itself.
    fn number(&mut self, piece: &FieldPiece, length: usize, ends_itself: bool) -> SqlResult<Number> {
        let start = self.rest;
        let trimmed = self.rest.trim_start_matches(is_blank);
        let end = match ends_itself {
            true => trimmed.len(),
            false => trimmed.char_indices().nth(length).map_or(trimmed.len(), |(at, _)| at),
        };
        let given = &trimmed[..end];
        if !ends_itself && given.len() < length {
            let error = format!("source string too short for \"{}\" formatting field", piece.written);
            let detail = format!("Field requires {length} characters, but only {} remain.", given.len());
            return Err(SqlError::new(SqlState::InvalidDatetimeFormat, error).with_detail(detail).with_hint(USE_FM));
        }
        let sign = usize::from(given.starts_with(['+', '-']));
        let digits = given[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            let shown: String = trimmed.chars().take(length).collect();
            return Err(invalid(piece, &shown, "Value must be an integer."));
        }
        let used = sign + digits;
        if !ends_itself && used < length {
            let detail = format!("Field requires {length} characters, but only {used} could be parsed.");
            return Err(invalid(piece, given, &detail).with_hint(USE_FM));
        }
        let value: i32 = given[..used].parse().map_err(|_| {
            let error = format!("value for \"{}\" in source string is out of range", piece.written);
            let detail = format!("Value must be in the range {} to {}.", i32::MIN, i32::MAX);
            SqlError::new(SqlState::DatetimeFieldOverflow, error).with_detail(detail)
        })?;
        self.before = given[..used].chars().last();
        self.rest = &trimmed[used..];
        Ok(Number { value, length: start.len() - self.rest.len() })
    }

    /// Which of the names stands here.
    fn name<'n>(&mut self, piece: &FieldPiece, names: impl Iterator<Item = &'n str>) -> SqlResult<i32> {
        for (place, name) in names.enumerate() {
            if self.rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name)) {
                self.before = name.chars().last();
                self.rest = &self.rest[name.len()..];
                return Ok(place as i32);
            }
        }
        let word = self.rest.split(is_blank).next().unwrap_or_default();
        Err(invalid(piece, word, "The given value did not match any of the allowed values for this field."))
    }

    fn zone(&mut self, piece: &FieldPiece, ends_itself: bool, found: &mut Fields) -> SqlResult<()> {
        if piece.field == Field::ZoneMinute {
            if found.zone_sign == 0 {
                found.zone_sign = 1;
            }
            return set(&mut found.zone_minutes, self.number(piece, 2, ends_itself)?.value, piece);
        }
        match self.next_char() {
            Some(sign @ ('+' | '-' | ' ')) => {
                found.zone_sign = if sign == '-' { -1 } else { 1 };
                self.advance();
            }
            // The sign may have been taken for what separates fields.
            _ => found.zone_sign = if self.skipped > 0 && self.before == Some('-') { -1 } else { 1 },
        }
        set(&mut found.zone_hours, self.number(piece, 2, ends_itself)?.value, piece)
    }

    /// `2,024`.
    fn year_with_comma(&mut self, piece: &FieldPiece) -> SqlResult<i32> {
        let error = || {
            SqlError::new(
                SqlState::InvalidDatetimeFormat,
                format!("invalid input string for \"{}\"", piece.written.to_uppercase()),
            )
        };
        let (thousands, after) = self.rest.trim_start_matches(is_blank).split_once(',').ok_or_else(error)?;
        let digits = after.bytes().take(SHORT).take_while(u8::is_ascii_digit).count();
        let thousands: i32 = thousands.parse().map_err(|_| error())?;
        let years: i32 = after[..digits].parse().map_err(|_| error())?;
        self.before = after[..digits].chars().last();
        self.rest = &after[digits..];
        thousands.checked_mul(1_000).and_then(|year| year.checked_add(years)).ok_or_else(error)
    }
}

struct Number {
    value: i32,
    /// How many characters it took, blanks before it included.
    length: usize,
}

impl Number {
    /// The digits behind a point, as so many of them: `25` of three is 250.
    fn as_fraction(&self, digits: usize) -> i32 {
        10i32.pow(digits.saturating_sub(self.length) as u32).saturating_mul(self.value)
    }
}

const USE_FM: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// Sets a field that is not set to something else.
fn set(field: &mut i32, value: i32, piece: &FieldPiece) -> SqlResult<()> {
    if *field != 0 && *field != value {
        let message = format!("conflicting values for \"{}\" field in formatting string", piece.written);
        return Err(SqlError::new(SqlState::InvalidDatetimeFormat, message)
            .with_detail("This value contradicts a previous setting for the same field type."));
    }
    *field = value;
    Ok(())
}

fn invalid(piece: &FieldPiece, text: &str, detail: &str) -> SqlError {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    SqlError::new(SqlState::InvalidDatetimeFormat, format!("invalid value \"{shown}\" for \"{}\"", piece.written))
        .with_detail(detail)
}

fn only_printed(piece: &FieldPiece) -> SqlError {
    SqlError::unsupported(format!("formatting field \"{}\" is only supported in to_char", piece.written))
}

/// A year of fewer than four digits is the one nearest to 2020.
fn near_2020(year: i32) -> i32 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}
