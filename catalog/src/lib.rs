//! Names, ids, types, schemas, deltas and errors: the words that every other crate speaks.
//!
//! Knows nothing of SQL text, operators, disks or sockets.
#![deny(missing_docs)]

pub mod array_text;
pub mod bytea;
pub mod carried;
pub mod catalog;
pub mod column;
pub mod crash;
pub mod datetime;
pub mod delta;
pub mod error;
pub mod hash;
pub mod ids;
pub mod json;
pub mod object;
pub mod options;
pub mod security;
pub mod suggest;
pub mod types;

pub use carried::CarriedType;
pub use carried::labels::EnumType;
pub use catalog::{Catalog, CatalogChange, CatalogTransaction};
pub use column::{Column, schema_of};
pub use crash::CrashPoint;
pub use delta::Delta;
pub use error::{ErrorObject, SqlError, SqlResult, SqlState};
pub use ids::{Epoch, ObjectId, VNODES, VNode, WorkerIndex};
pub use object::{CatalogObject, ConnectorSpec, EnumLabel, ObjectDefinition, ObjectKind};
pub use security::{Privileges, RoleId, Security, SecurityChange, Subject};
pub use types::SqlType;
