//! Days, times and the proleptic Gregorian calendar, in plain integers: Arrow counts from 1970, Postgres from 2000.

use chrono::{DateTime, NaiveDateTime};

/// Days from 1970-01-01 to 2000-01-01.
pub const POSTGRES_EPOCH_DAYS: i32 = 10_957;

/// Microseconds from 1970-01-01 to 2000-01-01.
pub const POSTGRES_EPOCH_US: i64 = POSTGRES_EPOCH_DAYS as i64 * DAY_US;

/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;

/// The first day that dates and timestamps reach, as in Postgres: 4714-11-24 BC, the first Julian day.
pub const DATE_DAYS_MIN: i64 = -2_440_588;

/// The last day that dates and timestamps reach, 294246-12-31: 64 bits count microseconds from 1970 to little beyond.
pub const DATE_DAYS_MAX: i64 = 106_751_981;

/// Whether a day is one that dates reach.
pub fn is_date(days: i64) -> bool {
    (DATE_DAYS_MIN..=DATE_DAYS_MAX).contains(&days)
}

/// Whether a moment, in microseconds since 1970, is one that timestamps reach.
pub fn is_timestamp(us: i64) -> bool {
    is_date(us.div_euclid(DAY_US))
}

/// The year, month and day that is so many days after 1970-01-01. Year 0 is 1 BC.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": eras of 400 years that begin in March.
pub fn civil_of_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

/// How many days after 1970-01-01 a date is; the inverse of [`civil_of_days`].
pub fn days_of_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// How many days a month has.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// The same moment for chrono, which does not reach quite as far as 64 bits do; the nearest that it has beyond.
pub fn to_chrono(us: i64) -> NaiveDateTime {
    DateTime::from_timestamp_micros(us)
        .map_or_else(|| if us < 0 { NaiveDateTime::MIN } else { NaiveDateTime::MAX }, |moment| moment.naive_utc())
}
