//! Nexmark: the events of an online auction, made up.
//!
//! Out of every 50 events one is a person, three are auctions and 46 are bids. Half of the bids go to a hot auction, three
//! quarters come from a hot bidder, three quarters of the auctions have a hot seller, half of the bids come through one of four
//! channels; prices are spread evenly over six orders of magnitude. Ids and skew follow the published description of the
//! workload, the random streams are our own.
//!
//! - Table (`table`, or `type`): `person`, `auction`, `bid`, or all three in one relation with `event_type` (0, 1, 2) and a record
//!   for each, which is what comes if the option is not given. Columns are declared by name, in any case and with or
//!   without underscores, any of them in any order; if none are declared, the source has all of them.
//! - Splits: `splits` of them, named from 0; every run of 50 events goes to one split, in turn. A position is the number of the
//!   next event. Rows of a split come in the order of their events.
//! - Replayable from any position: an event depends on the seed, its number and nothing else.

mod columns;
mod generator;
mod options;
mod source;

pub use columns::{NexmarkTable, default_columns};
pub use options::NexmarkOptions;
pub use source::NexmarkSource;
