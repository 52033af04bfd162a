//! `CREATE ROLE`, `ALTER ROLE`, `DROP ROLE`, and what roles own.

use super::super::settings;
use super::super::tokens::Tokens;
use super::{access, role_name};
use crate::statement::{Access, RoleName, RoleOption, SetScope, SetSetting, Statement, Word};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::mem::discriminant;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// `CREATE ROLE x …`; with `login`, `CREATE USER x …`.
pub(crate) fn create_role(tokens: &mut Tokens<'_>, login: bool) -> SqlResult<Statement> {
    let name = role_word(tokens)?;
    tokens.accept(&["with"]);
    let mut options = options(tokens, true)?;
    if login && !options.iter().any(|option| matches!(option, RoleOption::Login(_))) {
        options.push(RoleOption::Login(true));
    }
    Ok(access(Access::CreateRole { name, options }))
}

/// A new role's name: none that stands for another role.
fn role_word(tokens: &mut Tokens<'_>) -> SqlResult<Word> {
    let position = tokens.position();
    match role_name(tokens)? {
        RoleName::Named(word) if word.value == "none" || word.value.starts_with("pg_") => {
            let error = SqlError::new(SqlState::ReservedName, format!("role name \"{}\" is reserved", word.value));
            Err(error.with_detail("Role names starting with \"pg_\" are reserved.").at(position))
        }
        RoleName::Named(word) => Ok(word),
        RoleName::Public => Err(SqlError::new(SqlState::ReservedName, "role name \"public\" is reserved").at(position)),
        RoleName::Current | RoleName::Session => {
            Err(SqlError::new(SqlState::ReservedName, "a word that stands for a role cannot be used as a role name here")
                .at(position))
        }
    }
}

fn options(tokens: &mut Tokens<'_>, creates: bool) -> SqlResult<Vec<RoleOption>> {
    let mut found: Vec<RoleOption> = vec![];
    while !tokens.is_done() {
        let position = tokens.position();
        let option = option(tokens, creates)?;
        if found.iter().any(|known| discriminant(known) == discriminant(&option)) {
            return Err(SqlError::syntax("conflicting or redundant options").at(position));
        }
        found.push(option);
    }
    Ok(found)
}

fn option(tokens: &mut Tokens<'_>, creates: bool) -> SqlResult<RoleOption> {
    let position = tokens.position();
    let Some(word) = tokens.peek_keyword() else { return Err(tokens.error()) };
    if let Some(option) = switch(&word) {
        tokens.next()?;
        return Ok(option);
    }
    match word.as_str() {
        "encrypted" | "password" => {
            tokens.accept(&["encrypted"]);
            tokens.expect(&["password"])?;
            let none = tokens.accept(&["null"]);
            Ok(RoleOption::Password(if none { None } else { Some(tokens.string()?) }))
        }
        "connection" => {
            tokens.expect(&["connection", "limit"])?;
            let limit = i32::try_from(tokens.integer()?).ok().filter(|limit| *limit >= -1);
            let limit = limit.ok_or_else(|| SqlError::invalid_parameter("invalid connection limit").at(position))?;
            Ok(RoleOption::ConnectionLimit(limit))
        }
        "valid" => {
            tokens.expect(&["valid", "until"])?;
            tokens.string().map(RoleOption::ValidUntil)
        }
        "in" if creates => {
            tokens.next()?;
            if !tokens.accept(&["group"]) {
                tokens.expect(&["role"])?;
            }
            tokens.comma_separated(Tokens::word).map(RoleOption::InRole)
        }
        "role" | "user" | "admin" if creates => {
            tokens.next()?;
            tokens.comma_separated(Tokens::word).map(|members| RoleOption::Members(members, word == "admin"))
        }
        "replication" | "noreplication" | "unencrypted" | "sysid" => {
            Err(SqlError::unsupported(format!("the role option {} is not supported", word.to_uppercase())).at(position))
        }
        _ => Err(SqlError::syntax(format!("unrecognized role option \"{word}\"")).at(position)),
    }
}

fn switch(word: &str) -> Option<RoleOption> {
    let (name, on) = match word.strip_prefix("no") {
        Some(rest) => (rest, false),
        None => (word, true),
    };
    Some(match name {
        "superuser" => RoleOption::Superuser(on),
        "createdb" => RoleOption::CreateDb(on),
        "createrole" => RoleOption::CreateRole(on),
        "inherit" => RoleOption::Inherit(on),
        "login" => RoleOption::Login(on),
        "bypassrls" => RoleOption::BypassRls(on),
        _ => return None,
    })
}

/// `ALTER ROLE x …`.
pub(crate) fn alter_role(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let position = tokens.position();
    if tokens.is_word(0, "all") {
        return Err(SqlError::unsupported("ALTER ROLE ALL is not supported").with_hint("Name the role.").at(position));
    }
    let role = role_name(tokens)?;
    if role == RoleName::Public {
        return Err(SqlError::new(SqlState::UndefinedObject, "role \"public\" does not exist").at(position));
    }
    if let RoleName::Named(name) = &role
        && tokens.accept(&["rename", "to"])
    {
        return Ok(access(Access::RenameRole { name: name.clone(), to: role_word(tokens)? }));
    }
    if tokens.is_word(0, "in") {
        let hint = "There is one database: leave IN DATABASE out.";
        return Err(SqlError::unsupported("ALTER ROLE … IN DATABASE is not supported").with_hint(hint).at(tokens.position()));
    }
    let position = tokens.position();
    let setting = |name: Option<String>, values, reset| SetSetting { scope: SetScope::Session, name, values, reset, position };
    if tokens.accept(&["set"]) {
        let name = settings::setting_name(tokens)?;
        if tokens.are_words(&["from", "current"]) {
            return Err(SqlError::unsupported("SET … FROM CURRENT is not supported").at(position));
        }
        let values = settings::assigned_values(tokens)?;
        return Ok(access(Access::AlterRoleSetting { role, setting: setting(Some(name), values, false) }));
    }
    if tokens.accept(&["reset"]) {
        let name = if tokens.accept(&["all"]) { None } else { Some(settings::setting_name(tokens)?) };
        return Ok(access(Access::AlterRoleSetting { role, setting: setting(name, None, true) }));
    }
    tokens.accept(&["with"]);
    let options = options(tokens, false)?;
    Ok(access(Access::AlterRole { role, options }))
}

/// `DROP ROLE [IF EXISTS] x, y`.
pub(crate) fn drop_role(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let if_exists = tokens.accept(&["if", "exists"]);
    let names = tokens.comma_separated(Tokens::word)?;
    Ok(access(Access::DropRoles { names, if_exists }))
}

/// `REASSIGN OWNED BY x, y TO z`.
pub(crate) fn reassign_owned(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["reassign", "owned", "by"])?;
    let from = tokens.comma_separated(role_name)?;
    tokens.expect(&["to"])?;
    Ok(access(Access::ReassignOwned { from, to: role_name(tokens)? }))
}

/// `DROP OWNED BY x, y [CASCADE]`.
pub(crate) fn drop_owned(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["by"])?;
    let by = tokens.comma_separated(role_name)?;
    let cascade = tokens.accept(&["cascade"]);
    if !cascade {
        tokens.accept(&["restrict"]);
    }
    if tokens.peek(0) == Some(&Token::Comma) {
        return Err(tokens.error());
    }
    Ok(access(Access::DropOwned { by, cascade }))
}
