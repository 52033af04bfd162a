//! Aggregate: `{ (k, f1(G), f2(G), …): k in keys(input), G = rows of k }`.
//!
//! State: the group table, with one fixed-width value for each group (how many rows it has, then the accumulators); and for
//! what a fixed width can't hold, a table of the values of each group: under `DISTINCT`, and under `MIN` and `MAX` of inputs
//! that retract. Bounded by the number of groups (and of distinct values), and by the watermark if a key carries one.
//!
//! On retraction accumulators count back. A group without rows goes (S17); a global one shows its empty value. What is
//! given for an epoch is the difference between a group's row before and after: −old/+new, nothing if they are equal (S6).
//! More retractions than there were rows mean that the group had been forgotten: it goes, and they are counted (S19).
//!
//! On a watermark, groups below it are forgotten and their result stands; later rows for them are dropped and counted. After a
//! restart the index of groups by time is rebuilt from the group table; nothing else is outside state.

mod accumulator;
mod difference;
mod driver;
mod epoch;
mod layout;
mod outcome;
mod values;

pub use driver::Aggregate;

#[cfg(test)]
mod tests;
