//! The Postgres wire protocol, version 3: messages, values, COPY, and the loop that serves one connection.
//!
//! Knows bytes and [`session::Session`], the trait behind which statements are parsed and run; nothing of SQL. Nothing that
//! a client sends is trusted: lengths and counts are checked before they are used, memory grows with what has come.

pub mod session;
pub mod settings;

pub mod listener;
pub mod startup;
pub mod connections;
pub mod connection;
mod extended;
mod portal;
mod guard;
mod rows;
mod copying;

pub mod message;
pub mod transport;
pub mod parameter;
pub mod value;
pub mod copy;
