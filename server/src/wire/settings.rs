//! The session settings that decide how values are written.

use thalweg_catalog::datetime::SessionTimeZone;

/// What of a session's settings the encoders need. Cheap to copy: taken once per result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutputSettings {
    /// `TimeZone`: in which `timestamptz` values are shown and read.
    pub time_zone: SessionTimeZone,
    /// `bytea_output`.
    pub bytea_output: ByteaOutput,
    /// `extra_float_digits`: above 0 floats are shown with the fewest digits that read back the same.
    pub extra_float_digits: i32,
    /// `IntervalStyle`.
    pub interval_style: IntervalStyle,
}

impl Default for OutputSettings {
    fn default() -> Self {
        OutputSettings {
            time_zone: SessionTimeZone::UTC,
            bytea_output: ByteaOutput::Hex,
            extra_float_digits: 1,
            interval_style: IntervalStyle::Postgres,
        }
    }
}

/// How `interval` is shown as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`.
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`.
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`.
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`.
    Iso8601,
}

impl IntervalStyle {
    /// The style of this name.
    pub fn parse(name: &str) -> Option<IntervalStyle> {
        match name {
            "postgres" => Some(IntervalStyle::Postgres),
            "postgres_verbose" => Some(IntervalStyle::PostgresVerbose),
            "sql_standard" => Some(IntervalStyle::SqlStandard),
            "iso_8601" => Some(IntervalStyle::Iso8601),
            _ => None,
        }
    }
}

/// How `bytea` is shown as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteaOutput {
    /// `\x` and two digits for each byte.
    Hex,
    /// Printable bytes as they are, others as three octal digits.
    Escape,
}
