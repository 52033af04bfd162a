//! `CREATE TYPE` and `ALTER TYPE`.

use super::access;
use super::tokens::Tokens;
use crate::statement::{AddLabel, CreateType, OwnedThing, Statement, Word};
use thalweg_catalog::{ObjectKind, SqlError, SqlResult};

/// What follows `CREATE TYPE`.
pub(super) fn create(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let name = tokens.name()?;
    let position = tokens.position();
    if !tokens.accept(&["as", "enum"]) {
        return Err(SqlError::unsupported("only enum types can be created")
            .with_hint("Write CREATE TYPE name AS ENUM ('label', …).")
            .at(position));
    }
    let mut inside = tokens.parenthesized()?;
    let labels = if inside.is_done() { vec![] } else { inside.comma_separated(label)? };
    inside.end()?;
    Ok(Statement::CreateType(CreateType { name, labels }))
}

/// What follows `ALTER TYPE`.
pub(super) fn alter(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let name = tokens.name()?;
    let position = tokens.position();
    if let Some(statement) = access::owner(tokens, OwnedThing::Object(ObjectKind::Type, name.clone()), false)? {
        return Ok(statement);
    }
    if !tokens.accept(&["add", "value"]) {
        return Err(SqlError::unsupported("this form of ALTER TYPE is not supported")
            .with_hint(
                "Labels can be added with ALTER TYPE … ADD VALUE, and a type given another owner with ALTER TYPE … OWNER TO.",
            )
            .at(position));
    }
    let if_not_exists = tokens.accept(&["if", "not", "exists"]);
    let label = label(tokens)?;
    let before = tokens.accept(&["before"]);
    let neighbor = if before || tokens.accept(&["after"]) { Some(self::label(tokens)?) } else { None };
    Ok(Statement::AddLabel(AddLabel { name, label, neighbor, before, if_not_exists }))
}

fn label(tokens: &mut Tokens<'_>) -> SqlResult<Word> {
    let position = tokens.position();
    Ok(Word { value: tokens.string()?, position })
}
