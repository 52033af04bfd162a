//! Statements about objects that exist: `DROP`, `ALTER`, `COMMENT ON`, `DESCRIBE`, `CANCEL JOB`.

use super::tokens::Tokens;
use super::{access, types};
use crate::statement::{
    CommentTarget, DropObjects, DropSchemas, JobReference, Name, OwnedThing, SetScope, SetSetting, Statement,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use thalweg_catalog::{ObjectKind, SqlError, SqlResult};

/// The kind of relation that the next words name, if it is one of ours.
pub(super) fn kind(tokens: &mut Tokens<'_>) -> Option<ObjectKind> {
    if tokens.accept(&["materialized", "view"]) {
        return Some(ObjectKind::MaterializedView);
    }
    let kind = match tokens.peek_keyword()?.as_str() {
        "source" => ObjectKind::Source,
        "table" => ObjectKind::Table,
        "view" => ObjectKind::View,
        "sink" => ObjectKind::Sink,
        _ => return None,
    };
    tokens.next().ok()?;
    Some(kind)
}

/// [`kind`], where a type can be named as well as a relation.
fn kind_or_type(tokens: &mut Tokens<'_>) -> Option<ObjectKind> {
    if tokens.accept(&["type"]) { Some(ObjectKind::Type) } else { kind(tokens) }
}

fn cascade(tokens: &mut Tokens<'_>) -> bool {
    let cascade = tokens.accept(&["cascade"]);
    if !cascade {
        tokens.accept(&["restrict"]);
    }
    cascade
}

fn unsupported(tokens: &Tokens<'_>, verb: &str) -> SqlError {
    match tokens.peek_keyword() {
        Some(word) => SqlError::unsupported(format!("{verb} {} is not supported", word.to_uppercase()))
            .with_hint("There are sources, tables, views, materialized views, sinks, types and schemas.")
            .at(tokens.position()),
        None => tokens.error(),
    }
}

/// `DROP …`.
pub(super) fn drop(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["drop"])?;
    if tokens.accept(&["schema"]) {
        let if_exists = tokens.accept(&["if", "exists"]);
        let names = tokens.comma_separated(|t| {
            let first = t.word()?;
            if t.accept_token(&Token::Period) { t.word() } else { Ok(first) }
        })?;
        let cascade = cascade(tokens);
        return Ok(Statement::DropSchema(DropSchemas { names, if_exists, cascade }));
    }
    if let Some(statement) = drop_access(tokens) {
        return statement;
    }
    let Some(kind) = kind_or_type(tokens) else { return Err(unsupported(tokens, "DROP")) };
    let if_exists = tokens.accept(&["if", "exists"]);
    let names = tokens.comma_separated(Tokens::name)?;
    let cascade = cascade(tokens);
    Ok(Statement::Drop(DropObjects { kind, names, if_exists, cascade }))
}

/// `DROP ROLE` and its like, if that comes next.
fn drop_access(tokens: &mut Tokens<'_>) -> Option<SqlResult<Statement>> {
    if tokens.accept(&["role"]) || tokens.accept(&["user"]) || tokens.accept(&["group"]) {
        return Some(access::drop_role(tokens));
    }
    if tokens.accept(&["owned"]) {
        return Some(access::drop_owned(tokens));
    }
    if tokens.accept(&["policy"]) {
        return Some(access::drop_policy(tokens));
    }
    tokens.accept(&["secret"]).then(|| access::drop_secret(tokens))
}

/// `TRUNCATE [TABLE] [ONLY] a, b [RESTART IDENTITY]`. There are no identities to restart and no keys that refer to others.
pub(super) fn truncate(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["truncate"])?;
    tokens.accept(&["table"]);
    let names = tokens.comma_separated(|t| {
        t.accept(&["only"]);
        t.name()
    })?;
    if !tokens.accept(&["restart", "identity"]) {
        tokens.accept(&["continue", "identity"]);
    }
    cascade(tokens);
    Ok(Statement::Truncate(names))
}

/// `REFRESH MATERIALIZED VIEW [CONCURRENTLY] x [WITH DATA]`.
pub(super) fn refresh(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["refresh", "materialized", "view"])?;
    tokens.accept(&["concurrently"]);
    let name = tokens.name()?;
    let position = tokens.position();
    if tokens.accept(&["with", "no", "data"]) {
        return Err(SqlError::unsupported("REFRESH MATERIALIZED VIEW … WITH NO DATA is not supported")
            .with_hint("A materialized view always has its data.")
            .at(position));
    }
    tokens.accept(&["with", "data"]);
    Ok(Statement::Refresh(name))
}

