//! What a program in Rust does with `tokio-postgres`: see `tests/tokio_postgres.rs`.
