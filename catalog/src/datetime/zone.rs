//! Time zones of sessions.

use chrono::{FixedOffset, NaiveDateTime, Offset, TimeZone};
use chrono_tz::{OffsetName, Tz};

/// A value of the setting `TimeZone`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SessionTimeZone {
    /// A zone of the IANA database.
    Named(Tz),
    /// A constant distance from UTC.
    Fixed(FixedOffset),
}

impl SessionTimeZone {
    /// Where clocks show UTC.
    pub const UTC: SessionTimeZone = SessionTimeZone::Named(Tz::UTC);

    /// The zone that `SET TimeZone` means by this text: a name in any case, or hours (and minutes) east of UTC.
    pub fn parse(text: &str) -> Option<SessionTimeZone> {
        let text = text.trim();
        if let Some(zone) = chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(text)) {
            return Some(SessionTimeZone::Named(*zone));
        }
        if text.eq_ignore_ascii_case("z") {
            return Some(SessionTimeZone::Named(Tz::UTC));
        }
        let (sign, digits) = match text.as_bytes().first()? {
            b'+' => (1, &text[1..]),
            b'-' => (-1, &text[1..]),
            b'0'..=b'9' => (1, text),
            _ => return None,
        };
        let (hours, minutes) = match digits.split_once(':') {
            Some((hours, minutes)) => (hours, minutes),
            None => (digits, "0"),
        };
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        // There can be signs here too: `+-5`.
        if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) {
            return None;
        }
        FixedOffset::east_opt(sign * (hours * 3600 + minutes * 60)).map(SessionTimeZone::Fixed)
    }

    /// The zone that the setting `TimeZone` means by a text, and the text that it is shown as: a name, hours east of UTC, or a
    /// zone as POSIX writes it, whose digits count westwards.
    pub fn of_setting(text: &str) -> Option<(SessionTimeZone, String)> {
        let text = text.trim();
        if let Some(zone) = chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(text)) {
            return Some((SessionTimeZone::Named(*zone), zone.name().to_string()));
        }
        if let Ok(hours) = text.parse::<f64>() {
            let seconds = (hours.abs() <= 15.0).then_some((hours * 3600.0).round() as i32)?;
            let zone = FixedOffset::east_opt(seconds).map(SessionTimeZone::Fixed)?;
            return Some((zone, zone.name()));
        }
        let name_end = match text.strip_prefix('<') {
            Some(rest) => rest.find('>')? + 2,
            None => text.find(|c: char| !c.is_ascii_alphabetic())?,
        };
        let (sign, digits) = match text[name_end..].strip_prefix('-') {
            Some(digits) => (1, digits),
            None => (-1, text[name_end..].strip_prefix('+').unwrap_or(&text[name_end..])),
        };
        let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
        let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
        if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) {
            return None;
        }
        let zone = FixedOffset::east_opt(sign * (hours * 3600 + minutes * 60)).map(SessionTimeZone::Fixed)?;
        Some((zone, text.to_string()))
    }

    /// The zone's name as `SHOW TimeZone` has it.
    pub fn name(&self) -> String {
        match self {
            SessionTimeZone::Named(zone) => zone.name().to_string(),
            // Postgres shows a fixed offset as a POSIX zone, whose sign counts westwards.
            SessionTimeZone::Fixed(offset) => {
                let seconds = offset.local_minus_utc();
                let (east, west) = if seconds < 0 { ('-', '+') } else { ('+', '-') };
                let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
                if minutes == 0 {
                    format!("<{east}{hours:02}>{west}{hours:02}")
                } else {
                    format!("<{east}{hours:02}:{minutes:02}>{west}{hours:02}:{minutes:02}")
                }
            }
        }
    }

    /// What the zone is called at a moment given in UTC: `CEST`, or hours east of UTC where it has no name.
    pub fn abbreviation_at(&self, utc: &NaiveDateTime) -> String {
        match self {
            SessionTimeZone::Named(zone) => {
                let offset = zone.offset_from_utc_datetime(utc);
                offset.abbreviation().map_or_else(|| offset.fix().to_string(), str::to_string)
            }
            SessionTimeZone::Fixed(offset) => {
                let seconds = offset.local_minus_utc();
                let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60 % 60);
                let hours = format!("{sign}{:02}", seconds.abs() / 3600);
                if minutes == 0 { hours } else { format!("{hours}:{minutes:02}") }
            }
        }
    }

    /// How many seconds clocks in this zone are ahead of UTC, if that is the same at all times.
    pub fn constant_offset(&self) -> Option<i32> {
        match self {
            SessionTimeZone::Named(Tz::UTC | Tz::Etc__UTC | Tz::GMT) => Some(0),
            SessionTimeZone::Named(_) => None,
            SessionTimeZone::Fixed(offset) => Some(offset.local_minus_utc()),
        }
    }

    /// How many seconds clocks in this zone are ahead of UTC at a moment given in UTC.
    pub fn offset_at(&self, utc: &NaiveDateTime) -> i32 {
        match self {
            SessionTimeZone::Named(Tz::UTC) => 0,
            SessionTimeZone::Named(zone) => zone.offset_from_utc_datetime(utc).fix().local_minus_utc(),
            SessionTimeZone::Fixed(offset) => offset.local_minus_utc(),
        }
    }

    /// How many seconds clocks in this zone are ahead of UTC when they show this time. Where they show it twice, the
    /// offset of standard time counts; where they skip it, the one from before the step: both as in Postgres.
    pub fn offset_of_local(&self, local: &NaiveDateTime) -> i32 {
        match self {
            SessionTimeZone::Fixed(offset) => offset.local_minus_utc(),
            SessionTimeZone::Named(zone) => match zone.offset_from_local_datetime(local) {
                chrono::LocalResult::Single(offset) => offset.fix().local_minus_utc(),
                chrono::LocalResult::Ambiguous(first, second) => {
                    first.fix().local_minus_utc().min(second.fix().local_minus_utc())
                }
                chrono::LocalResult::None => self.offset_at(&(*local - chrono::TimeDelta::hours(12))),
            },
        }
    }
}
