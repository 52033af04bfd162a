//! Statements about who may do what.

mod grant;
mod policy;
mod role;

pub(super) use grant::{alter_default_privileges, grant, revoke};
pub(super) use policy::{alter_policy, create_policy, drop_policy, row_security};
pub(super) use role::{alter_role, create_role, drop_owned, drop_role, reassign_owned};

use super::tokens::Tokens;
use crate::statement::{Access, OwnedThing, RoleName, Statement};
use thalweg_catalog::SqlResult;

fn access(access: Access) -> Statement {
    Statement::Access(Box::new(access))
}

/// A role's name, or a word that stands for one.
pub(super) fn role_name(tokens: &mut Tokens<'_>) -> SqlResult<RoleName> {
    tokens.accept(&["group"]);
    for (word, role) in [
        ("current_user", RoleName::Current),
        ("current_role", RoleName::Current),
        ("session_user", RoleName::Session),
        ("public", RoleName::Public),
    ] {
        if tokens.accept(&[word]) {
            return Ok(role);
        }
    }
    tokens.word().map(RoleName::Named)
}

/// `OWNER TO x`, if it comes next.
pub(super) fn owner(tokens: &mut Tokens<'_>, thing: OwnedThing, if_exists: bool) -> SqlResult<Option<Statement>> {
    if !tokens.accept(&["owner", "to"]) {
        return Ok(None);
    }
    let to = role_name(tokens)?;
    Ok(Some(access(Access::Owner { thing, if_exists, to })))
}

/// `CREATE SECRET [IF NOT EXISTS] x AS 'value'`.
pub(super) fn create_secret(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let if_not_exists = tokens.accept(&["if", "not", "exists"]);
    let name = tokens.word()?;
    tokens.expect(&["as"])?;
    let value = tokens.string()?;
    Ok(access(Access::CreateSecret { name, value, if_not_exists }))
}

/// `ALTER SECRET x AS 'value'`, `ALTER SECRET x OWNER TO y`.
pub(super) fn alter_secret(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let name = tokens.word()?;
    if let Some(statement) = owner(tokens, OwnedThing::Secret(name.clone()), false)? {
        return Ok(statement);
    }
    tokens.expect(&["as"])?;
    let value = tokens.string()?;
    Ok(access(Access::AlterSecret { name, value }))
}

/// `DROP SECRET [IF EXISTS] x, y`.
pub(super) fn drop_secret(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let if_exists = tokens.accept(&["if", "exists"]);
    let names = tokens.comma_separated(Tokens::word)?;
    tokens.accept(&["restrict"]);
    Ok(access(Access::DropSecrets { names, if_exists }))
}
