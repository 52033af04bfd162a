//! SQL text to statements, bound objects, logical plans and streaming plans.
//!
//! Pure: no I/O, no clock. The way of a statement: [`parse()`] reads the text; `bind` turns a `CREATE` into a catalog object;
//! [`logical`] plans a query, for the streaming engine or for DataFusion; the lowering makes the streaming plan of it.
//! [`errors`] is where everything that goes wrong gets its SQLSTATE.
//!
//! Must not know: connectors (it learns what they say through [`bind::ConnectorInfo`]), storage, sockets, sessions.
#![deny(missing_docs)]

mod analyze;
pub mod bind;
pub mod dml;
pub mod errors;
pub mod explain;
mod first_rows;
pub mod functions;
pub mod lineage;
pub mod logical;
pub mod lower;
pub mod parse;
pub mod physical;
pub mod reads;
pub mod relation;
mod rewrite;
pub mod session;
pub mod statement;
#[cfg(test)]
mod testing;
pub mod types;

pub use datafusion::sql::sqlparser::ast;
pub use errors::sql_error;
pub use functions::system_type::system_array_oid;
pub use logical::{BoundQuery, LogicalPlanner, Scope};
pub(crate) use parse::fold as parse_fold;
pub use parse::{parse, parse_query};
pub use relation::{ReadRights, RelationSource, RelationTable, StreamRelations, object_of};
pub use rewrite::{parameter_places, resolve_types, written_modifiers, written_parameter_oids};
pub use session::{SessionSettings, session_config, session_state};
pub use statement::{ParsedStatement, Statement};
