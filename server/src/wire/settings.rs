//! The session settings that decide how values are written.

use thalweg_planner::datetime::SessionTimeZone;

/// What of a session's settings the encoders need. Cheap to copy: taken once per result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutputSettings {
    /// `TimeZone`: in which `timestamptz` values are shown and read.
    pub time_zone: SessionTimeZone,
    /// `bytea_output`.
    pub bytea_output: ByteaOutput,
    /// `extra_float_digits`: above 0 floats are shown with the fewest digits that read back the same.
    pub extra_float_digits: i32,
}

impl Default for OutputSettings {
    fn default() -> Self {
        OutputSettings { time_zone: SessionTimeZone::UTC, bytea_output: ByteaOutput::Hex, extra_float_digits: 1 }
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
