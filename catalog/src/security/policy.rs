//! Row policies, and secrets.

use super::role::RoleId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether policies decide which rows of a relation are seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RowSecurity {
    /// `ENABLE ROW LEVEL SECURITY`.
    pub enabled: bool,
    /// `FORCE ROW LEVEL SECURITY`: for the relation's owner too.
    pub forced: bool,
}

/// A policy: which rows of a relation some roles see.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// Its OID.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Rows are seen that any permissive policy lets through, and all restrictive ones.
    pub permissive: bool,
    /// For whom it counts; `PUBLIC` for all.
    pub roles: Vec<RoleId>,
    /// The text of the condition on a row.
    pub using: String,
}

/// A value that is kept encrypted and never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// Its OID.
    pub id: u32,
    /// The value, encrypted, in base 64: nonce, ciphertext, tag.
    pub sealed: String,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("id", &self.id).finish_non_exhaustive()
    }
}
