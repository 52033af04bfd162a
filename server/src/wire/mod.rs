//! The Postgres wire protocol, version 3: messages, values, COPY, and the loop that serves one connection.
//!
//! Knows bytes and [`session::Session`], the trait behind which statements are parsed and run; nothing of SQL.

pub mod copy;
pub mod session;
pub mod settings;
