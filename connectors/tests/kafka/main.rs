//! The Kafka source and sink against a real broker.
//!
//! Needs `THALWEG_TEST_KAFKA=host:port` of a broker that tests may fill; `make test` starts one with `tests/services/kafka.sh`.
//! The tests that kill a broker start one of their own.

mod outage;
mod reading;
mod retention;
mod support;
mod writing;
