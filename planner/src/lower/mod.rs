//! Lowering: from an optimised logical plan to the streaming plan that the executor builds.
//!
//! Every logical node becomes a [`relation::Relation`]: an operator and the columns computed over it. Projections and filters
//! only change those columns, so chains of them end up in one `Map`. Operators ask for the exchange that they need; once
//! all stand, [`facts`] derives for each its kind, key, place of rows and watermarks, and drops exchanges that change nothing.
//!
//! Refuses (`0A000`, with a hint) what no operator computes; never leaves anything out silently.

mod aggregate;
mod bounds;
mod combine;
mod expressions;
mod facts;
mod facts_join;
mod finish;
mod graph;
mod join;
mod on_close;
mod query;
mod relation;
mod root;
mod scan;
mod time;
mod top_n;

pub use expressions::carried_type;
pub use finish::fingerprint;
pub use root::{Context, Lowered, Root, lower, lower_table};
pub(crate) use scan::scanned;
