//! Join: `{ (l, r): l in left, r in right, keys equal, residual true }`, with products of weights; outer joins also
//! `{ (l, NULL): l in left without a partner }` and the like; semi and anti joins the left rows with or without one.
//!
//! State: the rows of both sides by key, with how many copies there are and, where it matters, how many partners (copies
//! counted) a row has. A side of which only the existence matters keeps the columns that the residual reads, and no more. Rows
//! with a NULL in their key match nothing (S24) and are not kept: an outer join gives them padded as they come and go.
//! Bounded by the inputs, and by the watermarks if a key carries one on both sides: keys below both are forgotten, later rows
//! for them are dropped and counted. Rows that the condition bounds by times of the other side are forgotten once the other's
//! watermark says that no partner is to come (`bound.rs`).
//!
//! For an epoch with the net changes dL and dR: Δ(L ⋈ R) = dL ⋈ R + (L + dL) ⋈ dR. Padded, semi and anti rows are given at the
//! end, from the partners that each touched row had before the epoch and has after it, so that no row appears that the same
//! epoch takes back (S5). A retraction of a row that is not there is dropped and counted (S19).
//!
//! What is given comes in pieces: a row with a million partners is matched some thousand at a time, and the operator yields
//! between. Conditions are evaluated over whole pieces. Between epochs nothing is outside state but the index by time, which is
//! rebuilt after a restart.

mod bound;
mod candidates;
mod change;
mod driver;
mod expiry;
mod keys;
mod null_aware;
mod side;
mod touched;

pub use driver::Join;

#[cfg(test)]
mod tests;
