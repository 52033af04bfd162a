//! `GRANT`, `REVOKE`, `ALTER DEFAULT PRIVILEGES`.

use super::super::tokens::Tokens;
use super::{access, role_name};
use crate::statement::{Access, Grant, GrantTarget, GrantedPrivileges, RoleName, Statement, Word};
use datafusion::sql::sqlparser::tokenizer::Token;
use thalweg_catalog::security::Privileges;
use thalweg_catalog::{SqlError, SqlResult};

/// A word of the list that follows `GRANT`, with columns if there are: a privilege, or a role.
type Item = (Word, Vec<Word>);

/// `GRANT …`.
pub(crate) fn grant(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["grant"])?;
    let items = items(tokens)?;
    if tokens.accept(&["to"]) {
        let members = tokens.comma_separated(role_name)?;
        let admin = tokens.accept(&["with", "admin", "option"]);
        granted_by(tokens)?;
        return Ok(access(Access::GrantRoles { roles: roles(items)?, members, admin }));
    }
    tokens.expect(&["on"])?;
    let target = target(tokens)?;
    rest_of_grant(tokens, items, target).map(|grant| access(Access::Grant(grant)))
}

fn rest_of_grant(tokens: &mut Tokens<'_>, items: Vec<Item>, target: GrantTarget) -> SqlResult<Grant> {
    tokens.expect(&["to"])?;
    let roles = tokens.comma_separated(role_name)?;
    let grant_option = tokens.accept(&["with", "grant", "option"]);
    granted_by(tokens)?;
    Ok(Grant { revoke: false, privileges: privileges(items)?, target, roles, grant_option, cascade: false })
}

/// `REVOKE …`.
pub(crate) fn revoke(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["revoke"])?;
    let grant_option = tokens.accept(&["grant", "option", "for"]);
    let only_admin = !grant_option && tokens.accept(&["admin", "option", "for"]);
    let items = items(tokens)?;
    if only_admin || (!grant_option && tokens.is_word(0, "from")) {
        tokens.expect(&["from"])?;
        let members = tokens.comma_separated(role_name)?;
        granted_by(tokens)?;
        cascade(tokens);
        return Ok(access(Access::RevokeRoles { roles: roles(items)?, members, only_admin }));
    }
    tokens.expect(&["on"])?;
    let target = target(tokens)?;
    rest_of_revoke(tokens, items, target, grant_option).map(|grant| access(Access::Grant(grant)))
}

fn rest_of_revoke(tokens: &mut Tokens<'_>, items: Vec<Item>, target: GrantTarget, grant_option: bool) -> SqlResult<Grant> {
    tokens.expect(&["from"])?;
    let roles = tokens.comma_separated(role_name)?;
    granted_by(tokens)?;
    let cascade = cascade(tokens);
    Ok(Grant { revoke: true, privileges: privileges(items)?, target, roles, grant_option, cascade })
}

fn cascade(tokens: &mut Tokens<'_>) -> bool {
    let cascade = tokens.accept(&["cascade"]);
    if !cascade {
        tokens.accept(&["restrict"]);
    }
    cascade
}

/// `GRANTED BY CURRENT_USER`, which is what happens anyway.
fn granted_by(tokens: &mut Tokens<'_>) -> SqlResult<()> {
    let position = tokens.position();
    if tokens.accept(&["granted", "by"]) && role_name(tokens)? != RoleName::Current {
        return Err(SqlError::unsupported("grantor must be current user").at(position));
    }
    Ok(())
}

fn items(tokens: &mut Tokens<'_>) -> SqlResult<Vec<Item>> {
    tokens.comma_separated(|t| {
        let mut word = t.column_label()?;
        if word.value == "all" {
            t.accept(&["privileges"]);
        } else if word.value == "alter" && t.accept(&["system"]) {
            word.value = "alter system".into();
        }
        let columns = if t.peek(0) == Some(&Token::LParen) { t.word_list()? } else { vec![] };
        Ok((word, columns))
    })
}

fn roles(items: Vec<Item>) -> SqlResult<Vec<Word>> {
    items
        .into_iter()
        .map(|(word, columns)| match columns.is_empty() {
            true => Ok(word),
            false => Err(SqlError::syntax("a role has no columns").at(word.position)),
        })
        .collect()
}

