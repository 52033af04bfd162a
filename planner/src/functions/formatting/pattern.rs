//! Patterns of times, such as `YYYY-MM-DD HH24:MI:SS`, taken apart.

/// One part of a pattern.
pub(super) enum Piece {
    /// A character that stands for itself.
    Char {
        /// The character.
        char: char,
        /// Whether it stands in quotes.
        quoted: bool,
    },
    /// A part of a time.
    Field(FieldPiece),
}

/// How a part of a time is written.
pub(super) struct FieldPiece {
    pub(super) field: Field,
    /// Its name as the pattern has it.
    pub(super) written: String,
    /// Whether `FM` is before it: without blanks and zeros that fill it up.
    pub(super) trimmed: bool,
    /// Whether `TH` (in capitals) or `th` is behind it.
    pub(super) ordinal: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Upper,
    Capital,
    Lower,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Year(u32),
    IsoYear(u32),
    YearComma,
    Century,
    Quarter,
    Month,
    MonthName,
    MonthShort,
    MonthRoman,
    Week,
    WeekOfMonth,
    IsoWeek,
    DayOfYear,
    IsoDayOfYear,
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
    /// So many digits behind the point.
    Fraction(u32),
    Meridiem,
    MeridiemDots,
    Era,
    EraDots,
    /// A zone's abbreviation.
    Zone,
    ZoneHour,
    ZoneMinute,
    Offset,
    /// `FX`: what is read must have the blanks and signs of the pattern.
    Exact,
}

/// Patterns by their name, the longer of two with one beginning first.
const FIELDS: [(&str, Field); 54] = [
    ("Y,YYY", Field::YearComma),
    ("YYYY", Field::Year(4)),
    ("YYY", Field::Year(3)),
    ("YY", Field::Year(2)),
    ("Y", Field::Year(1)),
    ("IYYY", Field::IsoYear(4)),
    ("IYY", Field::IsoYear(3)),
    ("IY", Field::IsoYear(2)),
    ("IDDD", Field::IsoDayOfYear),
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
    ("FF1", Field::Fraction(1)),
    ("FF2", Field::Fraction(2)),
    ("FF3", Field::Fraction(3)),
    ("FF4", Field::Fraction(4)),
    ("FF5", Field::Fraction(5)),
    ("FF6", Field::Fraction(6)),
    ("FX", Field::Exact),
    ("RM", Field::MonthRoman),
    ("A.M.", Field::MeridiemDots),
    ("P.M.", Field::MeridiemDots),
    ("AM", Field::Meridiem),
    ("PM", Field::Meridiem),
    ("AD", Field::Era),
    ("BC", Field::Era),
    ("A.D.", Field::EraDots),
    ("B.C.", Field::EraDots),
    ("TZH", Field::ZoneHour),
    ("TZM", Field::ZoneMinute),
    ("TZ", Field::Zone),
    ("OF", Field::Offset),
];

/// Reads a pattern. Whatever names no part of a time stands for itself.
pub(super) fn read_pattern(pattern: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = vec![];
    let mut rest = pattern;
    let mut trimmed = false;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = strip_ignore_case(rest, "FM") {
            trimmed = true;
            rest = after;
        } else if let Some(after) = strip_ignore_case(rest, "TM") {
            // Names are English in every locale.
            rest = after;
        } else if first == '"' {
            rest = read_quoted(&rest[1..], &mut pieces);
        } else if let Some((name, field)) = FIELDS.iter().find(|(name, _)| strip_ignore_case(rest, name).is_some()) {
            let written = rest[..name.len()].to_string();
            rest = &rest[name.len()..];
            let ordinal = match rest.get(..2) {
                Some("TH") => Some(true),
                Some("th") => Some(false),
                _ => None,
            };
            if ordinal.is_some() {
                rest = &rest[2..];
            }
            pieces.push(Piece::Field(FieldPiece { field: *field, written, trimmed, ordinal }));
            trimmed = false;
        } else {
            let escaped = rest.strip_prefix("\\\"").map(|after| ('"', after));
            let (char, after) = escaped.unwrap_or((first, &rest[first.len_utf8()..]));
            pieces.push(Piece::Char { char, quoted: false });
            rest = after;
        }
    }
    pieces
}

/// Reads up to the closing quote, with a backslash before what would be read otherwise; what is behind it.
fn read_quoted<'a>(text: &'a str, pieces: &mut Vec<Piece>) -> &'a str {
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        let char = match char {
            '"' => break,
            '\\' => chars.next().unwrap_or(char),
            char => char,
        };
        pieces.push(Piece::Char { char, quoted: true });
    }
    chars.as_str()
}

fn strip_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

impl FieldPiece {
    /// How a name is written, by the first two letters of the field's.
    pub(super) fn style(&self) -> Style {
        let mut letters = self.written.chars().filter(|c| c.is_alphabetic());
        match (letters.next(), letters.next()) {
            (Some(first), _) if first.is_lowercase() => Style::Lower,
            (Some(_), Some(second)) if second.is_lowercase() => Style::Capital,
            _ => Style::Upper,
        }
    }
}

impl Field {
    /// Whether the field is written in digits.
    pub(super) fn is_number(self) -> bool {
        use Field as F;
        !matches!(
            self,
            F::MonthName
                | F::MonthShort
                | F::MonthRoman
                | F::DayName
                | F::DayShort
                | F::Meridiem
                | F::MeridiemDots
                | F::Era
                | F::EraDots
                | F::Zone
                | F::ZoneHour
                | F::Offset
                | F::Exact
        )
    }
}