/// `ALTER kind x RENAME TO y`, `ALTER SYSTEM SET x = y`.
pub(super) fn alter(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["alter"])?;
    if tokens.accept(&["system"]) {
        return alter_system(tokens);
    }
    if let Some(statement) = alter_access(tokens) {
        return statement;
    }
    if tokens.accept(&["type"]) {
        return types::alter(tokens);
    }
    let Some(kind) = kind(tokens) else { return Err(unsupported(tokens, "ALTER")) };
    let if_exists = tokens.accept(&["if", "exists"]);
    tokens.accept(&["only"]);
    let name = tokens.name()?;
    let position = tokens.position();
    if let Some(statement) = access::owner(tokens, OwnedThing::Object(kind, name.clone()), if_exists)? {
        return Ok(statement);
    }
    if let Some(statement) = access::row_security(tokens, kind, &name) {
        return Ok(statement);
    }
    if !tokens.accept(&["rename", "to"]) {
        let Some(word) = tokens.peek_keyword() else { return Err(tokens.error()) };
        return Err(SqlError::unsupported(format!("ALTER … {} is not supported", word.to_uppercase()))
            .with_hint("An object can be renamed with ALTER … RENAME TO; for another change, drop it and create it again.")
            .at(position));
    }
    let to = tokens.word()?;
    Ok(Statement::Rename { kind, if_exists, name, to })
}

/// `ALTER ROLE` and its like, if that comes next.
fn alter_access(tokens: &mut Tokens<'_>) -> Option<SqlResult<Statement>> {
    if tokens.accept(&["role"]) || tokens.accept(&["user"]) {
        return Some(access::alter_role(tokens));
    }
    if tokens.are_words(&["default", "privileges"]) {
        return Some(access::alter_default_privileges(tokens));
    }
    if tokens.accept(&["policy"]) {
        return Some(access::alter_policy(tokens));
    }
    if tokens.accept(&["secret"]) {
        return Some(access::alter_secret(tokens));
    }
    tokens.accept(&["schema"]).then(|| alter_schema(tokens))
}

/// `ALTER SCHEMA x OWNER TO y`.
fn alter_schema(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let name = tokens.word()?;
    let position = tokens.position();
    access::owner(tokens, OwnedThing::Schema(name), false)?.ok_or_else(|| {
        SqlError::unsupported("this form of ALTER SCHEMA is not supported")
            .with_hint("A schema can be given another owner with ALTER SCHEMA … OWNER TO.")
            .at(position)
    })
}

fn alter_system(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let set = tokens.accept(&["set"]);
    if !set {
        tokens.expect(&["reset"])?;
    }
    let position = tokens.position();
    if !set && tokens.accept(&["all"]) {
        return Ok(Statement::Set(SetSetting { scope: SetScope::System, name: None, values: None, reset: true, position }));
    }
    let name = super::settings::setting_name(tokens)?;
    let values = if set { super::settings::assigned_values(tokens)? } else { None };
    Ok(Statement::Set(SetSetting { scope: SetScope::System, name: Some(name), values, reset: !set, position }))
}

/// `COMMENT ON … IS …`.
pub(super) fn comment(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["comment", "on"])?;
    let target = if tokens.accept(&["column"]) {
        comment_column(tokens)?
    } else if tokens.accept(&["schema"]) {
        CommentTarget::Schema(tokens.word()?)
    } else {
        let Some(kind) = kind_or_type(tokens) else { return Err(unsupported(tokens, "COMMENT ON")) };
        CommentTarget::Object(kind, tokens.name()?)
    };
    tokens.expect(&["is"])?;
    let comment = if tokens.accept(&["null"]) { None } else { Some(tokens.string()?) };
    Ok(Statement::Comment { target, comment })
}

/// `[[database.]schema.]relation.column`.
fn comment_column(tokens: &mut Tokens<'_>) -> SqlResult<CommentTarget> {
    let first = tokens.word()?;
    let position = first.position;
    let mut parts = vec![first];
    while tokens.accept_token(&Token::Period) {
        parts.push(tokens.column_label()?);
    }
    let column = parts.pop();
    let relation = parts.pop();
    match (relation, column) {
        (Some(relation), Some(column)) => {
            let name = Name { schema: parts.pop().map(|s| s.value), name: relation.value, position };
            Ok(CommentTarget::Column(name, column))
        }
        _ => Err(SqlError::syntax("column name must be qualified").at(position)),
    }
}

/// `DESCRIBE x`.
pub(super) fn describe(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.next()?;
    kind(tokens);
    tokens.name().map(Statement::Describe)
}

/// `CANCEL JOB x`, by the object's name or id.
pub(super) fn cancel(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["cancel"])?;
    if !tokens.accept(&["jobs"]) {
        tokens.expect(&["job"])?;
    }
    let position = tokens.position();
    if let Some(Token::Number(..)) = tokens.peek(0) {
        let id = tokens.integer()?;
        return match u32::try_from(id) {
            Ok(id) => Ok(Statement::CancelJob(JobReference::Id(id))),
            Err(_) => Err(SqlError::invalid_parameter(format!("there is no job of id {id}")).at(position)),
        };
    }
    tokens.name().map(|name| Statement::CancelJob(JobReference::Name(name)))
}