fn privileges(items: Vec<Item>) -> SqlResult<Vec<GrantedPrivileges>> {
    items
        .into_iter()
        .map(|(word, columns)| {
            let privileges = match word.value.as_str() {
                "all" => None,
                name => Some(
                    Privileges::of_word(name)
                        .ok_or_else(|| SqlError::syntax(format!("unrecognized privilege type \"{name}\"")).at(word.position))?,
                ),
            };
            Ok(GrantedPrivileges { privileges, columns, position: word.position })
        })
        .collect()
}

fn target(tokens: &mut Tokens<'_>) -> SqlResult<GrantTarget> {
    let position = tokens.position();
    let unsupported = |what: &str| Err(SqlError::unsupported(format!("privileges on {what} are not supported")).at(position));
    if tokens.accept(&["all", "tables", "in", "schema"]) {
        return tokens.comma_separated(Tokens::word).map(GrantTarget::AllRelations);
    }
    if tokens.is_word(0, "all") {
        return unsupported("all sequences, functions, procedures or routines of a schema");
    }
    match tokens.peek_keyword().as_deref() {
        Some("schema") => {
            tokens.next()?;
            tokens.comma_separated(Tokens::word).map(GrantTarget::Schemas)
        }
        Some("database") => {
            tokens.next()?;
            tokens.comma_separated(Tokens::word).map(GrantTarget::Databases)
        }
        Some("function" | "routine") => {
            tokens.next()?;
            tokens.comma_separated(function).map(GrantTarget::Functions)
        }
        Some("secret") if !matches!(tokens.peek(1), Some(Token::Comma | Token::Period) | None) && !ends(tokens) => {
            tokens.next()?;
            tokens.comma_separated(Tokens::word).map(GrantTarget::Secrets)
        }
        Some("sequence" | "language" | "large" | "parameter" | "tablespace" | "type" | "domain" | "foreign" | "procedure")
            if matches!(tokens.peek(1), Some(Token::Word(_))) && !ends(tokens) =>
        {
            unsupported("sequences, languages, types, foreign servers, tablespaces or parameters")
        }
        _ => {
            tokens.accept(&["table"]);
            tokens.comma_separated(Tokens::name).map(GrantTarget::Relations)
        }
    }
}

/// Whether the next word is a relation's name, since what may follow one follows it.
fn ends(tokens: &Tokens<'_>) -> bool {
    tokens.is_word(1, "to") || tokens.is_word(1, "from")
}

/// A function's name; its arguments don't matter, since privileges are held on all functions of a name.
fn function(tokens: &mut Tokens<'_>) -> SqlResult<Word> {
    let mut word = tokens.word()?;
    if tokens.accept_token(&Token::Period) {
        word = tokens.column_label()?;
    }
    if tokens.peek(0) == Some(&Token::LParen) {
        tokens.parenthesized()?;
    }
    Ok(word)
}

/// `ALTER DEFAULT PRIVILEGES [FOR ROLE x] [IN SCHEMA s] {GRANT … ON TABLES TO … | REVOKE …}`.
pub(crate) fn alter_default_privileges(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["default", "privileges"])?;
    let mut creators = vec![];
    let mut schemas = vec![];
    loop {
        if tokens.accept(&["for", "role"]) || tokens.accept(&["for", "user"]) {
            creators.extend(tokens.comma_separated(role_name)?);
        } else if tokens.accept(&["in", "schema"]) {
            schemas.extend(tokens.comma_separated(Tokens::word)?);
        } else {
            break;
        }
    }
    let revoke = tokens.accept(&["revoke"]);
    if !revoke {
        tokens.expect(&["grant"])?;
    }
    let grant_option = revoke && tokens.accept(&["grant", "option", "for"]);
    let items = items(tokens)?;
    tokens.expect(&["on"])?;
    let target = future(tokens)?;
    let grant = if revoke { rest_of_revoke(tokens, items, target, grant_option)? } else { rest_of_grant(tokens, items, target)? };
    Ok(access(Access::Defaults { creators, schemas, grant }))
}

fn future(tokens: &mut Tokens<'_>) -> SqlResult<GrantTarget> {
    let position = tokens.position();
    let what = tokens.column_label()?;
    match what.value.as_str() {
        "tables" => Ok(GrantTarget::Future { schemas: false }),
        "schemas" => Ok(GrantTarget::Future { schemas: true }),
        "sequences" | "functions" | "routines" | "types" => {
            let text = format!("default privileges on {} are not supported", what.value);
            Err(SqlError::unsupported(text).with_hint("Only relations and schemas can be created.").at(position))
        }
        _ => Err(SqlError::syntax(format!("there are no default privileges on \"{}\"", what.value)).at(position)),
    }
}
