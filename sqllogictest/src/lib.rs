//! Tests of the server from outside: over the wire, against the program as it is shipped.
//!
//! [`server`] starts, stops and kills servers; [`database`] lets the `sqllogictest` crate talk to one; [`suite`] runs one
//! file of statements; [`wait`] waits for conditions. The files stand in a folder for each area beside `src/`. The longer tests (crashes, memory, idle
//! views, the benchmark's queries) are in `tests/`.

pub mod database;
pub mod server;
pub mod suite;
pub mod wait;
