//! Roles, and who is a member of which.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The lasting id of a role, which is also its Postgres OID. Ids of roles and of objects are never the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct RoleId(pub u32);

impl RoleId {
    /// Everybody: no role, but what is granted to `PUBLIC`.
    pub const PUBLIC: RoleId = RoleId(0);
    /// The role that is there from the start and can't be dropped.
    pub const BOOTSTRAP: RoleId = RoleId(10);
}

impl fmt::Display for RoleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of the role that is there from the start.
pub const BOOTSTRAP_NAME: &str = "thalweg";

/// A role: a user if it can log in, a group if it has members.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Role {
    /// Its lasting id.
    pub id: RoleId,
    /// Its name.
    pub name: String,
    /// What it can do.
    pub attributes: RoleAttributes,
    /// What a password is checked with; the password can't be made of it. None if there is no password.
    #[serde(default)]
    pub verifier: Option<String>,
    /// Until when the password is good, in microseconds since 1970; none for ever.
    #[serde(default)]
    pub valid_until_us: Option<i64>,
    /// Settings that its sessions begin with.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// What a role can do beside what is granted to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoleAttributes {
    /// `SUPERUSER`: may do everything.
    pub superuser: bool,
    /// `CREATEDB`.
    pub create_db: bool,
    /// `CREATEROLE`: may create, change and drop roles that are no superusers.
    pub create_role: bool,
    /// `INHERIT`: has the privileges of the roles that it is a member of without `SET ROLE`.
    pub inherit: bool,
    /// `LOGIN`: may connect.
    pub login: bool,
    /// `BYPASSRLS`: no policy hides rows from it.
    pub bypass_rls: bool,
    /// `CONNECTION LIMIT`: how many connections it may have; -1 for any number.
    pub connection_limit: i32,
}

impl RoleAttributes {
    /// Those of `CREATE ROLE` without further words.
    pub const PLAIN: RoleAttributes = RoleAttributes {
        superuser: false,
        create_db: false,
        create_role: false,
        inherit: true,
        login: false,
        bypass_rls: false,
        connection_limit: -1,
    };

    /// Those of the role that is there from the start.
    pub const BOOTSTRAP: RoleAttributes = RoleAttributes {
        superuser: true,
        create_db: true,
        create_role: true,
        inherit: true,
        login: true,
        bypass_rls: true,
        connection_limit: -1,
    };
}

impl Role {
    /// A role without password or settings.
    pub fn new(id: RoleId, name: impl Into<String>, attributes: RoleAttributes) -> Role {
        Role { id, name: name.into(), attributes, verifier: None, valid_until_us: None, settings: BTreeMap::new() }
    }

    /// Whether it is one of those that are always there and that nobody can change.
    pub fn is_predefined(&self) -> bool {
        Predefined::ALL.iter().any(|known| known.id() == self.id)
    }
}

/// Roles that are always there: what is granted by them can't be granted on single objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Predefined {
    ReadAllData,
    WriteAllData,
    Monitor,
    ReadServerFiles,
    WriteServerFiles,
    SignalBackend,
}

impl Predefined {
    /// All of them.
    pub const ALL: [Predefined; 6] = [
        Predefined::ReadAllData,
        Predefined::WriteAllData,
        Predefined::Monitor,
        Predefined::ReadServerFiles,
        Predefined::WriteServerFiles,
        Predefined::SignalBackend,
    ];

    /// Its id, which is the same in Postgres.
    pub fn id(self) -> RoleId {
        RoleId(match self {
            Predefined::ReadAllData => 6181,
            Predefined::WriteAllData => 6182,
            Predefined::Monitor => 3373,
            Predefined::ReadServerFiles => 4569,
            Predefined::WriteServerFiles => 4570,
            Predefined::SignalBackend => 4200,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Predefined::ReadAllData => "pg_read_all_data",
            Predefined::WriteAllData => "pg_write_all_data",
            Predefined::Monitor => "pg_monitor",
            Predefined::ReadServerFiles => "pg_read_server_files",
            Predefined::WriteServerFiles => "pg_write_server_files",
            Predefined::SignalBackend => "pg_signal_backend",
        }
    }
}

/// A role's membership in another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Membership {
    /// The role that has members.
    pub role: RoleId,
    /// The member.
    pub member: RoleId,
    /// Who granted it.
    pub grantor: RoleId,
    /// `WITH ADMIN OPTION`: whether the member may grant it to others.
    pub admin: bool,
}
