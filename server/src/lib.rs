//! The server: what stands between sockets and the engine.

pub mod access;
pub mod config;
pub mod database;
pub mod http;
pub mod information_schema;
pub mod pg_catalog;
pub mod run;
pub mod serve;
pub mod session;
pub mod system;
pub mod wire;
