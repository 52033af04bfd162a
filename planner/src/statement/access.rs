//! Statements about who may do what: roles, privileges, owners, row policies, secrets.

use super::{Name, SetSetting, Word};
use thalweg_catalog::ObjectKind;
use thalweg_catalog::security::Privileges;

/// A role as a statement names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleName {
    /// By its name.
    Named(Word),
    /// `CURRENT_USER`, `CURRENT_ROLE`.
    Current,
    /// `SESSION_USER`.
    Session,
    /// `PUBLIC`: everybody.
    Public,
}

/// A word of `CREATE ROLE` and `ALTER ROLE`.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum RoleOption {
    Superuser(bool),
    CreateDb(bool),
    CreateRole(bool),
    Inherit(bool),
    Login(bool),
    BypassRls(bool),
    ConnectionLimit(i32),
    /// The password, or a verifier; none to take it away.
    Password(Option<String>),
    /// Until when the password is good.
    ValidUntil(String),
    /// `IN ROLE`: roles that it becomes a member of.
    InRole(Vec<Word>),
    /// `ROLE`, and with true `ADMIN`: roles that become its members.
    Members(Vec<Word>, bool),
}

impl std::fmt::Debug for RoleOption {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RoleOption::Superuser(_) => "SUPERUSER",
            RoleOption::CreateDb(_) => "CREATEDB",
            RoleOption::CreateRole(_) => "CREATEROLE",
            RoleOption::Inherit(_) => "INHERIT",
            RoleOption::Login(_) => "LOGIN",
            RoleOption::BypassRls(_) => "BYPASSRLS",
            RoleOption::ConnectionLimit(_) => "CONNECTION LIMIT",
            RoleOption::Password(_) => "PASSWORD",
            RoleOption::ValidUntil(_) => "VALID UNTIL",
            RoleOption::InRole(_) => "IN ROLE",
            RoleOption::Members(..) => "ROLE",
        })
    }
}

/// What a `GRANT` or `REVOKE` is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrantTarget {
    /// These relations.
    Relations(Vec<Name>),
    /// All relations of these schemas.
    AllRelations(Vec<Word>),
    /// These schemas.
    Schemas(Vec<Word>),
    /// The functions of these names.
    Functions(Vec<Word>),
    /// The database.
    Databases(Vec<Word>),
    /// These secrets.
    Secrets(Vec<Word>),
    /// What is created later: relations, or schemas.
    Future {
        /// Whether schemas rather than relations.
        schemas: bool,
    },
}

/// Privileges of a `GRANT` or `REVOKE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GrantedPrivileges {
    /// Which; none for all that there are.
    pub privileges: Option<Privileges>,
    /// On which columns; empty for the whole.
    pub columns: Vec<Word>,
    /// Where it is written.
    pub position: usize,
}

/// `GRANT … ON … TO …` and `REVOKE … ON … FROM …`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// Whether privileges are taken away.
    pub revoke: bool,
    /// Which.
    pub privileges: Vec<GrantedPrivileges>,
    /// On what.
    pub target: GrantTarget,
    /// To whom, or from whom.
    pub roles: Vec<RoleName>,
    /// `WITH GRANT OPTION`; `GRANT OPTION FOR`.
    pub grant_option: bool,
    /// Whether what was granted on goes too.
    pub cascade: bool,
}

/// What gets another owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnedThing {
    /// An object, which must be of this kind.
    Object(ObjectKind, Name),
    /// A schema.
    Schema(Word),
    /// A secret.
    Secret(Word),
}

/// A change of a relation's row security.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum RowSecurityChange {
    Enable(bool),
    Force(bool),
}

/// `CREATE POLICY`, `ALTER POLICY`: what is none stays as it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyClauses {
    /// Its name.
    pub name: Word,
    /// Its relation.
    pub table: Name,
    /// Whether it lets through rather than holds back.
    pub permissive: bool,
    /// For whom.
    pub roles: Option<Vec<RoleName>>,
    /// The text of the condition.
    pub using: Option<String>,
}

