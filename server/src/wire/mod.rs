//! The Postgres wire protocol, version 3: messages, values, COPY, and the loop that serves one connection.
//!
//! Knows bytes and [`session::Session`], the trait behind which statements are parsed and run; nothing of SQL. Nothing that
//! a client sends is trusted: lengths and counts are checked before they are used, memory grows with what has come.

pub mod session;
pub mod settings;

pub mod activity;
pub mod connection;
pub mod connections;
mod copying;
mod extended;
mod guard;
pub mod listener;
mod named;
mod negotiate;
mod portal;
mod rows;
mod scram;
pub mod startup;

pub mod copy;
pub mod message;
pub mod parameter;
pub mod transport;
pub mod value;

#[cfg(test)]
mod fuzz;
