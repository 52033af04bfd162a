//! Days, times and zones as Postgres reads them: of use to casts and to whoever takes values as text.

pub mod calendar;
pub mod read;
mod zone;

pub use zone::SessionTimeZone;
