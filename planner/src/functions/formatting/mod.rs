//! Postgres's formatting functions: times as text and back, numbers from text, each by a pattern.
//!
//! In reading order: [`pattern`] reads the patterns of times, [`to_char`] prints by them, [`from_char`] reads a text by them, [`to_time`]
//! holds the functions that do so, [`to_number`] the one of numbers, which has patterns of its own.

mod from_char;
mod pattern;
mod to_char;
mod to_number;
mod to_time;

use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::ScalarUDF;
use thalweg_catalog::datetime::SessionTimeZone;

/// What Arrow calls UTC.
const UTC: &str = "+00:00";

pub(super) fn functions() -> Vec<ScalarUDF> {
    [to_char::functions(), to_time::functions(), to_number::functions()].concat()
}

/// The time zone of the session that asks; UTC in what is computed continuously.
fn session_zone(options: &ConfigOptions) -> SessionTimeZone {
    let name = options.execution.time_zone.as_deref().filter(|name| *name != UTC);
    name.and_then(SessionTimeZone::parse).unwrap_or(SessionTimeZone::UTC)
}
