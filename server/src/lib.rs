//! The server: what stands between sockets and the engine.
pub mod wire;