/// A statement about who may do what.
#[derive(Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    CreateRole {
        name: Word,
        options: Vec<RoleOption>,
    },
    AlterRole {
        role: RoleName,
        options: Vec<RoleOption>,
    },
    /// `ALTER ROLE x SET …`; `RESET ALL` has no name.
    AlterRoleSetting {
        role: RoleName,
        setting: SetSetting,
    },
    RenameRole {
        name: Word,
        to: Word,
    },
    DropRoles {
        names: Vec<Word>,
        if_exists: bool,
    },
    GrantRoles {
        roles: Vec<Word>,
        members: Vec<RoleName>,
        admin: bool,
    },
    RevokeRoles {
        roles: Vec<Word>,
        members: Vec<RoleName>,
        only_admin: bool,
    },
    Grant(Grant),
    /// `ALTER DEFAULT PRIVILEGES`: for what these roles create, in these schemas or in all.
    Defaults {
        creators: Vec<RoleName>,
        schemas: Vec<Word>,
        grant: Grant,
    },
    Owner {
        thing: OwnedThing,
        if_exists: bool,
        to: RoleName,
    },
    ReassignOwned {
        from: Vec<RoleName>,
        to: RoleName,
    },
    DropOwned {
        by: Vec<RoleName>,
        cascade: bool,
    },
    RowSecurity {
        kind: ObjectKind,
        table: Name,
        change: RowSecurityChange,
    },
    CreatePolicy(PolicyClauses),
    AlterPolicy(PolicyClauses),
    RenamePolicy {
        name: Word,
        table: Name,
        to: Word,
    },
    DropPolicy {
        name: Word,
        table: Name,
        if_exists: bool,
    },
    CreateSecret {
        name: Word,
        value: String,
        if_not_exists: bool,
    },
    AlterSecret {
        name: Word,
        value: String,
    },
    DropSecrets {
        names: Vec<Word>,
        if_exists: bool,
    },
}

impl std::fmt::Debug for Access {
    /// Without passwords and secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.tag())
    }
}

impl Access {
    /// The command tag.
    pub fn tag(&self) -> &'static str {
        match self {
            Access::CreateRole { .. } => "CREATE ROLE",
            Access::AlterRole { .. } | Access::AlterRoleSetting { .. } | Access::RenameRole { .. } => "ALTER ROLE",
            Access::DropRoles { .. } => "DROP ROLE",
            Access::GrantRoles { .. } => "GRANT ROLE",
            Access::RevokeRoles { .. } => "REVOKE ROLE",
            Access::Grant(grant) => {
                if grant.revoke {
                    "REVOKE"
                } else {
                    "GRANT"
                }
            }
            Access::Defaults { .. } => "ALTER DEFAULT PRIVILEGES",
            Access::Owner { thing: OwnedThing::Object(kind, _), .. } => super::alter_tag(*kind),
            Access::Owner { thing: OwnedThing::Schema(_), .. } => "ALTER SCHEMA",
            Access::Owner { thing: OwnedThing::Secret(_), .. } | Access::AlterSecret { .. } => "ALTER SECRET",
            Access::ReassignOwned { .. } => "REASSIGN OWNED",
            Access::DropOwned { .. } => "DROP OWNED",
            Access::RowSecurity { kind, .. } => super::alter_tag(*kind),
            Access::CreatePolicy(_) => "CREATE POLICY",
            Access::AlterPolicy(_) | Access::RenamePolicy { .. } => "ALTER POLICY",
            Access::DropPolicy { .. } => "DROP POLICY",
            Access::CreateSecret { .. } => "CREATE SECRET",
            Access::DropSecrets { .. } => "DROP SECRET",
        }
    }

    /// Whether the statement's text holds a password or a secret, which no log may show.
    pub fn holds_secret(&self) -> bool {
        match self {
            Access::CreateRole { options, .. } | Access::AlterRole { options, .. } => {
                options.iter().any(|option| matches!(option, RoleOption::Password(Some(_))))
            }
            Access::CreateSecret { .. } | Access::AlterSecret { .. } => true,
            _ => false,
        }
    }
}
